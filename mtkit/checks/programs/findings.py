"""What a program does otherwise than a file's own reference: rules, and the texts that show it."""

from __future__ import annotations

from mtkit.base.escape import escape
from mtkit.base.record import replace
from mtkit.base.rules import Finding, Rule
from mtkit.checks.programs.reading import Reading, read_by
from mtkit.errors import FormatError, MtkitError, UnsupportedError, texts_that

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.programs import Program
    from mtkit.programs.asking import Said
    from mtkit.tokenizer.tokenizer import Tokenizer

ASKED = "the program given to --runs-on"
UNKNOWN = Rule("runs-unknown", "warning", ASKED, "file")
REFUSED = Rule("runs-refused", "warning", ASKED, "file")
TEXT = Rule("runs-text", "warning", ASKED, "ids")
IDS = Rule("runs-ids", "warning", ASKED, "ids")
SPECIAL = Rule("runs-special-ids", "warning", ASKED, "ids")
AROUND = Rule("runs-around", "warning", ASKED, "post-processor")
DECODING = Rule("runs-decoding", "warning", ASKED, "decoder")
LACKS = Rule("runs-lacks", "note", ASKED, "any")
RULES = (UNKNOWN, REFUSED, TEXT, IDS, SPECIAL, AROUND, DECODING, LACKS)
_MOST_IDS = 6
_MOST_LETTERS = 60


def findings(program: Program, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Yield what a program does otherwise with a file; ``Rule.source`` names the program."""
    from mtkit.tokenizer.probes import special_texts, texts

    asked = [*texts(), *special_texts(tokenizer.spec)]
    try:
        reading = read_by(program, tokenizer, asked)
    except MtkitError as error:
        yield _of(program, *_failed(error), error.hint)
        return
    found = list(_unlike(reading, asked, tokenizer))
    shown = {rule for rule, _ in found}
    for rule, what in found:
        yield _of(program, rule, f"{what}{_causes(rule, reading)}")
    for loss in reading.losses:
        if _RULE_OF.get(loss.code) not in shown:
            rule = IDS if loss.code == "ids" else LACKS
            what = f"{loss.effect}; none of {len(asked)} texts shows it" if rule is IDS else ""
            yield _of(program, rule, what or loss.effect, field=loss.field)


def unread(name: str) -> Finding:
    """Return what is said of a program where mtkit could not read the tokenizer."""
    what = "not evaluated: the tokenizer could not be read"
    return Finding(replace(UNKNOWN, source=name), UNKNOWN.field, what)


_RULE_OF = {"ids": IDS, "ids-possible": IDS, "ids-special": SPECIAL, "decoding": DECODING}
"""Code of a loss -> the rule that a text breaks which shows it."""


def _of(program: Program, rule: Rule, what: str, advice: str = "", field: str = "") -> Finding:
    return Finding(replace(rule, source=program.name), field or rule.field, what, advice=advice)


def _failed(error: MtkitError) -> tuple[Rule, str]:
    """Return what an error of a reading says: the program refuses the file, or nobody knows."""
    from mtkit.errors import MissingExtra

    where = f"{error.field}: " * bool(error.field)
    if isinstance(error, (FormatError, UnsupportedError)) and not isinstance(error, MissingExtra):
        return REFUSED, f"refused: {where}{error.what}"
    return UNKNOWN, f"not evaluated: {where}{error.what}"


def _causes(rule: Rule, reading: Reading) -> str:
    """Return what explains it: losses, or a class whose rules take the place of the file's."""
    found = [
        f"{one.field}: {one.effect}" for one in reading.losses if _RULE_OF.get(one.code) is rule
    ]
    if reading.own_class and rule in (IDS, SPECIAL, AROUND):
        found.append(f"{reading.own_class} brings its own rules; it takes the vocabulary alone")
    return f" ({'; '.join(found[:3])})" if found else ""


def _unlike(
    reading: Reading, texts: Sequence[str], tokenizer: Tokenizer
) -> Iterator[tuple[Rule, str]]:
    """Yield each rule that some texts break, and the first of them."""
    from mtkit.conversion.verify import special_marks

    marks = special_marks(tokenizer.spec)
    unlike: dict[Rule, list[str]] = {}
    total = 0
    for text, here, there in zip(texts, reading.here, reading.there, strict=False):
        if here.ids is None:
            continue
        total += 1
        for rule, shown in _differences(here, there):
            if rule is IDS and any(mark in text.encode() for mark in marks):
                rule = SPECIAL
            unlike.setdefault(rule, []).append(f"{_text(text)}: {shown}")
    for rule in RULES:
        if rule in unlike:
            many = texts_that(len(unlike[rule]), total, _VERBS[rule].format(reading.name))
            yield rule, f"{many}, the first: {unlike[rule][0]}"


_VERBS = {
    TEXT: "are refused in {}",
    IDS: "get different ids in {}",
    SPECIAL: "get different ids in {} because special tokens are spelled out",
    AROUND: "get different tokens around them in {}",
    DECODING: "decode to different text in {}",
}


def _differences(here: Said, there: Said) -> Iterator[tuple[Rule, str]]:
    """Yield what differs about one text, with how to show it."""
    if there.ids is None:
        yield TEXT, there.error
        return
    assert here.ids is not None
    if here.ids != there.ids:
        yield IDS, f"{_ids(here.ids, there.ids)} here, {_ids(there.ids, here.ids)} there"
    elif here.around is not None and here.around != (there.around or there.ids):
        other = there.around or there.ids
        said = "" if there.around is not None else ", which its caller has to add"
        yield AROUND, f"{_ids(here.around, other)} here, {_ids(other, here.around)} there{said}"
    if there.undecoded:
        yield DECODING, there.undecoded
    elif here.decoded is not None and there.decoded not in (None, here.decoded):
        yield DECODING, f"{_text(here.decoded)} here, {_text(there.decoded or '')} there"


def _ids(ids: tuple[int, ...], other: tuple[int, ...]) -> str:
    """Return ids from shortly before where they part."""
    shortest = min(len(ids), len(other))
    first = next((at for at in range(shortest) if ids[at] != other[at]), shortest)
    start = max(first - 2, 0)
    more = " …" * (len(ids) > start + _MOST_IDS)
    return f"[{'… ' * (start > 0)}{' '.join(map(str, ids[start : start + _MOST_IDS]))}{more}]"


def _text(text: str) -> str:
    """Return a text as a message shows it."""
    shown = escape(text)
    return f'"{shown if len(shown) <= _MOST_LETTERS else shown[:_MOST_LETTERS] + "…"}"'
