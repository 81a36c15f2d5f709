"""What a tokenizer of transformers calls instead of the library's object.

mtkit's reading of the object is made anew when the object has changed: components, counts of tokens
and settings of the model are compared before each text, added tokens and long tables once somebody
has had the object.

Source: transformers 5 ``tokenization_utils_tokenizers.py`` for what is asked of the object, and
tokenizers 0.23 for what it answers.
"""

from __future__ import annotations

import warnings

from mtkit.errors import MtkitError, UsageError
from mtkit.hf.encodings import How, Own, pad

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_COMPONENTS = ("normalizer", "pre_tokenizer", "post_processor", "decoder")
_OF_MODEL = (
    "dropout", "unk_token", "unk_id", "fuse_unk", "byte_fallback", "ignore_merges",
    "continuing_subword_prefix", "end_of_word_suffix", "max_input_chars_per_word",
)  # fmt: skip
_LONG_BYTES = 4096
"""Of a component's state; a longer one (a table of characters) is not made for each text."""


class Backend:
    """Answers as the ``tokenizers.Tokenizer`` that it holds; ids come from mtkit."""

    def __init__(self, inner: Any) -> None:
        vars(self).update(inner=inner, _own=None, _quick=None, _whole=None, _long=frozenset())
        self.is_handed_out()

    def is_handed_out(self) -> None:
        """Take notice that somebody gets the object and may change it."""
        vars(self)["_is_out"] = True

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["inner"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)

    def rebuild(self) -> Own:
        """Let mtkit read the tokenizer as it is now.

        Raises:
            UnsupportedError: It has something that mtkit does not know.
        """
        whole = self._whole_state()
        states = whole[0]
        is_long = {name for name in _COMPONENTS if len(states[name] or b"") > _LONG_BYTES}
        vars(self).update(_own=None, _whole=whole, _long=frozenset(is_long), _is_out=False)
        vars(self)["_quick"] = self._quick_state()
        own = Own(self.inner)
        vars(self)["_own"] = own
        return own

    def _whole_state(self) -> tuple[dict[str, bytes | None], dict[int, Any]]:
        states = {name: _state(getattr(self.inner, name)) for name in _COMPONENTS}
        added = self.inner.get_added_tokens_decoder()
        return states, {number: token.__getstate__() for number, token in added.items()}

    def _quick_state(self) -> tuple[Any, ...]:
        inner, long = self.inner, self._long
        model = inner.model
        return (
            inner.get_vocab_size(True),
            inner.get_vocab_size(False),
            type(model),
            *[getattr(model, name, None) for name in _OF_MODEL],
            *[(_shape if n in long else _state)(getattr(inner, n)) for n in _COMPONENTS],
        )

    def _current(self) -> Own | None:
        """Return mtkit's reading of the tokenizer; None where it has none."""
        own: Own | None = self._own
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
        own = None if is_pretokenized else self._current()
        if own is None:
            given = self.inner.encode_batch(
                input, is_pretokenized=is_pretokenized, add_special_tokens=add_special_tokens
            )
            return list(given)
        how = How(self.inner, add_special_tokens)
        made = [own.encoded(one, how) for one in input]
        if how.padding is not None:
            pad(made, how.padding)
        return made

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Return the text of ids; ids that do not exist are left out, as the library does."""
        own = self._current()
        if own is None:
            return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))
        try:
            return own.tokenizer.decode(list(ids), skip_special_tokens=skip_special_tokens)
        except UsageError:
            return str(self.inner.decode(ids, skip_special_tokens=skip_special_tokens))


def _state(component: Any) -> bytes | None:
    if component is None:
        return None
    state: bytes = component.__getstate__()
    return state


def _shape(component: Any) -> object:
    """Return the types of a component and of its parts."""
    if hasattr(component, "__getitem__"):
        return type(component), *[_shape(component[at]) for at in range(len(component))]
    return type(component)
