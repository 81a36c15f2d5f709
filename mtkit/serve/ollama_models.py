"""Ollama's routes about models: ``/api/tags``, ``/api/show``, ``/api/ps``, ``/api/version``.

Nothing is downloaded, made or deleted here: ``/api/pull`` succeeds for a model that is there, and
what would change models is refused.

Source: Ollama, docs/api.md and api/types.go.
"""

from __future__ import annotations

import hashlib
import math
import os
import time
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from mtkit.inspection.gguf import file_type_name
from mtkit.serve.model import run_in_thread
from mtkit.serve.ollama import OllamaReply, timestamp
from mtkit.serve.reply import Problem, json_response
from mtkit.serve.request import read_body, read_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.requests import Request

    from mtkit.serve.pool import ModelPool, PooledModel


API_VERSION = "0.13.0"
"""The version of Ollama whose routes these are; clients ask for it to know what they may use."""
_HEAD_BYTES = 1 << 20
_FOREVER = 100 * 365 * 86_400
"""Seconds: how long Ollama says that a model stays which is never unloaded."""
_UNITS = ((1e12, "T"), (1e9, "B"), (1e6, "M"), (1e3, "K"))


class OllamaShow(Struct, kw_only=True):
    """A body of ``/api/show``."""

    model: str = ""
    name: str = ""
    verbose: bool = False


class OllamaPull(Struct, kw_only=True):
    """A body of ``/api/pull``."""

    model: str = ""
    name: str = ""
    stream: bool = True
    insecure: bool = False


async def tags(_: Request, pool: ModelPool) -> Response:
    """List the models, in Ollama's shape."""
    return json_response({"models": [_card(model) for model in pool.models]})


async def loaded(_: Request, pool: ModelPool) -> Response:
    """List the models that are loaded, in Ollama's shape."""
    rows = []
    for model in pool.models:
        if model.served is None:
            continue
        seconds = model.seconds_left
        ends = time.time() + (_FOREVER if math.isinf(seconds) else seconds)
        card = _card(model)
        del card["modified_at"]
        rows.append({
            **card, "size": model.n_bytes + model.n_bytes_on_gpu, "size_vram": model.n_bytes_on_gpu,
            "expires_at": timestamp(ends), "context_length": model.served.scheduler.n_slot,
        })  # fmt: skip
    return json_response({"models": rows})


async def version(_: Request, __: ModelPool) -> Response:
    """Return the version of Ollama whose routes these are."""
    return json_response({"version": API_VERSION})


async def show(request: Request, pool: ModelPool) -> Response:
    """Describe a model, in Ollama's shape."""
    fields = read_body(OllamaShow, await read_json(request), pool.unknown)
    name = fields.model or fields.name
    model = pool.find(name) or (pool.first if len(pool.models) == 1 else None)
    if model is None:
        raise Problem(404, f"model '{name[:100]}' not found")
    metadata = model.header.file.metadata
    values = {key: _plain(metadata[key], whole=fields.verbose) for key in metadata}
    values["general.parameter_count"] = _parameters(model)
    return json_response({
        "license": _text(metadata.get("general.license")),
        "modelfile": f"# {model.name} is served by mtkit\nFROM {os.path.basename(model.path)}\n",
        "parameters": "",
        "template": model.template,
        "details": _details(model),
        "model_info": values,
        "capabilities": await run_in_thread(lambda: _capabilities(model)),
        "modified_at": _modified(model),
        **({"tensors": _tensors(model)} if fields.verbose else {}),
    })  # fmt: skip


async def pull(request: Request, pool: ModelPool) -> Response:
    """Say whether a model is there; nothing is downloaded."""
    fields = read_body(OllamaPull, await read_json(request), pool.unknown)
    name = fields.model or fields.name
    if pool.find(name) is None:
        names = ", ".join(model.name for model in pool.models)
        what = f"model '{name[:100]}' is not here, and nothing is downloaded; there is {names}"
        raise Problem(404, what)
    if not fields.stream:
        return json_response({"status": "success"})
    lines = [{"status": "pulling manifest"}, {"status": "success"}]
    body = b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
    return Response(body, media_type=OllamaReply.media_type)


async def refuse(_: Request, __: ModelPool) -> Response:
    """Refuse what would make, change or delete a model."""
    what = "the models of this server are those that it was started with (mtkit serve --model)"
    raise Problem(501, what)


def _card(model: PooledModel) -> dict[str, Any]:
    return {
        "name": model.name,
        "model": model.name,
        "modified_at": _modified(model),
        "size": sum(len(file.data) for file in model.header.files),
        "digest": _digest(model),
        "details": _details(model),
    }


def _modified(model: PooledModel) -> str:
    return timestamp(os.stat(model.path).st_mtime)


def _digest(model: PooledModel) -> str:
    """Return what tells a file from others: of its size and its head, as reading all takes long."""
    file = model.header.file
    digest = hashlib.sha256(b"%d " % len(file.data))
    digest.update(file.data[: min(file.data_offset, _HEAD_BYTES)])
    return digest.hexdigest()


_SENSES = {"image": "vision", "audio": "audio"}


def _capabilities(model: PooledModel) -> list[str]:
    if not model.generates:
        return ["embedding"]
    form = model.form
    names = ["completion", "tools"]  # where the template knows no tools, mtkit describes them
    if form is not None and (form.thought or form.channels):
        names.append("thinking")
    if model.fills_gaps:
        names.append("insert")
    return [*names, *(_SENSES[kind] for kind in model.inputs)]


def _parameters(model: PooledModel) -> int:
    return sum(tensor.n_elements for tensor in model.header.tensors)


def _details(model: PooledModel) -> dict[str, Any]:
    count, file = _parameters(model), model.header.file
    least, unit = next(((least, unit) for least, unit in _UNITS if count >= least), (1.0, ""))
    family = _text(file.metadata.get("general.architecture"))
    return {
        "parent_model": "",
        "format": "gguf",
        "family": family,
        "families": [family],
        "parameter_size": f"{count / least:.4g}{unit}",
        "quantization_level": file_type_name(file) or "unknown",
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _plain(value: Any, *, whole: bool) -> Any:
    """Return a value for JSON; long lists are null, as in Ollama, unless all is asked for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, (str, int, float)):
        return value
    return [_plain(part, whole=True) for part in value] if whole else None


def _tensors(model: PooledModel) -> list[dict[str, Any]]:
    return [
        {"name": tensor.name, "type": tensor.type.name, "shape": list(tensor.shape)}
        for tensor in model.header.tensors
    ]
