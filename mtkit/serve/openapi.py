"""``/openapi.json``: what every route takes and answers, from the records that read the bodies."""

from __future__ import annotations

import re

import msgspec

from mtkit._version import __version__
from mtkit.serve.bodies.sampler import WithSampler
from mtkit.settings import SamplerSettings
from mtkit.settings.declaration import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

STATUSES = {
    400: "The request makes no sense.", 401: "The key is missing or wrong.",
    403: "Not under this name, or not from this page.", 413: "The body is too long.",
    429: "All slots and the queue are full.",
    501: "The server was started without it, or the model has nothing for it.",
    503: "The server is ending.",
}  # fmt: skip
"""What any route may answer besides 200; 500 is a fault in mtkit."""
_PARAMETER = re.compile(r"\{(\w+):(\w+)\}")
_TYPES = {"float": "number", "int": "integer", "str": "string", "bool": "boolean"}


def document(routes: Iterable[tuple[str, str, Any, Any]]) -> dict[str, Any]:
    """Return the description of routes, each of method, path, function and the body's record."""
    routes = list(routes)
    kinds = list(dict.fromkeys(body for *_, body in routes if body is not None))
    shown, schemas = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    bodies = dict(zip(kinds, shown, strict=True))
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, WithSampler):
            for name, one in table(SamplerSettings).items():
                schemas[kind.__name__]["properties"].setdefault(name, _setting(one))
    paths: dict[str, dict[str, Any]] = {}
    for method, path, answer, body in routes:
        made: dict[str, Any] = {
            "summary": answer.__doc__.partition("\n")[0],
            "responses": {
                str(status): {"description": text}
                for status, text in {200: "The answer.", 404: "Not there.", **STATUSES}.items()
            },
        }
        if body is not None:
            content = {"application/json": {"schema": bodies[body]}}
            made["requestBody"] = {"required": True, "content": content}
        if found := _PARAMETER.search(path):
            path = path.replace(found[0], f"{{{found[1]}}}")
            schema = {"type": "integer" if found[2] == "int" else "string"}
            made["parameters"] = [
                {"name": found[1], "in": "path", "required": True, "schema": schema}
            ]
        paths.setdefault(path, {})[method.lower()] = made
    keys = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "mtkit serve", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": keys},
        "security": [{}, {"bearer": []}, {"key": []}],
    }


def _setting(one: Any) -> dict[str, Any]:
    """Return the schema of a setting of the sampler."""
    if one.name == "logit_bias":
        bias = {"type": "number"}
        return {"type": "object", "additionalProperties": bias, "description": one.help}
    kinds = [_TYPES[kind] for kind in one.annotation.split(" | ") if kind in _TYPES]
    made: dict[str, Any] = {"type": [*kinds, "null"], "description": one.help}
    if one.name == "json_schema":
        made["type"] = ["string", "object", "null"]
    if one.low is not None:
        made |= {"minimum": one.low, "maximum": one.high}
    return made
