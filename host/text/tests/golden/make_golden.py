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
