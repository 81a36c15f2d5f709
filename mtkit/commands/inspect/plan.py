"""``mtkit inspect --plan``: what running a model will take of memory."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.terminal import Screen, count_part, join_parts, part, size_part, sticky

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.binary import Source
    from mtkit.inspection.gguf import GgufReport
    from mtkit.memory_plan.plan import Limit, Plan, PlanSettings


_NUMBERS = (
    "weights",
    "weights_on_gpu",
    "repacked",
    "cache",
    "compute",
    "projector",
    "host",
    "most",
    "gpu",
)
_UNITS = ("bytes", "kB", "MB", "GB", "TB", "PB", "EB")


def show_plan(model: str | Source, settings: PlanSettings, *, as_json: bool) -> None:
    """Print the plan of a model's file; on a terminal with units, in a pipe in bytes."""
    from mtkit.base.record import replace
    from mtkit.errors import UsageError
    from mtkit.llm.header import ModelHeader
    from mtkit.llm.media import find_projector
    from mtkit.memory_plan.plan import memory_limits

    if settings.n_ctx is not None and settings.n_ctx < 1:
        raise UsageError(f"is {settings.n_ctx}, but must be 1 or more", field="--ctx")
    if settings.n_seq < 1:
        raise UsageError(f"is {settings.n_seq}, but must be 1 or more", field="--slots")
    kv_type, swa_full = settings.kv_type, settings.swa_full
    header = ModelHeader(model)
    header.projector = find_projector(header.path, header.file.metadata)
    plan, whole = (header.plan(replace(settings, swa_full=full)) for full in (swa_full, True))
    allowed = memory_limits()
    if as_json:
        document = _document(plan, kv_type, allowed)
        output.write_json({**document, "swa_full": swa_full, "cache_swa_full": whole.cache})
    elif output.is_terminal():
        path = header.projector.path if header.projector is not None else ""
        _show(header.path, plan, whole.cache, kv_type, allowed, path)
    else:
        output.write_rows(_rows(plan, whole.cache, allowed))


def _show(
    path: str, plan: Plan, whole: int, kv_type: str, allowed: list[Limit], projector: str
) -> None:
    screen = Screen()
    least = min(allowed, key=lambda limit: limit.free, default=None)
    fits = least is None or plan.most <= least.free
    verdict: list[object] = [part("name", path), " needs ", size_part(plan.host), " of main memory"]
    if least is not None:
        word = "which fits in" if fits else "more than"
        verdict.append(f", {word} {size_part(least.free)} ({least.name})")
    screen.verdict(*verdict, good=fits)
    output.write("\n")
    texts, sums = sizes_that_add([*_host_parts(plan).values()])
    remarks = {
        "weights": f"{size_part(plan.weights_on_gpu)} more on GPUs" * bool(plan.weights_on_gpu),
        "repacked": "weights once more, laid out for the processor; --no-repack",
        "KV cache": f"{count_part(plan.n_ctx, 'token')} of context, {kv_type}"
        + f"; {size_part(whole)} with --swa-full" * (whole > plan.cache),
        "projector": f"{projector}, for pictures and sounds; only if it is used",
        "computing": "an estimate of half a batch, with what the program itself takes;"
        f" {size_part(plan.most - plan.host)} more are reserved",
    }
    names = _host_parts(plan)
    rows = [(name, text, remarks[name]) for name, text in zip(names, texts, strict=True)]
    screen.table(
        ("main memory", "size>", "what:dim"), [*rows, ("together", sums, "")], elastic=2, indent=2
    )
    if plan.gpu:
        screen.line("GPUs hold ", size_part(plan.gpu), ", and some room to compute", indent=2)
    if plan.layers:
        screen.heading("KV cache by layer")
        columns = ("layers", "kind", "tokens>", "size of each>:dim", "on")
        screen.table(columns, _folded(plan), elastic=1, indent=2)
    if not fits:
        screen.line(part("hint", "a smaller --ctx or --kv-type q8_0 takes less, -ngl uses GPUs"))


def _host_parts(plan: Plan) -> dict[str, int]:
    """Return what takes main memory; the parts add up to ``plan.host``."""
    cache = sum(layer.n_bytes for layer in plan.layers if not layer.is_on_gpu)
    weights = plan.weights - plan.weights_on_gpu
    more = {"repacked": plan.repacked, "KV cache": cache, "projector": plan.projector}
    computing = plan.host - weights - sum(more.values())
    shown = {name: size for name, size in more.items() if size or name == "KV cache"}
    return {"weights": weights, **shown, "computing": computing}


def sizes_that_add(parts: Sequence[int]) -> tuple[list[str], str]:
    """Return sizes in the unit of their sum, rounded so that what is shown adds up to it."""
    from itertools import accumulate, pairwise

    ends = [0, *accumulate(parts)]
    length = len(str(ends[-1])) - 1
    power = min(length // 3, len(_UNITS) - 1)
    digits = max(2 - length % 3, 0) if power else 0  # three of them are shown
    step = 10 ** (3 * power - digits)
    rounded = [(end + step // 2) // step for end in ends]
    each = [after - before for before, after in pairwise(rounded)]
    texts = [f"{many / 10**digits:.{digits}f} {_UNITS[power]}" for many in (*each, rounded[-1])]
    return texts[:-1], texts[-1]


def memory_parts(report: GgufReport, n_ctx: int) -> list[object]:
    """Return what running a model on the CPU takes, as the parts of one line."""
    from mtkit.memory_plan.plan import PlanSettings, make_plan, memory_limits

    shards = report.shards.shards if report.shards else ()
    files = [shard.file for shard in shards if shard.file] or [report.file]
    tensors = tuple(tensor for file in files for tensor in file.tensors)  # in their order
    plan = make_plan(report.file.metadata, tensors, PlanSettings(n_ctx=n_ctx))
    texts, sums = sizes_that_add([*_host_parts(plan).values()])
    at = f" at {output.format_number(plan.n_ctx)}"
    names = [name + at * (name == "KV cache") for name in _host_parts(plan)]
    parts = join_parts(
        map(sticky, map(" ".join, zip(texts, names, strict=True))), sticky(" +") + " "
    )
    parts += [" = ", part("head", sticky(sums))]
    free = min((limit.free for limit in memory_limits()), default=None)
    if free is not None:
        fits = plan.most <= free
        word = (
            f"✓ fits in {output.format_size(free)}"
            if fits
            else f"✗ more than {output.format_size(free)}"
        )
        parts += ["   ", part("good" if fits else "bad", sticky(word))]
    return parts


def _folded(plan: Plan) -> Iterator[Sequence[object]]:
    """Yield the layers' memory, layers in a row that are alike as one."""
    from itertools import groupby

    for (kind, cells, n_bytes, where), rows in groupby(_layers(plan), key=lambda row: row[1:]):
        numbers = [row[0] for row in rows]
        first, last = numbers[0], numbers[-1]
        label = f"{first}" if first == last else f"{first}–{last}"
        yield label, kind, cells, output.format_size(n_bytes), where


def _layers(plan: Plan) -> Iterator[tuple[int, str, int, int, str]]:
    for item in plan.layers:
        where = "GPU" if item.is_on_gpu else "CPU"
        kind = item.layer.kind
        if item.layer.window:
            kind += f" of {item.layer.window}"
        yield item.layer.index, kind, item.cells, item.n_bytes, where


def _rows(plan: Plan, whole: int, allowed: list[Limit]) -> Iterator[Sequence[object]]:
    yield "plan", "n_ctx", plan.n_ctx
    for name in _NUMBERS:
        yield "plan", name, getattr(plan, name)
    yield "plan", "cache_swa_full", whole
    for row in _layers(plan):
        yield "layer", *row
    for limit in allowed:
        yield "limit", limit.name, limit.free, plan.most <= limit.free


def _document(plan: Plan, kv_type: str, allowed: list[Limit]) -> dict[str, object]:
    return {
        "schema": "mtkit.plan/1",
        "n_ctx": plan.n_ctx,
        "kv_type": kv_type,
        **{name: getattr(plan, name) for name in _NUMBERS},
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
            {"name": limit.name, "free": limit.free, "fits": plan.most <= limit.free}
            for limit in allowed
        ],
    }
