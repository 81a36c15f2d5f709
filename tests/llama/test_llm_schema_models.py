"""Schemas as pydantic, zod and OpenAI's strict mode write them are taken, and answers are read."""

from __future__ import annotations

import datetime  # noqa: TC003  pydantic reads the annotations
import enum
import json
import uuid  # noqa: TC003
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional, Union

import pytest
from llm_models import tiny
from schema_answers import Drawer, validator
from support import reference

from mtkit.llama import LoadSettings, Model

if TYPE_CHECKING:
    from collections.abc import Iterator


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
