"""The logits that llama.cpp computes for a few tokens: its own API, nothing of mtkit."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from support import reference

if TYPE_CHECKING:
    from collections.abc import Sequence

_KEPT: list[Any] = []


def _model(path: str) -> Any:
    api = reference("llama_cpp")
    if not _KEPT:
        _KEPT.append(api.llama_log_callback(lambda *_: None))
        api.llama_log_set(_KEPT[0], ctypes.c_void_p(0))
        api.llama_backend_init()
    return api.llama_model_load_from_file(path.encode(), api.llama_model_default_params())


def loads(path: str) -> bool:
    """Tell whether llama.cpp loads a model with all of its tensors."""
    model = _model(path)
    if model:
        reference("llama_cpp").llama_model_free(model)
    return bool(model)


def last_logits(path: str, ids: Sequence[int]) -> Any:
    """Return the logits behind the last token: float32 of the size of the vocabulary."""
    import numpy as np

    api, model = reference("llama_cpp"), _model(path)
    assert model, f"llama.cpp refuses {path}"
    params = api.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = 64
    params.type_k = params.type_v = params.flash_attn_type = 0  # F32, and no sums in F16
    params.n_threads = params.n_threads_batch = 1
    context = api.llama_init_from_model(model, params)
    assert context
    tokens = (api.llama_token * len(ids))(*ids)
    assert api.llama_decode(context, api.llama_batch_get_one(tokens, len(ids))) == 0
    size = api.llama_vocab_n_tokens(api.llama_model_get_vocab(model))
    found = np.ctypeslib.as_array(api.llama_get_logits_ith(context, -1), (size,)).copy()
    api.llama_free(context)
    api.llama_model_free(model)
    return found
