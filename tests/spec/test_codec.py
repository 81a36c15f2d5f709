"""Every record goes through JSON and comes back equal; anything else is a clear error."""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import TESTS

from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import fields
from mtkit.errors import FormatError, MtkitError, UnsupportedError
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    Padding,
    SpecialIds,
    TokenizerSpec,
    Truncation,
    Vocabulary,
    codec,
    models,
    normalizers,
    post_processors,
    text,
)
from mtkit.spec.vocabulary import Spelling

if TYPE_CHECKING:
    from mtkit.base.record import Record

PLAIN = {
    "bool": st.booleans(),
    "int": st.integers(-(1 << 40), 1 << 40),
    "float": st.floats(allow_nan=False),
    "str": st.text(st.characters(codec=None), max_size=6),
    "bytes": st.binary(max_size=6),
    "Numbers": st.lists(st.integers(0, 255), max_size=4).map(lambda v: Numbers.of("I", v)),
    "Pieces": st.lists(st.binary(max_size=3), max_size=4).map(Pieces.of),
    "object": st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.binary(max_size=4),
        lambda inside: (
            st.lists(inside, max_size=3)
            | st.lists(inside, max_size=3).map(tuple)
            | st.dictionaries(st.text(max_size=3) | st.just("$tuple"), inside, max_size=3)
        ),
        max_leaves=8,
    ),
}


def values_of(kind: codec.FieldType, depth: int) -> st.SearchStrategy[Any]:
    if kind.choices:
        values = st.sampled_from(sorted(kind.choices))
    elif kind.classes:
        classes = kind.classes
        if depth > 2:
            classes = tuple(c for c in classes if "Sequence" not in c.__name__)
        values = st.one_of([records(cls, depth + 1) for cls in classes])
    elif kind.item is not None:
        values = st.lists(values_of(kind.item, depth), max_size=2 if depth < 3 else 0).map(tuple)
    elif kind.items:
        values = st.tuples(*(values_of(item, depth) for item in kind.items))
    else:
        values = PLAIN[kind.name]
    if kind.optional:
        values = st.none() if depth > 3 else st.none() | values
    return values


def records(cls: type[Record], depth: int = 0) -> st.SearchStrategy[Any]:
    if cls is Vocabulary:
        return vocabularies
    kinds = codec.field_types(cls)
    return st.deferred(
        lambda: st.builds(cls, **{name: values_of(kind, depth) for name, kind in kinds.items()})
    )


vocabularies = st.lists(st.tuples(st.binary(max_size=3), st.floats(width=32)), max_size=4).map(
    lambda rows: Vocabulary(
        Pieces.of(piece for piece, _ in rows),
        Numbers.of("B", [1] * len(rows)),
        Numbers.of("f", [score for _, score in rows]),
    )
)
ALL_CLASSES = sorted(
    {cls for union in codec.UNIONS for cls in codec.union_members(union)}
    | {models.Merges, AddedToken, AddedTokens, SpecialIds, ChatTemplate, Padding, Truncation}
    | {Spelling},
    key=lambda cls: (cls.__module__, cls.__name__),
)


PINNED = [*ALL_CLASSES, TokenizerSpec, Vocabulary, post_processors.Slot]


def through_json(record: Record, *, brief: bool) -> Record:
    document = json.dumps(codec.encode(record, brief=brief), allow_nan=True)
    return codec.decode(json.loads(document), type(record))


@pytest.mark.parametrize("cls", ALL_CLASSES, ids=lambda cls: f"{cls.__module__}.{cls.__name__}")
def test_every_class_comes_back(cls: type[Record]) -> None:
    @given(records(cls), st.booleans())
    def holds(record: Record, brief: bool) -> None:
        assert through_json(record, brief=brief) == record

    holds()


@given(records(TokenizerSpec), st.booleans())
def test_a_whole_specification_comes_back(spec: TokenizerSpec, brief: bool) -> None:
    back = through_json(spec, brief=brief)
    assert back == spec
    assert back.name == spec.name  # hidden from equality, kept all the same


@given(records(TokenizerSpec), st.data())
def test_damaged_data_is_a_clear_error(spec: TokenizerSpec, data: st.DataObject) -> None:
    document = codec.encode(spec)
    place: Any = document
    while isinstance(place, (dict, list)) and place and data.draw(st.booleans()):
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else [0]))
        if not isinstance(place[key], (dict, list)):
            break
        place = place[key]
    if isinstance(place, dict) and place:
        key = data.draw(st.sampled_from(sorted(place)))
        place[key] = data.draw(st.sampled_from([None, 1, -1, "x", [], {}, [[]], 1.5, True]))
    with contextlib.suppress(MtkitError):
        codec.decode(document, TokenizerSpec)


def test_what_is_not_known_is_named() -> None:
    data = codec.encode(normalizers.Replace(text.Text("a"), "b"))
    with pytest.raises(UnsupportedError, match="'Rewrite'"):
        codec.decode({**data, "pattern": {"type": "Rewrite"}}, normalizers.Replace)
    with pytest.raises(UnsupportedError, match="'color'"):
        codec.decode({**data, "color": 1}, normalizers.Replace)
    with pytest.raises(FormatError, match="content: is missing"):
        codec.decode({"pattern": data["pattern"]}, normalizers.Replace)
    with pytest.raises(FormatError, match=r"pattern\.text: is 5, not str"):
        codec.decode({**data, "pattern": {"type": "Text", "text": 5}}, normalizers.Replace)


def test_nesting_is_bounded() -> None:
    data: dict[str, Any] = {"type": "Sequence", "steps": []}
    for _ in range(500):
        data = {"type": "Sequence", "steps": [data]}
    with pytest.raises(FormatError, match="nests deeper"):
        codec.decode(data, normalizers.Sequence)


def test_columns_can_be_kept_elsewhere() -> None:
    vocabulary = Vocabulary(Pieces.of([b"a", b"b"]), None, Numbers.of("f", [0.5, 1.5]))
    kept: list[Any] = []

    def keep(column: Any, path: str) -> int:
        kept.append(column)
        return len(kept) - 1

    data = codec.encode(vocabulary, brief=True, keep=keep)
    assert data == {"type": "Vocabulary", "pieces": {"ref": 0}, "scores": {"ref": 1}}
    assert codec.decode(data, Vocabulary, fetch=lambda ref, _: kept[ref]) == vocabulary
    with pytest.raises(FormatError, match="refers to Numbers, not Pieces"):
        codec.decode(data, Vocabulary, fetch=lambda ref, _: kept[1])


@pytest.mark.parametrize("union", codec.UNIONS)
def test_unions_are_those_of_the_type_checker(union: str) -> None:
    module = import_module(codec.UNIONS[union][0])
    declared: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == union:
            inside = node.value.slice
            declared = {ast.unparse(each) for each in inside.elts}
    assert declared == {cls.__name__ for cls in codec.union_members(union)}


def test_aliases_are_those_of_the_type_checker() -> None:
    source = inspect.getsource(import_module("mtkit.spec.pre_tokenizers"))
    declared = {
        ast.unparse(node.targets[0]): ast.unparse(node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
    }
    for name, alias in codec.TYPE_ALIASES.items():
        assert ast.unparse(ast.parse(alias, mode="eval")) == declared[name]


def test_defaults_are_those_of_files_written_before() -> None:
    """Brief files leave defaults out: one that changes would change what those files mean."""
    stored = json.loads((TESTS / "data" / "spec_defaults.json").read_text(encoding="utf-8"))
    assert len(stored) > 40
    for cls in PINNED:
        name = f"{cls.__module__.removeprefix('mtkit.')}.{cls.__name__}"
        now = {field: repr(getattr(cls, field)) for field in fields(cls) if hasattr(cls, field)}
        assert now == stored.pop(name, {}), (
            f"{name}: a default that files leave out stays; store new ones"
        )
    assert not stored


def test_fields_are_all_known() -> None:
    for cls in [*ALL_CLASSES, TokenizerSpec, Vocabulary]:
        assert tuple(codec.field_types(cls)) == fields(cls)
