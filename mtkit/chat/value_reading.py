"""The value of an argument that stands between signs, read while a model writes it."""

from __future__ import annotations

import json
import re

from mtkit.chat.notation import scalar
from mtkit.chat.signs import PARTIAL, before, tokens
from mtkit.chat.value_kinds import KINDS, fitted, kinds_of, literal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.chat.answer_form import Pair, Pairs
    from mtkit.chat.incoming import Incoming, Waiting


class ValueReading:
    """Reads one value of arguments that are written one by one."""

    def __init__(
        self,
        source: Incoming,
        tell: Callable[[str], None],
        pairs: Pairs,
        pair: Pair,
        key: str,
        schema: Any,
    ) -> None:
        self._source, self._tell, self._pairs, self._pair, self._key = (
            source,
            tell,
            pairs,
            pair,
            key,
        )
        self._kinds = kinds_of(schema)
        self._schema = schema
        self._quote: tuple[str, str] | None = None
        self._seen = 0

    def read(self) -> Waiting[bool | None]:
        """Read it; True where it is the call's last, None where it does not end."""
        source = self._source
        for quote in self._pairs.quotes:
            if (yield from self._starts(quote[0])):
                self._quote = quote
                source.at += len(quote[0])
                break
        signs = (self._pair.following, self._pair.closing)
        firsts = {self._quote[1][0]} if self._quote else {sign.core[:1] for sign in signs}
        self._firsts = re.compile("[" + "".join(map(re.escape, sorted(firsts))) + "]")
        only_text = self._pair.kinds == {"string"} or self._quote is not None
        may_be_text = "string" in self._pair.kinds
        if only_text or (may_be_text and self._kinds == {"string"}):
            return (yield from self._read_text())
        scan, first = source.at, None
        while True:
            stop = yield from self._stop(scan)
            if stop is None and first is None:
                return None
            stop = stop or (0, 0, True)
            start, end, ends = first = first or stop
            try:
                if stop[0] or not first[0]:
                    found = self._read_value(
                        source.text[source.at : stop[0]], may_be_text=may_be_text
                    )
                    start, end, ends = stop
                    break
            except ValueError:
                pass
            if stop[2]:
                found = source.text[source.at : start]
                break
            scan = stop[0] + 1
        self._tell(json.dumps(found, ensure_ascii=False))
        source.at = end
        return ends

    def _starts(self, sign: str) -> Waiting[bool]:
        source = self._source
        while sign.startswith(source.text[source.at : source.at + len(sign)]):
            if source.text.startswith(sign, source.at):
                return True
            if not (yield from source.more()):
                break
        return False

    def _read_text(self) -> Waiting[bool | None]:
        """Read a text, told as it comes."""
        source, tell = self._source, self._tell
        tell('"')
        while True:
            stop = self._find(source.at)
            if stop is not None and stop[1] >= 0:
                start, end, ends = stop
                tell(json.dumps(source.text[source.at : start], ensure_ascii=False)[1:-1] + '"')
                source.at = end
                return ends
            safe = stop[0] if stop is not None else self._kept(len(source.text))
            if safe > source.at:
                tell(json.dumps(source.text[source.at : safe], ensure_ascii=False)[1:-1])
                source.at = safe
                source.let_go(source.at)
            if not (yield from source.more()):
                return None

    def _kept(self, end: int) -> int:
        text = self._source.text
        while end > self._source.at and text[end - 1].isspace():
            end -= 1
        return end

    def _stop(self, scan: int) -> Waiting[tuple[int, int, bool] | None]:
        """Wait for what ends the value: its begin, its end, and whether the call ends, too."""
        while True:
            stop = self._find(scan)
            if stop is not None and stop[1] >= 0:
                return stop
            scan = self._seen
            if not (yield from self._source.more()):
                return None

    def _find(self, scan: int) -> tuple[int, int, bool] | None:
        """Find what ends the value.

        Returns:
            Where it begins, where it ends, and whether the call does; -1 for the end where the text
            does not say yet; None where there is nothing like it.
        """
        source = self._source
        closing = self._quote[1] if self._quote else ""
        signs = ((self._pair.following, False), (self._pair.closing, True))
        text = source.text
        self._seen = len(text)
        for begin in self._firsts.finditer(text, scan):
            at = place = begin.start()
            if closing:
                if not text.startswith(closing, at):
                    if closing.startswith(text[at:]) and not source.ended:
                        self._seen = at
                        return at, -1, False
                    continue
                place = at + len(closing)
                while place < len(text) and text[place].isspace():
                    place += 1
            found = [(sign.match(text, place, "", self._key), sign, ends) for sign, ends in signs]
            full = [one for one in found if one[0] >= 0]
            partial = any(one[0] == PARTIAL for one in found) and not source.ended
            if full and not partial:
                end, sign, ends = max(full, key=lambda one: one[0])
                start = at if closing else source.at + before(text[source.at : at], sign.lead)
                passed = end
                for blank in sign.trail:
                    if passed < len(text) and text[passed] == blank:
                        passed += 1
                return start, passed, ends
            if partial:
                self._seen = at
                lead = max((sign.lead for sign, _ in signs), key=len)
                start = at if closing else source.at + before(text[source.at : at], lead)
                return start, -1, False
            loose = self._loose(place) if not closing else None
            if loose is not None:
                self._seen = at
                return loose
        return None

    def _loose(self, at: int) -> tuple[int, int, bool] | None:
        """Find an end whose first tag is there, and not all that should follow it."""
        source, text = self._source, self._source.text
        first = next(iter(tokens(self._pair.closing.core)), "")
        if len(first) < 4 or not text.startswith(first, at):
            return None
        rest = text[at + len(first) :].lstrip()
        known = [one for one in tokens(self._pair.closing.core)[1:] if len(one) > 3]
        if not rest and source.ended:
            return (
                source.at + before(text[source.at : at], self._pair.closing.lead),
                len(text),
                True,
            )
        if not source.ended and any(one.startswith(rest) for one in known):
            return source.at + before(text[source.at : at], self._pair.closing.lead), -1, True
        if any(rest.startswith(one) for one in known):
            end = len(text) - len(rest)
            return source.at + before(text[source.at : at], self._pair.closing.lead), end, True
        return None

    def _read_value(self, text: str, *, may_be_text: bool) -> Any:
        """Return the value that a text is.

        Raises:
            ValueError: It is none.
        """
        if not may_be_text or "string" not in self._kinds:
            try:
                return self._parsed(text)
            except ValueError:
                if not may_be_text or self._kinds & {"array", "object"}:
                    raise
                return text
        try:
            found = self._parsed(text)
        except ValueError:
            return text
        kind = KINDS.get(type(found), "string")
        fits = kind in self._kinds or (kind == "integer" and "number" in self._kinds)
        return found if fits else text

    def _parsed(self, text: str) -> Any:
        """Return the value that is written: JSON, Python's or the template's own notation."""
        text = text.strip()
        notation = self._pairs.notation
        if not text and self._kinds & {"array", "object"} and notation is not None:
            return [] if "array" in self._kinds else {}
        try:
            return scalar(text, plain=False)
        except ValueError:
            pass
        if notation is not None:
            found = notation.read(text)
            return found if notation.quotes[0] else fitted(found, self._schema)
        try:
            return json.loads(text, strict=False)
        except (ValueError, RecursionError):
            pass
        found = literal(text)
        if found is None:
            raise ValueError
        return found
