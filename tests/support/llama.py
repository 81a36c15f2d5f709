"""llama.cpp itself as the reference: a vocabulary-only model through llama-cpp-python."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from support import reference

if TYPE_CHECKING:
    from pathlib import Path

_QUIET: list[Any] = []
TEXT = 3
"""LLAMA_KV_OVERRIDE_TYPE_STR"""


class Llama:
    """A vocabulary loaded by llama.cpp."""

    def __init__(self, path: Path, overrides: dict[str, str] | None = None) -> None:
        self.api = reference("llama_cpp")
        self.said: list[str] = []
        if not _QUIET:
            said = self.said

            def log(_level: int, text: bytes, _data: Any) -> None:
                said.append(text.decode("utf-8", "replace"))

            _QUIET.append(self.api.llama_log_callback(log))
            self.api.llama_log_set(_QUIET[0], ctypes.c_void_p(0))
            self.api.llama_backend_init()
        parameters = self.api.llama_model_default_params()
        parameters.vocab_only = True
        given = overrides or {}
        values = (self.api.llama_model_kv_override * (len(given) + 1))()
        for value, (key, text) in zip(values, given.items(), strict=False):
            value.key, value.tag, value.value.val_str = key.encode(), TEXT, text.encode()
        parameters.kv_overrides = values
        self.model = self.api.llama_model_load_from_file(str(path).encode(), parameters)
        assert self.model, f"llama.cpp refuses {path.name}: {''.join(self.said[-5:])}"
        self.vocab = self.api.llama_model_get_vocab(self.model)

    def encode(self, text: bytes, *, add: bool, parse: bool) -> list[int]:
        room = len(text) + 16
        ids = (self.api.llama_token * room)()
        count = self.api.llama_tokenize(self.vocab, text, len(text), ids, room, add, parse)
        if count < 0:
            ids = (self.api.llama_token * -count)()
            count = self.api.llama_tokenize(self.vocab, text, len(text), ids, -count, add, parse)
        return list(ids[:count])

    def close(self) -> None:
        self.api.llama_model_free(self.model)
