"""Added tokens: cut out of the text before the model sees it.

``leftmost_longest`` looks in two rounds: for the tokens that are not normalized in the raw text,
then, after normalizing each stretch between them, for the others, themselves normalized. A match
that does not count (part of a word, or special when special tokens are not parsed) hides shorter
ones at its place.

Source: huggingface/tokenizers 0.23, tokenizer/added_vocabulary.rs; ggml-org/llama.cpp,
llama-vocab.cpp, ``tokenizer_st_partition`` (``longest_first``); alibaba/MNN, tokenizer.cpp
(``first_listed``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.pipeline.normalizers.aligned import Aligned
from mtkit.unicode import characters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtkit.spec import AddedToken, AddedTokens

    Piece = tuple[Aligned, int | None]
    Normalize = Callable[[Aligned], None]


class Cutter:
    """Cuts the added tokens out of texts."""

    def __init__(self, added: AddedTokens, normalize: Normalize | None) -> None:
        self._added = added
        self._first = Cutter(added.first, None) if added.first else None
        self._is_space = (
            characters.is_white_space if added.strip == "unicode" else characters.is_ascii_space
        )
        self.normalized = {
            token.id: _normalized(token, normalize) for token in added.tokens if token.content
        }
        """Id -> the text that the token is found by and that decoding starts from."""
        self._vanished = next(
            (_text(t) for t in added.tokens if t.normalized and self.normalized.get(t.id) == ""), ""
        )
        self._special = {_text(token) for token in added.tokens if token.special}
        self._raw = self._find_any(token for token in added.tokens if not token.normalized)
        self._late = self._find_any(token for token in added.tokens if token.normalized)

    def cut(self, text: Aligned, *, parse_special: bool | None) -> list[Piece]:
        """Cut the tokens that are looked for in the raw text; each piece has its id or None."""
        if self._first:
            pieces = self._first.cut(text, parse_special=parse_special)
            return [
                cut
                for part, token_id in pieces
                for cut in (
                    [(part, token_id)] if token_id is not None else self._cut(part, parse_special)
                )
            ]
        return self._cut(text, parse_special)

    def cut_normalized(self, text: Aligned, *, parse_special: bool | None) -> list[Piece]:
        """Cut the tokens that are looked for in the normalized text."""
        if self._vanished and text.text:
            raise UnsupportedError(
                f"the added token {self._vanished!r} is nothing once normalized; the reference"
                " finds that everywhere, or never ends",
                field="added_tokens",
            )
        if not self._late or self._added.match != "leftmost_longest":
            # Also a text that is not cut now begins where its first character came from.
            return [(text.part(0, len(text)), None)]
        return self._split(text, self._late, self._parses(parse_special))

    def _cut(self, text: Aligned, parse_special: bool | None) -> list[Piece]:
        parses = self._parses(parse_special)
        if self._added.match == "longest_first":
            return self._one_by_one(text, parses)
        return self._split(text, self._raw, parses) if self._raw else [(text, None)]

    def _parses(self, parse_special: bool | None) -> bool:
        return self._added.parse_special if parse_special is None else parse_special

    def _find_any(self, tokens: Iterable[AddedToken]) -> dict[str, list[tuple[str, AddedToken]]]:
        """Return the tokens by first character, in the order in which they are tried."""
        table: dict[str, list[tuple[str, AddedToken]]] = {}
        for token in tokens:
            content = self.normalized.get(token.id) if token.content else None
            if content:
                table.setdefault(content[0], []).append((content, token))
        if self._added.match == "leftmost_longest":
            for listed in table.values():
                listed.sort(key=lambda entry: -len(entry[0]))
        return table

    def _split(
        self, text: Aligned, table: dict[str, list[tuple[str, AddedToken]]], parses: bool
    ) -> list[Piece]:
        """Go over the text once; at each place the first token of the table that is there."""
        whole, done, at = text.text, 0, 0
        pieces: list[Piece] = []
        while at < len(whole):
            listed = table.get(whole[at], ())
            found = next((entry for entry in listed if whole.startswith(entry[0], at)), None)
            if found is None:
                at += 1
                continue
            content, token = found
            first, last = at, at + len(content)
            at = last
            if not parses and _text(token) in self._special:
                continue
            if token.single_word and _inside_word(whole, first, last):
                continue
            if token.lstrip:
                while first > done and self._is_space(whole[first - 1]):
                    first -= 1
                first = max(first, done)
            if token.rstrip:
                while last < len(whole) and self._is_space(whole[last]):
                    last += 1
            if first > last:
                raise UnsupportedError(
                    f"the added token {content!r} lies in white space that belongs to the one"
                    " before it; the reference fails here, too",
                    field="added_tokens",
                )
            if done < first:
                pieces.append((text.part(done, first), None))
            if first < last:
                pieces.append((text.part(first, last), token.id))
            done = last
        if done < len(whole) or not pieces:
            pieces.append((text.part(done, len(whole)), None))
        return pieces

    def _one_by_one(self, text: Aligned, parses: bool) -> list[Piece]:
        """Cut each token, the longest first, out of all stretches that are left."""
        pieces: list[Piece] = [(text, None)]
        for token in sorted(self._added.tokens, key=lambda token: -len(token.content)):
            if (token.special and not parses) or not token.content:
                continue
            content = _text(token)
            pieces = [
                cut
                for part, token_id in pieces
                for cut in (
                    [(part, token_id)]
                    if token_id is not None
                    else self._cut_one(part, token, content)
                )
            ]
        return pieces

    def _cut_one(self, text: Aligned, token: AddedToken, content: str) -> list[Piece]:
        whole, done = text.text, 0
        pieces: list[Piece] = []
        while (found := whole.find(content, done)) >= 0:
            first, last = found, found + len(content)
            while token.lstrip and first > done and self._is_space(whole[first - 1]):
                first -= 1
            while token.rstrip and last < len(whole) and self._is_space(whole[last]):
                last += 1
            if done < first:
                pieces.append((text.part(done, first), None))
            pieces.append((text.part(first, last), token.id))
            done = last
        if done < len(whole) or not pieces:
            pieces.append((text.part(done, len(whole)) if done else text, None))
        return pieces


def _text(token: AddedToken) -> str:
    return token.content.decode("utf-8", "surrogateescape")


def _normalized(token: AddedToken, normalize: Normalize | None) -> str:
    text = _text(token)
    if normalize is None or not token.normalized:
        return text
    aligned = Aligned.of(text)
    normalize(aligned)
    return aligned.text


def _inside_word(text: str, first: int, last: int) -> bool:
    """Tell whether a word character stands right before or behind."""
    return (first > 0 and characters.is_word(text[first - 1])) or (
        last < len(text) and characters.is_word(text[last])
    )
