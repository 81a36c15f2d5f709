"""What a tokenizer is called for most goes straight to the core, and says the same."""

from __future__ import annotations

import gc
import inspect
import pickle
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from support import FIXTURES

import mtkit
from mtkit.errors import UsageError
from mtkit.pipeline import Pipeline
from mtkit.tokenizer.tokenizer import Tokenizer

FILES = ("wordpiece/tokenizer.json", "bbpe-8k/tokenizer.json", "spm-unigram/tokenizer.model")
CALLED = ("encode_ids", "encode_array", "decode")
TEXTS = ("", "Hello, MNN!", "a\x00b", "你好 <unk> [CLS] <|endoftext|>", b"bytes", "x" * 5000)


@pytest.fixture(params=FILES)
def tokenizer(request: pytest.FixtureRequest) -> Tokenizer:
    """Return one whose engine is the core's."""
    pytest.importorskip("mtkit._native", reason="without the core, the pipeline encodes")
    return mtkit.load(FIXTURES / request.param)


def answer(function: Any, *args: Any, **flags: Any) -> Any:
    """Return what a call returns, or its error."""
    try:
        found = function(*args, **flags)
    except Exception as error:  # noqa: BLE001  compared
        return type(error), str(error)
    return list(found) if isinstance(found, memoryview) else found


def called(way: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield arguments that are right and wrong."""
    right: tuple[Any, ...] = ([], [0], [1, 2, 3], (4, 5), range(3), [2] * 300)
    wrong: tuple[Any, ...] = ([-1], [1 << 70], ["a"], [None])
    flags: list[dict[str, Any]] = [
        {"skip_special_tokens": True}, {"skip_special_tokens": False}, {"skip_special": True},
    ]  # fmt: skip
    if way != "decode":
        right, wrong = TEXTS, ("\ud800", b"\xff", 5, None, ["a"])
        flags = [
            {"add_special_tokens": False, "parse_special": True}, {"parse_special": None},
            {"parse_special": False, "add_special_tokens": True}, {"add_special": True},
            {"".join(["parse_", "special"]): True},
        ]  # fmt: skip
    for argument in (*right, *wrong):
        yield (argument,), {}
        for each in flags:
            yield (argument,), each
    yield (), {}
    yield (right[0], True), {}


@pytest.mark.parametrize("way", CALLED)
def test_a_direct_call_answers_as_the_way_around_it(tokenizer: Tokenizer, way: str) -> None:
    tokenizer.encode_ids("now there is an engine")
    direct = getattr(tokenizer, way)
    assert type(direct).__name__ == "DirectCall"
    around = direct.__wrapped__
    for args, flags in called(way):
        assert answer(direct, *args, **flags) == answer(around, *args, **flags), (args, flags)


@pytest.mark.parametrize("way", CALLED)
def test_the_first_call_answers_as_the_next(way: str) -> None:
    *same, too_many = called(way)
    for args, flags in same:
        fresh = mtkit.load(FIXTURES / FILES[0])
        first = answer(getattr(fresh, way), *args, **flags)
        assert first == answer(getattr(fresh, way), *args, **flags)
    with pytest.raises(TypeError, match=f"Tokenizer.{way}"):  # of which a method counts one more
        getattr(mtkit.load(FIXTURES / FILES[0]), way)(*too_many[0])


def test_the_parameters_are_those_of_the_method(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_ids("a")
    for way in CALLED:
        own = inspect.signature(getattr(tokenizer, way)).parameters
        said = inspect.signature(getattr(Tokenizer, way)).parameters
        pairs = [(each.name, each.kind, each.default) for each in own.values()]
        assert pairs == [(each.name, each.kind, each.default) for each in said.values()][1:]
        with pytest.raises(TypeError, match="takes 2 positional arguments but 3 were given"):
            getattr(tokenizer, way)("a", True)


def test_a_class_made_from_it_has_methods_of_its_own(tokenizer: Tokenizer) -> None:
    class Louder(Tokenizer):
        def encode_ids(self, text: Any, **options: Any) -> list[int]:
            return [*super().encode_ids(text, **options), 7]

    louder = Louder(tokenizer.spec)
    for _ in range(2):
        assert louder.encode_ids("a") == [*tokenizer.encode_ids("a"), 7]
        assert louder.decode([5, 6]) == tokenizer.decode([5, 6])


def test_a_copy_in_another_process_calls_an_engine_of_its_own(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode_ids("Hello, MNN!")
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode_ids("Hello, MNN!") == ids
    assert vars(copy)["encode_ids"].__wrapped__ is not vars(tokenizer)["encode_ids"].__wrapped__


def test_a_method_is_pickled_as_that(tokenizer: Tokenizer) -> None:
    pure = Tokenizer(tokenizer.spec, engine=Pipeline(tokenizer.spec))
    for each in (tokenizer, pure):
        ids = each.encode_ids("Hello, MNN!")
        for way, argument in (("encode_ids", "Hello, MNN!"), ("decode", ids)):
            method = getattr(each, way)
            copy = pickle.loads(pickle.dumps(method))
            assert copy(argument) == method(argument)
            assert (method.__name__, method.__doc__) == (way, getattr(Tokenizer, way).__doc__)


def test_an_interrupt_is_none_that_comes_again(tokenizer: Tokenizer) -> None:
    class Interrupted:
        def __index__(self) -> int:
            raise KeyboardInterrupt

    assert tokenizer.encode_ids("a")
    with pytest.raises(KeyboardInterrupt):
        tokenizer.decode([Interrupted()])  # type: ignore[list-item]
    assert tokenizer.decode([1]) is not None


def test_nobody_makes_or_changes_a_direct_call(tokenizer: Tokenizer) -> None:
    assert tokenizer.encode_ids("a")
    kind = type(tokenizer.encode_ids)
    with pytest.raises(TypeError, match="cannot create"):
        kind()
    with pytest.raises(TypeError, match="immutable type"):
        kind.__call__ = len


def test_a_tokenizer_is_freed_with_its_calls(tokenizer: Tokenizer) -> None:
    tokenizer = mtkit.load(FIXTURES / FILES[1])
    assert tokenizer.decode(tokenizer.encode_ids("a")) == "a"
    kept = weakref.ref(tokenizer), weakref.ref(tokenizer.engine)
    call = tokenizer.encode_ids
    counts = [sys.getrefcount(text := "some text"), sys.getrefcount(None)]
    for _ in range(100):
        call(text, parse_special=None)
    assert sys.getrefcount(text) == counts[0]
    assert abs(sys.getrefcount(None) - counts[1]) < 50
    del tokenizer
    gc.collect()
    assert kept[0]() is None
    assert call("still there")
    del call
    gc.collect()
    assert kept[1]() is None


def test_the_pipeline_is_called_as_it_is() -> None:
    spec = mtkit.load(FIXTURES / FILES[0]).spec
    tokenizer = Tokenizer(spec, engine=Pipeline(spec))
    assert tokenizer.encode_ids("Hello") == Pipeline(spec).encode_ids("Hello")
    assert tokenizer.encode_ids.__name__ == "encode_ids"
    with pytest.raises(UsageError, match="there is no id"):
        tokenizer.decode([1 << 40])
