"""Tokenizers of transformers with mtkit inside.

A fast tokenizer of transformers keeps an object of the tokenizers library and asks it for ids. Here
that object is replaced by one that asks mtkit, and leaves to the library what is not about speed:
adding tokens, saving, words and characters of an encoding. Everything above it (padding, tensors,
chat templates, ``save_pretrained``) is transformers' own code.

    import mtkit.hf
    tokenizer = mtkit.hf.from_pretrained("Qwen/Qwen3-8B")
    tokenizer = mtkit.hf.from_file("model.gguf")

Source: transformers 5 ``tokenization_utils_tokenizers.py`` for what is asked of the object, and
tokenizers 0.23 for what it answers.
"""

from __future__ import annotations

import json
import os
import warnings
from functools import cached_property

from mtkit.base.binary import Source
from mtkit.errors import MissingExtra, MtkitError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer

__all__ = ["accelerate", "from_file", "from_pretrained"]

_COMPONENTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_SETTABLE = (*_COMPONENTS, "model", "encode_special_tokens")
_CHANGING = ("add_tokens", "add_special_tokens", "train", "train_from_iterator")
_PROBE = "a b"


def from_pretrained(name_or_path: str | os.PathLike[str], **options: Any) -> Any:
    """Return what ``AutoTokenizer.from_pretrained`` does, with mtkit inside.

    Args:
        name_or_path: A repository of the hub or a folder.
        options: Those of ``AutoTokenizer.from_pretrained``.

    Raises:
        MissingExtra: transformers is not installed.
        UnsupportedError: The tokenizer has something that mtkit does not know.
    """
    transformers = _transformers()
    return accelerate(transformers.AutoTokenizer.from_pretrained(name_or_path, **options))


def from_file(path: str | os.PathLike[str], *, allow_loss: Collection[str] = ()) -> Any:
    """Return a tokenizer of transformers for a tokenizer file of any format.

    It does what ``mtkit convert --to hf`` writes: a tokenizer.model, which does not say what stands
    around a text, gets BOS in front of it, though ``mtkit.load`` adds none.

    Args:
        path: What ``mtkit.load`` takes: a GGUF, a tokenizer.model, a .mtok, ranks …
        allow_loss: Codes of losses that may happen on the way to a tokenizer.json.

    Raises:
        MissingExtra: transformers is not installed.
        LossError: tokenizer.json cannot hold the tokenizer as it is.
        UnsupportedError: It cannot be written as tokenizer.json at all.
    """
    import tempfile

    from mtkit.conversion.convert import convert

    transformers = _transformers()
    with tempfile.TemporaryDirectory() as folder:
        convert(os.fspath(path), folder + os.sep, to="hf", allow_loss=allow_loss)
        return accelerate(transformers.PreTrainedTokenizerFast.from_pretrained(folder))


def accelerate(tokenizer: Any) -> Any:
    """Let mtkit encode and decode for a fast tokenizer of transformers; returns the tokenizer.

    Args:
        tokenizer: A ``TokenizersBackend`` (``is_fast``); what was added to it counts.

    Raises:
        UsageError: It is not a fast tokenizer.
        UnsupportedError: It has something that mtkit does not know.
    """
    inner = getattr(tokenizer, "_tokenizer", None)
    if isinstance(inner, Backend):
        return tokenizer
    if inner is None or not hasattr(inner, "to_str"):
        raise UsageError(f"{type(tokenizer).__name__} is not a fast tokenizer of transformers")
    backend = Backend(inner)
    backend.rebuild()
    tokenizer._tokenizer = backend  # noqa: SLF001  where transformers keeps it
    return tokenizer


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtra("needs transformers", hint="pip install transformers") from None
    return transformers


class Backend:
    """Answers as the ``tokenizers.Tokenizer`` that it holds; ids come from mtkit.

    What changes the tokenizer makes mtkit read it anew before the next text.
    """

    def __init__(self, inner: Any) -> None:
        vars(self).update(_inner=inner, _own=None, _seen={}, _held=set())

    def __getattr__(self, name: str) -> Any:
        value = getattr(vars(self)["_inner"], name)
        if name in _COMPONENTS:
            self._held.add(name)  # whoever has it can change it
        elif name in _CHANGING:
            vars(self)["_own"] = None
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._inner, name, value)
        if name in _SETTABLE and name != "encode_special_tokens":
            vars(self)["_own"] = None

    def __reduce__(self) -> tuple[type[Backend], tuple[Any]]:
        return Backend, (self._inner,)

    def __deepcopy__(self, memo: dict[int, Any]) -> Backend:
        import copy

        return Backend(copy.deepcopy(self._inner, memo))

    def rebuild(self) -> Own:
        """Let mtkit read the tokenizer as it is now.

        Raises:
            UnsupportedError: It has something that mtkit does not know.
        """
        own = Own(self._inner)
        states = {name: _state(self._inner, name) for name in _COMPONENTS}
        vars(self).update(_own=own, _seen=states, _held=set())
        return own

    def _current(self) -> Own | None:
        """Return mtkit's reading of the tokenizer; None where it has none."""
        own: Own | None = self._own
        changed = any(_state(self._inner, name) != self._seen.get(name) for name in self._held)
        self._held.clear()
        if own is not None and not changed:
            return own
        try:
            return self.rebuild()
        except MtkitError as error:
            warnings.warn(f"mtkit cannot run the changed tokenizer: {error}", stacklevel=4)
            return None

    def encode(
        self, sequence: Any, pair: Any = None, is_pretokenized: bool = False,
        add_special_tokens: bool = True,
    ) -> Any:  # fmt: skip
        """Encode a text or a pair; as ``tokenizers.Tokenizer.encode``."""
        given = sequence if pair is None else (sequence, pair)
        return self.encode_batch([given], is_pretokenized, add_special_tokens)[0]

    def encode_batch(
        self, input: Sequence[Any], is_pretokenized: bool = False, add_special_tokens: bool = True  # noqa: A002
    ) -> list[Any]:  # fmt: skip
        """Encode texts and pairs; as ``tokenizers.Tokenizer.encode_batch``."""
        own = None if is_pretokenized else self._current()
        if own is None:
            given = self._inner.encode_batch(
                input, is_pretokenized=is_pretokenized, add_special_tokens=add_special_tokens
            )
            return list(given)
        how = How(self._inner, add_special_tokens)
        made = [own.encoded(one, how) for one in input]
        if how.padding is not None:
            _pad(made, how.padding)
        return made

    encode_batch_fast = encode_batch

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids; ids that do not exist are left out, as the library does."""
        own = self._current()
        if own is None:
            return str(self._inner.decode(ids, skip_special_tokens=skip_special_tokens))
        try:
            return own.tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        except UsageError:
            return str(self._inner.decode(ids, skip_special_tokens=skip_special_tokens))

    def decode_batch(
        self, sequences: Sequence[Sequence[int]], skip_special_tokens: bool = True
    ) -> list[str]:
        """Return the texts of many."""
        return [self.decode(ids, skip_special_tokens) for ids in sequences]


def _state(inner: Any, name: str) -> Any:
    component = getattr(inner, name)
    return None if component is None else component.__getstate__()


class How:
    """How a batch is encoded: what the library's object says at that time."""

    def __init__(self, inner: Any, add_special_tokens: bool) -> None:
        self.add_special_tokens = add_special_tokens
        self.parse_special = False if inner.encode_special_tokens else None
        self.truncation: dict[str, Any] | None = inner.truncation
        self.padding: dict[str, Any] | None = inner.padding


class Own:
    """mtkit's reading of a tokenizer of the library."""

    def __init__(self, inner: Any) -> None:
        from mtkit.tokenizer.load import load_source

        self._inner = inner
        self._text = inner.to_str()
        document = json.loads(self._text)
        document |= {"truncation": None, "padding": None}
        content = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
        self.tokenizer: Tokenizer = load_source(Source("tokenizer.json", content))
        self.tokenizer.engine  # noqa: B018  what mtkit cannot run is said here
        whole = self.tokenizer.encode(_PROBE)
        plain = self.tokenizer.encode_ids(_PROBE, add_special_tokens=False)
        front = next((i for i, one in enumerate(whole.special_tokens_mask) if not one), 0)
        self.around = whole.ids[:front], whole.ids[front + len(plain) :]
        is_simple = whole.ids == [*self.around[0], *plain, *self.around[1]]
        self.is_simple = is_simple and not any(whole.type_ids)

    @cached_property
    def plain(self) -> Any:
        """A tokenizer of the library that nobody else changes: for what mtkit does not give."""
        return type(self._inner).from_str(self._text)

    def encoded(self, given: Any, how: How) -> FastEncoding:
        """Encode one text, or a pair."""
        text, pair = (given, None) if isinstance(given, str) else given
        if not self.is_simple or pair is not None:
            return FastEncoding(self, text, pair, how)
        ids = self.tokenizer.encode_ids(
            text, add_special_tokens=False, parse_special=how.parse_special
        )
        front, back = self.around if how.add_special_tokens else ([], [])
        if how.truncation is not None:
            room = how.truncation["max_length"] - len(front) - len(back)
            is_error = (
                room <= how.truncation["stride"] or how.truncation["strategy"] == "only_second"
            )
            if is_error and len(ids) > room:
                return FastEncoding(self, text, pair, how)  # the library says what is wrong
            if len(ids) > room:
                is_left = how.truncation["direction"] == "left"
                ids = ids[len(ids) - room :] if is_left else ids[:room]
        return FastEncoding(self, text, pair, how, [*front, *ids, *back])


class FastEncoding:
    """An encoding whose ids are there; the rest is made when it is asked for.

    Attributes:
        ids: Token ids.
        attention_mask: 0 for padding, else 1.
        type_ids: Segment numbers.
    """

    def __init__(
        self, own: Own, text: str, pair: str | None, how: How, ids: list[int] | None = None
    ) -> None:
        self._own, self._text, self._pair, self._how = own, text, pair, how
        self._length: int | None = None
        if ids is None:
            library = self._made()
            self.ids, self.type_ids = library.ids, library.type_ids
        else:
            self.ids, self.type_ids = ids, [0] * len(ids)
        self.attention_mask = [1] * len(self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def n_sequences(self) -> int:
        """Number of texts: 1 or 2."""
        return 1 if self._pair is None else 2

    def padded(self, length: int, padding: dict[str, Any]) -> None:
        """Fill up to a length as the library does."""
        missing = length - len(self.ids)
        if missing <= 0:
            return
        self._length = length
        for values, filler in (
            (self.ids, padding["pad_id"]),
            (self.attention_mask, 0),
            (self.type_ids, padding["pad_type_id"]),
        ):
            at = 0 if padding["direction"] == "left" else len(values)
            values[at:at] = [filler] * missing

    def _made(self) -> Any:
        """Return what the library makes of the text: truncated, and filled up as this one is."""
        how, plain = self._how, self._own.plain
        plain.encode_special_tokens = how.parse_special is False
        plain.no_truncation()
        plain.no_padding()
        if how.truncation is not None:
            plain.enable_truncation(**how.truncation)
        if self._length is not None and how.padding is not None:
            plain.enable_padding(**{**how.padding, "length": self._length})
        return plain.encode(self._text, self._pair, add_special_tokens=how.add_special_tokens)

    @cached_property
    def _library(self) -> Any:
        return self._made()

    @cached_property
    def offsets(self) -> list[tuple[int, int]]:
        """(start, end) in characters of the text that a token stands in."""
        how = self._how
        if self._pair is not None or how.truncation is not None or self._length is not None:
            return list(self._library.offsets)
        made = self._own.tokenizer.encode(
            self._text, add_special_tokens=how.add_special_tokens, parse_special=how.parse_special
        )
        return made.offsets

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._library, name)


def _pad(made: list[FastEncoding], padding: dict[str, Any]) -> None:
    """Fill up a batch to its longest, or to a length."""
    length = padding["length"] or max(map(len, made), default=0)
    multiple = padding["pad_to_multiple_of"]
    if multiple:
        length = -(-length // multiple) * multiple
    for one in made:
        one.padded(length, padding)
