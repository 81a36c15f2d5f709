"""The official clients of OpenAI and Anthropic work unchanged, streaming included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from llm_models import own
from serving_http import server
from support import reference

from mtkit.api.generation import generate

NAME = "own/model/mtkit-docs-target-q8_0.gguf"
ASK = [{"role": "user", "content": "How do I list files?"}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server(own(NAME), "--exact", "--api-key", "a long key") as started:
        yield started.url


@pytest.fixture
def openai(url: str) -> Iterator[Any]:
    with reference("openai").OpenAI(
        base_url=f"{url}/v1", api_key="a long key", max_retries=0
    ) as client:
        yield client


@pytest.fixture
def anthropic(url: str) -> Iterator[Any]:
    with reference("anthropic").Anthropic(
        base_url=url, api_key="a long key", max_retries=0
    ) as client:
        yield client


def test_openai_completions(openai: Any) -> None:
    text = "To list files, use"
    made = generate(text, model=own(NAME), n_predict=12, threads=1, kv_type="bf16")
    found = openai.completions.create(model="any", prompt=text, max_tokens=12)
    assert found.choices[0].text == made.text
    assert found.choices[0].finish_reason == "length"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens) == (len(made.prompt_ids), 12)
    stream = openai.completions.create(model="any", prompt=text, max_tokens=12, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == made.text
    by_ids = openai.completions.create(
        model="any", prompt=[made.prompt_ids, made.prompt_ids], max_tokens=12, n=2
    )
    assert [choice.text for choice in by_ids.choices] == [made.text] * 4
    assert by_ids.usage.prompt_tokens == 2 * len(made.prompt_ids)


def test_openai_logprobs(openai: Any) -> None:
    made = generate(
        "To list", model=own(NAME), n_predict=5, threads=1, kv_type="bf16", logprobs=True
    )
    found = openai.completions.create(model="any", prompt="To list", max_tokens=5, logprobs=3)
    columns = found.choices[0].logprobs
    assert columns.token_logprobs == pytest.approx(made.logprobs)
    assert "".join(columns.tokens) == made.text
    assert [columns.top_logprobs[at][text] for at, text in enumerate(columns.tokens)] == (
        columns.token_logprobs
    )
    assert columns.text_offset[1] == len(columns.tokens[0])
    chat = openai.chat.completions.create(
        model="any", messages=ASK, max_tokens=5, logprobs=True, top_logprobs=2
    )
    content = chat.choices[0].logprobs.content
    assert "".join(one.token for one in content) == chat.choices[0].message.content
    for one in content:
        assert bytes(one.bytes).decode() == one.token
        assert one.top_logprobs[0].logprob == one.logprob  # greedy
        assert len(one.top_logprobs) == 2


def test_openai_chat(openai: Any) -> None:
    whole = openai.chat.completions.create(model="any", messages=ASK, max_tokens=20)
    text = whole.choices[0].message.content
    assert text
    chunks = list(
        openai.chat.completions.create(
            model="any", messages=ASK, max_tokens=20, stream=True,
            stream_options={"include_usage": True}, extra_body={"explain_cache": True},
        )
    )  # fmt: skip
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == text
    assert chunks[0].choices[0].delta.role == "assistant"
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    usage = chunks[-1].usage
    assert usage.prompt_tokens == whole.usage.prompt_tokens
    assert usage.prompt_tokens_details.cached_tokens == usage.prompt_tokens - 1
    explained = chunks[-1].cache[0]
    assert explained["cached_tokens"] == usage.prompt_tokens - 1
    assert explained["prompt"] is None  # the prompt ends, nothing broke it
    again = [*ASK, {"role": "assistant", "content": text}, {"role": "user", "content": "Why?"}]
    next_turn = openai.chat.completions.create(model="any", messages=again, max_tokens=2)
    assert next_turn.usage.prompt_tokens_details.cached_tokens >= whole.usage.prompt_tokens - 1
    stop = text[5:9]
    stopped = openai.chat.completions.create(model="any", messages=ASK, max_tokens=20, stop=stop)
    assert stopped.choices[0].message.content == text[: text.index(stop)]
    assert stopped.choices[0].finish_reason == "stop"


def test_openai_seeds(openai: Any) -> None:
    def ask(seed: int, n: int = 1) -> list[str]:
        found = openai.chat.completions.create(
            model="any", messages=ASK, max_tokens=15, temperature=1, seed=seed, n=n
        )
        return [choice.message.content for choice in found.choices]

    three = ask(5, 3)
    assert ask(5) == three[:1]
    assert ask(6) == three[1:2]
    assert len(set(three)) > 1


def test_openai_schemas(openai: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"file": {"enum": ["a", "b"]}, "deep": {"type": "boolean"}},
        "required": ["file", "deep"],
        "additionalProperties": False,
    }
    found = openai.chat.completions.create(
        model="any", messages=ASK, max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": schema}},
    )  # fmt: skip
    value = json.loads(found.choices[0].message.content)
    assert value["file"] in ("a", "b")
    assert isinstance(value["deep"], bool)
    text = openai.completions.create(
        model="any", prompt="Well,", max_tokens=9, extra_body={"grammar": 'root ::= " yes" | "no"'}
    )
    assert text.choices[0].text in (" yes", "no")


def test_openai_responses(openai: Any) -> None:
    reference_text = openai.chat.completions.create(
        model="any", messages=[{"role": "system", "content": "Be brief."}, *ASK], max_tokens=20
    )
    asked = {"model": "any", "input": ASK, "instructions": "Be brief.", "max_output_tokens": 20}
    whole = openai.responses.create(**asked)
    assert whole.output_text == reference_text.choices[0].message.content
    assert whole.status in ("completed", "incomplete")
    assert whole.usage.input_tokens == reference_text.usage.prompt_tokens
    assert whole.usage.input_tokens_details.cached_tokens == whole.usage.input_tokens - 1
    told = list(openai.responses.create(**asked, stream=True))
    assert [one.sequence_number for one in told] == list(range(len(told)))
    assert [one.type for one in told[:4]] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added",
    ]  # fmt: skip
    assert "".join(one.delta for one in told if one.type.endswith(".delta")) == whole.output_text
    assert told[-1].type == f"response.{whole.status}"
    assert told[-1].response.output_text == whole.output_text
    assert told[-1].response.usage.output_tokens == whole.usage.output_tokens
    with openai.responses.stream(**asked) as stream:
        assert stream.until_done().get_final_response().output_text == whole.output_text
    answered = [*ASK, *(item.model_dump() for item in whole.output), *ASK]
    again = openai.responses.create(**{**asked, "input": answered})
    assert again.usage.input_tokens > whole.usage.input_tokens
    cut = openai.responses.create(**{**asked, "max_output_tokens": 2})
    assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert cut.output[0].status == "incomplete"


def answers() -> Any:
    """Return a pydantic model of an answer."""
    pydantic = reference("pydantic")
    literal = reference("typing").Literal["a", "b"]
    return pydantic.create_model("Answer", file=(literal, ...), deep=(bool, ...))


def test_clients_parse_answers(openai: Any, anthropic: Any) -> None:
    kind = answers()
    chat = openai.chat.completions.parse(
        model="any", messages=ASK, max_tokens=60, response_format=kind
    )
    responses = openai.responses.parse(
        model="any", input=ASK, max_output_tokens=60, text_format=kind
    )
    message = anthropic.messages.parse(model="any", messages=ASK, max_tokens=60, output_format=kind)
    found = (chat.choices[0].message.parsed, responses.output_parsed, message.parsed_output)
    assert all(isinstance(one, kind) for one in found)
    with anthropic.messages.stream(
        model="any", messages=ASK, max_tokens=60, output_format=kind
    ) as stream:
        assert stream.get_final_message().parsed_output == found[2]


def test_openai_errors(openai: Any, url: str) -> None:
    library = reference("openai")
    with pytest.raises(library.BadRequestError, match="exceeds the available"):
        openai.completions.create(model="any", prompt="word " * 400)
    with pytest.raises(library.BadRequestError, match="temperature") as caught:
        openai.completions.create(model="any", prompt="x", temperature=-1)
    assert caught.value.param == "temperature"
    with pytest.raises(library.BadRequestError, match="does not parse"):
        openai.completions.create(model="any", prompt="x", extra_body={"grammar": "root ::= ("})
    with pytest.raises(library.BadRequestError, match="nothing drafts"):
        openai.completions.create(model="any", prompt="x", extra_body={"speculative": True})
    with (
        library.OpenAI(base_url=f"{url}/v1", api_key="another key") as stranger,
        pytest.raises(library.AuthenticationError),
    ):
        stranger.models.list()
    assert [card.id for card in openai.models.list()] == ["mtkit-docs-target-q8_0.gguf"]
    assert openai.models.retrieve("mtkit-docs-target-q8_0.gguf").owned_by == "mtkit"
    assert openai.models.retrieve("another").id == "mtkit-docs-target-q8_0.gguf"


def test_anthropic_messages(anthropic: Any, openai: Any) -> None:
    reference_text = openai.chat.completions.create(
        model="any", messages=[{"role": "system", "content": "Be brief."}, *ASK], max_tokens=20
    )
    asked = {"model": "any", "messages": ASK, "system": "Be brief.", "max_tokens": 20}
    found = anthropic.messages.create(**asked)
    assert found.content[0].text == reference_text.choices[0].message.content
    assert found.stop_reason in ("end_turn", "max_tokens")
    usage = found.usage
    count = anthropic.messages.count_tokens(model="any", messages=ASK, system="Be brief.")
    assert count.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    assert usage.cache_read_input_tokens == count.input_tokens - 1
    with anthropic.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == found.content[0].text
    assert final.stop_reason == found.stop_reason
    assert final.usage == found.usage
    blocks = [{"role": "user", "content": [{"type": "text", "text": ASK[0]["content"]}]}]
    same = anthropic.messages.create(**{**asked, "messages": blocks})
    assert same.content[0].text == text
    word = text[5:9]
    stopped = anthropic.messages.create(**asked, stop_sequences=[word])
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", word)


def test_anthropic_errors(anthropic: Any) -> None:
    library = reference("anthropic")
    with pytest.raises(library.BadRequestError) as caught:
        anthropic.messages.create(
            model="any", max_tokens=5, messages=[{"role": "x", "content": ""}]
        )
    assert caught.value.body["type"] == "error"
    assert caught.value.body["error"]["type"] == "invalid_request_error"
    picture = {"type": "image", "source": {"type": "url", "url": "https://x.invalid/"}}
    with pytest.raises(library.BadRequestError, match="image input is not supported"):
        anthropic.messages.create(
            model="any", max_tokens=5, messages=[{"role": "user", "content": [picture]}]
        )
