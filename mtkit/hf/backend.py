"""The backend that a tokenizer of transformers calls in place of the tokenizers library's object.

mtkit reads the object anew when it has changed. A caller who has had the object may keep it or a
part of it: from then on, components, counts of tokens and settings of the model are compared before
each text (3 microseconds; a short text takes 5), and added tokens and long tables after each time
that the object was handed out.

While a method of the tokenizer encodes or decodes, its ``_tokenizer`` is mtkit's; to everybody else
it is the library's object, because the library takes no other as an argument (``DecodeStream``).

Source: transformers 5 ``tokenization_utils_tokenizers.py``.
"""

from __future__ import annotations

import copyreg
import sys
import warnings
from functools import lru_cache
from threading import local

from mtkit.errors import MtkitError, UsageError
from mtkit.hf.batch import encode_batch, encode_text
from mtkit.hf.encoding import BatchSettings, OwnTokenizer, pad_batch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from typing import Any


_COMPONENTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_MODEL_SETTINGS = (
    "dropout", "unk_token", "unk_id", "fuse_unk", "byte_fallback", "ignore_merges",
    "continuing_subword_prefix", "end_of_word_suffix", "max_input_chars_per_word",
)  # fmt: skip
_LONG_STATE_BYTES = 4096
"""A longer state of a component (a table of characters) is not compared before each text."""


class MtkitBackend:
    """Answers as the ``tokenizers.Tokenizer`` that it holds; ids come from mtkit."""

    def __init__(self, inner: Any) -> None:
        vars(self).update(inner=inner, _own=None, _quick=None, _whole=None, _long=frozenset())
        self.hand_out()

    def hand_out(self) -> None:
        """Note that a caller gets the object, and may change it or keep a part of it."""
        vars(self).update(_is_out=True, _is_alone=False)

    def keep(self) -> None:
        """Note that nobody else has the object or a part of it."""
        vars(self)["_is_alone"] = True

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["inner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)

    def rebuild(self) -> OwnTokenizer:
        """Let mtkit read the tokenizer as it is now."""
        whole = self._whole_state()
        states = whole[0]
        is_long = {name for name in _COMPONENTS if len(states[name] or b"") > _LONG_STATE_BYTES}
        vars(self).update(_own=None, _whole=whole, _long=frozenset(is_long), _is_out=False)
        vars(self)["_quick"] = self._quick_state()
        own = OwnTokenizer(self.inner)
        vars(self)["_own"] = own
        return own

    def _whole_state(self) -> tuple[dict[str, bytes | None], dict[int, Any]]:
        states = {name: _component_state(getattr(self.inner, name)) for name in _COMPONENTS}
        added = self.inner.get_added_tokens_decoder()
        return states, {number: token.__getstate__() for number, token in added.items()}

    def _quick_state(self) -> tuple[Any, ...]:
        inner, long = self.inner, self._long
        model = inner.model
        return (
            inner.get_vocab_size(True),
            inner.get_vocab_size(False),
            type(model),
            *[getattr(model, name) for name in _settings_of(model.__class__)],
            *[
                (_component_shape if n in long else _component_state)(getattr(inner, n))
                for n in _COMPONENTS
            ],
        )

    def settings(self, add_special_tokens: bool) -> BatchSettings:
        """Return how a batch is encoded now."""
        return BatchSettings(self.inner, add_special_tokens)

    def current(self) -> OwnTokenizer | None:
        """Return mtkit's reading of the tokenizer; None where it has none."""
        own: OwnTokenizer | None = self._own
        if self._is_alone:
            return own
        is_same = self._quick_state() == self._quick
        if is_same and self._is_out:
            is_same = self._whole_state() == self._whole
            vars(self)["_is_out"] = not is_same
        if is_same:
            return own
        try:
            return self.rebuild()
        except MtkitError as error:
            warnings.warn(f"mtkit cannot run the changed tokenizer: {error}", stacklevel=6)
            return None

    def encode_batch(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True  # noqa: A002
    ) -> list[Any]:  # fmt: skip
        """Encode texts and pairs; as ``tokenizers.Tokenizer.encode_batch``."""
        own = None if is_pretokenized else self.current()
        if own is None:
            batch = self.inner.encode_batch(
                input, is_pretokenized=is_pretokenized, add_special_tokens=add_special_tokens
            )
            return list(batch)
        settings = self.settings(add_special_tokens)
        batch = [own.encode(text, settings) for text in input]
        if settings.padding is not None:
            pad_batch(batch, settings.padding)
        return batch

    def decode_lists(self, ids: Any, skip_special_tokens: bool) -> Any:
        """Return the text of a list of ids, or of each of several; None where that is no answer."""
        own = self.current()
        if own is None or type(ids) is not list:
            return None
        decode = own.tokenizer.decode
        try:
            if ids and type(ids[0]) is list:
                return [decode(row, skip_special_tokens=skip_special_tokens) for row in ids]
            return decode(ids, skip_special_tokens=skip_special_tokens)
        except (MtkitError, TypeError):
            return None

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids; ids that do not exist are left out, as the library does."""
        own = self.current()
        if own is None:
            return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))
        try:
            return own.tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        except UsageError:
            return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))


@lru_cache(None)
def _settings_of(model: Hashable) -> tuple[str, ...]:
    return tuple(name for name in _MODEL_SETTINGS if hasattr(model, name))


def _component_state(component: Any) -> bytes | None:
    if component is None:
        return None
    state: bytes = component.__getstate__()
    return state


def _component_shape(component: Any) -> object:
    if hasattr(component, "__getitem__"):
        return type(component), *[_component_shape(component[at]) for at in range(len(component))]
    return type(component)


_PASSED_ON = frozenset(
    ("add_special_tokens", "return_tensors", "return_token_type_ids", "return_attention_mask",
     "return_special_tokens_mask", "return_offsets_mapping", "return_length", "verbose",
     "split_special_tokens", "is_split_into_words", "return_overflowing_tokens")
)  # fmt: skip
"""Options of a call that transformers hands on as they are."""
_QUICK = frozenset(("add_special_tokens", "return_tensors"))
"""Options of a call that ``encode_text`` takes."""
INNER, BACKEND = "_tokenizer", "_mtkit"
"""The attributes of a tokenizer that hold the library's object, and mtkit's."""
_active = local()


def _backend_of(tokenizer: Any) -> MtkitBackend:
    """Return mtkit's object for the library's that a tokenizer has now."""
    state = vars(tokenizer)
    backend: MtkitBackend | None = state.get(BACKEND)
    if backend is None or backend.inner is not state[INNER]:
        backend = state[BACKEND] = MtkitBackend(state[INNER])
    return backend


@lru_cache(None)
def _readers() -> frozenset[Any]:
    """Return the code of transformers that asks the library's object, and keeps nothing of it."""
    from transformers import PreTrainedTokenizerFast as Base

    names = (
        "__len__", "vocab_size", "get_vocab", "added_tokens_encoder", "added_tokens_decoder",
        "_convert_token_to_id_with_added_voc", "_convert_id_to_token", "convert_ids_to_tokens",
        "num_special_tokens_to_add",
    )  # fmt: skip
    methods = (getattr(getattr(Base, name), "fget", getattr(Base, name)) for name in names)
    return frozenset(method.__code__ for method in methods)


class _InnerTokenizer:
    """The attribute ``_tokenizer``."""

    def __get__(self, tokenizer: Any, owner: type | None = None) -> Any:
        inner = None if tokenizer is None else vars(tokenizer).get(INNER)
        if inner is None:
            return None
        if getattr(_active, "tokenizer", None) is tokenizer:
            return _backend_of(tokenizer)
        code = sys._getframe(1).f_code  # noqa: SLF001
        if BACKEND in vars(tokenizer) and code not in _readers():
            vars(tokenizer)[BACKEND].hand_out()
        return inner

    def __set__(self, tokenizer: Any, value: Any) -> None:
        vars(tokenizer)[INNER] = value


class _MtkitCalls:
    """A context in which a tokenizer calls mtkit."""

    def __init__(self, tokenizer: object) -> None:
        self._tokenizer = tokenizer

    def __enter__(self) -> None:
        self._before = getattr(_active, "tokenizer", None)
        _active.tokenizer = self._tokenizer

    def __exit__(self, *_: object) -> None:
        _active.tokenizer = self._before


class Accelerated:
    """A mixin in front of the class of a tokenizer."""

    __dict__: dict[str, Any]

    _tokenizer = _InnerTokenizer()

    _is_plain = False
    """Whether calls, encoding and decoding are those of transformers' common class."""

    def __call__(self, text: Any = None, text_pair: Any = None, *args: Any, **options: Any) -> Any:
        """Encode as transformers does."""
        if type(text) is str and not text_pair and self._is_plain and not args:
            is_quick = options.keys() <= _QUICK
            batch = encode_text(self, _backend_of(self), text, **options) if is_quick else None
            if batch is not None:
                return batch
        with _MtkitCalls(self):
            if self._is_plain and text is not None and not args and options.keys() <= _PASSED_ON:
                return self._encode_plus(text=text, text_pair=text_pair, **options)
            return super().__call__(text, text_pair, *args, **options)  # type: ignore[misc]

    def encode(self, text: Any, text_pair: Any = None, *args: Any, **options: Any) -> Any:
        """Return the ids of a text."""
        if options.keys() <= _QUICK and type(text) is str and not (text_pair or args):
            return self(text, **options)["input_ids"]
        with _MtkitCalls(self):
            return super().encode(text, text_pair, *args, **options)  # type: ignore[misc]

    def _encode_plus(self, *args: Any, **options: Any) -> Any:
        with _MtkitCalls(self):
            if not args:
                batch = encode_batch(self, _backend_of(self), options)
                if batch is not None:
                    return batch
            return super()._encode_plus(*args, **options)  # type: ignore[misc]

    def decode(self, token_ids: Any, skip_special_tokens: bool = False, **options: Any) -> Any:
        """Return the text of ids, or of several lists of them."""
        if self._is_plain and not options and not self.clean_up_tokenization_spaces:  # type: ignore[attr-defined]
            texts = _backend_of(self).decode_lists(token_ids, skip_special_tokens)
            if texts is not None:
                return texts
        with _MtkitCalls(self):
            return super().decode(token_ids, skip_special_tokens, **options)  # type: ignore[misc]

    def batch_decode(self, sequences: Any, *args: Any, **options: Any) -> Any:
        """Return the texts of lists of ids."""
        if type(sequences) is list and sequences and type(sequences[0]) is list and not args:
            options = {k: v for k, v in options.items() if v is not None}
            return self.decode(sequences, **options)
        with _MtkitCalls(self):
            return super().batch_decode(sequences, *args, **options)  # type: ignore[misc]

    def _decode(self, *args: Any, **options: Any) -> Any:
        with _MtkitCalls(self):
            return super()._decode(*args, **options)  # type: ignore[misc]

    def __repr__(self) -> str:
        return f"{super().__repr__()} on mtkit"

    def __copy__(self) -> Any:
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the backend, which another process makes for itself."""
        state = {name: value for name, value in vars(self).items() if name != BACKEND}
        kind = type(self)
        base = kind.__mro__[2]
        if kind is accelerated_class(base):
            return _rebuild, (base,), state
        return copyreg.__newobj__, (kind,), state  # type: ignore[attr-defined]


@lru_cache(None)
def accelerated_class(base: type) -> type:
    """Return the class of a tokenizer with mtkit inside; called, it makes a plain tokenizer."""

    def plain(cls: type, *args: Any, **options: Any) -> Any:
        return base(*args, **options) if cls is kind else object.__new__(cls)

    def from_pretrained(*args: Any, **options: Any) -> Any:
        return base.from_pretrained(*args, **options)  # type: ignore[attr-defined]

    from transformers import PreTrainedTokenizerFast as Common

    names = {name: getattr(base, name) for name in ("__module__", "__qualname__", "__doc__")}
    calls = ("__call__", "encode", "_encode_plus", "decode", "batch_decode", "_decode")
    is_plain = all(getattr(base, name) is getattr(Common, name) for name in calls)
    is_plain = is_plain and not hasattr(base, "_switch_to_input_mode")
    own = {
        "__new__": plain, "from_pretrained": staticmethod(from_pretrained), "_is_plain": is_plain,
    }  # fmt: skip
    kind = type(base.__name__, (Accelerated, base), {**names, **own})
    return kind


def _rebuild(base: type) -> object:
    return object.__new__(accelerated_class(base))
