"""What is drawn under a JSON schema is valid by jsonschema, or the schema is refused by name; those
of pydantic, zod and OpenAI's strict mode are taken.
"""

from __future__ import annotations

import datetime
import enum
import json
import uuid
from collections.abc import Iterator
from typing import Annotated, Any, Literal, Optional, Union

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_models import tiny
from schema_answers import Drawer, validator
from support import reference

from mtkit.errors import MtkitError
from mtkit.llama import Grammar, LoadSettings, Model, check_schema
from mtkit.llama.schema_pattern import FORMAT_PATTERNS

NAMES = {"ä/b": {"type": "integer"}, 'a"b': {"const": None}, "$ref": {"type": "boolean"}}
TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/tree"}},
    "required": ["v"],
}
TAGGED = [
    {"type": "object", "properties": {"k": {"const": k}, "x": {"type": t}}, "required": ["k", "x"]}
    for k, t in (("a", "integer"), ("b", "string"))
]
TAKEN: list[Any] = [
    True, {}, {"type": "object"}, {"type": "array"}, {"type": ["null", "boolean", "integer"]},
    {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991},
    {"type": "integer", "minimum": 1, "maximum": 120}, {"type": "integer", "exclusiveMinimum": 0},
    {"type": "number", "minimum": -1.5, "exclusiveMaximum": 2.25}, {"exclusiveMaximum": -7},
    {"type": "number", "exclusiveMinimum": 0}, {"type": "integer", "multipleOf": 7},
    {"$schema": "http://json-schema.org/draft-04/schema#", "type": "number", "minimum": 3,
     "exclusiveMinimum": True},
    {"type": "integer", "format": "int32"}, {"type": "integer", "format": "int64", "minimum": 5},
    {"type": "string", "minLength": 3, "maxLength": 5}, {"type": "string", "pattern": "\\S"},
    {"type": "string", "pattern": "^[a-z]{2,}\\d$", "maxLength": 6}, {"pattern": "(ab|c)+$"},
    {"type": "string", "pattern": "^[^a]", "format": "date"},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "null"}, {"type": "string"}], "items": False},
    {"type": "array", "prefixItems": [{"const": 1}], "items": {"type": "null"}, "minItems": 2},
    {"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "null"}],
     "additionalItems": {"type": "integer"}, "type": "array"},
    {"type": "object", "properties": NAMES, "required": list(NAMES)},
    {"type": "object", "properties": NAMES, "additionalProperties": {"type": "string"}},
    {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "minProperties": 1},
    {"type": "object", "properties": {"xa": {"minimum": 5}},
     "patternProperties": {"^x": {"type": "integer"}}, "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 2},
    {"type": "object", "properties": {"a": {}, "b": {}}, "minProperties": 1},
    {"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"minimum": 3}},
    {"type": "object", "propertyNames": {"pattern": "^[a-c]*$"}, "minProperties": 1},
    {"propertyNames": {"type": "string", "enum": ["a", "b"]}, "required": ["b"], "type": "object"},
    {"type": "integer", "minimum": -(1 << 63), "maximum": (1 << 63) - 1}, {"maximum": 3.4e38},
    {"type": "object", "required": ["z"], "properties": {"a": {"type": "null"}}},
    {"const": {"a": [1, 2.5, None, "x\ny"]}}, {"enum": ["a", 1, None, [], {"b": True}]},
    {"type": "string", "enum": [1, "a", "é😀"]}, {"const": 3, "type": "integer"},
    {"anyOf": [{"type": "integer"}, {"type": "string", "maxLength": 2}]},
    {"anyOf": [{"type": "integer"}, {"minimum": 3}], "type": "number"},
    {"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]},
               {"properties": {"b": {"type": "null"}}}], "type": "object"},
    {"allOf": [{"minimum": 3}, {"maximum": 9}], "type": "integer"},
    {"oneOf": [{"type": "integer"}, {"type": "string"}]}, {"oneOf": [{"const": 1}, {"const": 2}]},
    {"oneOf": TAGGED, "discriminator": {"propertyName": "k"}},
    {"oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
     "$defs": dict(zip("ab", TAGGED, strict=True))},
    {"$ref": "#/$defs/tree", "$defs": {"tree": TREE}}, {"properties": {"c": {"$ref": "#"}}},
    {"$ref": "#/$defs/a~1b%25", "$defs": {"a/b%": {"type": "null"}}},
    {"$ref": "#/$defs/n", "minimum": 4, "$defs": {"n": {"type": "integer", "maximum": 6}}},
    {"type": "string", "title": "x", "description": "y", "default": 3, "examples": [1],
     "deprecated": True, "x-of-ours": 1, "contentEncoding": "base64", "uniqueItems": False},
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": ["integer", "null"]}},
     "required": ["a", "b"], "additionalProperties": False},
    *({"type": "string", "format": name} for name in FORMAT_PATTERNS),
]  # fmt: skip
REFUSED: list[tuple[Any, str]] = [
    ({"type": "array", "uniqueItems": True}, "uniqueItems"), ({"not": {"const": 1}}, "not"),
    ({"if": {}, "then": {}}, "if"), ({"contains": {}}, "contains"), ({"else": False}, "else"),
    ({"dependentRequired": {"a": ["b"]}}, "dependentRequired"), ({"minimun": 3}, "minimun"),
    ({"propertyNames": {"maxLength": 3}}, "propertyNames"), ({"nullable": True}, "nullable"),
    ({"unevaluatedProperties": False}, "unevaluatedProperties"), ({"$dynamicRef": "#"}, "$dynamic"),
    ({"type": "string", "format": "nonsense"}, 'the format "nonsense"'),
    ({"type": "string", "format": "unknown"}, 'the format "unknown"'),
    ({"multipleOf": 0.01}, "multipleOf 0.01"), ({"minimum": 1e300}, "minimum beyond"),
    ({"maximum": -1e300}, "maximum beyond"), ({"propertyNames": False}, "propertyNames"),
    ({"multipleOf": 3, "allOf": [{"maximum": 2}]}, "multipleOf beside allOf"),
    ({"const": 1 << 60}, "a number beyond"), ({"enum": ["\x01"]}, "a control character"),
    ({"minProperties": 2}, "minProperties above"), ({"$schema": "https://x.y/z"}, "a dialect"),
    ({"$ref": "https://x.y/z"}, "the $ref https://x.y/z"), ({"$ref": "#name"}, "the $ref #name"),
    ({"$defs": {"a": {"$id": "x", "type": "null"}}, "$ref": "#/$defs/a"}, "$id"),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, "oneOf of schemas"),
    ({"properties": {"a": {}, "b": {}}, "additionalProperties": {}, "maxProperties": 1},
     "min/maxProperties"), ({"additionalItems": False}, "additionalItems"),
    ({"patternProperties": {"a": {}, "b": {}}}, "not disjoint"),
    ({"oneOf": [{"type": "null"}], "anyOf": [{"type": "null"}]}, "oneOf beside anyOf"),
    ({"x-guidance": {"lenient": True}, "contains": {}}, "contains"),
]  # fmt: skip
NONE: list[tuple[Any, str]] = [
    ({"type": {"x": 1}}, 'type {"x": 1} is none of'), ({"properties": 5}, "is not an object"),
    ({"enum": []}, "enum is empty"), ({"anyOf": []}, "anyOf is empty"),
    ({"required": [[]]}, "required is not an array of strings"), ({"$ref": "#"}, "leads back"),
    ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, "leads back"),
    ({"$ref": "#/$defs/n", "$defs": {"n": {**TREE, "required": ["next"], "properties": {
        "next": {"$ref": "#/$defs/n"}}}}}, "leads back to itself without an end"),
    ({"$ref": "#/$defs/n"}, "names nothing"), ([], "is neither an object nor true"),
    ({"const": 1, "type": "string"}, "no value satisfies it"), (False, "nothing follows false"),
    ({"anyOf": [{"type": "integer"}], "type": "string"}, "no value satisfies it"),
    ({"$ref": "#/$defs/a", "type": "string", "$defs": {"a": {"type": "null"}}}, "no value"),
    ({"maxLength": 100_001}, "is not a number of 0 to 100000"), ({"minItems": -1}, "is not a"),
    ({"minLength": 5, "maxLength": 2}, "minLength 5 is more than maxLength 2"),
    ({"minimum": "3"}, "minimum is not a number"), ({"multipleOf": 0}, "multipleOf is not above"),
    ({"type": "integer", "multipleOf": 5, "minimum": 6, "maximum": 9}, "no multiple of 5"),
    ({"type": "integer", "minimum": 3, "maximum": 2}, "no value satisfies it"),
    ({"properties": {"\ud800": {}}}, "half a character"), ({"const": "\udc00"}, "half a character"),
    ({"exclusiveMinimum": True}, "there is no minimum"),
]  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    reference("llama_cpp")
    with Model(str(tiny()), LoadSettings()) as found:
        yield found


def hold(model: Model, schema: Any, count: int, seed: int = 0) -> int:
    """See that answers are valid; returns how many ended."""
    judge = validator(schema)
    ended = 0
    for text in Drawer(model, seed).answers(schema, count):
        judge.validate(json.loads(text))
        ended += 1
    return ended


@pytest.mark.parametrize("schema", TAKEN, ids=lambda one: json.dumps(one)[:50])
def test_answers_are_valid(model: Model, schema: Any) -> None:
    assert hold(model, schema, 30) > 10


@pytest.mark.parametrize(("schema", "named"), REFUSED, ids=lambda one: json.dumps(one)[:50])
def test_what_is_not_enforced_is_refused_by_name(schema: Any, named: str) -> None:
    reference("llguidance")
    inner = {"properties": {"a/b": {"items": schema}}}
    for whole, place in ((schema, ""), (inner, " at #/properties/a~1b/items")):
        if place and named in ("$id", "a dialect", "leads back"):
            continue
        with pytest.raises(MtkitError) as caught:
            check_schema(json.dumps(whole))
        assert caught.value.exit_code == 4
        if "$ref" not in schema:
            assert str(caught.value).startswith(f"JSON schema{place}")
        assert named in str(caught.value)


@pytest.mark.parametrize(("schema", "said"), NONE, ids=lambda one: json.dumps(one)[:50])
def test_what_is_none_says_why(schema: Any, said: str) -> None:
    reference("llguidance")
    with pytest.raises(MtkitError, match="JSON schema") as caught:
        check_schema(json.dumps(schema))
    assert said in str(caught.value)


@pytest.mark.parametrize("text", [
    "", "[", "NaN", '{"const": Infinity}', '{"const": 1e999}', '{"multipleOf": 1e999}', "[" * 9999,
    "1", "[[]]",
])  # fmt: skip
def test_texts_that_are_none(text: str) -> None:
    with pytest.raises(MtkitError, match="JSON"):
        check_schema(text)


@pytest.mark.parametrize("count", [30, 200, 1000, 5000])
def test_schemas_in_each_other(count: int) -> None:
    """llguidance follows them on the stack: what is too deep for it ends the process."""
    reference("llguidance")
    schemas: list[Any] = [{"type": "null"}] * 4
    for _ in range(count):
        schemas[0] = {"properties": {"a": schemas[0]}}
        schemas[1] = {"allOf": [{"type": "object"}, schemas[1]]}
    chain = {f"d{n}": {"properties": {"a": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(count)}
    schemas[2] = {"$ref": "#/$defs/d0", "$defs": {**chain, f"d{count}": {"type": "null"}}}
    both = {f"d{n}": {"allOf": [{"type": "object"}, {"$ref": f"#/$defs/d{n + 1}"}]}
            for n in range(count)}  # fmt: skip
    schemas[3] = {"$ref": "#/$defs/d0", "$defs": {**both, f"d{count}": {"type": "object"}}}
    for schema in schemas[2:] if count > 300 else schemas:
        if count == 30:
            check_schema(json.dumps(schema)) if schema is not schemas[1] else None
        else:
            with pytest.raises(MtkitError, match="nested"):
                check_schema(json.dumps(schema))


numbers = st.integers(-30, 30) | st.sampled_from([0.5, -2.25, 10.75, 1e-3, 100, -0.001])
bounds = st.fixed_dictionaries({"type": st.sampled_from(["integer", "number"])}, optional={
    "minimum": numbers, "maximum": numbers, "exclusiveMinimum": numbers,
    "exclusiveMaximum": numbers, "multipleOf": st.integers(1, 20),
})  # fmt: skip
lengths = st.fixed_dictionaries({"type": st.just("string")}, optional={
    "minLength": st.integers(0, 4), "maxLength": st.integers(0, 9),
    "pattern": st.sampled_from(["a", "^a", "b$", "^[a-c]*$", "\\d\\w", "[^x]{2}", "^(a|bc)?$"]),
    "format": st.sampled_from(sorted(FORMAT_PATTERNS)),
})  # fmt: skip
values = st.sampled_from([None, True, False, 0, 1, 1.5, "a", "", [], [1], {}, {"a": 1}])


def containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(st.sampled_from(["a", "b", "xy"]), inner, max_size=3)
    parts = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        st.fixed_dictionaries({}, optional={
            "type": st.sampled_from(["object", "array", "string", ["object", "null"]]),
            "properties": named, "required": st.lists(st.sampled_from("abc"), max_size=2),
            "additionalProperties": inner, "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 3),
            "patternProperties": st.dictionaries(st.sampled_from(["^x", "b"]), inner, max_size=2),
        }),
        st.fixed_dictionaries({}, optional={
            "type": st.sampled_from(["array", ["array", "integer"]]), "items": inner,
            "prefixItems": parts, "minItems": st.integers(0, 2), "maxItems": st.integers(0, 3),
        }),
        st.fixed_dictionaries({}, optional={
            "anyOf": parts, "oneOf": parts, "allOf": parts, "const": values,
            "enum": st.lists(values, min_size=1, max_size=3), "type": st.sampled_from(
                ["object", "integer", "string"]), "$ref": st.sampled_from(["#", "#/$defs/d"]),
            "properties": named, "minimum": numbers,
        }),
    )  # fmt: skip


schemas = st.recursive(bounds | lengths | st.booleans() | st.just({}), containers, max_leaves=8)
INSTANCES = [
    None, True, 0, 1, 7, -3, 2.5, 10**20, "", "a", "ab", "2024-02-29", [], [1], [None, "a"],
    [[], {}], {}, {"a": 1}, {"a": None, "b": "x"}, {"b": [1]}, {"xy": {"a": 1}}, {"c": 1, "d": 2},
]  # fmt: skip


@given(schema=schemas, definition=schemas, seed=st.integers(0, 99))
@settings(deadline=None, max_examples=150)
def test_drawn_schemas(model: Model, schema: Any, definition: Any, seed: int) -> None:
    whole = {**schema, "$defs": {"d": definition}} if isinstance(schema, dict) else schema
    text = json.dumps(whole)
    try:
        grammar = Grammar(model, schema=text)
    except MtkitError as error:
        assert error.field.startswith("JSON schema")
        return
    judge, drawer = validator(whole), Drawer(model, seed)
    for instance in INSTANCES:
        if drawer.takes(grammar, json.dumps(instance)):
            judge.validate(instance)
    for answer in drawer.answers(whole, 4):
        judge.validate(json.loads(answer))


@pytest.fixture(scope="module")
def drawer() -> Iterator[Drawer]:
    reference("llama_cpp")
    with Model(str(tiny()), LoadSettings()) as found:
        yield Drawer(found, 1)


def models() -> dict[str, Any]:
    pydantic = reference("pydantic")
    field = pydantic.Field

    class Color(enum.Enum):
        red = "red"
        blue = "blue"

    class Cat(pydantic.BaseModel):
        kind: Literal["cat"]
        lives: int = field(ge=1, le=9)

    class Dog(pydantic.BaseModel):
        kind: Literal["dog"]
        name: Annotated[str, field(min_length=1, max_length=5)]

    class Bounds(pydantic.BaseModel):
        age: int = field(ge=0, le=130)
        part: float = field(gt=0, lt=1)
        even: int = field(multiple_of=2)
        tags: list[str] = field(min_length=1, max_length=2)
        code: str = field(pattern=r"^[A-Z]{2}\d{2}$")

    class Kinds(pydantic.BaseModel):
        """Of everything one."""

        color: Color
        day: datetime.date
        when: datetime.datetime
        key: uuid.UUID
        maybe: Optional[int] = None  # noqa: UP045  what pydantic is given in Python 3.9's way
        either: Union[int, bool, None]
        pair: tuple[int, str]
        by_name: dict[str, bool]

    class Owner(pydantic.BaseModel):
        pet: Annotated[Union[Cat, Dog], field(discriminator="kind")]
        pets: list[Union[Cat, Dog]]

    class Tree(pydantic.BaseModel):
        v: int
        next: Optional[Tree] = None  # noqa: UP045
        rest: list[Tree] = []

    Tree.model_rebuild(_types_namespace={"Tree": Tree, "Optional": Optional})

    class Strict(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(extra="forbid")
        steps: list[Cat]
        answer: str

    return {one.__name__: one for one in (Bounds, Kinds, Owner, Strict, Tree)}


@pytest.mark.parametrize("name", ["Bounds", "Kinds", "Owner", "Strict", "Tree"])
def test_pydantic(drawer: Drawer, name: str) -> None:
    model = models()[name]
    ended = 0
    for text in drawer.answers(model.model_json_schema(), 40):
        model.model_validate_json(text)
        ended += 1
    assert ended > 10


SAFE = {"type": "integer", "minimum": -9007199254740991, "maximum": 9007199254740991}


def closed(**properties: Any) -> dict[str, Any]:
    """Return an object as zod and OpenAI's strict mode write it."""
    return {"type": "object", "properties": properties, "required": list(properties),
            "additionalProperties": False}  # fmt: skip


ZOD: dict[str, Any] = {
    "int": closed(n=SAFE),
    "positive": closed(n={"type": "integer", "exclusiveMinimum": 0, "maximum": 9007199254740991}),
    "float32": {"type": "number", "minimum": -3.4028234663852886e38,
                "maximum": 3.4028234663852886e38},
    "names": {"type": "object", "propertyNames": {"type": "string", "enum": ["a", "b"]},
              "additionalProperties": SAFE, "required": ["a", "b"]},
    "starts": {"type": "string", "format": "starts_with", "pattern": "^ab.*"},
    "base64": {"type": "string", "format": "base64", "contentEncoding": "base64",
               "pattern": "^(?:[0-9a-zA-Z+/]{4})*(?:[0-9a-zA-Z+/]{2}==|[0-9a-zA-Z+/]{3}=)?$"},
    "record": {"type": "object", "propertyNames": {"type": "string"},
               "additionalProperties": {"type": "number"}},
    "optional": {**closed(a={"type": "string"}, b=SAFE), "required": ["a"]},
    "nullable": closed(x={"anyOf": [{"type": "string"}, {"type": "null"}]}),
    "strict": closed(x={"type": ["string", "null"]}, kind={"type": "string", "enum": ["a", "b"]}),
    "tuple": {"type": "array", "prefixItems": [{"type": "string"}, SAFE]},
    "tuple of draft 7": {"type": "array", "minItems": 2, "maxItems": 2,
                         "items": [{"type": "string"}, {"type": "number"}]},
    "union": {"oneOf": [closed(type={"const": "a", "type": "string"}, x=SAFE),
                        closed(type={"const": "b", "type": "string"}, y={"type": "boolean"})]},
    "lazy": closed(name={"type": "string"}, children={"type": "array", "items": {"$ref": "#"}}),
    "texts": closed(email={"type": "string", "format": "email",
                           "pattern": "^[a-z]+@[a-z]+\\.[a-z]{2,4}$"},
                    url={"type": "string", "format": "uri"},
                    id={"type": "string", "format": "uuid"},
                    at={"type": "string", "format": "date-time"}),
    "never": {**closed(a=SAFE), "additionalProperties": {"not": {}}},
}  # fmt: skip


@pytest.mark.parametrize("name", ZOD)
@pytest.mark.parametrize("draft", ["", "draft-07/schema#", "draft/2020-12/schema"])
def test_zod(drawer: Drawer, name: str, draft: str) -> None:
    schema = ZOD[name]
    if draft:
        schema = {"$schema": f"http{'s' * ('2020' in draft)}://json-schema.org/{draft}", **schema}
    if name == "tuple of draft 7" and draft != "draft-07/schema#":
        pytest.skip("its items are an array")
    judge = validator(schema)
    ended = 0
    for text in drawer.answers(schema, 30):
        judge.validate(json.loads(text))
        ended += 1
    assert ended > 10
