"""Errors that mtkit raises on purpose, and the exit code of each.

* MtkitError
  * AnswerNo          done, and the answer is "no" (differences, failed verification)   1
  * UsageError        wrong usage, file missing                                       2
  * FormatError       the file is damaged or not what it claims to be                 3
  * UnsupportedError  the file is fine, mtkit cannot do this with it                  4
    * LossError       a conversion would lose something that was not allowed          4
    * MissingExtra    an optional package is not installed                            4
    * NoToken         a part of a text has no token, not even the unknown one         4
  * ResourceError     disk, memory or a limit is exhausted                            5

A message is one line: where (file, field, byte offset), what, what to do. A low layer raises with
field and offset; the layer that knows the path adds it (``located``).
"""

from __future__ import annotations

_LONGEST = 300
"""Characters of a part of a message; a value from a file can have any length."""


def shorten(text: str) -> str:
    """Return the beginning of a text that is too long for a message, up to a blank near its end."""
    if len(text) <= _LONGEST:
        return text
    words, blank, rest = text[:_LONGEST].rpartition(" ")
    return f"{words}{blank}…" if blank and len(rest) <= _LONGEST // 4 else f"{text[:_LONGEST]}…"


IN_SHELL: list[bool] = []
"""Not empty while a command line runs, whose errors name options."""


def wording(shell: str, python: str) -> str:
    """Return how a message names what its reader types: an option, or an argument."""
    return shell if IN_SHELL else python


def allowing(code: str) -> str:
    """Return what allows a loss."""
    return wording(f"--allow-loss {code}", f'allow_loss=["{code}"]')


def format_first(texts: list[str], most: int) -> str:
    """Return the first texts, and how many more there are."""
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more


def format_count(number: int, what: str) -> str:
    """Return a number with what it counts: 1 token, 2 tokens."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def system_message(error: OSError) -> str:
    """Return the operating system's reason for not giving a file."""
    import errno

    words = {errno.ENOENT: "no such file", errno.EISDIR: "is a folder"}
    return words.get(error.errno or 0) or error.strerror or str(error)


def format_texts(number: int, total: int, what: str) -> str:
    """Return a count of texts with what it says of them: 1 of 9 texts gets, 2 of 9 texts get."""
    verb, _, rest = what.partition(" ")
    verb = {"are": "is"}.get(verb, f"{verb}s") if number == 1 else verb
    return f"{number} of {format_count(total, 'text')} {verb} {rest}"


class MtkitError(Exception):
    """Base of all errors a caller may want to catch.

    Attributes:
        what: What is wrong, without the place.
        source: Path of the file; empty until the layer that knows it fills it in.
        field: Name of the field in the format's own terms.
        offset: Byte offset of the field from the start of the file.
        hint: What the user can do about it.
        which: The text that it is about, of many ("texts[3]", "line 4"); else empty.
    """

    exit_code = 1

    def __init__(
        self,
        what: str,
        *,
        source: str = "",
        field: str = "",
        offset: int | None = None,
        hint: str = "",
    ) -> None:
        what = shorten(what)
        super().__init__(what)
        self.what = what
        self.source = source
        self.field = shorten(field)
        self.offset = offset
        self.hint = hint
        self.which = ""

    def located(self, source: str) -> MtkitError:
        """Fill in the path, unless a lower layer already named one; returns self."""
        self.source = self.source or source
        return self

    @property
    def is_about_text(self) -> bool:
        """Whether a text that was given is wrong, not the file or an option."""
        return self.field in ("text", "pair")

    def __str__(self) -> str:
        place = f" at offset {self.offset}" if self.offset is not None else ""
        stands_for_text = self.field == "text" and self.which
        field = self.which if stands_for_text else self.field
        parts = [self.source, f"{field}{place}".strip(), self.what]
        message = ": ".join(part for part in parts if part)
        if self.which and not stands_for_text:
            message += f", in {self.which}"
        return f"{message}; {self.hint}" if self.hint else message


class ErrorSource:
    """A ``with`` block whose errors about the content of a file get the path of the file."""

    __slots__ = ("source",)

    def __init__(self, source: str) -> None:
        self.source = source

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self.name(error)

    def name(self, error: object) -> None:
        """Add the path to an error that is about the file."""
        if isinstance(error, (FormatError, UnsupportedError, ResourceError)):
            error.located(self.source)


class AnswerNo(MtkitError):
    """A check failed: ids or logits differ, or a token does not exist."""

    exit_code = 1


class UsageError(MtkitError):
    """The command line or an argument is invalid, or a file is missing."""

    exit_code = 2


class FormatError(MtkitError):
    """A file does not follow its format."""

    exit_code = 3


class UnsupportedError(MtkitError):
    """mtkit does not support this."""

    exit_code = 4


class LossError(UnsupportedError):
    """A conversion would lose something that was not allowed (``--allow-loss``)."""


class MissingExtra(UnsupportedError):
    """An optional package is needed; the hint names what to install."""


class NoToken(UnsupportedError):
    """A text has a part without a token, in a tokenizer without an unknown token."""

    is_about_text = True


class ResourceError(MtkitError):
    """Out of disk space, memory or time, or a limit of mtkit is exceeded."""

    exit_code = 5
