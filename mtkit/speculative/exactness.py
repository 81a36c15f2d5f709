"""The configurations in which speculative greedy decoding equals plain decoding, to the bit.

A batch of several tokens has to give the same logits as one token after the other. ggml's CPU
kernels add in an order that depends on the number of rows, for some types of weights and beyond
some number; attention does not depend on it with flash attention and a cache in BF16 or Q8_0. The
limits below were measured with llama-cpp-python 0.3.36 on x86-64; ``check`` compares bits on the
machine at hand before anything is generated.
"""

from __future__ import annotations

from mtkit.base.record import Record, replace
from mtkit.errors import UnsupportedError, UsageError, wording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf.file import Tensor
    from mtkit.llama import Context
    from mtkit.settings import ContextSettings, LoadSettings


MOST_ROWS = 63
"""Rows of the largest batch that was compared with single rows."""
_ROWS = {
    **dict.fromkeys(("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "IQ4_NL"), MOST_ROWS),
    **dict.fromkeys(("Q5_K", "Q6_K", "IQ4_XS"), 7),
    "Q4_K": 3,
    **dict.fromkeys(("F32", "F16", "BF16"), MOST_ROWS),
}
"""Type of weights -> most rows of a batch that give the bits of single rows."""
_PAIRED = frozenset(("F32", "F16", "BF16"))
"""Types whose single row is added in another order than the rows of any larger batch."""
_TILE = 4
"""Rows that a repacked kernel computes together, in an order of its own; the rest one by one."""
_NOT_REPACKED = {"Q4_K": 7}
"""As ``_ROWS``, where the weights are left as the file has them."""
_EXACT_KV_TYPES = ("f16", "bf16", "q8_0")


class ExactRows(Record):
    """Sizes of batches that keep decoding exact.

    Attributes:
        width: At least: a step with fewer tokens is padded.
    """

    rows: int
    width: int


def exact_context(settings: ContextSettings, *, alone: bool = False) -> ContextSettings:
    """Return settings of a context whose attention does not depend on the size of a batch.

    Without ``swa_full``, the order in which a window is added up depends on earlier texts. With a
    cache in F16, llama.cpp shares the tokens of a long text between threads if a batch has a single
    row, and computes 64 rows or more in tiles. One thread has nothing to share, and a prompt is
    computed in the batches of plain decoding, so F16 stays: in BF16 a prompt of 512 tokens takes
    1.2 times as long.

    Args:
        alone: There is one sequence, whose prompts are computed as without drafts.
    """
    kind, wrong = settings.kv_type, []
    if kind not in _EXACT_KV_TYPES:
        wrong.append(wording(f"--kv-type {kind}", f'kv_type="{kind}"'))
    if settings.flash_attention == "off":
        wrong.append(wording("--flash-attention off", 'flash_attention="off"'))
    if wrong:
        raise UsageError(
            f"{' '.join(wrong)}: greedy text may differ from plain decoding",
            hint=f"omit it, or add {wording('--no-exact', 'exact=False')}",
        )
    kv_type = settings.kv_type
    if kv_type == "f16" and not (alone and settings.threads == 1):
        kv_type = "bf16"
    return replace(settings, kv_type=kv_type, flash_attention="on", swa_full=True)


def exact_rows(
    tensors: Sequence[Tensor], load: LoadSettings, path: str, width: int = 1
) -> ExactRows:
    """Return the sizes of batches that keep decoding with these weights exact.

    Args:
        width: Least rows of a step; with four, the kernel of four rows computes all of Q4_K.
    """
    if load.gpu_layers:
        raise _inexact("layers on GPUs", path)
    limits = _ROWS if load.repack else {**_ROWS, **_NOT_REPACKED}
    types = {tensor.type.name for tensor in matrices(tensors)}
    unknown = sorted(types - set(limits))
    if unknown:
        raise _inexact(f"weights in {', '.join(unknown)}", path)
    rows = min((limits[name] for name in types - {"Q4_K"}), default=MOST_ROWS)
    if "Q4_K" in types and not (width == _TILE <= rows and load.repack):
        rows = min(rows, limits["Q4_K"])
    elif "Q4_K" in types:
        rows = _TILE
    return ExactRows(rows, max(min(width, rows), 2 if types & _PAIRED else 1))


def matrices(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Return the tensors that batches are multiplied with."""
    has_head = any(tensor.name == "output.weight" for tensor in tensors)
    return [
        tensor
        for tensor in tensors
        if len(tensor.shape) > 1 and not (has_head and tensor.name == "token_embd.weight")
    ]


def check(context: Context, ids: Sequence[int], rows: int, width: int) -> None:
    """Compare the logits of a batch with those of its tokens one by one; empties the context."""
    rows = min(rows, context.n_ctx - width, context.n_batch)
    if rows < 2 or not ids:
        return
    tokens = [ids[at % len(ids)] for at in range(rows)]
    context.clear()
    context.decode(tokens, outputs="all")
    batch = [context.logits(row).copy() for row in range(rows)]
    for row in sorted({0, 1, rows - 1}):
        context.truncate(row)
        context.decode([tokens[row]] * width, outputs="all")
        if (context.logits(0) != batch[row]).any():
            raise _inexact(f"a batch of {rows} tokens on this machine", context.model.path)
        context.truncate(row)
        context.decode([*tokens[row:], *tokens[: max(width - len(tokens[row:]), 0)]])
    context.clear()


def _inexact(what: str, path: str) -> UnsupportedError:
    return UnsupportedError(
        f"{what}: greedy text may differ from plain decoding",
        source=path,
        hint=f"{wording('--no-exact', 'exact=False')} allows it",
    )
