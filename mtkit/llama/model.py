"""A model in llama.cpp: loading, what it is, its vocabulary, and what its tokenizer can be given.

``TextGuard`` refuses texts on which llama.cpp's tokenizers throw or abort, which would end the
process.

Source: llama-vocab.cpp (``tokenize``, ``byte_to_token``) and unicode.cpp of llama.cpp.
"""

from __future__ import annotations

import ctypes
import os
import re
import weakref

from mtkit.base.process import Closeable
from mtkit.base.watch import Calling, tell
from mtkit.errors import FormatError, UnsupportedError, UsageError, wording
from mtkit.llama.shared_library import (
    Interrupts,
    call_uninterrupted,
    devices,
    library,
    log,
    remember_model,
)
from mtkit.settings import LoadSettings
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any


_NO_MMAP, _MMAP, _MLOCK, _MMAP_MLOCK = range(4)
"""LLAMA_LOAD_MODE_*."""


def model_parameters(lib: Any, settings: LoadSettings) -> tuple[Any, list[Any]]:
    """Return llama.cpp's parameters of a model, and the arrays that they point to."""
    params = lib.llama_model_default_params()
    params.n_gpu_layers = settings.gpu_layers
    if settings.mlock:
        params.load_mode = _MLOCK if settings.mmap is False else _MMAP_MLOCK
    elif settings.mmap is not None:
        params.load_mode = _MMAP if settings.mmap else _NO_MMAP
    params.check_tensors = settings.check_tensors
    params.use_extra_bufts = settings.repack
    arrays: list[Any] = []
    if settings.devices:
        handles = _device_handles(settings.devices)
        array = (ctypes.c_void_p * (len(handles) + 1))(*handles, None)  # a NULL ends the list
        params.devices = ctypes.cast(array, ctypes.c_void_p)
        arrays.append(array)
    if settings.tensor_split:
        most, field = lib.llama_max_devices(), wording("--tensor-split", "tensor_split")
        if len(settings.tensor_split) > most:
            raise UsageError(f"has more than {most} parts", field=field)
        if not any(settings.tensor_split):
            raise UsageError("gives nothing to any GPU", field=field)
        shares = (ctypes.c_float * most)(*settings.tensor_split)
        params.tensor_split = ctypes.cast(shares, ctypes.POINTER(ctypes.c_float))
        arrays.append(shares)
    return params, arrays


def _device_handles(names: tuple[str, ...]) -> list[int]:
    """Return the devices of these names but for the CPU, which is always there and no choice."""
    available = {device.name: device for device in devices()}
    for name in names:
        if name not in available:
            raise UsageError(
                f"no device {name!r}", hint=f"available: {', '.join(available) or 'none'}"
            )
    return [available[name].handle for name in names if available[name].kind != "CPU"]


_SENTENCEPIECE_BPE, _WORDPIECE = 1, 3
_BY_BYTES = {1, 4, 5}
"""Types of vocabularies whose tokenizers take any bytes: SentencePiece's two, RWKV's."""
_BEYOND = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")
"""UTF-8 of numbers above U+10FFFF; llama.cpp copes with other bad UTF-8."""
_SPACE = "\u2581"
_BYTE_TOKEN = re.compile(rb"<0x([0-9A-F]{2})>")


class TextGuard:
    """Checks texts before they reach the tokenizer of a vocabulary."""

    def __init__(self, lib: Any, vocab: int) -> None:
        self._library = lib
        self._vocab = vocab
        self._type: int = lib.llama_vocab_type(vocab)
        self._has_added = False
        self._texts: set[bytes] = set()
        self._bytes: set[int] = set()

    def check(self, raw: bytes, *, add_special: bool) -> None:
        """Check a text.

        Raises:
            UsageError: The text would end the process.
            UnsupportedError: Any text would: the tokenizer adds a token that the file lacks.
        """
        if self._type not in _BY_BYTES:
            match = _BEYOND.search(raw)
            if match:
                raise UsageError(
                    f"is not valid UTF-8: a character beyond U+10FFFF at byte {match.start()}",
                    field="text",
                )
        elif self._type == _SENTENCEPIECE_BPE:
            self._check_bytes(raw)
        if add_special and not self._has_added:
            self._check_added()
            self._has_added = True

    def _check_added(self) -> None:
        lib, vocab = self._library, self._vocab
        for name, is_always, adds, special_id in (
            ("BOS", self._type == _WORDPIECE, lib.llama_vocab_get_add_bos, lib.llama_vocab_bos),
            ("EOS", False, lib.llama_vocab_get_add_eos, lib.llama_vocab_eos),
            ("SEP", self._type == _WORDPIECE, lib.llama_vocab_get_add_sep, lib.llama_vocab_sep),
        ):
            if (is_always or adds(vocab)) and special_id(vocab) < 0:
                raise UnsupportedError(
                    f"the tokenizer adds {name}, and the file names no such token",
                    hint=f"use {wording('--no-special', 'add_special=False')}",
                )

    def _check_bytes(self, raw: bytes) -> None:
        """Check that characters without a token are made of bytes that have one."""
        if not self._texts:
            self._read_texts()
        if len(self._bytes) == 256:
            return
        text = raw.decode("utf-8", "surrogateescape").replace(" ", _SPACE)
        for character in sorted({_SPACE, *text}):  # most tokenizers put a space first
            encoded = character.encode("utf-8", "surrogateescape")
            if encoded not in self._texts and any(
                number not in self._bytes and bytes((number,)) not in self._texts
                for number in encoded
            ):
                raise UsageError(f"the tokenizer has no token for {character!a}", field="text")

    def _read_texts(self) -> None:
        """Read the texts of the tokens, until all bytes have one."""
        text_of = self._library.llama_vocab_get_text
        for token_id in range(self._library.llama_vocab_n_tokens(self._vocab)):
            text: bytes = text_of(self._vocab, token_id)
            self._texts.add(text)
            match = _BYTE_TOKEN.fullmatch(text)
            if match:
                self._bytes.add(int(match[1], 16))
                if len(self._bytes) == 256:
                    return


_NO_VOCABULARY = 0
_UNKNOWN, _CONTROL, _STRIPS_LEFT, _STRIPS_RIGHT = 1 << 0, 1 << 3, 1 << 7, 1 << 8
"""Bits of llama_token_attr."""
_MOST_TEXT_BYTES = (1 << 31) - 1
"""llama_tokenize takes the length as a signed 32-bit number."""
_FIM = ("pre", "suf", "mid", "pad", "rep", "sep")


class Model(Closeable):
    """A loaded model; close it, or use it in ``with``.

    Attributes:
        n_embd: Width of its hidden states.
        has_encoder: It encodes a prompt first (T5).
        is_recurrent: All or part of its memory is a state that cannot be cut (Mamba, RWKV).
    """

    def __init__(
        self,
        path: str,
        settings: LoadSettings | None = None,
        *,
        progress: Callable[[float], None] | None = None,
        weights: bool = True,
    ) -> None:
        """Load a model.

        Args:
            progress: Called with how much is loaded, 0 to 1.
            weights: Load them; without them contexts can be made, but compute nothing.
        """
        self.settings = settings = settings or LoadSettings()
        self._library = lib = library(backends=settings.backends)
        self.path = path
        self._contexts: weakref.WeakSet[Any] = weakref.WeakSet()
        self._adapters: list[tuple[Any, float]] = []
        remember_model(path)
        params, arrays = model_parameters(lib, settings)
        params.no_alloc = not weights
        interrupts = Interrupts()

        def report(part: float, _: object) -> bool:
            if progress is not None:
                progress(part)
            return not interrupts.is_set

        params.progress_callback = lib.llama_progress_callback(report)
        # llama.cpp keeps the parameters as long as the model, their pointers among them.
        self._kept = params.progress_callback, arrays
        log.clear()
        tell("stage", f"loading {path}")
        with Calling(), interrupts:
            handle = lib.llama_model_load_from_file(os.fsencode(path), params)
            if handle:
                self._finalizer = weakref.finalize(
                    self, call_uninterrupted, lib.llama_model_free, handle
                )
        if not handle:
            reason = log.reason()
            kind = UnsupportedError if "unknown model architecture" in reason else FormatError
            raise kind(f"cannot be loaded{reason}", source=path)
        self.handle: int = handle
        self._describe()
        tell("stage", f"computing with {path}")

    def _describe(self) -> None:
        lib, handle = self._library, self.handle
        self.vocab: int = lib.llama_model_get_vocab(handle)
        self.n_vocab: int = lib.llama_vocab_n_tokens(self.vocab)
        self.n_ctx_train: int = lib.llama_model_n_ctx_train(handle)
        self.n_embd: int = lib.llama_model_n_embd(handle)
        self.n_layer: int = lib.llama_model_n_layer(handle)
        self.architecture = self.meta("general.architecture") or ""
        self.has_encoder = bool(lib.llama_model_has_encoder(handle))
        self.has_decoder = bool(lib.llama_model_has_decoder(handle))
        self.is_recurrent = bool(
            lib.llama_model_is_recurrent(handle) or lib.llama_model_is_hybrid(handle)
        )
        self.size_bytes: int = lib.llama_model_size(handle)
        self.bos: int = lib.llama_vocab_bos(self.vocab)
        self.eos: int = lib.llama_vocab_eos(self.vocab)
        self.add_bos = bool(lib.llama_vocab_get_add_bos(self.vocab))
        self.has_vocabulary = lib.llama_vocab_type(self.vocab) != _NO_VOCABULARY
        self._guard = TextGuard(lib, self.vocab)
        start: int = lib.llama_model_decoder_start_token(handle) if self.has_encoder else -1
        self.decoder_start = start if start >= 0 else self.bos
        self._pieces: dict[tuple[int, bool], bytes] = {}
        self._eog_ids: frozenset[int] | None = None
        self._eog: dict[int, bool] = {}
        text = ctypes.create_string_buffer(256)
        lib.llama_model_desc(handle, text, len(text))
        self.description = text.value.decode("utf-8", "replace")

    @property
    def eog_ids(self) -> frozenset[int]:
        """All tokens that end a generation; end of text is only one of them."""
        if self._eog_ids is None:
            self.check_open()
            is_eog, vocab = self._library.llama_vocab_is_eog, self.vocab
            self._eog_ids = frozenset(i for i in range(self.n_vocab) if is_eog(vocab, i))
        return self._eog_ids

    def is_eog(self, token_id: int) -> bool:
        """Whether a token ends a generation."""
        is_eog = self._eog.get(token_id)
        if is_eog is None:
            self.check_open()
            is_eog = self._eog[token_id] = self._library.llama_vocab_is_eog(self.vocab, token_id)
        return is_eog

    @property
    def fim(self) -> dict[str, int]:
        """The fill-in-the-middle tokens that it has.

        Ids by llama.cpp's names: pre, suf, mid, pad, rep (repository) and sep (file).
        """
        self.check_open()
        ids = {name: getattr(self._library, f"llama_vocab_fim_{name}")(self.vocab) for name in _FIM}
        return {name: token_id for name, token_id in ids.items() if token_id >= 0}

    @property
    def around(self) -> tuple[list[int], list[int], list[int]]:
        """Tokens before two texts that are given together, behind each, and between them.

        Source: llama.cpp, tools/server/server-common.cpp (``format_prompt_rerank``).
        """
        self.check_open()
        lib, vocab = self._library, self.vocab
        sep = lib.llama_vocab_sep(vocab)
        eos = self.eos if self.eos >= 0 else sep
        return (
            [self.bos] if self.add_bos else [],
            [eos] if lib.llama_vocab_get_add_eos(vocab) else [],
            [sep] if lib.llama_vocab_get_add_sep(vocab) else [],
        )

    def is_control(self, token_id: int) -> bool:
        """Whether only a text in which special tokens are parsed gives a token."""
        return bool(self._attributes(token_id) & (_UNKNOWN | _CONTROL))

    def strips(self, token_id: int) -> tuple[bool, bool]:
        """Whether a special token takes the white space before it, and that after it."""
        attributes = self._attributes(token_id)
        return bool(attributes & _STRIPS_LEFT), bool(attributes & _STRIPS_RIGHT)

    def _attributes(self, token_id: int) -> int:
        self.check_open()
        self.check_ids((token_id,))
        attributes: int = self._library.llama_vocab_get_attr(self.vocab, token_id)
        return attributes

    def check_ids(self, ids: Any) -> None:
        """Check that ids are in the vocabulary: llama.cpp ends the process on some that are not."""
        for token_id in ids:
            if not 0 <= token_id < self.n_vocab:
                raise UsageError(
                    f"there is no id {token_id}", hint=f"the model has ids 0 to {self.n_vocab - 1}"
                )

    def tokenize(
        self, text: str | bytes, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Return the ids of a text as llama.cpp tokenizes it."""
        self.check_open()
        if not self.has_vocabulary:
            raise UnsupportedError("has no tokenizer", source=self.path, hint="give ids instead")
        raw = to_bytes(text) if isinstance(text, str) else text
        if len(raw) > _MOST_TEXT_BYTES:
            raise UsageError(f"the text has {len(raw)} bytes, but the limit is {_MOST_TEXT_BYTES}")
        self._guard.check(raw, add_special=add_special)
        room = len(raw) + 8
        for _ in range(2):
            buffer = (ctypes.c_int32 * room)()
            count = self._library.llama_tokenize(
                self.vocab, raw, len(raw), buffer, room, add_special, parse_special
            )
            if count >= 0:
                return buffer[:count]
            room = -count
        raise UnsupportedError("the text cannot be tokenized", source=self.path)

    def piece(self, token_id: int, *, special: bool = False) -> bytes:
        """Return the bytes that a token stands for; control tokens only with ``special``."""
        key = token_id, special
        piece = self._pieces.get(key)
        if piece is None:
            self.check_open()
            self.check_ids((token_id,))
            if not self.has_vocabulary:
                return b""
            room = 64
            while True:
                buffer = ctypes.create_string_buffer(room)
                size = self._library.llama_token_to_piece(
                    self.vocab, token_id, buffer, room, 0, special
                )
                if size >= 0:
                    break
                room = -size
            piece = self._pieces[key] = buffer.raw[:size]
        return piece

    def meta(self, key: str) -> str | None:
        """Return a value of the metadata as text, or None."""
        self.check_open()
        room = 256
        while True:
            buffer = ctypes.create_string_buffer(room)
            size = self._library.llama_model_meta_val_str(self.handle, key.encode(), buffer, room)
            if size < 0:
                return None
            if size < room:
                return buffer.value.decode("utf-8", "replace")
            room = size + 1

    def adapt(self, path: str, scale: float) -> None:
        """Load a LoRA adapter, which every context made from now on adds to the weights.

        It goes with the model.
        """
        self.check_open()
        log.clear()
        remember_model(path)
        handle = self._library.llama_adapter_lora_init(self.handle, os.fsencode(path))
        remember_model(self.path)
        if not handle:
            raise FormatError(f"cannot be added to the model{log.reason()}", source=path)
        self._adapters.append((handle, scale))

    @property
    def adapter_scales(self) -> list[float]:
        """The scale of each adapter, in the order in which they were loaded."""
        return [scale for _, scale in self._adapters]

    def check_adapters(self, places: Iterable[int], field: str = "id") -> None:
        """Check that there are adapters in these places."""
        for place in places:
            if not 0 <= place < len(self._adapters):
                what = f"no adapter {place}: there are {len(self._adapters)}"
                raise UsageError(what, field=field)

    def scale_adapters(self, scales: Mapping[int, float]) -> None:
        """Set the scales of adapters by place, in all contexts; the others get 0.

        No context may compute meanwhile, and what their memories hold was computed with the scales
        before.
        """
        self.check_adapters(scales)
        self._adapters = [
            (handle, scales.get(place, 0.0)) for place, (handle, _) in enumerate(self._adapters)
        ]
        for context in list(self._contexts):
            if context.is_open:
                self.give_adapters(context, tuple(self.adapter_scales))

    def adopt(self, context: Any) -> None:
        """Register a context, so that it is closed before the model, and give it the adapters."""
        self._contexts.add(context)
        self.give_adapters(context, tuple(self.adapter_scales))

    def give_adapters(self, context: Any, scales: tuple[float, ...]) -> None:
        """Have one context compute with the adapters by these scales."""
        context.adapter_scales = scales
        if self._adapters:
            lib, count = self._library, len(self._adapters)
            handles = (lib.llama_adapter_lora_p_ctypes * count)(
                *(handle for handle, _ in self._adapters)
            )
            lib.llama_set_adapters_lora(
                context.handle, handles, count, (ctypes.c_float * count)(*scales)
            )

    @property
    def is_open(self) -> bool:
        """Whether it has not been closed."""
        return self._finalizer.alive

    def close(self) -> None:
        """Free the contexts, then the model; a second time does nothing."""
        for context in list(self._contexts):
            context.close()
        self._finalizer()
        self.handle = self.vocab = 0

    def check_open(self) -> None:
        """Check that it has not been closed."""
        if not self.handle:
            raise UsageError("the model is closed", source=self.path)
