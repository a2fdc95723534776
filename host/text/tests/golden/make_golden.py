"""Writes tokenizer.json and golden.json: what transformers makes of chat templates and texts.

    python -m venv env && env/bin/pip install transformers==5.23.0 tokenizers jinja2
    env/bin/python make_golden.py

The templates are those of published models, the tokenizer is a byte-level BPE of 400 tokens trained on this file.
"""

import json
import pathlib

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

HERE = pathlib.Path(__file__).parent
SPECIAL = ["<|bos|>", "<|eos|>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>",
           "<|eot_id|>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "<|user|>", "<|assistant|>", "<|end|>"]

TEMPLATES = {
    # Qwen2.5 without its part for tools.
    "chatml": """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
""",
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    # Llama 3.1's head: a date that is given, and none of the tools.
    "llama31": """{{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "mistral": "{{ bos_token }}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% else %}{{ raise_exception('Only user and assistant roles are supported!') }}{% endif %}{% endfor %}",
    "gemma": "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}{% endif %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}{% set role = message['role'] %}{% endif %}{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}",
    "phi3": "{% for message in messages %}{% if message['role'] == 'user' %}{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}",
    # As DeepSeek R1 and Qwen3 do it: a namespace, and the thoughts of earlier answers cut off.
    "thinking": """{%- set ns = namespace(last=-1, system='') -%}
{%- for message in messages -%}
    {%- if message.role == 'system' -%}
        {%- set ns.system = message.content.strip() -%}
    {%- elif message.role == 'user' -%}
        {%- set ns.last = loop.index0 -%}
    {%- endif -%}
{%- endfor -%}
{{ bos_token }}{{ ns.system }}
{% for message in messages %}
    {% if message.role == 'user' %}
<|user|>{{ message['content'] }}
    {% elif message.role == 'assistant' %}
        {% set content = message.content %}
        {% if '</think>' in content and loop.index0 < ns.last %}
            {% set content = content.split('</think>')[-1].lstrip('\\n') %}
        {% endif %}
{% generation %}<|assistant|>{{ content.rstrip() }}{{ eos_token }}{% endgeneration %}

    {% endif %}
{% endfor %}
{{ ns.last }} {{ messages | length }} {{ messages | tojson }}
{% for message in messages[::-1] %}{{ message.role[:1] | upper }}{{ "," if not loop.last }}{% if loop.index > 2 %}{% break %}{% endif %}{% endfor %}
{% if add_generation_prompt %}
<|assistant|>{% endif %}
""",
    # Qwen3's turns: the last question is looked for from behind, thoughts are cut from earlier answers only, and a switch
    # that nobody has set.
    "qwen3": """{%- set ns = namespace(searching=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set place = (messages|length - 1) - loop.index0 %}
    {%- if ns.searching and message.role == "user" and message.content is string and not(message.content.startswith('<result>') and message.content.endswith('</result>')) %}
        {%- set ns.searching = false %}
        {%- set ns.last = place %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- set content = message.content if message.content is string else '' %}
    {%- if message.role in ("user", "system") %}
        {{- '<|im_start|>' + message.role + '\n' + content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {%- set thoughts = '' %}
        {%- if message.reasoning_content is string %}
            {%- set thoughts = message.reasoning_content %}
        {%- elif '</think>' in content %}
            {%- set thoughts = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if loop.index0 > ns.last and (loop.last or (not loop.last and thoughts)) %}
            {{- '<|im_start|>assistant\n<think>\n' + thoughts.strip('\n') + '\n</think>\n\n' + content.lstrip('\n') }}
        {%- else %}
            {{- '<|im_start|>assistant\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\n\n</think>\n\n' }}
    {%- endif %}
{%- endif %}""",
    # Gemma 3's: the system's words stand at the head of the first turn.
    "gemma3": """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- if messages[0]['content'] is string -%}
        {%- set head = messages[0]['content'] + '\n\n' -%}
    {%- else -%}
        {%- set head = messages[0]['content'][0]['text'] + '\n\n' -%}
    {%- endif -%}
    {%- set turns = messages[1:] -%}
{%- else -%}
    {%- set head = "" -%}
    {%- set turns = messages -%}
{%- endif -%}
{%- for message in turns -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Roles must take turns, " ~ message.role ~ " is at " ~ loop.index) }}
    {%- endif -%}
    {%- set role = "model" if message['role'] == 'assistant' else message['role'] -%}
    {{ '<start_of_turn>' + role + '\n' + (head if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}{{ item['text'] | trim }}{%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model\n'}}
{%- endif -%}
""",
    # Mistral's later ones: filters over the messages, a counter in a namespace, the system's words in the last question.
    "mistral3": """{%- if messages[0]["role"] == "system" %}
    {%- set system = messages[0]["content"] %}
    {%- set turns = messages[1:] %}
{%- else %}
    {%- set turns = messages %}
{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- set users = turns | selectattr("role", "equalto", "user") | list %}
{%- set ns = namespace(index=0) %}
{%- for message in turns %}
    {%- if not (message.role == "tool" or message.role == "tool_results" or (message.tool_calls is defined and message.tool_calls is not none)) %}
        {%- if (message["role"] == "user") != (ns.index % 2 == 0) %}
            {{- raise_exception("After the optional system message, roles must alternate") }}
        {%- endif %}
        {%- set ns.index = ns.index + 1 %}
    {%- endif %}
{%- endfor %}
{{- bos_token }}
{%- for message in turns %}
    {%- if message["role"] == "user" %}
        {%- if tools is not none and (message == users[-1]) %}{{- "[TOOLS]" + tools|tojson }}{%- endif %}
        {%- if loop.last and system is defined %}
            {{- "[INST]" + system + "\n\n" + message["content"] + "[/INST]" }}
        {%- else %}
            {{- "[INST]" + message["content"] + "[/INST]" }}
        {%- endif %}
    {%- elif message["role"] == "assistant" %}
        {{- message["content"] + eos_token}}
    {%- else %}
        {{- raise_exception("Only user and assistant roles are supported, with the exception of an initial optional system message!") }}
    {%- endif %}
{%- endfor %}
{{- users | map(attribute="content") | map("length") | list }}{{ users | length > 1 }}""",
    # SmolLM2's default system, Phi-3's and Phi-4's ways to join.
    "smollm2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou help.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    # What else published templates use: macros, blocks that are set, literals, tests, slices, the date.
    "constructs": """{%- macro turn(role, text, last=false) -%}
<|{{ role }}|>{{ text.strip() }}{{ "<|end|>" if not last }}
{%- endmacro -%}
{% set names = {'user': 'U', "assistant": 'A', 'system': 'S'} %}
{%- set head -%}
  {{ messages | map(attribute='role') | join('/') }}
{%- endset -%}
{{ head | upper }}|{{ head | replace('user', 'u') | length }}|{{ names.items() | list | length }}|{{ names.get('tool', '?') }}
{% for message in messages if message.role != 'system' %}
{{ loop.index }}/{{ loop.length }} {{ loop.revindex0 }} {{ loop.cycle('odd', 'even') }} {{ names[message.role] }}{{ turn(message.role, message.content, loop.last) }}
{%- if not loop.first and loop.previtem.role == message.role %}!{% endif %}

{% else %}
nobody
{% endfor %}
{%- set ns = namespace(text='') -%}
{%- for word in messages[-1].content.split() -%}
    {%- if word in ['b', 'Paket?'] or word is none -%}{%- continue -%}{%- endif -%}
    {%- set ns.text = ns.text ~ word | capitalize ~ (1 + 2 * 3) // 2 ~ '-' -%}
{%- endfor -%}
{{ ns.text }}{{ ns.text[2:-1] }}{{ ns.text[:3] | lower }}{{ (ns.text | length) % 5 == 0 }}{{ 7 / 2 }}{{ 2 ** 3 }}
{{ {'b': [1, 2.5, none, true], 'a': 'é"'} | tojson }}{{ [messages[0]] | tojson(indent=4) }}
{{ strftime_now('%d %b %Y') | length }}{{ strftime_now is defined }}{{ tools is none }}{{ nothing is defined }}{{ nothing | default('n') }}
{{ messages[0].content is string and messages is iterable and messages[0] is mapping and 1 is number and not (none is defined and false) }}
{{- ' end' if messages | length >= 1 and 'role' in messages[0] and messages[0]['name'] is not defined else '' -}}
{% raw %}{{ raw }}{% endraw %}{# a comment #}""",
}

SYSTEM = {"role": "system", "content": " Be brief; \"answer\" <b>in</b> German.  "}
CHATS = {
    "one": [{"role": "user", "content": "Wo ist mein Paket? \n"}],
    "system": [SYSTEM, {"role": "user", "content": "Hello wörld 😀\tend"}],
    "turns": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nb "},
              {"role": "user", "content": " it's 12345 o'clock  "}],
    "wrong": [{"role": "assistant", "content": "I go first"}],
}
TEXTS = ["", " ", "a", "Hello, world!", "  two  spaces  ", "ünïcödé 漢字 😀👍🏽", "it's we'll 12345 1.5e-3", "tab\tnew\nline\r\n\n",
         "<|eos|>", "x<|im_end|>y", "\u0000\u0007\ufdd0\ufffd"]


def main():
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    lines = pathlib.Path(__file__).read_text().splitlines(keepends=True)
    tokenizer.train_from_iterator(lines, trainer)
    tokenizer.save(str(HERE / "tokenizer.json"), pretty=False)

    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|bos|>", eos_token="<|eos|>")
    chats = []
    for template, source in TEMPLATES.items():
        for chat, messages in CHATS.items():
            case = {"template": template, "messages": messages}
            try:
                arguments = dict(chat_template=source, add_generation_prompt=True)
                case["text"] = fast.apply_chat_template(messages, tokenize=False, **arguments)
                case["tokens"] = fast.apply_chat_template(messages, tokenize=True, return_dict=False, **arguments)
            except Exception as error:
                case["error"] = str(error)
            chats.append(case)
    texts = []
    for text in TEXTS:
        tokens = fast.encode(text, add_special_tokens=False)
        texts.append({"text": text, "tokens": tokens, "decoded": fast.decode(tokens, skip_special_tokens=True)})
    golden = {"templates": TEMPLATES, "chats": chats, "texts": texts}
    (HERE / "golden.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


main()
