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
from mtkit.pipeline.aligned_text import AlignedText
from mtkit.unicode import characters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mtkit.spec import AddedToken, AddedTokens

    Piece = tuple[AlignedText, int | None]
    Normalize = Callable[[AlignedText], None]
    Table = dict[str, list[tuple[str, AddedToken]]]
    Match = tuple[int, int, AddedToken]


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
        self._nothing = next(
            (t for t in added.tokens if t.normalized and self.normalized.get(t.id) == ""), None
        )
        self._special = {_text(token) for token in added.tokens if token.special}
        self._raw = self._find_any(token for token in added.tokens if not token.normalized)
        self._late = self._find_any(token for token in added.tokens if token.normalized)

    def cut(self, text: AlignedText, *, parse_special: bool | None) -> list[Piece]:
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

    def cut_normalized(self, text: AlignedText, *, parse_special: bool | None) -> list[Piece]:
        """Cut the tokens that are looked for in the normalized text."""
        parses = self._parses(parse_special)
        if self._added.match == "leftmost_longest" and self._nothing and text.text:
            hidden = not parses and _text(self._nothing) in self._special
            matches = _matches_and_nothing(text.text, self._late, self._nothing, hidden=hidden)
            return self._split(text, matches, parses)
        if not self._late or self._added.match != "leftmost_longest":
            # Also a text that is not cut now begins where its first character came from.
            return [(text.part(0, len(text)), None)]
        return self._split(text, _matches(text.text, self._late), parses)

    def _cut(self, text: AlignedText, parse_special: bool | None) -> list[Piece]:
        parses = self._parses(parse_special)
        if self._added.match == "longest_first":
            return self._one_by_one(text, parses)
        if not self._raw:
            return [(text, None)]
        return self._split(text, _matches(text.text, self._raw), parses)

    def _parses(self, parse_special: bool | None) -> bool:
        return self._added.parse_special if parse_special is None else parse_special

    def _find_any(self, tokens: Iterable[AddedToken]) -> Table:
        """Return the tokens by first character, in the order in which they are tried."""
        table: Table = {}
        for token in tokens:
            content = self.normalized.get(token.id) if token.content else None
            if content:
                table.setdefault(content[0], []).append((content, token))
        if self._added.match == "leftmost_longest":
            for listed in table.values():
                listed.sort(key=lambda entry: -len(entry[0]))
        return table

    def _split(self, text: AlignedText, matches: Iterable[Match], parses: bool) -> list[Piece]:
        """Cut a text at those matches that count."""
        whole, end = text.text, 0
        pieces: list[Piece] = []
        for first, last, token in matches:
            if not parses and _text(token) in self._special:
                continue
            if token.single_word and _inside_word(whole, first, last):
                continue
            if token.lstrip:
                while first > end and self._is_space(whole[first - 1]):
                    first -= 1
                first = max(first, end)
            if token.rstrip:
                while last < len(whole) and self._is_space(whole[last]):
                    last += 1
            if first > last:
                raise UnsupportedError(
                    f"the added token {_text(token)!r} lies in white space that belongs to the one"
                    " before it; the reference fails here, too",
                    field="added_tokens",
                )
            if end < first:
                pieces.append((text.part(end, first), None))
            if first < last:
                pieces.append((text.part(first, last), token.id))
            end = last
        if end < len(whole) or not pieces:
            pieces.append((text.part(end, len(whole)), None))
        return pieces

    def _one_by_one(self, text: AlignedText, parses: bool) -> list[Piece]:
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

    def _cut_one(self, text: AlignedText, token: AddedToken, content: str) -> list[Piece]:
        whole, end = text.text, 0
        pieces: list[Piece] = []
        while (at := whole.find(content, end)) >= 0:
            first, last = at, at + len(content)
            while token.lstrip and first > end and self._is_space(whole[first - 1]):
                first -= 1
            while token.rstrip and last < len(whole) and self._is_space(whole[last]):
                last += 1
            if end < first:
                pieces.append((text.part(end, first), None))
            pieces.append((text.part(first, last), token.id))
            end = last
        if end < len(whole) or not pieces:
            pieces.append((text.part(end, len(whole)) if end else text, None))
        return pieces


def _matches(text: str, table: Table) -> Iterator[Match]:
    """Go over a text once; at each place the first token of the table that is there."""
    at = 0
    while at < len(text):
        listed = table.get(text[at], ())
        entry_here = next((entry for entry in listed if text.startswith(entry[0], at)), None)
        if entry_here is None:
            at += 1
            continue
        content, token = entry_here
        yield at, at + len(content), token
        at += len(content)


def _matches_and_nothing(
    text: str, table: Table, nothing: AddedToken, *, hidden: bool
) -> Iterator[Match]:
    """Give the matches where one token is nothing: it is found wherever no other one is.

    But not right behind another one, unless the search for a longer one came to the end of the
    text. Where that search finds nothing at all, the reference never ends. As it goes on by bytes,
    it fails inside a character of several: at once where it looks around the token, else when all
    is found.

    Args:
        hidden: It does not count, so being inside a character does no harm.

    Source: daac-tools/daachorse 3.0.3, src/bytewise/iter.rs, ``LeftmostFindIterator``.
    """
    longest = max((len(listed[0][0]) for listed in table.values()), default=0)
    why = f"the added token {_text(nothing)!r} is nothing once normalized; the reference"
    looks = nothing.single_word or nothing.lstrip or nothing.rstrip
    at, skips, inside = 0, False, ""
    while at < len(text):
        listed = table.get(text[at], ())
        match = next((entry for entry in listed if text.startswith(entry[0], at)), None)
        ends = len(text) - at <= longest and any(c.startswith(text[at:]) for c, _ in listed)
        if match:
            yield at, at + len(match[0]), match[1]
            at += len(match[0])
            skips = skips or not ends
            if ends and at == len(text) and not inside:
                return
        elif ends:
            raise UnsupportedError(f"{why} never ends on {text[at:]!r}", field="added_tokens")
        else:
            if not skips:
                yield at, at, nothing
            skips = False
            inside = inside or (text[at] if text[at] > "\x7f" and not hidden else "")
            if inside and looks:
                break
            at += 1
    if inside:
        raise UnsupportedError(f"{why} fails on {inside!r}", field="added_tokens")
    yield at, at, nothing


def _text(token: AddedToken) -> str:
    return token.content.decode("utf-8", "surrogateescape")


def _normalized(token: AddedToken, normalize: Normalize | None) -> str:
    text = _text(token)
    if normalize is None or not token.normalized:
        return text
    aligned = AlignedText.of(text)
    normalize(aligned)
    return aligned.text


def _inside_word(text: str, first: int, last: int) -> bool:
    """Tell whether a word character stands right before or behind."""
    return (first > 0 and characters.is_word(text[first - 1])) or (
        last < len(text) and characters.is_word(text[last])
    )
