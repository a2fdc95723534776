"""OpenAI's Python client, unmodified, through every endpoint of a gateway."""

import asyncio
import base64
import json
import os
import struct

import openai
from pydantic import BaseModel

from check import BASE_URL, KEY, MODEL, check, run

client = openai.OpenAI(base_url=BASE_URL, api_key=KEY, timeout=300)
QUESTION = [{"role": "user", "content": "My order came incomplete."}]
FINISHES = {"stop", "length", "tool_calls", "content_filter"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"enum": [1, 2]}},
            "required": ["city", "days"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}


class Verdict(BaseModel):
    """A structured answer that any model can give: the form alone decides its length."""

    urgent: bool
    level: int | None = None


def chat(**more):
    return client.chat.completions.create(
        **{"model": MODEL, "messages": QUESTION, "max_tokens": 24, **more}
    )


@check
def models_are_listed_and_one_is_found_by_its_name():
    listed = [model.id for model in client.models.list()]
    assert MODEL in listed, listed
    one = client.models.retrieve(MODEL)
    assert one.id == MODEL and one.object == "model" and one.created > 0
    try:
        client.models.retrieve("nothing")
    except openai.NotFoundError as error:
        assert error.code == "model_not_found", error.body
    else:
        raise AssertionError("a model that is not there was found")


@check
def hello_world_of_the_readme_has_an_answer():
    response = client.responses.create(
        model=MODEL, instructions="Answer shortly.", input="My order came incomplete."
    )
    assert response.output_text, response
    assert response.status in ("completed", "incomplete")
    assert response.usage.output_tokens > 0
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens


@check
def responses_stream_to_the_same_text_that_they_have_whole():
    whole = client.responses.create(model=MODEL, input="My order came incomplete.", max_output_tokens=24)
    text, kinds = "", []
    with client.responses.stream(
        model=MODEL, input="My order came incomplete.", max_output_tokens=24
    ) as stream:
        for event in stream:
            kinds.append(event.type)
            if event.type == "response.output_text.delta":
                text += event.delta
        final = stream.get_final_response()
    assert kinds[0] == "response.created", kinds
    assert kinds[-1] in ("response.completed", "response.incomplete"), kinds
    assert text == final.output_text == whole.output_text


@check
def responses_raw_events_are_numbered():
    numbers = [
        event.sequence_number
        for event in client.responses.create(
            model=MODEL, input="Hello", max_output_tokens=8, stream=True
        )
    ]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers))), numbers


@check
def responses_parse_into_a_type():
    parsed = client.responses.parse(
        model=MODEL, input="My order came incomplete.", text_format=Verdict
    )
    assert isinstance(parsed.output_parsed, Verdict), parsed


@check
def responses_call_functions():
    tool = {"type": "function", **WEATHER["function"]}
    response = client.responses.create(
        model=MODEL, input="What is the weather?", tools=[tool], tool_choice="required"
    )
    calls = [item for item in response.output if item.type == "function_call"]
    assert calls and calls[0].name == "get_weather", response
    arguments = json.loads(calls[0].arguments)
    assert arguments["city"] in ("Oslo", "Rome") and arguments["days"] in (1, 2)
    follow = client.responses.create(
        model=MODEL,
        input=[
            {"role": "user", "content": "What is the weather?"},
            {
                "type": "function_call",
                "call_id": calls[0].call_id,
                "name": calls[0].name,
                "arguments": calls[0].arguments,
            },
            {"type": "function_call_output", "call_id": calls[0].call_id, "output": "Sun."},
        ],
        tools=[tool],
        max_output_tokens=16,
    )
    assert follow.status in ("completed", "incomplete")


@check
def a_chat_has_an_answer_with_its_usage():
    answer = chat()
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and answer.id and answer.created > 0
    assert choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in FINISHES
    assert answer.usage.completion_tokens <= 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer._request_id


@check
def a_chat_streams_to_the_same_text():
    whole = chat().choices[0].message.content
    chunks = list(chat(stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens > 0
    ends = [c.choices[0].finish_reason for c in chunks if c.choices and c.choices[0].finish_reason]
    assert len(ends) == 1 and ends[0] in FINISHES
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == whole, (text, whole)
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


@check
def the_stream_helper_ends_with_the_whole_answer():
    with client.chat.completions.stream(model=MODEL, messages=QUESTION) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        final = stream.get_final_completion()
    assert final.choices[0].message.content == text


@check
def a_chat_is_parsed_into_a_type():
    answer = client.chat.completions.parse(model=MODEL, messages=QUESTION, response_format=Verdict)
    assert isinstance(answer.choices[0].message.parsed, Verdict)
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, response_format={"type": "json_object"}, max_tokens=200, temperature=1, seed=3
    )
    if answer.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(answer.choices[0].message.content), dict)


@check
def several_answers_follow_from_the_seed():
    def ask():
        answer = chat(n=2, seed=11, temperature=1.0)
        return [choice.message.content for choice in sorted(answer.choices, key=lambda c: c.index)]

    first = ask()
    assert len(first) == 2 and first == ask()
    streamed = ["", ""]
    for chunk in chat(n=2, seed=11, temperature=1.0, stream=True):
        for choice in chunk.choices:
            streamed[choice.index] += choice.delta.content or ""
    assert streamed == first, (streamed, first)


@check
def stop_and_length_end_an_answer():
    short = chat(max_tokens=1).choices[0]
    assert short.finish_reason == "length"
    words = chat().choices[0].message.content
    stop = words[len(words) // 2]
    stopped = chat(stop=[stop]).choices[0]
    assert stopped.finish_reason == "stop" and stop not in stopped.message.content
    assert words.startswith(stopped.message.content)


@check
def log_probabilities_come_with_their_tokens():
    answer = chat(logprobs=True, top_logprobs=2)
    content = answer.choices[0].logprobs.content
    assert len(content) >= answer.usage.completion_tokens - 1
    assert all(item.logprob <= 1e-6 and len(item.top_logprobs) == 2 for item in content)
    text = b"".join(bytes(item.bytes) for item in content).decode()
    assert answer.choices[0].message.content.strip() in text or text.strip() in answer.choices[0].message.content


@check
def functions_are_called_and_answered():
    answer = chat(tools=[WEATHER], tool_choice="required", max_tokens=100)
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls", choice
    call = choice.message.tool_calls[0]
    arguments = json.loads(call.function.arguments)
    assert call.id and call.function.name == "get_weather"
    assert arguments["city"] in ("Oslo", "Rome") and arguments["days"] in (1, 2)
    follow = chat(
        messages=QUESTION
        + [
            choice.message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": call.id, "content": "Sun."},
        ],
        tools=[WEATHER],
    )
    assert follow.choices[0].finish_reason in FINISHES


@check
def functions_are_called_in_a_stream_of_the_helper():
    with client.chat.completions.stream(
        model=MODEL,
        messages=QUESTION,
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "get_weather"}},
        max_tokens=100,
    ) as stream:
        done = [e for e in stream if e.type == "tool_calls.function.arguments.done"]
        final = stream.get_final_completion()
    call = final.choices[0].message.tool_calls[0]
    assert done and json.loads(done[0].arguments) == json.loads(call.function.arguments)


@check
def completions_go_on_with_a_text():
    whole = client.completions.create(model=MODEL, prompt="The order", max_tokens=8)
    text = "".join(
        chunk.choices[0].text
        for chunk in client.completions.create(
            model=MODEL, prompt="The order", max_tokens=8, stream=True
        )
        if chunk.choices
    )
    assert whole.object == "text_completion" and whole.choices[0].text == text
    two = client.completions.create(model=MODEL, prompt=["The order", "Hello"], max_tokens=4)
    assert [choice.index for choice in two.choices] == [0, 1]


@check
def embeddings_are_the_same_in_both_forms():
    model = os.environ.get("GATEWAY_EMBEDDINGS")
    if model is None:
        raise AssertionError("GATEWAY_EMBEDDINGS names no model")
    default = client.embeddings.create(model=model, input=["one text", "another"])
    floats = client.embeddings.create(model=model, input=["one text", "another"], encoding_format="float")
    assert [item.index for item in default.data] == [0, 1]
    assert default.usage.prompt_tokens > 0
    for a, b in zip(default.data, floats.data):
        assert len(a.embedding) == len(b.embedding) > 8
        assert all(abs(x - y) < 1e-6 for x, y in zip(a.embedding, b.embedding))
    raw = client.embeddings.with_raw_response.create(model=model, input="x", encoding_format="base64")
    bits = base64.b64decode(json.loads(raw.text)["data"][0]["embedding"])
    assert len(struct.unpack(f"<{len(bits) // 4}f", bits)) == len(default.data[0].embedding)


def refused(error, call, code=None, param=None):
    try:
        call()
    except error as found:
        assert found.body and {"message", "type", "param", "code"} <= set(found.body), found.body
        assert code is None or found.code == code, found.body
        assert param is None or found.param == param, found.body
        return found
    raise AssertionError("it was not refused")


@check
def errors_are_those_of_the_client_and_name_the_field():
    refused(openai.NotFoundError, lambda: chat(model="nothing"), "model_not_found", "model")
    refused(openai.BadRequestError, lambda: chat(temperature=9), param="temperature")
    refused(openai.BadRequestError, lambda: chat(messages=[]), param="messages")
    refused(
        openai.BadRequestError,
        lambda: chat(messages=[{"role": "user", "content": "long " * 5000}]),
        "context_length_exceeded",
    )
    refused(openai.BadRequestError, lambda: chat(extra_body={"frobnicate": 1}), param="frobnicate")
    # The same before the first header of a stream.
    refused(openai.BadRequestError, lambda: list(chat(stream=True, temperature=9)), param="temperature")


@check
def a_wrong_key_is_refused():
    if KEY == "none":
        return
    stranger = openai.OpenAI(base_url=BASE_URL, api_key="sk-wrong", timeout=20)
    refused(openai.AuthenticationError, lambda: stranger.models.list(), "invalid_api_key")


@check
def equal_idempotency_keys_have_one_answer():
    key = {"Idempotency-Key": f"key-{os.getpid()}"}
    ask = lambda text: client.chat.completions.create(  # noqa: E731
        model=MODEL,
        messages=[{"role": "user", "content": text}],
        max_tokens=8,
        temperature=1.0,
        extra_headers=key,
    )
    first = ask("Hello")
    assert ask("Hello").id == first.id
    refused(openai.UnprocessableEntityError, lambda: ask("Goodbye"))


@check
def async_clients_stream_side_by_side():
    async def one(other, number):
        stream = await other.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": f"Question {number}"}],
            max_tokens=12,
            stream=True,
        )
        return "".join([c.choices[0].delta.content or "" async for c in stream if c.choices])

    async def all_of_them():
        async with openai.AsyncOpenAI(base_url=BASE_URL, api_key=KEY, timeout=300) as other:
            together = await asyncio.gather(*(one(other, n % 4) for n in range(12)))
            alone = [await one(other, n) for n in range(4)]
        assert together == alone * 3, (together, alone)

    asyncio.run(all_of_them())


@check
def a_client_that_stops_listening_leaves_the_others_their_answers():
    for _ in range(3):
        stream = chat(stream=True, max_tokens=24)
        next(iter(stream))
        stream.close()
    assert chat().choices[0].message.content


if __name__ == "__main__":
    run()
