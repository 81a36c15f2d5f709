"""Constrained answers of models that reason: first free, then held to the constraint; budgets."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from llm_models import parrot
from serving_http import server
from support import reference, shared

reference("llguidance")

ANSWERS = {
    "hello": "Hello there, friend.",
    "closed": "I think about it.\n</think>\n\nHello you.",
    "pieces": "We wonder, then we know.\n</think>\n\nGoodbye all.",
    "ends": "Only musing, and nothing else",
    "opened": "<think>\nHm, so.\n</think>\n\nWell then.",
    "seed": "<seed:think>Seeds grow.</seed:think>\nFine day.",
    "channel": "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant<|channel|>final"
    "<|message|>Good day.",
    "action": "Moving along.<|END_THINKING|><|START_TEXT|>Talk.",
    "loud": "Ponder it again.[BEGIN FINAL RESPONSE]\nSpoken.",
}
THOUGHTS = {
    "closed": "I think about it.", "pieces": "We wonder, then we know.",
    "ends": "Only musing, and nothing else", "opened": "Hm, so.", "seed": "Seeds grow.",
    "channel": "Let me see.", "action": "Moving along.", "loud": "Ponder it again.",
}  # fmt: skip
SCHEMA = {"type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"],
          "additionalProperties": False}  # fmt: skip
FORMAT = {"type": "json_schema", "json_schema": {"name": "made", "schema": SCHEMA}}
TOOL = {"type": "function", "function": {
    "name": "get_weather", "description": "d",
    "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo"]}},
                   "required": ["city"]},
}}  # fmt: skip
ASK = [{"role": "user", "content": "Hi."}]
TEMPLATES = {
    "Qwen3.5-4B": ("closed", "pieces", "ends"),
    "Qwen-Qwen3-0.6B": ("opened",),
    "ByteDance-Seed-OSS": ("seed",),
    "openai-gpt-oss-120b": ("channel",),
    "Cohere2MoE": ("action",),
    "Apriel-1.6-15b-Thinker-fixed": ("loud",),
}


def template(name: str, folder: Any) -> Any:
    import tarfile

    path = folder / f"{name}.jinja"
    with tarfile.open(shared("templates.tar.xz")) as archive:
        file = archive.extractfile(f"templates/{name}.jinja")
        assert file
        path.write_bytes(file.read())
    return path


@pytest.fixture(scope="module")
def model() -> tuple[Any, Any]:
    return parrot(ANSWERS, ("closed",))


@pytest.fixture(scope="module", params=TEMPLATES)
def served(
    request: pytest.FixtureRequest, model: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    file = template(request.param, tmp_path_factory.mktemp("templates"))
    with server(model[0], "-np", "1", "-c", "4096", "--template", file) as started:
        yield request.param, started.url


def chat(url: str, **body: Any) -> dict[str, Any]:
    """Return the one choice of a chat completion."""
    body = {"messages": ASK, "max_tokens": 200, **body}
    response = reference("httpx").post(f"{url}/v1/chat/completions", json=body, timeout=60)
    assert response.status_code == 200, response.text
    whole: dict[str, Any] = response.json()
    return {**whole["choices"][0]["message"], "finish": whole["choices"][0]["finish_reason"],
            "usage": whole["usage"]}  # fmt: skip


def test_the_constraint_begins_where_the_reasoning_ends(served: Any, model: Any) -> None:
    name, url = served
    for answer in TEMPLATES[name]:
        bias = {"logit_bias": model[1].bias(answer)}
        free = chat(url, **bias)
        assert free["finish"] == "stop"
        for asked, value in (
            ({"response_format": FORMAT}, '{"a":1}'),
            ({"grammar": 'root ::= "maybe so"'}, "maybeso"),
        ):
            found = chat(url, **asked, **bias)
            assert "".join(found["content"].split()) == value, (answer, found)
            assert found["reasoning_content"].strip() == THOUGHTS[answer], (answer, found)
            assert found["finish"] == "stop"
        forced = chat(url, tools=[TOOL], tool_choice="required", response_format=FORMAT, **bias)
        (call,) = forced["tool_calls"]
        assert json.loads(call["function"]["arguments"]) == {"city": "Oslo"}
        assert forced["reasoning_content"].strip() == THOUGHTS[answer]
        cut = chat(url, response_format=FORMAT, **bias, max_tokens=3)
        assert (cut["content"], cut["finish"]) == ("", "length")


def test_a_grammar_that_takes_the_first_token_rules_at_once(served: Any, model: Any) -> None:
    name, url = served
    bias = {"logit_bias": model[1].bias("hello")}
    off = {"chat_template_kwargs": {"enable_thinking": False}}
    found = chat(url, response_format=FORMAT, **off, **bias)
    if name in ("Qwen3.5-4B", "Qwen-Qwen3-0.6B", "Cohere2MoE"):  # they leave the reasoning out
        assert json.loads(found["content"]) == {"a": 1}
        assert not found.get("reasoning_content")


def test_tokens_of_the_reasoning_are_counted(served: Any, model: Any) -> None:
    name, url = served
    usage = chat(url, logit_bias=model[1].bias(TEMPLATES[name][0]))["usage"]
    count = usage["completion_tokens_details"]["reasoning_tokens"]
    assert 0 < count < usage["completion_tokens"]


@pytest.mark.parametrize("options", [(), ("--draft-lookup",)], ids=["plain", "drafting"])
def test_a_budget_counts_before_a_constrained_answer(
    model: Any, options: tuple[str, ...], tmp_path: Any
) -> None:
    file = template("Qwen3.5-4B", tmp_path)
    args = ("-np", "1", "-c", "4096", "--template", file, "--reasoning-budget", "4", *options)
    with server(model[0], *args) as started:
        bias = {"logit_bias": model[1].bias("loop")}
        found = chat(started.url, response_format=FORMAT, **bias)
        assert json.loads(found["content"]) == {"a": 1}
        assert found["reasoning_content"].split() == ["la"] * 8
        plain = chat(started.url, **bias, max_tokens=20)
        assert plain["reasoning_content"].split() == ["la"] * 8
        assert plain["content"] == "Hello you."


def test_generate_and_chat(model: Any, tmp_path: Any) -> None:
    from mtkit import generate
    from mtkit.commands.chat.screen import open_conversation
    from mtkit.settings import ChatSettings, SamplerSettings

    path, made = model
    schema, bias = (
        json.dumps(SCHEMA),
        tuple((int(token), value) for token, value in made.bias("closed").items()),
    )
    plain = generate("x", model=str(path), json_schema=schema, logit_bias=bias, n_predict=40)
    assert json.loads(plain.text) == {"a": 1}  # its template has no reasoning
    settings = ChatSettings(
        model=str(path), sampler=SamplerSettings(json_schema=schema, logit_bias=bias)
    )
    text = template("Qwen3.5-4B", tmp_path).read_text(encoding="utf-8")
    with open_conversation(settings, text, None) as dialogue:
        for _ in range(2):  # the second begins anew
            dialogue.messages.append({"role": "user", "content": "Hi."})
            for _ in dialogue.answer(60):
                pass
            answer = dialogue.messages[-1]
            assert json.loads(answer["content"]) == {"a": 1}
            assert answer["reasoning_content"] == "I think about it."


class Bytes:
    """A model whose tokens are bytes."""

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        return bytes((token_id,))

    def tokenize(self, text: bytes, **_: bool) -> list[int]:
        return list(text)


def test_what_a_token_leaves_to_the_answer_however_it_is_cut() -> None:
    from mtkit.llm.reasoning import OVER, Reasoning, ReasoningWatch

    chance, fake = random.Random(7), Bytes()
    for turn in range(300):
        is_open, blank = bool(turn % 2), chance.choice(("", "\n", "\n\n"))
        text = ("" if is_open else "<think>\n") + f"A <b></thin k.\n</think>{blank}"
        whole = (text + "{1}").encode()
        reasoning = Reasoning(is_open, "<think>", "</think>", f"\n</think>{blank}")
        watch: Any = ReasoningWatch(reasoning, fake)  # type: ignore[arg-type]
        cuts = sorted(chance.sample(range(1, len(whole)), k=chance.randrange(len(whole) - 1)))
        rests = b""
        for first, last in zip([0, *cuts], [*cuts, len(whole)], strict=True):
            if watch.phase == OVER:
                rests += whole[first:last]
                continue
            state, rest = watch.step(whole[first:last])
            watch.enter(state)
            watch.due.clear()  # the sign that is written comes from the text here
            rests += rest
        assert rests == b"{1}", whole


@pytest.mark.parametrize(
    ("said", "is_open", "wanted"),
    [
        ("abcdefgh", True, "abc>defgh"),
        ("ab>cdefgh", True, "ab>cdefgh"),
        ("(abcdefgh", False, "(abc>defgh"),
        ("abcdefgh", False, "abcdefgh"),
    ],
)
def test_what_closes_a_reasoning_is_put_in(said: str, is_open: bool, wanted: str) -> None:
    from mtkit.llm.reasoning import Reasoning, ReasoningWatch

    fake: Any = Bytes()
    watch = ReasoningWatch(Reasoning(is_open, "(", ">", ">", 3), fake)
    tokens, found = list(said.encode()), b""
    while tokens or watch.due:
        if watch.due:
            found += bytes((watch.take_due(),))
            continue
        token = tokens.pop(0)
        watch.follow(token)
        found += bytes((token,))
    assert found.decode()[: len(wanted)] == wanted
