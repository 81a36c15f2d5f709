"""What commands show on a terminal: screens, and how far something is.

A screen is said in parts with a role each, never in styles. A part's role gives it its color;
without color (``NO_COLOR``, a dumb terminal) the same text stays. Text is escaped as
``output.cell`` does it, folded between words at the terminal's width, and ``sticky`` keeps what
belongs together on one line. Rows of a pipe are ``output``'s.

What takes long shows its progress on one line, gone at the end.
"""

from __future__ import annotations

import os
import sys
import time

from mtkit.base.escape import printable, visible
from mtkit.commands import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import NoReturn

    from mtkit.errors import MtkitError


_CODES = {
    "head": "1",
    "name": "36",
    "id": "33",
    "special": "35",
    "dim": "2",
    "good": "32",
    "warning": "33",
    "bad": "31",
    "hint": "34",
    "even": "30;46",
    "odd": "30;43",
}
"""Role -> SGR code: headings; names of files and formats; ids; special tokens; units and remarks;
verdicts; what to type next; tokens by turns."""
_GAP = 2
_NARROWEST = 8
VALUE_LINES = 6
"""Lines that a value of a key may take in a table."""
_STICKY = "\N{NO-BREAK SPACE}"
DOT = f"{_STICKY}· "


class Part(output.Escaped):
    """A part of a line with its role, its text escaped already."""

    role: str = ""


def part(role: str, value: object) -> Part:
    """Return a value as a part of a line."""
    text = Part(output.cell(value))
    text.role = role
    return text


def sticky(text: str) -> output.Escaped:
    """Return text that is never folded at its spaces."""
    return output.Escaped(text.replace(" ", _STICKY))


def count_part(number: int, what: str = "") -> output.Escaped:
    """Return a number in groups of three digits with what it counts: 1 token, 8,192 tokens."""
    plural = what if number == 1 or not what else f"{what}s"
    return sticky(f"{output.format_number(number)} {plural}".rstrip())


def size_part(n_bytes: int) -> output.Escaped:
    """Return a size with its unit."""
    return sticky(output.format_size(n_bytes))


def token_text(raw: bytes) -> output.Escaped:
    """Return the text of a token: ``·hello``, ``⏎``, and bytes that are no character as xNN."""
    return output.Escaped(visible(raw))


def join_parts(items: Iterable[object], between: str = DOT) -> list[object]:
    """Return items with something between them; a list is one item, empty ones are left out."""
    line: list[object] = []
    for item in items:
        parts = item if isinstance(item, list) else [item] * bool(item)
        if line and parts:
            line.append(part("dim", output.Escaped(between)))
        line += parts
    return line


class Screen:
    """Writes lines, facts and tables to a terminal."""

    def __init__(self, *, stderr: bool = False) -> None:
        self.width = max(columns(), 2 * _NARROWEST)
        self._has_color = output.wants_color(sys.stderr if stderr else sys.stdout)
        self._write = sys.stderr.write if stderr else output.write

    def line(self, *parts: object, indent: int = 0, hanging: int = 0) -> None:
        """Write one line; where it is folded, the rest is indented further by ``hanging``."""
        for place, text in enumerate(self._fold(parts, indent, indent + hanging)):
            self._write(" " * (indent + hanging * (place > 0)) + text + "\n")

    def verdict(self, *parts: object, good: bool | None) -> None:
        """Write a line that begins with ✓ or ✗, or with ! where it is good in part (None)."""
        signs = {True: ("good", "✓"), False: ("bad", "✗"), None: ("warning", "!")}
        sign = part(*signs[good])
        self.line(sign, output.Escaped(" "), *parts, hanging=2)

    def error(self, error: MtkitError) -> None:
        """Write an error: where and what, and on a line of its own what to do."""
        hint, error.hint = error.hint, ""
        self.verdict(str(error), good=False)
        if hint:
            self.line(part("hint", hint), indent=2)

    def heading(self, text: str, remark: str = "") -> None:
        """Write a heading after an empty line."""
        remarks = [output.Escaped("  "), part("dim", remark)] if remark else []
        self._write("\n")
        self.line(part("head", text), *remarks)

    def facts(self, rows: Iterable[tuple[str, Sequence[object]]]) -> None:
        """Write facts, each with its name before it, aligned."""
        facts = list(rows)
        room = max((len(name) for name, _ in facts), default=0) + _GAP
        for name, parts in facts:
            lines = list(self._fold(parts, room, room)) or [""]
            label = self._paint([("head", name)]) + " " * (room - len(name))
            self._write(f"{label}{lines[0]}".rstrip() + "\n")
            for text in lines[1:]:
                self._write(" " * room + text + "\n")

    def table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        elastic: int | tuple[int, ...] = 0,
        indent: int = 0,
        most_lines: int = 1,
    ) -> None:
        """Write a table as wide as its content or as the terminal.

        Args:
            columns: Headings; one that ends in ``>`` has its column on the right, ``:ROLE`` at the
                end gives its cells a role.
            elastic: The column whose cells are cut first where the room is short, with an ellipsis;
                of several, the wider ones first.
            most_lines: Lines that a cell may take before it is cut.
        """
        from rich.cells import cell_len, set_cell_size

        heads = [column.partition(":")[0] for column in columns]
        roles = [column.partition(":")[2] for column in columns]
        names = [part("head", head.removesuffix(">")) for head in heads]
        cells = [[*map(_part_of, row, roles)] for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(names, *cells, strict=True)]
        excess = indent + sum(widths) + _GAP * (len(widths) - 1) - self.width
        first = (elastic,) if isinstance(elastic, int) else elastic
        while excess > 0:
            widest = max(first, key=lambda at: widths[at])
            if widths[widest] <= _NARROWEST:
                break
            widths[widest] -= 1
            excess -= 1
        for place in sorted(range(len(widths)), key=lambda at: -widths[at]):
            cut = max(min(excess, widths[place] - _NARROWEST), 0)
            widths[place] -= cut
            excess -= cut
        lines = []
        for row in _lines_of([names, *cells], widths, most_lines):
            while len(row) > 1 and not row[-1]:
                row.pop()
            line = " " * indent
            for place, (text, width, head) in enumerate(zip(row, widths, heads, strict=False)):
                cell = text if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"
                space = " " * (width - cell_len(cell))
                painted = self._paint([(text.role, cell)])
                is_last = place == len(row) - 1
                line += space + painted if head.endswith(">") else painted + space * (not is_last)
                line += "" if is_last else " " * _GAP
            lines.append(line)
        self._write("\n".join(lines) + "\n")

    def _fold(self, parts: Sequence[object], first: int, rest: int) -> Iterator[str]:
        """Yield the lines of a text, without their indentation."""
        from rich.cells import cell_len

        line: list[tuple[str, str]] = []
        used, room = 0, self.width - first
        for word in _words(parts):
            width = sum(cell_len(text) for _, text in word)
            if line and used + 1 + width > room:
                yield self._paint(line).rstrip()
                line, used, room = [], 0, self.width - rest
            if line:
                line.append(("", " "))
                used += 1
            elif not width:
                continue  # spaces where a line was folded
            while width > room:
                head, word = _cut_word(word, room)
                yield self._paint(head)
                width, room = sum(cell_len(text) for _, text in word), self.width - rest
            line += word
            used += width
        if line:
            yield self._paint(line)

    def _paint(self, parts: Iterable[tuple[str, str]]) -> str:
        pieces = ((_CODES.get(role, ""), text.replace(_STICKY, " ")) for role, text in parts)
        if not self._has_color:
            return "".join(text for _, text in pieces)
        return "".join(f"\x1b[{code}m{text}\x1b[0m" if code else text for code, text in pieces)


def columns() -> int:
    """Return the terminal's width, also if stdout is a pipe to a pager.

    shutil, whose function does not ask stderr, would import twenty modules.
    """
    width = os.environ.get("COLUMNS", "")
    if width.isdecimal() and int(width):
        return int(width)
    for stream in (sys.__stdout__, sys.__stderr__, sys.__stdin__):
        if stream is not None and stream.isatty():
            count = os.get_terminal_size(stream.fileno()).columns
            if count:
                return count
    return 80


def _part_of(value: object, role: str) -> Part:
    if isinstance(value, Part):
        return value
    text = output.cell(value) if role == "id" else output.format_value(value)
    return part(role, output.Escaped(text))


def _lines_of(rows: Iterable[list[Part]], widths: Sequence[int], most: int) -> Iterator[list[Part]]:
    """Yield the lines of rows whose cells go on below; the last of ``most`` has what is left."""
    from rich.cells import cell_len

    for row in rows:
        rest, number = row, 1
        while number < most and any(
            cell_len(text) > width for text, width in zip(rest, widths, strict=False)
        ):
            line, behind = [], []
            for text, width in zip(rest, widths, strict=False):
                count = min(len(text), width)
                while cell_len(text[:count]) > width:
                    count -= 1
                line.append(part(text.role, output.Escaped(text[:count].rstrip())))
                behind.append(part(text.role, output.Escaped(text[count:])))
            yield line
            rest, number = behind, number + 1
        yield rest


def _words(parts: Iterable[object]) -> Iterator[list[tuple[str, str]]]:
    """Yield what stands between spaces; a word can have parts of several roles."""
    word: list[tuple[str, str]] = []
    for value in parts:
        piece = _part_of(value, "")
        for place, text in enumerate(piece.split(" ")):
            if place:
                yield word
                word = []
            if text:
                word.append((piece.role, text))
    yield word


def _cut_word(
    word: list[tuple[str, str]], room: int
) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """Cut a word that is too long for a line."""
    from rich.cells import cell_len

    head: list[tuple[str, str]] = []
    for at, (role, text) in enumerate(word):
        if cell_len(text) <= room:
            head.append((role, text))
            room -= cell_len(text)
            continue
        end = 0
        while end < len(text) and cell_len(text[: end + 1]) <= room:
            end += 1
        end = end or (0 if head else 1)
        return [*head, (role, text[:end])], [(role, text[end:]), *word[at + 1 :]]
    return head, []


_SHOW_AFTER_SECONDS = 0.5
_PROGRESS_BAR = 24
_AROUND_BAR = 10
"""Characters around the bar and its name; one is left free at the end."""


def write_error(error: MtkitError) -> None:
    """Print an error on stderr: one line, in color on a terminal."""
    if sys.stderr.isatty():
        Screen(stderr=True).error(error)
    else:
        sys.stderr.write(f"mtkit: {printable(' '.join(str(error).splitlines()))}\n")


def raise_last_error(errors: Sequence[MtkitError]) -> NoReturn:
    """Print all errors but the last, and raise that: a line for each file."""
    for error in errors[:-1]:
        write_error(error)
    raise errors[-1]


class Progress:
    """One line on a terminal for what takes longer than half a second.

    Args:
        after: Seconds until it is shown; 0 where even the first part of it takes long.
    """

    def __init__(self, what: str, after: float = _SHOW_AFTER_SECONDS) -> None:
        self._what, self._after = what, after
        self._start = 0.0
        self._is_shown = False
        self._is_terminal = sys.stderr.isatty()

    def show(self, part: float, note: str = "") -> None:
        """Show how much is done, 0 to 1, and a note; the clock starts with the first call."""
        now = time.perf_counter()
        self._start = self._start or now
        if part >= 1:
            self._end()
            return
        if not self._is_terminal or now - self._start < self._after:
            return
        width = columns() - len(self._what) - _AROUND_BAR
        note = f"  {note}" if note and len(note) + 2 < width else ""
        room = min(_PROGRESS_BAR, width - len(note))
        filled = round(part * room)
        bar = f" [{'#' * filled}{'.' * (room - filled)}]" if room > 0 else ""
        sys.stderr.write(f"\r{self._what}{bar} {part:4.0%}{note}\x1b[K")
        sys.stderr.flush()
        self._is_shown = True

    def _end(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_shown = False


def byte_progress(what: str) -> Callable[[int, int], None]:
    """Return what shows how many bytes are done of all, how fast, and how long the rest takes."""
    bar, start = Progress(what), time.perf_counter()

    def show(count: int, total: int) -> None:
        seconds = max(time.perf_counter() - start, 1e-3)
        rate = count / seconds
        left = f"{(total - count) / rate:.0f} s left" if count else ""
        sizes = f"{output.format_size(count)} of {output.format_size(total)}"
        bar.show(count / max(total, 1), f"{sizes} · {output.format_size(int(rate))}/s · {left}")

    return show
