"""``mtkit inspect --plan``: what running a model will take of memory."""

from __future__ import annotations

from mtkit.commands import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.memory_plan.limits import Limit
    from mtkit.memory_plan.plan import Plan


def show_plan(
    path: str, n_ctx: int | None, kv_type: str, gpu_layers: int, *, as_json: bool
) -> None:
    """Print the plan; on a terminal with units, in a pipe in bytes."""
    from mtkit.errors import UsageError
    from mtkit.llm.preflight import ModelHeader
    from mtkit.memory_plan.limits import limits
    from mtkit.memory_plan.plan import PlanSettings

    if n_ctx is not None and n_ctx < 1:
        raise UsageError(f"--ctx {n_ctx}: is not a number of tokens")
    settings = PlanSettings(n_ctx=n_ctx, kv_type=kv_type, gpu_layers=gpu_layers)
    plan = ModelHeader(path).plan(settings)
    allowed = limits()
    if as_json:
        output.write_json(_document(plan, kv_type, allowed))
    elif output.is_terminal():
        console = output.console()
        console.print(
            output.table(console, ("what", "size>", "of"), _summary(plan, allowed), elastic=2)
        )
        columns = ("layer>", "kind", "cells>", "bytes>", "on")
        console.print()
        console.print(output.table(console, columns, _layers(plan), elastic=1))
    else:
        output.write_rows(_rows(plan, allowed))


def _summary(plan: Plan, allowed: list[Limit]) -> list[Sequence[object]]:
    size = output.size
    rows: list[Sequence[object]] = [
        ("weights", size(plan.weights), f"{size(plan.weights_on_gpu)} on GPUs"),
        ("cache", size(plan.cache), f"{output.grouped(plan.n_ctx)} tokens"),
        ("computing", size(plan.compute), "estimate"),
        ("main memory", size(plan.host), ""),
        ("GPUs", size(plan.gpu), ""),
    ]
    for limit in allowed:
        fits = "fits" if plan.host <= limit.free else "does not fit"
        rows.append(("limit", size(limit.free), f"{limit.name}: {fits}"))
    return rows


def _layers(plan: Plan) -> Iterator[Sequence[object]]:
    for item in plan.layers:
        where = "GPU" if item.is_on_gpu else "CPU"
        kind = item.layer.kind
        if item.layer.window:
            kind += f" of {item.layer.window}"
        yield item.layer.index, kind, item.cells, item.n_bytes, where


def _rows(plan: Plan, allowed: list[Limit]) -> Iterator[Sequence[object]]:
    yield "plan", "n_ctx", plan.n_ctx
    for name in ("weights", "weights_on_gpu", "cache", "compute", "host", "gpu"):
        yield "plan", name, getattr(plan, name)
    for row in _layers(plan):
        yield "layer", *row
    for limit in allowed:
        yield "limit", limit.name, limit.free, plan.host <= limit.free


def _document(plan: Plan, kv_type: str, allowed: list[Limit]) -> dict[str, object]:
    return {
        "schema": "mtkit.plan/1",
        "n_ctx": plan.n_ctx,
        "kv_type": kv_type,
        "weights": plan.weights,
        "weights_on_gpu": plan.weights_on_gpu,
        "cache": plan.cache,
        "compute": plan.compute,
        "host": plan.host,
        "gpu": plan.gpu,
        "layers": [
            {
                "layer": item.layer.index,
                "kind": item.layer.kind,
                "key": item.layer.key,
                "value": item.layer.value,
                "window": item.layer.window,
                "state": item.layer.state,
                "cells": item.cells,
                "bytes": item.n_bytes,
                "on_gpu": item.is_on_gpu,
            }
            for item in plan.layers
        ],
        "limits": [
            {"name": limit.name, "free": limit.free, "fits": plan.host <= limit.free}
            for limit in allowed
        ],
    }
