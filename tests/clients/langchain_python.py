"""LangChain's client for OpenAI's API, unmodified, against a gateway."""

from langchain_core.messages import HumanMessage, SystemMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAIEmbeddings
from pydantic import BaseModel
import os
from typing import Literal

from check import BASE_URL, KEY, MODEL, check, run

model = ChatOpenAI(base_url=BASE_URL, api_key=KEY, model=MODEL, max_tokens=200, timeout=300, max_retries=0)
CHAT = [SystemMessage("Answer shortly."), HumanMessage("My order came incomplete.")]


class Verdict(BaseModel):
    """Whether something is urgent."""

    urgent: bool


@tool
def weather(city: Literal["Oslo", "Rome"]) -> str:
    """The weather of a city."""
    return f"Sun over {city}."


@check
def a_chat_is_invoked():
    answer = model.invoke(CHAT)
    assert answer.content and answer.usage_metadata["output_tokens"] > 0


@check
def a_chat_streams():
    assert "".join(chunk.content for chunk in model.stream(CHAT)) == model.invoke(CHAT).content


@check
def a_batch_of_chats_is_answered():
    answers = model.batch([CHAT, CHAT])
    assert answers[0].content == answers[1].content


@check
def an_answer_has_the_form_of_a_type():
    assert isinstance(model.with_structured_output(Verdict).invoke(CHAT), Verdict)


@check
def a_tool_is_called():
    answer = model.bind_tools([weather], tool_choice="weather").invoke(CHAT)
    assert answer.tool_calls[0]["name"] == "weather", answer
    assert "city" in answer.tool_calls[0]["args"]


@check
def texts_become_vectors():
    embeddings = OpenAIEmbeddings(
        base_url=BASE_URL,
        api_key=KEY,
        model=os.environ["GATEWAY_EMBEDDINGS"],
        check_embedding_ctx_length=False,
    )
    vectors = embeddings.embed_documents(["one", "two"])
    assert len(vectors) == 2 and len(vectors[0]) == len(embeddings.embed_query("one"))


if __name__ == "__main__":
    run()
