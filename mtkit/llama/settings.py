"""llama.cpp's parameters of a context."""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.memory_plan.kv_types import element_type
from mtkit.settings import MOST_THREADS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.settings import ContextSettings

_POOLING = {"mean": 1, "cls": 2, "last": 3, "rank": 4}
_FLASH = {"auto": -1, "off": 0, "on": 1}
_TOKENS, _THREADS = 512, 1
"""Of a context whose settings leave it open; llama.cpp's own default is 4 threads anywhere."""


def check_threads(*counts: int) -> None:
    """Check numbers of threads: llama.cpp's arrays are made for so many and no more.

    Raises:
        UsageError: One is out of range.
    """
    for count in counts:
        if not 1 <= count <= MOST_THREADS:
            what = f"is {count}, not in the range 1 to {MOST_THREADS}"
            raise UsageError(what, field="threads")


def resolved(settings: ContextSettings) -> ContextSettings:
    """Return settings that leave nothing open."""
    n_ctx, threads = settings.n_ctx or _TOKENS, settings.threads or _THREADS
    return replace(settings, n_ctx=n_ctx, threads=threads)


def parameters(lib: Any, settings: ContextSettings) -> Any:
    """Return llama.cpp's parameters of a context; nothing may be open."""
    params = lib.llama_context_default_params()
    params.n_ctx = settings.n_ctx
    params.n_seq_max = settings.n_seq
    params.n_batch = min(settings.n_batch, params.n_ctx)
    params.n_ubatch = min(settings.n_ubatch, params.n_batch)
    params.n_threads = params.n_threads_batch = settings.threads
    params.type_k = params.type_v = element_type(settings.kv_type).number
    params.flash_attn_type = _FLASH[settings.flash_attention]
    params.embeddings = settings.embeddings
    if settings.pooling is not None:
        params.pooling_type = _POOLING[settings.pooling]
    params.swa_full = settings.swa_full
    params.kv_unified = settings.kv_unified
    params.no_perf = False
    return params
