"""Comparison of two tokenizers: where their ids differ, at which stage they part, on which texts.

The built-in texts are 200, in data/probes.json. They are made to part tokenizers that nearly agree:
spaces and their kinds, digits, contractions, case, scripts without spaces, combining marks in both
orders, controls, emoji with joiners, code, mixtures of words, and ("spelled") texts that spell out
what a special token or U+2581 looks like.
"""

from __future__ import annotations

from mtkit.base.binary import package_file
from mtkit.base.escape import byte_escapes, printable
from mtkit.base.record import Record
from mtkit.errors import format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from mtkit.pipeline.trace import Trace
    from mtkit.spec import AddedTokens, TokenizerSpec
    from mtkit.tokenizer.tokenizer import Tokenizer


LINE_LIMIT_BYTES = 1 << 20
"""A longer line of a corpus is compared in parts of this length."""


class Difference(Record):
    """A text with different ids.

    Attributes:
        first: Number of the first token that differs, from 0.
        stage: Where the two part: added tokens, normalizer, pre-tokenizer, model or post-processor.
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
        left, right = (side or "unnamed" for side in self.sides)
        return f"<Comparison of {left} and {right}: {format_count(self.texts, 'text')}, {verdict}>"

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure, heading, note, spans

        parts: list[object] = [heading(repr(self)[1:-1])]
        for difference in self.differences[:1]:
            first = difference.first
            parts.append(note(
                f"text {difference.number} differs from token {first} on, in the {difference.stage}"
            ))  # fmt: skip
            for side, (ids, tokens) in zip(
                self.sides, (difference.left, difference.right), strict=True
            ):
                parts.append(note(side or "unnamed"))
                parts.append(spans(zip(tokens, ids, strict=True)))
        return figure(*parts)

    @property
    def equal(self) -> bool:
        """Whether all ids are equal."""
        return self.different == 0

    def document(self) -> dict[str, object]:
        """Return it as a JSON document, schema ``mtkit.compare/1``."""
        return {
            "schema": "mtkit.compare/1",
            "files": [printable(side) for side in self.sides],
            "equal": self.equal,
            "texts": self.texts,
            "different": self.different,
            "tokens": list(self.tokens),
            "differences": [
                {
                    "number": side.number,
                    "text": byte_escapes(side.text),
                    "first": side.first,
                    "stage": side.stage,
                    "left": {"ids": side.left[0], "tokens": side.left[1]},
                    "right": {"ids": side.right[0], "tokens": side.right[1]},
                }
                for side in self.differences
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
        parse_special: Recognize special tokens in the text; None: each as its reference does.
    """
    count = different = 0
    tokens = [0, 0]
    differences: list[Difference] = []
    for text in texts:
        count += 1
        ids = [
            side.encode_ids(
                text, add_special_tokens=add_special_tokens, parse_special=parse_special
            )
            for side in (left, right)
        ]
        tokens[0] += len(ids[0])
        tokens[1] += len(ids[1])
        if ids[0] != ids[1]:
            different += 1
            if len(differences) < most:
                differences.append(
                    _describe_difference(left, right, text, ids, count, parse_special)
                )
    sides = left.source, right.source
    return Comparison(count, different, (tokens[0], tokens[1]), tuple(differences), sides)


def corpus_lines(file: BinaryIO, seen: Callable[[int], None] | None = None) -> Iterator[bytes]:
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


def _describe_difference(
    left: Tokenizer,
    right: Tokenizer,
    text: str | bytes,
    ids: list[list[int]],
    number: int,
    parse_special: bool | None,
) -> Difference:
    traces = [
        side.trace(text, add_special_tokens=False, parse_special=parse_special)
        for side in (left, right)
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
    if _added_token_places(left) != _added_token_places(right):
        return "added tokens"
    if _normalized_text(left) != _normalized_text(right):
        return "normalizer"
    if _word_places(left) != _word_places(right):
        return "pre-tokenizer"
    return "model"


def _added_token_places(trace: Trace) -> list[tuple[int, int]]:
    return [(word.part.start, word.part.end) for word in trace.words if word.model is None]


def _normalized_text(trace: Trace) -> str:
    """Return the normalized text, a mark for a space written as the space."""
    steps = [step for step in trace.steps if step.stage in ("normalizer", "added tokens")]
    parts = steps[-1].parts if steps else ()
    text = "".join(part.text for part in parts) if parts else trace.text
    return text.replace("\u2581", " ").strip(" ")


def _word_places(trace: Trace) -> list[tuple[int, int]]:
    return [(word.part.start, word.part.end) for word in trace.words]


MOST_SPECIAL_TEXTS = 32
"""Of special tokens, at most so many are spelled out in texts of their own."""


def probe_texts() -> list[str]:
    """Return all texts, the spelled ones last."""
    import json

    with open(package_file("probes.json"), encoding="utf-8") as file:
        groups = json.load(file)
    return [*groups["plain"], *groups["spelled"]]


def special_token_texts(spec: TokenizerSpec) -> list[str]:
    """Return texts that spell out special tokens: in the middle of words and between spaces."""
    from mtkit.spec.vocabulary import TokenType

    kinds = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED)
    spellings = sorted(set(token_spellings(spec, kinds)))
    texts = []
    for token in spellings[:: -(-len(spellings) // MOST_SPECIAL_TEXTS) or 1]:
        try:
            text = token.decode("utf-8")
        except UnicodeDecodeError:
            continue
        texts.append(f"a{text}b {text} c")
    return texts


def token_spellings(spec: TokenizerSpec, kinds: tuple[int, ...]) -> Iterator[bytes]:
    """Yield the texts of added tokens and of pieces of some types."""
    group: AddedTokens | None = spec.added_tokens
    while group is not None:
        yield from (token.content for token in group.tokens if token.content)
        group = group.first
    pieces = spec.vocabulary.pieces
    for token_id, kind in enumerate(spec.vocabulary.types or ()):
        if kind in kinds and pieces[token_id]:
            yield pieces[token_id]
