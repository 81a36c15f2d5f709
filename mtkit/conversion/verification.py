"""Verification: a written file gives what its source gives, in every way in which it can be run.

The file is read back from its bytes in each way that there is: as a specification, by the engine's
tables where it carries them, by another program's rules where the format has such a reader. Each is
compared with the source, on the built-in texts and on texts that spell the tokenizer's own special
tokens: ids without and with special tokens around the text, with special tokens recognized and not,
ids with their offsets, and the decoded text. Where a .model is read or written, the sentencepiece
library has to agree with mtkit.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import quoted
from mtkit.base.record import Record, replace
from mtkit.conversion.programs import PROGRAMS
from mtkit.errors import (
    AnswerNo,
    FormatError,
    LossError,
    MissingExtra,
    NoToken,
    ResourceError,
    UnsupportedError,
    UsageError,
    allowing,
    format_texts,
)
from mtkit.spec import differing_fields
from mtkit.tokenizer import comparison
from mtkit.tokenizer.comparison import token_spellings
from mtkit.tokenizer.load import load_source, mapped
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from mtkit.conversion.programs import Answer
    from mtkit.formats.contract import Format, Loss, Written
    from mtkit.spec import TokenizerSpec


LIBRARY = PROGRAMS["sentencepiece"]
LIBRARY_VERSION = "0.2.3"
"""Other versions give unusual models other ids, such as those with preferred pieces."""


def ask_library(
    source: Tokenizer, back: Tokenizer, module: Format, written: Written
) -> tuple[str, str] | None:
    """Compare sentencepiece with mtkit on the same .model.

    Returns:
        The library with its version, and why it could not be run; None: there is no .model.
    """
    from mtkit.conversion.programs import (
        library_answers,
        library_answers_in_memory,
        tokenizer_answers,
    )

    is_written = module.NAME in LIBRARY.reads
    is_read = source.format_name in LIBRARY.reads and os.path.isfile(source.source)
    if not is_written and not is_read:
        return None
    texts = [*comparison.probe_texts(), *comparison.special_token_texts(source.spec)]
    # The library knows the .model alone, without the files beside it.
    here = tokenizer_answers(back if is_written else load_source(Source.open(source.source)), texts)
    try:
        if is_written:
            name, there = library_answers_in_memory(LIBRARY, written.files, texts, here)
        else:
            name, there = library_answers(LIBRARY, "spm", source.source, texts, here)
    except FormatError as error:
        if not is_written:
            return LIBRARY.name, f"refused: {error.what}"
        raise _library_error(source, f"{LIBRARY.name} refuses the result: {error.what}") from None
    except (MissingExtra, ResourceError) as error:
        return LIBRARY.name, error.what
    differences = list(_find_differences(texts, here, there))
    if differences:
        many = format_texts(len(differences), len(texts), f"get different ids in {name}")
        raise _library_error(source, f"{many}, the first is {quoted(differences[0])}")
    return name, ""


def _find_differences(
    texts: Sequence[str], here: Sequence[Answer], there: Sequence[Answer]
) -> Iterator[str]:
    """Yield the texts with other ids, or whose ids decode to another text."""
    for number, (text, left) in enumerate(zip(texts, here, strict=True)):
        right = there[number] if number < len(there) else None
        if left.ids is None:
            continue
        if right is None or left.ids != right.ids or left.decoded not in (None, right.decoded):
            yield text


def _library_error(source: Tokenizer, what: str) -> AnswerNo:
    return AnswerNo(
        f"verification failed: {what}; nothing was written",
        source=source.source,
        hint=f"please report this file if {LIBRARY.name} {LIBRARY_VERSION} differs from mtkit, too",
    )


class Verification(Record):
    """How a written file compares with its source, for one reader.

    Attributes:
        reader: Who read it back: "mtkit", its tables, another program's rules or library.
        explained: Texts with other ids that a listed loss foresees.
        examples: The first texts with other ids.
        spec_equal: Whether the specification came back equal, losses aside; None: not compared.
        losses: What this reader does not get, where it gets less than the file holds.
        decoded: Texts whose ids decode to the same bytes.
        refused: Texts that the source itself has no tokens for, which are not compared.
        unable: Why another program's reading of the file cannot be run; empty where it can.
    """

    reader: str
    equal: int
    explained: int
    total: int
    examples: tuple[str, ...] = ()
    spec_equal: bool | None = None
    losses: tuple[Loss, ...] = ()
    decoded: int = 0
    refused: int = 0
    unable: str = ""


def memory_source(written: Written) -> Source:
    """Return the written files as a source, the main one first, without touching the disk."""
    names = list(written.files)
    return Source(names[0], written.files[names[0]], siblings=dict(written.files))


def verify(
    source: Tokenizer, module: Format, written: Written, allowed: Collection[str]
) -> tuple[Verification, ...]:
    """Read back a written file and compare it with its source."""
    from mtkit.formats import other_readings

    main = memory_source(written)
    spec = module.read(main, {}).spec
    back = Tokenizer(spec, source=main.name)
    texts = [*comparison.probe_texts(), *comparison.special_token_texts(source.spec)]
    check = Comparison(source, back, written.losses, texts)
    check.refuse_unforeseen(allowed)
    equal = spec_equal(source.spec, spec, written.losses)
    verifications = [check.verified("mtkit", spec_equal=equal)]
    tabled, _ = mapped(main)
    if tabled is not None:
        check = Comparison(back, tabled, (), texts)
        check.refuse_unforeseen(())
        verifications.append(check.verified("mtkit by its tables"))
    for name, reading in other_readings(module).items():
        if reading.length is None:  # transformers, which need not follow the file
            continue
        other = Tokenizer(reading.read(main).spec, source=main.name)
        losses = dict(written.partial).get(name, written.losses)
        try:
            check = Comparison(source, other, losses, texts, parses=(None,))
        except UnsupportedError as error:
            verifications.append(
                Verification(reading.title, 0, 0, 0, losses=losses, unable=str(error))
            )
        else:
            verifications.append(check.verified(reading.title, losses=losses))
    library = ask_library(source, back, module, written)
    if library is not None:
        name, unable = library
        # The library agrees with mtkit on the .model, so it compares with the source as mtkit does,
        # unless the files beside it change the source, which the library does not know.
        alone = source if module.NAME in LIBRARY.reads else load_source(Source.open(source.source))
        alike = replace(verifications[0], reader=name, spec_equal=None)
        if alone.spec.normalizer != source.spec.normalizer:
            return tuple(verifications)  # each text differs, as the folder says
        if alone.spec.added_tokens != source.spec.added_tokens:
            alike = Comparison(alone, back, written.losses, texts).verified(name)
        verifications.append(Verification(name, 0, 0, 0, unable=unable) if unable else alike)
    return tuple(verifications)


def spec_equal(spec: TokenizerSpec, back: TokenizerSpec, losses: tuple[Loss, ...]) -> bool:
    """Tell whether a specification came back equal in all fields that no loss names."""
    return not differing_fields(spec, back, {loss.field for loss in losses})


def special_marks(spec: TokenizerSpec) -> list[bytes]:
    """Return the byte strings of which a text with a special token or U+2581 contains one."""
    from mtkit.spec.vocabulary import TokenType

    kinds = (TokenType.CONTROL, TokenType.UNKNOWN, TokenType.USER_DEFINED, TokenType.BYTE)
    return ["\u2581".encode(), *token_spellings(spec, kinds)]


class Comparison:
    """Two tokenizers on the same texts.

    Attributes:
        ids: Texts with other ids.
        ends: Texts with other special tokens around them, whatever their own ids are.
        special: Texts that spell special tokens, which the left finds in them.
        missed: Those in which the right does not find all of them.
        bytes: Texts whose ids decode to other bytes.
    """

    def __init__(
        self,
        left: Tokenizer,
        right: Tokenizer,
        losses: tuple[Loss, ...],
        texts: list[str],
        parses: tuple[bool | None, ...] = (None, True, False),
    ) -> None:
        self.left, self.right = left, right
        self.losses = losses
        self.codes = {loss.code for loss in losses}
        self.texts = texts
        self.ids: list[str] = []
        self.ends: list[str] = []
        self.broken: list[str] = []
        self.bytes: list[str] = []
        self.refused: list[str] = []
        self.special: list[str] = []
        self.missed: list[str] = []
        self._prefixes = len(left.spec.prefix_ids), len(right.spec.prefix_ids)
        unk = left.spec.special_ids.unk
        self._added = {
            token.id: token.content
            for token in left.spec.added_tokens.tokens
            if token.id != unk and token.content
        }
        self._marks: list[bytes] = []
        for text in texts:
            self._compare(text, parses)

    def _compare(self, text: str, parses: tuple[bool | None, ...]) -> None:
        ids = plain_ids(self.left, text)
        if ids is None:
            self.refused.append(text)
            return
        if any(self._differs(text, parse) for parse in parses):
            self.ids.append(text)
        around = plain_ids(self.right, text, add_special_tokens=True)
        if not self._ends(self.left, text) & self._ends(self.right, text):
            self.ends.append(text)
        if around is not None and self.right.encode(text).ids != around:
            self.broken.append(text)
        self._look_for_special(text)
        if any(
            _decoded(self.left, ids, skip=skip) != _decoded(self.right, ids, skip=skip)
            for skip in (True, False)
        ):
            self.bytes.append(text)

    def _differs(self, text: str, parse: bool | None) -> bool:
        """Tell whether the ids differ behind the prefix, which stands in front in any case."""
        sides = zip((self.left, self.right), self._prefixes, strict=True)
        left, right = (
            None if (ids := plain_ids(side, text, parse_special=parse)) is None else ids[prefix:]
            for side, prefix in sides
        )
        return left != right

    def _ends(self, side: Tokenizer, text: str) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Return the ids in front of a text and behind it, in each way to read them."""
        prefix = self._prefixes[side is self.right]
        ids = (plain_ids(side, text) or [])[prefix:]
        around = plain_ids(side, text, add_special_tokens=True) or []
        size = len(ids)
        return {
            (tuple(around[:at]), tuple(around[at + size :]))
            for at in range(len(around) - size + 1)
            if around[at : at + size] == ids
        }

    def _look_for_special(self, text: str) -> None:
        """Note a text that spells special tokens, and whether the right misses some of them."""
        data = text.encode("utf-8", "surrogatepass")
        spelled_ids = {number for number, content in self._added.items() if content in data}
        if not spelled_ids:
            return
        left, right = (
            spelled_ids.intersection(plain_ids(side, text, parse_special=True) or ())
            for side in (self.left, self.right)
        )
        if left:
            self.special.append(text)
            self.missed += [text] * (not left <= right)

    def refuse_unforeseen(self, allowed: Collection[str]) -> None:
        """Stop where no loss explains a difference, or a possible loss shows and is not allowed.

        A loss explains what it is about and nothing else: ids of ordinary texts excuse neither
        other tokens around a text nor special tokens that are not found.
        """
        self._explain("get different ids", self.ids, self.foreseen)
        fields = {loss.field.split(".")[0] for loss in self.losses}
        around = self.ends if "post_processor" in fields else []
        self._explain("get different ids with the special tokens around them", self.ends, around)
        if self.missed == self.special and self.right.spec.added_tokens.tokens:
            self._explain("lose their special tokens", self.missed, [])
        decoding = self.bytes if "decoding" in self.codes else self._special(self.bytes)
        self._explain("decode to different text", self.bytes, decoding)
        self._explain("get different ids with offsets than without", self.broken, [])
        ordinary = self.ordinary
        if ordinary and "ids" not in self.codes and "ids-possible" not in allowed:
            effects = [loss.effect for loss in self.losses if loss.code == "ids-possible"]
            causes = "; ".join(dict.fromkeys(effects))
            some = "possible causes" if len(set(effects)) > 1 else "the cause"
            raise LossError(
                f"{format_texts(len(ordinary), self.total, 'get different ids')}, the first is "
                f"{quoted(ordinary[0])}; {some}: {causes}",
                source=self.left.source,
                hint=f"add {allowing('ids-possible')} to convert anyway",
            )

    def _explain(self, what: str, texts: list[str], foreseen: list[str]) -> None:
        rest = [text for text in texts if text not in foreseen]
        if rest:
            raise AnswerNo(
                f"verification failed: {format_texts(len(rest), self.total, what)}, the first is "
                f"{quoted(rest[0])}; nothing was written",
                source=self.left.source,
                hint="please report this file: no listed loss explains the difference",
            )

    @property
    def total(self) -> int:
        """Number of texts compared."""
        return len(self.texts) - len(self.refused)

    @property
    def foreseen(self) -> list[str]:
        """Texts with other ids that a listed loss foresees."""
        if self.codes & {"ids", "ids-possible"}:
            return self.ids
        return [*self._special(self.ids), *self._blank(self.ids)]

    @property
    def ordinary(self) -> list[str]:
        """Texts with other ids that spell out no special token, nor get one more blank."""
        others = {*self._special(self.ids), *self._blank(self.ids)}
        return [text for text in self.ids if text not in others]

    def _blank(self, texts: list[str]) -> list[str]:
        """Return the texts that begin with a blank and get the ids of the text with one more."""
        if "ids-blank" not in self.codes:
            return []
        return [
            text
            for text in texts
            if text.startswith(" ")
            and plain_ids(self.left, f" {text}") == plain_ids(self.right, text)
        ]

    def _special(self, texts: list[str]) -> list[str]:
        """Return the texts that a loss of special tokens foresees."""
        if "ids-special" not in self.codes or not texts:
            return []
        self._marks = self._marks or special_marks(self.left.spec) + special_marks(self.right.spec)
        return [text for text in texts if any(mark in text.encode() for mark in self._marks)]

    def verified(
        self, reader: str, *, spec_equal: bool | None = None, losses: tuple[Loss, ...] = ()
    ) -> Verification:
        """Return the comparison for a report."""
        return Verification(
            reader,
            self.total - len(self.ids),
            len(self.foreseen),
            self.total,
            tuple(self.ids[:3]),
            spec_equal,
            losses,
            self.total - len(self.bytes),
            len(self.refused),
        )


def plain_ids(
    tokenizer: Tokenizer,
    text: str,
    *,
    add_special_tokens: bool = False,
    parse_special: bool | None = None,
) -> list[int] | None:
    """Return the ids of a text; None where a part of it has no token."""
    try:
        return tokenizer.encode_ids(
            text, add_special_tokens=add_special_tokens, parse_special=parse_special
        )
    except NoToken:
        return None


def _decoded(tokenizer: Tokenizer, ids: list[int], *, skip: bool) -> bytes | None:
    """Return the bytes of ids; None where they cannot be decoded."""
    try:
        return tokenizer.decode_bytes(ids, skip_special_tokens=skip)
    except (UnsupportedError, UsageError):
        return None
