"""What a context is made with, and llama.cpp's parameters for it."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_KV_TYPES = {
    "f32": 0, "f16": 1, "q4_0": 2, "q4_1": 3, "q5_0": 6, "q5_1": 7, "q8_0": 8, "iq4_nl": 20,
    "bf16": 30,
}  # fmt: skip
_FLASH = {"auto": -1, "off": 0, "on": 1}
MOST_THREADS = 512
"""ggml's GGML_MAX_N_THREADS."""


class ContextSettings(Record):
    """What a context is made with.

    Attributes:
        n_ctx: Tokens that it holds; llama.cpp rounds up to a multiple of 256.
        n_batch: Most tokens in one call; longer input is split.
        n_ubatch: Most tokens computed at once.
        kv_type: Type of the stored keys and values.
        flash_attention: "on", "off" or "auto".
        threads: Threads for one token; llama.cpp's default is 4 whatever the machine has.
        threads_batch: Threads for many tokens.
        embeddings: Give hidden states as well.
        swa_full: Keep all tokens at layers with a sliding window, so that the memory can be cut.
    """

    n_ctx: int = 512
    n_batch: int = 512
    n_ubatch: int = 512
    kv_type: str = "f16"
    flash_attention: str = "on"
    threads: int = 1
    threads_batch: int = 1
    embeddings: bool = False
    swa_full: bool = True


def kv_types() -> tuple[str, ...]:
    """Return the names of types for keys and values."""
    return tuple(_KV_TYPES)


def check_threads(*counts: int) -> None:
    """Check numbers of threads: llama.cpp's arrays are made for so many and no more.

    Raises:
        UsageError: One is out of range.
    """
    for count in counts:
        if not 1 <= count <= MOST_THREADS:
            raise UsageError(f"is {count}, not 1 to {MOST_THREADS}", field="threads")


def parameters(lib: Any, settings: ContextSettings) -> Any:
    """Return llama.cpp's parameters of a context."""
    if settings.kv_type not in _KV_TYPES:
        raise UsageError(f"--kv-type {settings.kv_type}: one of {', '.join(_KV_TYPES)}")
    if settings.flash_attention not in _FLASH:
        raise UsageError(f"--flash-attention {settings.flash_attention}: on, off or auto")
    if settings.flash_attention == "off" and settings.kv_type not in ("f32", "f16", "bf16"):
        raise UsageError(
            f"--kv-type {settings.kv_type} needs flash attention", hint="--flash-attention on"
        )
    for name in ("n_ctx", "n_batch", "n_ubatch", "threads", "threads_batch"):
        value = getattr(settings, name)
        if not 0 < value < 1 << 31:
            raise UsageError(f"is {value}, not 1 or more", field=name)
    check_threads(settings.threads, settings.threads_batch)
    params = lib.llama_context_default_params()
    params.n_ctx = settings.n_ctx
    params.n_batch = min(settings.n_batch, settings.n_ctx)
    params.n_ubatch = min(settings.n_ubatch, params.n_batch)
    params.n_threads = settings.threads
    params.n_threads_batch = settings.threads_batch
    params.type_k = params.type_v = _KV_TYPES[settings.kv_type]
    params.flash_attn_type = _FLASH[settings.flash_attention]
    params.embeddings = settings.embeddings
    params.swa_full = settings.swa_full
    params.no_perf = False
    return params
