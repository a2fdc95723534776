"""Writes tools.json: what the chat templates of models, rendered with jinja2 as transformers does it, make of a conversation
with functions, calls, their answers and reasoning.

    python make_tools.py target/vocabularies

The argument is the directory that the test published.rs fetches the templates to. No template's text is written, only
what became of it.
"""

import json
import pathlib
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

HERE = pathlib.Path(__file__).parent

TOOLS = [
    {"type": "function", "function": {"name": "get_weather", "description": "The weather at a \"place\" <now>", "parameters": {
        "type": "object", "properties": {"place": {"type": "string", "description": "A town"},
                                         "days": {"type": "integer", "minimum": 1}}, "required": ["place"]}}},
    {"type": "function", "function": {"name": "get_time", "description": "The time", "parameters": {"type": "object", "properties": {}}}},
]


def call(number, name, arguments):
    return {"id": number, "type": "function", "function": {"name": name, "arguments": arguments}}


USER = {"role": "user", "content": "How is it in Zürich?"}
FIRST = {"role": "assistant", "content": "", "tool_calls": [call("abcdef123", "get_weather", {"place": "Zürich", "days": 2})]}
BOTH = {"role": "assistant", "content": "I look.", "reasoning_content": "Weather and time.", "tool_calls": [
    call("abcdef123", "get_weather", {"place": "Zürich", "days": 2}), call("abcdef124", "get_time", {})]}
SUNNY = {"role": "tool", "content": "{\"sky\": \"sunny\"}", "name": "get_weather", "tool_call_id": "abcdef123"}
NOON = {"role": "tool", "content": "12:00", "name": "get_time", "tool_call_id": "abcdef124"}

CHATS = {
    "asked": [USER],
    "called": [{"role": "system", "content": "Be brief."}, USER, FIRST, SUNNY],
    "both": [USER, BOTH, SUNNY, NOON],
}


# Those whose makers have tools in mind, in every form of a call.
TEMPLATES = [
    "GLM-4.6", "Kimi-K2-Instruct", "LFM2.5-Instruct", "MiniMax-M2", "NVIDIA-Nemotron-Nano-v2",
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use", "Qwen-QwQ-32B",
    "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "deepseek-ai-DeepSeek-V3.2", "google-gemma-4-31B-it",
    "ibm-granite-granite-4.0", "meta-llama-Llama-3.1-8B-Instruct", "meta-llama-Llama-3.3-70B-Instruct",
    "mistralai-Ministral-3-14B-Reasoning-2512", "mistralai-Mistral-Nemo-Instruct-2407",
    "unsloth-mistral-Devstral-Small-2507",
]


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        next(parser.stream)
        return parser.parse_statements(["name:endgeneration"], drop_needle=True)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


class Refused(Exception):
    pass


def refuse(message):
    raise Refused(message)


def render(source, messages):
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda _: refuse("a date")
    return environment.from_string(source).render(
        messages=messages, tools=TOOLS, documents=None, add_generation_prompt=True, bos_token="<|bos|>",
        eos_token="<|eos|>", pad_token="", unk_token="")


def function(tool):
    """As tidegate_contract::Function is written."""
    return {"name": tool["name"], "description": tool["description"], "parameters": json.dumps(tool["parameters"])}


def message(turn):
    """As tidegate_contract::Message is written; the name of a function that answers follows from its call."""
    calls = [{"id": made["id"], "name": made["function"]["name"], "arguments": json.dumps(made["function"]["arguments"])}
             for made in turn.get("tool_calls", [])]
    return {"role": turn["role"], "content": turn["content"], "reasoning": turn.get("reasoning_content"), "calls": calls,
            "answers": turn.get("tool_call_id")}


def main():
    prompts = {}
    for stem in TEMPLATES:
        path = pathlib.Path(sys.argv[1]) / f"{stem}.jinja"
        made = {}
        for name, messages in CHATS.items():
            try:
                made[name] = render(path.read_text(), messages)
            except Exception as error:  # what a template refuses or cannot take is left out
                print(stem, name, type(error).__name__, str(error)[:100], file=sys.stderr)
        if made:
            prompts[stem] = made
    golden = {"functions": [function(tool["function"]) for tool in TOOLS],
              "chats": {name: [message(turn) for turn in turns] for name, turns in CHATS.items()}, "prompts": prompts}
    (HERE / "tools.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
