"""The child process of a trial: it loads a model, computes a token and ends.

Started by ``mtkit.llm.trial``. What llama.cpp refuses is one line on stderr and the exit code of
that error; where a signal ends the process, the last line on stdout is the stage.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from typing import cast

from mtkit.base.record import replace
from mtkit.errors import MtkitError, ResourceError, UnsupportedError
from mtkit.llama.context import context_parameters
from mtkit.llama.media import Projector
from mtkit.llama.model import Model
from mtkit.llama.shared_library import log
from mtkit.settings import ContextSettings, LoadSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_TOKENS = 16
_PROMPT = 33
"""Tokens of the prompt: more than a tile of any kernel (AMX: 16 rows, in pairs) and a rest, which
is what the first prompt of a run is, too."""
_TEXT = "Hello, 123 w\u00f6rld\n\t\u4f60\u597d \U0001f600"
_MANY = 1 << 16
"""Tokens of a batch that any picture fits."""
_DIE_WITH_PARENT = 1
"""PR_SET_PDEATHSIG of prctl(2)."""


def main(
    path: str,
    projector: str,
    backends: str,
    weights: str,
    threads: str,
    seconds: str,
    room: str,
    *way: str,
) -> None:
    """Try a model and end the process.

    Args:
        projector: One to try with it, or empty.
        weights: "1" to compute, empty to build the graph alone.
        way: "1" to repack the weights or empty, flash attention, and the type of the KV cache.
    """
    _limit(int(seconds), int(room))
    try:
        options = {"threads": int(threads), "weights": bool(weights), "projector": projector}
        _try(path, backends or None, way=way, **options)  # type: ignore[arg-type]
    except MemoryError:
        leave(ResourceError("out of memory", source=path))
    except MtkitError as error:
        leave(error.located(path))
    _print_stage("done")  # a host that ignores SIGCHLD gets no exit code
    os._exit(0)


def leave(error: MtkitError) -> None:
    """End the process with an error: its message on stderr, its exit code."""
    os.write(2, str(error).encode("utf-8", "surrogateescape"))
    os._exit(error.exit_code)


def _limit(seconds: int, room: int) -> None:
    """Bound what the process takes.

    The address space is not a measure: the file is mapped into it.
    """
    die_with_parent()
    with suppress(ImportError):  # not on Windows
        import resource

        for name, most in (("CPU", seconds), ("DATA", room), ("CORE", 0)):
            number = getattr(resource, f"RLIMIT_{name}")
            hard = resource.getrlimit(number)[1]
            soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
            with suppress(ValueError, OSError):
                resource.setrlimit(number, (soft, hard))


def die_with_parent() -> None:
    """End this process with its parent, which alone sees Ctrl-C and reads stdout."""
    import select
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
        reader = select.poll()
        reader.register(1, 0)
        if reader.poll(0):  # the parent had ended before
            os._exit(1)


def _print_stage(stage: str) -> None:
    os.write(1, f"{stage}\n".encode())


def _try(
    path: str,
    backends: str | None,
    *,
    threads: int,
    weights: bool,
    projector: str = "",
    way: Sequence[str] = ("", "on", "f16"),
) -> None:
    _print_stage("loading")
    repack, flash_attention, kv_type = way
    settings = LoadSettings(devices=("CPU",), mmap=weights, repack=bool(repack), backends=backends)
    with Model(path, settings, weights=weights) as model:
        lib = model._library  # noqa: SLF001
        _print_stage("tokenizing")
        ids = _tokenize(lib, model)
        _print_stage("building the graph")
        size = _TOKENS + len(ids) + _PROMPT
        if model.has_encoder:  # T5's relative positions are not for every kind of attention
            flash_attention, kv_type = "auto", "f16"
        context_settings = ContextSettings(
            n_ctx=size, n_batch=size, n_ubatch=size, threads=threads,
            flash_attention=cast("Any", flash_attention), kv_type=cast("Any", kv_type),
        )  # fmt: skip
        log.clear()
        context = lib.llama_init_from_model(model.handle, context_parameters(lib, context_settings))
        if not context:
            raise ResourceError(f"no context can be made{log.reason()}")
        if weights:
            _print_stage("computing")
            _compute(lib, model, context, ids)
        _print_stage("closing")
        lib.llama_free(context)
        if projector:
            _print_stage("loading the projector")
            own = replace(context_settings, n_batch=_MANY, n_ubatch=_MANY)
            with Projector(model, projector, own, settings) as media:
                _print_stage("computing a picture")
                media.probe()


def _tokenize(lib: Any, model: Model) -> list[int]:
    """Return a few ids: of a text, where the model has a tokenizer that takes it."""
    ids: list[int] = []
    if model.has_vocabulary:
        with suppress(MtkitError):  # the text's fault, or that of a token that can be left out
            ids = model.tokenize(_TEXT)
        every = (ctypes.c_int32 * model.n_vocab)(*range(model.n_vocab))
        text = ctypes.create_string_buffer(1)
        lib.llama_detokenize(model.vocab, every, model.n_vocab, text, 0, False, True)
    return ids or [0]


def _compute(lib: Any, model: Model, context: int, ids: list[int]) -> None:
    """Run a prompt and one token more."""
    ids = (ids * _PROMPT)[:_PROMPT]
    if model.has_encoder:
        _run(lib, lib.llama_encode, context, ids)
        ids = [model.decoder_start]
    if model.has_decoder and 0 <= ids[0] < model.n_vocab:
        _run(lib, lib.llama_decode, context, ids)
        _run(lib, lib.llama_decode, context, ids[:1])
        lib.llama_get_logits_ith(context, -1)  # waits until it is done


def _run(lib: Any, call: Any, context: int, ids: list[int]) -> None:
    tokens = (ctypes.c_int32 * len(ids))(*ids)
    log.clear()
    code = call(context, lib.llama_batch_get_one(tokens, len(ids)))
    if code:
        raise UnsupportedError(f"llama.cpp fails with code {code}{log.reason()}")
