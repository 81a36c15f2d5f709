"""Comparison of two tokenizers: where their ids differ, and at which stage they part."""

from __future__ import annotations

from mtkit.base.escape import byte_escapes, printable
from mtkit.base.record import Record
from mtkit.errors import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from mtkit.pipeline.trace.records import Trace
    from mtkit.tokenizer.tokenizer import Tokenizer

LINE_LIMIT_BYTES = 1 << 20
"""A longer line of a corpus is compared in parts of this length."""


class Difference(Record):
    """A text with different ids.

    Attributes:
        number: Which of the texts, from 1.
        text: The text.
        first: Number of the first token that differs, from 0.
        stage: Where the two part: added tokens, normalizer, pre-tokenizer, model or post-processor.
        left: Ids and tokens of the first tokenizer.
        right: Ids and tokens of the second.
    """

    number: int
    text: str
    first: int
    stage: str
    left: tuple[list[int], list[str]]
    right: tuple[list[int], list[str]]


class Comparison(Record):
    """The result of comparing two tokenizers on many texts.

    Attributes:
        texts: Number of texts compared.
        different: Number of texts with different ids.
        tokens: Number of tokens of each tokenizer.
        differences: The first texts with different ids, as many as were asked for.
        sides: Path of each tokenizer's file.
    """

    texts: int
    different: int
    tokens: tuple[int, int]
    differences: tuple[Difference, ...]
    sides: tuple[str, str] = ("", "")

    def __repr__(self) -> str:
        verdict = "all ids are equal" if self.equal else f"{self.different} differ"
        left, right = (one or "unnamed" for one in self.sides)
        return f"<Comparison of {left} and {right}: {counted(self.texts, 'text')}, {verdict}>"

    @property
    def equal(self) -> bool:
        """Whether all ids are equal."""
        return self.different == 0

    def document(self) -> dict[str, object]:
        """Return it as a JSON document, schema ``mtkit.compare/1``."""
        return {
            "schema": "mtkit.compare/1",
            "files": [printable(one) for one in self.sides],
            "equal": self.equal,
            "texts": self.texts,
            "different": self.different,
            "tokens": list(self.tokens),
            "differences": [
                {
                    "number": one.number,
                    "text": byte_escapes(one.text),
                    "first": one.first,
                    "stage": one.stage,
                    "left": {"ids": one.left[0], "tokens": one.left[1]},
                    "right": {"ids": one.right[0], "tokens": one.right[1]},
                }
                for one in self.differences
            ],
        }


def compare(
    left: Tokenizer,
    right: Tokenizer,
    texts: Iterable[str | bytes],
    *,
    most: int = 10,
    add_special_tokens: bool = True,
    parse_special: bool | None = None,
) -> Comparison:
    """Encode texts with both tokenizers and compare ids.

    Args:
        left: The first.
        right: The second.
        texts: Taken one by one; none is kept but those that differ.
        most: How many differences to describe.
        add_special_tokens: Let the post-processors add their tokens.
        parse_special: Recognize special tokens in the text; None: each as its reference does.
    """
    count = different = 0
    tokens = [0, 0]
    found: list[Difference] = []
    for text in texts:
        count += 1
        ids = [
            one.encode_ids(text, add_special_tokens=add_special_tokens, parse_special=parse_special)
            for one in (left, right)
        ]
        tokens[0] += len(ids[0])
        tokens[1] += len(ids[1])
        if ids[0] != ids[1]:
            different += 1
            if len(found) < most:
                found.append(_describe(left, right, text, ids, count, parse_special))
    sides = left.source, right.source
    return Comparison(count, different, (tokens[0], tokens[1]), tuple(found), sides)


def lines_of(file: BinaryIO, seen: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """Yield the lines of a corpus without their ends; ``seen`` hears the bytes read so far."""
    total = 0
    while True:
        line = file.readline(LINE_LIMIT_BYTES)
        if not line:
            return
        total += len(line)
        if seen is not None:
            seen(total)
        yield line.removesuffix(b"\n").removesuffix(b"\r")


def _describe(
    left: Tokenizer,
    right: Tokenizer,
    text: str | bytes,
    ids: list[list[int]],
    number: int,
    parse_special: bool | None,
) -> Difference:
    traces = [
        one.trace(text, add_special_tokens=False, parse_special=parse_special)
        for one in (left, right)
    ]
    return Difference(
        number,
        traces[0].text,
        first_difference(*ids),
        parting_stage(traces[0], traces[1]),
        (ids[0], [left.id_to_token(i) or "" for i in ids[0]]),
        (ids[1], [right.id_to_token(i) or "" for i in ids[1]]),
    )


def first_difference(left: list[int], right: list[int]) -> int:
    """Return where two lists of ids part; the length of the shorter one where one begins both."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(left), len(right)))


def parting_stage(left: Trace, right: Trace) -> str:
    """Return the first stage at which two walks of one text differ."""
    if left.ids == right.ids:
        return "post-processor"
    if _cuts(left) != _cuts(right):
        return "added tokens"
    if _normalized(left) != _normalized(right):
        return "normalizer"
    if _words(left) != _words(right):
        return "pre-tokenizer"
    return "model"


def _cuts(trace: Trace) -> list[tuple[int, int]]:
    """Return the places of added tokens."""
    return [(word.part.start, word.part.end) for word in trace.words if word.model is None]


def _normalized(trace: Trace) -> str:
    """Return the normalized text, a mark for a space written as the space."""
    steps = [step for step in trace.steps if step.stage in ("normalizer", "added tokens")]
    parts = steps[-1].parts if steps else ()
    text = "".join(part.text for part in parts) if parts else trace.text
    return text.replace("\u2581", " ").strip(" ")


def _words(trace: Trace) -> list[tuple[int, int]]:
    """Return the places of words in the original text."""
    return [(word.part.start, word.part.end) for word in trace.words]
