"""The settings of the sampler in a request.

They go by their names in docs/settings.md, which are llama.cpp's, too, and OpenAI's where that has
them.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.serve.bodies.fields import MOST_GRAMMAR, split
from mtkit.serve.replies import Problem
from mtkit.settings import SamplerSettings
from mtkit.settings.declaration import fitted, settings_of, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.serve.bodies.unknown import Unknown

_MOST_BIASES = 1024
_PAIR = 2
_DIGITS = 10
"""Of a number that can be an id."""
_SAMPLER = {alias: name for name, one in table(SamplerSettings).items() for alias in one.names}


class WithSampler(Struct, kw_only=True):
    """A body that may hold settings of the sampler, too."""


B = TypeVar("B", bound=WithSampler)


def read_with_sampler(
    kind: type[B], body: dict[str, Any], defaults: SamplerSettings, unknown: Unknown
) -> tuple[B, SamplerSettings]:
    """Return a body, and the sampler's settings in it.

    Args:
        kind: The body's record.
        body: The JSON object.
        defaults: What it does not say.
        unknown: What becomes of fields that are neither.

    Raises:
        Problem: As ``read``.
        UsageError: A setting of the sampler makes no sense.
    """
    found, rest = split(kind, body)
    unknown.see({name: value for name, value in rest.items() if name not in _SAMPLER})
    rest = {name: value for name, value in rest.items() if name in _SAMPLER}
    given = {_SAMPLER[name]: value for name, value in rest.items()}
    if type(given.get("top_k")) is int:
        given["top_k"] = max(given["top_k"], 0) if given["top_k"] >= -1 else given["top_k"]
    if type(given.get("top_n_sigma")) in (int, float):
        given["top_n_sigma"] = max(given["top_n_sigma"], 0)
    if given.get("grammar") == "":
        del given["grammar"]
    if type(given.get("seed")) is int:
        given["seed"] = _seed(given["seed"])
    if "logit_bias" in given:
        given["logit_bias"] = _biases(given["logit_bias"])
    schema = given.get("json_schema")
    if isinstance(schema, dict):
        given["json_schema"] = msgspec.json.encode(schema).decode()
    for name in ("grammar", "json_schema"):
        text = given.get(name)
        if isinstance(text, str) and len(text.encode("utf-8", "replace")) > MOST_GRAMMAR:
            raise Problem(400, f"{name}: has more than {MOST_GRAMMAR} bytes", field=name)
    try:
        made = settings_of(SamplerSettings, given)
    except UsageError as error:  # by the name that the request has
        error.field = next((n for n in rest if _SAMPLER[n] == error.field), error.field)
        raise
    changed = {name: getattr(made, name) for name in given}
    if given.keys() & {"grammar", "json_schema"}:
        changed = {"grammar": None, "json_schema": None, **changed}
    return found, replace(defaults, **changed)


def _seed(given: int) -> int | None:
    """Return the seed of a request: of 64 bits, as clients draw them, half count; -1: none."""
    return None if given == -1 else given % (1 << 32) if -(1 << 63) <= given < 1 << 64 else given


def _biases(given: Any) -> list[tuple[int | str, float]]:
    """Return ``logit_bias``: an object from ids or texts to numbers, or a list of such pairs.

    False and -100 are never, 100 and -100 beyond doubt.
    """
    what = f"is not an object from ids to numbers, or a list of pairs, of at most {_MOST_BIASES}"
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or len(pairs) > _MOST_BIASES:
        raise UsageError(what, field="logit_bias")
    found: list[tuple[int | str, float]] = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != _PAIR:
            raise UsageError(what, field="logit_bias")
        name, value = pair
        if isinstance(name, str) and name.isdecimal() and len(name) < _DIGITS:
            name = int(name)
        if type(name) not in (int, str) or not (type(value) in (int, float) or value is False):
            raise UsageError(what, field="logit_bias")
        never = value is False or value <= -100
        found.append((name, float("-inf") if never else fitted(value, float, "logit_bias")))
    return found
