"""``/lora-adapters``: the LoRA adapters of the model, and what they are multiplied with.

Source: llama.cpp, tools/server/README.md.
"""

from __future__ import annotations

import asyncio
import os

import msgspec

from mtkit.llm.adapters import named
from mtkit.serve.bodies.fields import MOST_BODY, misread
from mtkit.serve.bodies.llama import Scale
from mtkit.serve.replies import as_json, body_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.served import Served


async def told(_: Request, served: Served) -> Response:
    """Return the adapters."""
    files = [os.path.basename(named(text)[0]) for text in served.settings.lora]
    scales = served.model.adapter_scales
    return as_json([
        {"id": place, "path": file, "scale": scale}
        for place, (file, scale) in enumerate(zip(files, scales, strict=True))
    ])  # fmt: skip


async def scaled(request: Request, served: Served) -> Response:
    """Set the scales of adapters, for all answers from now on; the others get 0."""
    body = await body_of(request, MOST_BODY, list)
    try:
        asked = msgspec.convert(body, list[Scale])
    except msgspec.ValidationError as error:
        raise misread(str(error)) from None
    scales = {one.id: one.scale for one in asked}
    await asyncio.wrap_future(served.scheduler.scale_adapters(scales))
    return as_json({"success": True})
