"""Writes prompts.json: what transformers makes of messages, functions, template arguments, reasoning of earlier turns and
the beginning of an answer, in the chat templates of published models.

    python -m venv env && env/bin/pip install transformers==5.24.0 tokenizers jinja2
    env/bin/python make_prompts.py target/vocabularies

The argument is the directory that the test published.rs fetches the templates to. No template's text is written, only what
became of it. A date of today stands as its format between < and >.
"""

import datetime
import json
import pathlib
import sys

from transformers import PreTrainedTokenizerFast

from make_tools import BOTH, NOON, SUNNY, TOOLS, USER, function, message

HERE = pathlib.Path(__file__).parent

# Those that the other tests know, and those that reason, in every form.
TEMPLATES = [
    "HuggingFaceTB-SmolLM3-3B", "Mistral-Small-3.2-24B-Instruct-2506", "NousResearch-Hermes-3-Llama-3.1-8B-tool_use",
    "Qwen-Qwen2.5-7B-Instruct", "Qwen-Qwen3-0.6B", "Qwen3-Coder", "meta-llama-Llama-3.1-8B-Instruct",
    "meta-llama-Llama-3.2-3B-Instruct", "microsoft-Phi-3.5-mini-instruct", "mistralai-Ministral-3-14B-Reasoning-2512",
    "mistralai-Mistral-Nemo-Instruct-2407", "ByteDance-Seed-OSS", "CohereForAI-c4ai-command-r7b-12-2024-tool_use",
    "GLM-4.6", "MiniMax-M2", "NVIDIA-Nemotron-Nano-v2", "Qwen-QwQ-32B", "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B", "deepseek-ai-DeepSeek-V3.1", "google-gemma-4-31B-it",
    "openai-gpt-oss-120b", "upstage-Solar-Open-100B",
]
# What a template calls the thoughts of an earlier turn, where that is another name.
THOUGHTS = {"openai-gpt-oss-120b": "thinking", "upstage-Solar-Open-100B": "reasoning"}

SYSTEM = {"role": "system", "content": "Answer with one word.\nBe kind."}
SHOTS = [{"role": "user", "content": "Is the sky blue?"}, {"role": "assistant", "content": "Yes."},
         {"role": "user", "content": " Is it <b>green</b>, \"é\"? "}]
THOUGHT = [{"role": "user", "content": "2 + 2?"},
           {"role": "assistant", "content": "4", "reasoning_content": "Two and two.\n\nFour."}, {"role": "user", "content": "And 3?"}]
BEGUN = [*SHOTS, {"role": "assistant", "content": "No, it is"}]

# Messages, whether there are functions, arguments, whether the last message is gone on with.
CASES = {
    "few_shots": ([SYSTEM, *SHOTS], False, {}, False),
    "without_system": (SHOTS, False, {}, False),
    "functions": ([SYSTEM, USER], True, {}, False),
    "calls": ([USER, BOTH, SUNNY, NOON], True, {}, False),
    "thought": (THOUGHT, False, {}, False),
    "thought_with_functions": ([SYSTEM, *THOUGHT], True, {}, False),
    "not_thinking": (SHOTS, False, {"enable_thinking": False, "thinking": False}, False),
    "thinking": (SHOTS, False, {"enable_thinking": True, "thinking": True}, False),
    "effort": ([SYSTEM, *SHOTS], False, {"reasoning_effort": "high", "thinking_budget": 512, "date_string": "1 May 2025"}, False),
    "builtin": ([USER], False, {"builtin_tools": ["wolfram_alpha", "python"], "documents_of": [{"a": [1, None]}]}, False),
    "begun": (BEGUN, False, {}, True),
    "begun_not_thinking": (BEGUN, False, {"enable_thinking": False, "thinking": False}, True),
}

FORMATS = ["%d %B %Y", "%d %b %Y", "%Y-%m-%d"]


def main():
    now = datetime.datetime.now()
    prompts = {}
    for stem in TEMPLATES:
        source = (pathlib.Path(sys.argv[1]) / f"{stem}.jinja").read_text()
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(HERE / "tokenizer.json"), bos_token="<|bos|>", eos_token="<|eos|>",
                                            chat_template=source)
        made = {}
        for name, (messages, functions, arguments, begun) in CASES.items():
            if functions and "tools" not in source:  # they are described in a message there, which transformers does not do
                continue
            name_of_thoughts = THOUGHTS.get(stem, "reasoning_content")
            messages = [{name_of_thoughts if key == "reasoning_content" else key: value for key, value in turn.items()} for turn in messages]
            try:
                text = tokenizer.apply_chat_template(
                    messages, tools=TOOLS if functions else None, tokenize=False, add_generation_prompt=not begun,
                    continue_final_message=begun, **arguments)
            except Exception as error:  # what a template refuses or cannot take is left out
                print(stem, name, type(error).__name__, str(error)[:100], file=sys.stderr)
                continue
            for form in FORMATS:
                text = text.replace(now.strftime(form), f"<{form}>")
            made[name] = text
        prompts[stem] = made
    cases = {name: {"messages": [message(turn) for turn in messages], "functions": functions, "arguments": arguments, "begun": begun}
             for name, (messages, functions, arguments, begun) in CASES.items()}
    golden = {"functions": [function(tool["function"]) for tool in TOOLS], "cases": cases, "prompts": prompts}
    (HERE / "prompts.json").write_text(json.dumps(golden, ensure_ascii=False, indent=1) + "\n")


if __name__ == "__main__":
    main()
