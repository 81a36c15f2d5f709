"""Stop strings count behind the reasoning of an answer, wherever its tokens are cut."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from typing import Any

import pytest
from serving_http import application, post, streamed
from support import shared

from mtkit.serve.stop_text import CHANNEL_SIGNS, AnswerText, ReasoningSigns

OPENED = ReasoningSigns(True, "<think>", ("</think>",))
MAY_OPEN = ReasoningSigns(False, "<think>", ("</think>", "[/THINK]"))
CASES: list[tuple[ReasoningSigns | None, str, str, str | None]] = [
    (None, "a STOP b", "a ", "STOP"),
    (OPENED, "a STOP b", "a STOP b", None),
    (OPENED, "a STOP b</think>c STOP d", "a STOP b</think>c ", "STOP"),
    (OPENED, "a</think>STOP", "a</think>", "STOP"),
    (OPENED, "a</thin STOP</think>\n\ncSTO", "a</thin STOP</think>\n\ncSTO", None),
    (MAY_OPEN, "<think>a STOP</think>b STOP c", "<think>a STOP</think>b ", "STOP"),
    (MAY_OPEN, "\n<think>STOP[/THINK]é STOP", "\n<think>STOP[/THINK]é ", "STOP"),
    (MAY_OPEN, "<th STOP", "<th ", "STOP"), (MAY_OPEN, "STOP <think>", "", "STOP"),
    (CHANNEL_SIGNS, "<|channel|>analysis<|message|>a STOP<|end|>b STOP c",
     "<|channel|>analysis<|message|>a STOP<|end|>b ", "STOP"),
    (CHANNEL_SIGNS, "<|channel|>final<|message|>a STOP b", "<|channel|>final<|message|>a ", "STOP"),
    (MAY_OPEN, "<thi", "<thi", None), (MAY_OPEN, "  ", "  ", None), (MAY_OPEN, "", "", None),
]  # fmt: skip


@pytest.mark.parametrize(("signs", "text", "wanted", "stop"), CASES)
def test_wherever_tokens_are_cut(
    signs: ReasoningSigns | None, text: str, wanted: str, stop: str | None
) -> None:
    draw, data = random.Random(5), text.encode()
    for number in range(60):
        ends = sorted({draw.randrange(len(data) + 1) for _ in range(number)} | {len(data)})
        stream, parts = AnswerText(["STOP", "never"], signs), []
        for start, end in zip([0, *ends], ends, strict=False):
            parts.append(stream.push(data[start:end]))
            if stream.stopped is not None:
                break
        parts.append(stream.finish())
        assert ("".join(parts), stream.stopped) == (wanted, stop)


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
ANSWER = "I end here.\n</think>\n\nWe go on. The end of it."


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An application whose model says ``ANSWER``, and the bias that makes it do so."""
    source = shared("cases") / "agents" / "parrot.py"
    spec = importlib.util.spec_from_file_location("parrot", source)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    parrot = module.Parrot({"answer": ANSWER}, ())
    path = tmp_path_factory.mktemp("parrot") / "parrot.gguf"
    parrot.write(str(path))
    with application(path, n_ctx=2048, template=TEMPLATE) as (app, _):
        yield app, parrot.bias("answer")


def test_on_the_routes_of_chats(made: Any) -> None:
    app, bias = made
    chat = {
        "messages": [{"role": "user", "content": "Hi."}], "max_tokens": 200, "logit_bias": bias,
    }  # fmt: skip
    body = {**chat, "stop": ["end"]}
    whole = post(app, "/v1/chat/completions", body).json()["choices"][0]
    assert whole["message"]["reasoning_content"] == "I end here."
    assert whole["message"]["content"].strip() == "We go on. The"
    content = ""
    for event in streamed(app, "/v1/chat/completions", {**body, "stream": True}):
        content += "".join(c["delta"].get("content") or "" for c in event["choices"])
    assert content.strip() == "We go on. The"
    blocks = post(app, "/v1/messages", {**chat, "stop_sequences": ["end"]}).json()
    assert [block["type"] for block in blocks["content"]] == ["thinking", "text"]
    assert (blocks["stop_reason"], blocks["stop_sequence"]) == ("stop_sequence", "end")
    text = post(app, "/v1/completions", {**body, "prompt": "x"}).json()["choices"][0]["text"]
    assert text == "I "  # a text has no reasoning
