"""What a request may ask for is counted before any of it is done."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import pytest
from support import reference

from mtkit.errors import ResourceError, UsageError
from mtkit.settings import SamplerSettings

LEAF = {"type": "string", "pattern": "^[a-z]{1,20}[0-9]+$"}


def tool(name: str, objects: int) -> dict[str, Any]:
    inner = {"type": "object", "properties": {f"q{n}": LEAF for n in range(12)}}
    parameters = {"type": "object", "properties": {f"p{n}": inner for n in range(objects)}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


@pytest.mark.parametrize("seed", range(6))
def test_the_schemas_of_all_tools_have_one_budget(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference("msgspec")
    import mtkit.llama
    from mtkit.serve.request import MOST_GRAMMAR, MOST_GRAMMARS
    from mtkit.serve.tool import Tools

    rng, compiled = Random(seed), []
    monkeypatch.setattr(mtkit.llama, "check_schema", compiled.append)
    tools = [tool(f"f{n}", rng.randint(1, 60)) for n in range(rng.randint(1, 40))]
    sizes = [len(json.dumps(one["function"]["parameters"])) for one in tools]
    fits = max(sizes) <= MOST_GRAMMAR and sum(sizes) <= MOST_GRAMMARS
    try:
        Tools(None, tools, "required")._force_call(SamplerSettings())
        assert fits
        assert len(compiled) == len(tools)
    except UsageError as error:
        assert not fits, error
        assert not compiled


def test_an_assertion_of_the_grammar_library_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    llguidance = reference("llguidance")
    from mtkit.llama.grammar import byte_vocabulary, compile_grammar

    class Matcher:
        def __init__(self, *_: object, **__: object) -> None:
            pass

        def is_error(self) -> bool:
            return True

        def get_error(self) -> str:
            return "panic: assertion failed: grammar.symbols.len() < u16::MAX as usize - 10"

    vocabulary = byte_vocabulary()
    monkeypatch.setattr(llguidance, "LLMatcher", Matcher)
    with pytest.raises(ResourceError, match="is too large or too deep"):
        compile_grammar(vocabulary, "start: /a/", "grammar")


@pytest.mark.parametrize(
    ("body", "passes"),
    [
        (json.dumps({f"u{n}": 1 for n in range(110_000)}), False),
        ("{" + ",".join(f'"u{n}" :1' for n in range(110_000)) + "}", False),
        (json.dumps([{"a": {"b": 1}}] * 60_000), False),
        (json.dumps({"prompt": json.dumps({f"u{n}": 1 for n in range(110_000)})}), True),
        (json.dumps({"prompt": '": ' * 110_000}), True),
        (json.dumps({"prompt": [1] * 200_000}), True),
    ],
)
def test_the_fields_of_a_body_are_counted(body: str, passes: bool) -> None:
    reference("starlette")
    from starlette.requests import Request

    from mtkit.serve.reply import Problem
    from mtkit.serve.request import read_bytes

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body.encode(), "more_body": False}

    async def read() -> bytes:
        scope = {"type": "http", "method": "POST", "headers": [], "path": "/"}
        return await read_bytes(Request(scope, receive))

    if passes:
        assert asyncio.run(read()) == body.encode()
        return
    with pytest.raises(Problem, match="more than 100000 fields"):
        asyncio.run(read())
