"""What clients send back of a session, in the three APIs: pictures, ids, arguments, empty lists."""

from __future__ import annotations

from typing import Any

import pytest
from support import reference

from mtkit.errors import UsageError

reference("msgspec")

LEFT_OUT = "[image left out: this model takes text]"
HI: dict[str, Any] = {"role": "user", "content": "hi"}
SEEN = {"role": "assistant", "content": "I see."}


def from_openai(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    from mtkit.serve.conversation import messages_from_openai

    return messages_from_openai(messages)


def from_anthropic(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    from mtkit.serve.conversation import messages_from_anthropic

    return messages_from_anthropic(messages, "")


def from_responses(*items: dict[str, Any]) -> list[dict[str, Any]]:
    from mtkit.serve.conversation import messages_from_responses

    return messages_from_responses(items, "", {})


TEXT, URL = {"type": "text", "text": "Look."}, {"url": "data:,"}
RESULT = {"type": "tool_result", "tool_use_id": "t1",
          "content": [TEXT, {"type": "image", "source": {}}]}  # fmt: skip
OUTPUT = {"type": "function_call_output", "call_id": "c1",
          "output": [TEXT, {"type": "input_image", "image_url": "x"}]}  # fmt: skip


@pytest.mark.parametrize(
    ("convert", "part", "result"),
    [
        (from_openai, {"type": "image_url", "image_url": URL},
         {"role": "tool", "tool_call_id": "c1",
          "content": [TEXT, {"type": "image_url", "image_url": URL}]}),
        (from_anthropic, {"type": "image", "source": {"type": "base64"}},
         {"role": "user", "content": [RESULT]}),
        (from_responses, {"type": "input_image", "image_url": "x"}, OUTPUT),
    ],
)  # fmt: skip
def test_a_picture_that_is_not_new_is_told_as_a_text(convert: Any, part: Any, result: Any) -> None:
    shown = {"role": "user", "content": [TEXT, part]}
    with pytest.raises(UsageError, match="image input is not supported"):
        convert(HI, SEEN, shown)
    for message in (convert(shown, SEEN, HI)[0], convert(HI, SEEN, result)[2]):
        assert message["content"].replace("\n", "") == f"Look.{LEFT_OUT}"


def test_a_document_that_is_a_text_stays() -> None:
    source = {"type": "text", "media_type": "text/plain", "data": "Words."}
    document = {"type": "document", "source": source}
    messages = from_anthropic({"role": "user", "content": [document]}, SEEN, HI)
    assert messages[0]["content"] == "Words."


def called(arguments: Any, **fields: Any) -> dict[str, Any]:
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}, **fields}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"a": 1}', {"a": 1}), ("", {}), ("null", {}), (None, {}), (" ", {}), ({"a": 1}, {"a": 1}),
        ('{"a": "b', '{"a": "b'), ("[1, 2]", "[1, 2]"), ([1], "[1]"), ("a is b", "a is b"),
    ],
)  # fmt: skip
def test_arguments_are_an_object_or_a_text(arguments: Any, expected: Any) -> None:
    (_, message) = from_openai(HI, called(arguments, id="c1"))
    assert message["tool_calls"][0]["function"]["arguments"] == expected


def test_calls_without_an_id_get_one_and_their_results_the_same() -> None:
    two = called("{}")["tool_calls"] * 2
    turn = [{"role": "assistant", "content": "", "tool_calls": two},
            {"role": "tool", "content": "1"}, {"role": "tool", "content": "2"}]  # fmt: skip
    messages = from_openai(HI, *turn, *turn)
    ids = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert len(set(ids)) == 4
    assert ids == [m["tool_call_id"] for m in messages if m["role"] == "tool"]
    given = from_openai(HI, called("{}", id="x1"), {"role": "tool", "content": "1"})
    assert given[2]["tool_call_id"] == "x1"


def test_an_empty_list_of_calls_is_none() -> None:
    (_, message) = from_openai(HI, {**SEEN, "tool_calls": []})
    assert "tool_calls" not in message


def test_a_call_at_the_end_is_not_continued() -> None:
    from mtkit.serve.conversation import prompt_end

    end = prompt_end(from_openai(HI, called("{}", id="c1")))
    assert end == {"continue_final": False, "add_generation_prompt": True}
    assert prompt_end(from_openai(HI, SEEN))["continue_final"] is True
