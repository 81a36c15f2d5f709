"""Texts on which llama.cpp's tokenizers throw or abort, which would end the process.

Source: llama-vocab.cpp (``tokenize``, ``byte_to_token``) and unicode.cpp of llama.cpp.
"""

from __future__ import annotations

import re

from mtkit.errors import UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SENTENCEPIECE_BPE, _WORDPIECE = 1, 3
_BY_BYTES = {1, 4, 5}
"""Types of vocabularies whose tokenizer takes any bytes: SentencePiece's two, RWKV's."""
_BEYOND = re.compile(rb"\xf4[\x90-\xbf][\x80-\xbf]{2}|[\xf5-\xf7][\x80-\xbf]{3}")
"""What spells a number above U+10FFFF; llama.cpp takes other bad UTF-8 in some way."""
_SPACE = "\u2581"
_BYTE_TOKEN = re.compile(rb"<0x([0-9A-F]{2})>")


class TextGuard:
    """Checks texts before they reach the tokenizer of a vocabulary."""

    def __init__(self, lib: Any, vocab: int) -> None:
        self._library = lib
        self._vocab = vocab
        self._type: int = lib.llama_vocab_type(vocab)
        self._texts: set[bytes] = set()
        self._bytes: set[int] = set()

    def check(self, raw: bytes, *, add_special: bool) -> None:
        """Check a text.

        Raises:
            UsageError: It would end the process.
            UnsupportedError: Any would: the tokenizer adds a token that the file does not name.
        """
        if self._type not in _BY_BYTES:
            found = _BEYOND.search(raw)
            if found:
                raise UsageError(
                    f"is not valid UTF-8: a character beyond U+10FFFF at byte {found.start()}",
                    field="text",
                )
        elif self._type == _SENTENCEPIECE_BPE:
            self._check_bytes(raw)
        if add_special:
            self._check_added()

    def _check_added(self) -> None:
        lib, vocab = self._library, self._vocab
        for name, is_always, adds, named in (
            ("BOS", self._type == _WORDPIECE, lib.llama_vocab_get_add_bos, lib.llama_vocab_bos),
            ("EOS", False, lib.llama_vocab_get_add_eos, lib.llama_vocab_eos),
            ("SEP", self._type == _WORDPIECE, lib.llama_vocab_get_add_sep, lib.llama_vocab_sep),
        ):
            if (is_always or adds(vocab)) and named(vocab) < 0:
                raise UnsupportedError(
                    f"the tokenizer adds {name}, and the file names no such token",
                    hint="use --no-special",
                )

    def _check_bytes(self, raw: bytes) -> None:
        """Check that what is not a token is made of bytes that are."""
        if not self._texts:
            self._read_texts()
        if len(self._bytes) == 256:
            return
        text = raw.decode("utf-8", "surrogateescape").replace(" ", _SPACE)
        for character in sorted({_SPACE, *text}):  # most tokenizers put a space first
            spelled = character.encode("utf-8", "surrogateescape")
            if spelled not in self._texts and any(
                number not in self._bytes and bytes((number,)) not in self._texts
                for number in spelled
            ):
                raise UsageError(f"the tokenizer has no token for {character!a}", field="text")

    def _read_texts(self) -> None:
        """Read the texts of the tokens, as far as there can be bytes that are none."""
        text_of = self._library.llama_vocab_get_text
        for token_id in range(self._library.llama_vocab_n_tokens(self._vocab)):
            text: bytes = text_of(self._vocab, token_id)
            self._texts.add(text)
            found = _BYTE_TOKEN.fullmatch(text)
            if found:
                self._bytes.add(int(found[1], 16))
                if len(self._bytes) == 256:
                    return
