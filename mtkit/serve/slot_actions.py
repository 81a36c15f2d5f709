"""What a request may do with a slot: save, restore and erase what it remembers."""

from __future__ import annotations

import asyncio
import os
import re
import time

from mtkit.serve.bodies.fields import MOST_BODY, read
from mtkit.serve.bodies.llama import Saved
from mtkit.serve.replies import Problem, as_json, body_of
from mtkit.serve.sending import while_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.served import Served
    from mtkit.serve.slot import Slot

    T = TypeVar("T")

_NAME = re.compile(r"(?!\.)[\w.+@=-]{1,200}")


async def act(request: Request, served: Served) -> Response:
    """Save, restore or erase what a slot remembers."""
    action = request.query_params.get("action", "")
    number = request.path_params["slot"]
    if action == "erase":
        erased, _ = await _done(request, served, number, lambda slot: slot.erase())
        return as_json({"id_slot": number, "n_erased": erased})
    if action not in ("save", "restore"):
        raise Problem(400, "action: is not save, restore or erase", field="action")
    asked = read(Saved, await body_of(request, MOST_BODY), served.unknown)
    path = _path(served, asked.filename)
    saves = action == "save"
    (tokens, size), took = await _done(
        request, served, number, lambda slot: slot.save(path) if saves else slot.restore(path)
    )
    return as_json(
        {
            "id_slot": number,
            "filename": asked.filename,
            "n_saved" if saves else "n_restored": tokens,
            "n_written" if saves else "n_read": size,
            "timings": {f"{action}_ms": took},
        }
    )


def _path(served: Served, name: str) -> str:
    folder = served.settings.slot_save_path
    if folder is None:
        raise Problem(501, "start the server with --slot-save-path to save slots")
    if not _NAME.fullmatch(name):
        raise Problem(
            400, "filename: is not the name of a file, without a folder", field="filename"
        )
    return os.path.join(folder, name)


async def _done(
    request: Request, served: Served, number: int, work: Callable[[Slot], T]
) -> tuple[T, float]:
    """Have something done once a slot is free; returns the result, and the milliseconds."""

    def timed(slot: Slot) -> tuple[Any, float]:
        begun = time.perf_counter()
        return work(slot), round(1e3 * (time.perf_counter() - begun), 3)

    future = asyncio.wrap_future(served.scheduler.errand(number, timed))
    found: tuple[T, float] = await while_there(request.receive, future)
    return found
