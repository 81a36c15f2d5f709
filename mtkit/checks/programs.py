"""What other programs make of a tokenizer or model: ``check --runs-on``, ``compare --as``.

A file that a program does not read is converted in memory first, as ``mtkit convert`` would. What a
program does otherwise than the file's own reference breaks a rule, and texts show it. llama.cpp
loads a model as ``generate`` does: in a child process, which a file that contradicts itself may
end; what passed is remembered.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import printable
from mtkit.base.record import Record, replace
from mtkit.base.rules import Finding, Rule
from mtkit.conversion.programs import library_answers, library_answers_in_memory, tokenizer_answers
from mtkit.errors import FormatError, MissingExtra, MtkitError, UnsupportedError, format_texts
from mtkit.tokenizer.comparison import Comparison, Difference, first_difference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtkit.conversion.programs import Answer, Program
    from mtkit.formats.contract import Loss, Written
    from mtkit.tokenizer.tokenizer import Tokenizer


_CONFIG_FILES = ("tokenizer_config.json", "config.json")


class ProgramReading(Record):
    """A program's reading of a file.

    Attributes:
        losses: What the file does not keep that was made for the program.
        there: The program's answers, up to the text that ended it.
    """

    name: str
    losses: tuple[Loss, ...]
    converted: bool
    here: Sequence[Answer]
    there: Sequence[Answer]

    @property
    def own_class(self) -> str:
        """The class of transformers that reads the file by its own rules; empty: by the file's."""
        from mtkit.formats.tokenizer_config import GENERIC_CLASSES

        name = self.name.partition(", ")[2]
        return "" if name in GENERIC_CLASSES else name


def read_with(program: Program, tokenizer: Tokenizer, texts: Sequence[str]) -> ProgramReading:
    """Let a program read a file and answer for texts."""
    kind, path = tokenizer.format_name, tokenizer.source
    if _is_read(program, kind, path):
        here = tokenizer_answers(tokenizer, texts)
        if not program.package:
            there = _answers_by_rules(program, Source.open(path), texts, here)
            return ProgramReading(program.name, (), False, here, there)
        name, there = library_answers(program, kind, path, texts, here)
        return ProgramReading(name, (), False, here, there)
    tokenizer, written = _convert(program, tokenizer)
    here = tokenizer_answers(tokenizer, texts)
    if not program.package:
        from mtkit.conversion.verification import memory_source

        there = _answers_by_rules(program, memory_source(written), texts, here)
        losses = dict(written.partial).get(program.name, written.losses)
        return ProgramReading(program.name, losses, True, here, there)
    name, there = library_answers_in_memory(program, written.files, texts, here)
    return ProgramReading(name, written.losses, True, here, there)


def _is_read(program: Program, kind: str, path: str) -> bool:
    """Tell whether a program reads a file as it is, without a conversion."""
    if kind not in program.reads or not os.path.isfile(path):
        return False
    folder, name = os.path.split(path)
    if kind == "hf":
        return name == "tokenizer.json" or program.name != "onnxruntime"
    is_named = any(os.path.exists(os.path.join(folder, beside)) for beside in _CONFIG_FILES)
    return is_named or program.name != "transformers"


def _convert(program: Program, tokenizer: Tokenizer) -> tuple[Tokenizer, Written]:
    """Return what is converted, with what a conversion adds around a text, and the files."""
    from mtkit.conversion.tokenizer import write_tokenizer
    from mtkit.formats import get_format
    from mtkit.formats.contract import LOSS_CODES, WriteOptions

    tokenizer, _, written = write_tokenizer(
        tokenizer, get_format(program.writes), WriteOptions(), LOSS_CODES
    )
    return tokenizer, written


def _answers_by_rules(
    program: Program, source: Source, texts: Sequence[str], here: Sequence[Answer]
) -> list[Answer]:
    from mtkit.formats import other_readings, recognize
    from mtkit.tokenizer.tokenizer import Tokenizer

    module = recognize(source)
    other = other_readings(module).get(program.name)
    spec = other.read(source).spec if other else module.read(source, {}).spec
    read = Tokenizer(spec, source=source.name)
    return tokenizer_answers(read, texts, here)


PROGRAM_SOURCE = "the program given to --runs-on"
# fmt: off
UNKNOWN = Rule("runs-unknown", "warning", PROGRAM_SOURCE, "file",
               "The program could not be run because its library is missing, so nothing is "
               "known about its results. Install it and check again.")
REFUSED = Rule("runs-refused", "warning", PROGRAM_SOURCE, "file",
               "The program refuses the file, or its conversion. Use another format, or remove "
               "the part of the tokenizer that the program does not support.")
TEXT = Rule("runs-text", "warning", PROGRAM_SOURCE, "ids",
            "The program refuses texts that the file's own library encodes.")
IDS = Rule("runs-ids", "warning", PROGRAM_SOURCE, "ids",
           "Ordinary texts get different ids in the program, so a model trained with this file "
           "predicts worse there. Use the file's own library, or convert the file and accept "
           "the loss.")
SPECIAL = Rule("runs-special-ids", "warning", PROGRAM_SOURCE, "ids",
               "Texts that spell out special tokens, such as chat prompts and user texts that "
               "quote a special token, get different ids in the program.")
AROUND = Rule("runs-around", "warning", PROGRAM_SOURCE, "post-processor",
              "The program adds different tokens around a text, such as BOS and EOS. Add them "
              "yourself, or set add_bos_token and similar keys.")
DECODING = Rule("runs-decoding", "warning", PROGRAM_SOURCE, "decoder",
                "The program decodes ids to different text, often only different spaces.")
LACKS = Rule("runs-lacks", "note", PROGRAM_SOURCE, "any",
             "The conversion for the program does not keep this field; none of the test texts "
             "was affected.")
# fmt: on
PROGRAM_RULES = (UNKNOWN, REFUSED, TEXT, IDS, SPECIAL, AROUND, DECODING, LACKS)
_MOST_IDS = 6
_MOST_LETTERS = 60


def program_findings(program: Program, tokenizer: Tokenizer) -> Iterator[Finding]:
    """Yield what a program does otherwise with a file; ``Rule.source`` names the program."""
    from mtkit.tokenizer.comparison import probe_texts, special_token_texts

    texts = [*probe_texts(), *special_token_texts(tokenizer.spec)]
    try:
        reading = read_with(program, tokenizer, texts)
    except MtkitError as error:
        yield _finding(program, *_failure(error), error.hint)
        return
    rows = list(_broken_rules(reading, texts, tokenizer))
    rules = {rule for rule, _ in rows}
    for rule, what in rows:
        yield _finding(program, rule, f"{what}{_causes(rule, reading)}")
    for loss in reading.losses:
        if _RULE_OF.get(loss.code) not in rules:
            rule = IDS if loss.code == "ids" else LACKS
            what = f"{loss.effect}; none of {len(texts)} texts shows it" if rule is IDS else ""
            yield _finding(program, rule, what or loss.effect, field=loss.field)


def unread_finding(name: str) -> Finding:
    """Return the finding about a program where mtkit could not read the tokenizer."""
    what = "not evaluated: the tokenizer could not be read"
    return Finding(replace(UNKNOWN, source=name), UNKNOWN.field, what)


_RULE_OF = {
    "ids": IDS, "ids-possible": IDS, "ids-blank": IDS, "ids-special": SPECIAL,
    "decoding": DECODING,
}  # fmt: skip
"""Code of a loss -> the rule that a text breaks which shows it."""


def _finding(program: Program, rule: Rule, what: str, advice: str = "", field: str = "") -> Finding:
    return Finding(replace(rule, source=program.name), field or rule.field, what, advice=advice)


def _failure(error: MtkitError) -> tuple[Rule, str]:
    """Return what an error of a reading says: the program refuses the file, or nobody knows."""
    where = f"{error.field}: " * bool(error.field)
    if isinstance(error, (FormatError, UnsupportedError)) and not isinstance(error, MissingExtra):
        return REFUSED, f"refused: {where}{error.what}"
    return UNKNOWN, f"not evaluated: {where}{error.what}"


def _causes(rule: Rule, reading: ProgramReading) -> str:
    """Return what explains a finding: losses, or a class that has rules of its own."""
    causes = [
        f"{loss.field}: {loss.effect}" for loss in reading.losses if _RULE_OF.get(loss.code) is rule
    ]
    if reading.own_class and rule in (IDS, SPECIAL, AROUND):
        causes.append(f"{reading.own_class} brings its own rules; it takes the vocabulary alone")
    return f" ({'; '.join(causes[:3])})" if causes else ""


def _broken_rules(
    reading: ProgramReading, texts: Sequence[str], tokenizer: Tokenizer
) -> Iterator[tuple[Rule, str]]:
    """Yield each rule that some texts break, and the first of them."""
    from mtkit.conversion.verification import special_marks

    marks = special_marks(tokenizer.spec)
    unlike: dict[Rule, list[str]] = {}
    total = 0
    for text, here, there in zip(texts, reading.here, reading.there, strict=False):
        if here.ids is None:
            continue
        total += 1
        for rule, note in _differences(here, there):
            if rule is IDS and any(mark in text.encode() for mark in marks):
                rule = SPECIAL
            unlike.setdefault(rule, []).append(f"{_quote_text(text)}: {note}")
    for rule in PROGRAM_RULES:
        if rule in unlike:
            many = format_texts(len(unlike[rule]), total, _VERBS[rule].format(reading.name))
            yield rule, f"{many}, the first: {unlike[rule][0]}"


_VERBS = {
    TEXT: "are refused in {}",
    IDS: "get different ids in {}",
    SPECIAL: "get different ids in {} because special tokens are spelled out",
    AROUND: "get different tokens around them in {}",
    DECODING: "decode to different text in {}",
}


def _differences(here: Answer, there: Answer) -> Iterator[tuple[Rule, str]]:
    """Yield what differs about one text, with how to show it."""
    if there.ids is None:
        yield TEXT, there.error
        return
    assert here.ids is not None
    if here.ids != there.ids:
        yield IDS, f"{_ids(here.ids, there.ids)} here, {_ids(there.ids, here.ids)} there"
    elif here.around is not None and here.around != (there.around or there.ids):
        other = there.around or there.ids
        note = "" if there.around is not None else ", which its caller has to add"
        yield AROUND, f"{_ids(here.around, other)} here, {_ids(other, here.around)} there{note}"
    if there.undecoded:
        yield DECODING, there.undecoded
    elif here.decoded is not None and there.decoded not in (None, here.decoded):
        yield (
            DECODING,
            f"{_quote_text(here.decoded)} here, {_quote_text(there.decoded or '')} there",
        )


def _ids(ids: tuple[int, ...], other: tuple[int, ...]) -> str:
    """Return ids from shortly before where they part."""
    shortest = min(len(ids), len(other))
    first = next((at for at in range(shortest) if ids[at] != other[at]), shortest)
    start = max(first - 2, 0)
    more = " …" * (len(ids) > start + _MOST_IDS)
    return f"[{'… ' * (start > 0)}{' '.join(map(str, ids[start : start + _MOST_IDS]))}{more}]"


def _quote_text(text: str) -> str:
    letters = printable(text)
    return f'"{letters if len(letters) <= _MOST_LETTERS else letters[:_MOST_LETTERS] + "…"}"'


def compare_as(
    program: Program,
    left: Tokenizer,
    right: Tokenizer,
    texts: Iterable[str | bytes],
    *,
    most: int = 10,
    add_special_tokens: bool = True,
) -> Comparison:
    """Compare ids with those that a program gives; a difference's ``stage`` says what read it."""
    lines = [text if isinstance(text, str) else text.decode("utf-8", "replace") for text in texts]
    try:
        reading = read_with(program, right, lines)
    except (FormatError, UnsupportedError) as error:
        raise type(error)(
            f"{program.name}: {error.what}", source=right.source, field=error.field, hint=error.hint
        ) from None
    here = (
        reading.here if left is right and not reading.converted else tokenizer_answers(left, lines)
    )
    stage = reading.name + f", which does not follow {right.source}" * bool(reading.own_class)
    differences: list[Difference] = []
    tokens, different = [0, 0], 0
    for number, (text, *answers) in enumerate(zip(lines, here, reading.there, strict=False), 1):
        if answers[0].ids is None:
            continue
        ids = [_answer_ids(answer, around=add_special_tokens) for answer in answers]
        tokens = [total + len(more) for total, more in zip(tokens, ids, strict=True)]
        if ids[0] == ids[1] and answers[1].ids is not None:
            continue
        different += 1
        if len(differences) < most:
            tokens_of = [
                (numbers, [side.id_to_token(i) or "" for i in numbers])
                for side, numbers in zip((left, right), ids, strict=True)
            ]
            first = first_difference(*ids)
            why = f"{reading.name}: {answers[1].error}" if answers[1].error else stage
            differences.append(Difference(number, text, first, why, *tokens_of))
    sides = left.source, right.source
    return Comparison(len(lines), different, (tokens[0], tokens[1]), tuple(differences), sides)


def _answer_ids(answer: Answer, *, around: bool) -> list[int]:
    """Return the ids of a text; of a program that adds nothing around it, those alone."""
    return list((answer.around if around and answer.around is not None else answer.ids) or ())


RUNS_MODEL = Rule("runs-model", "warning", "llama.cpp", "file",
                  "llama.cpp could not load the model or compute a token. Its message names the "
                  "tensor or key; mtkit generate stops with the same message.")  # fmt: skip
MODEL_RUNNER = "llama.cpp"
TRIAL_PART = "a test run of the model in llama.cpp"


def try_model(source: Source) -> Finding | tuple[str, str] | None:
    """Return why llama.cpp does not run a model, or why that was not tried; None where it runs."""
    from mtkit.llm.header import ModelHeader
    from mtkit.llm.trial import try_out
    from mtkit.settings import LoadSettings

    if not os.path.isfile(source.name):
        return TRIAL_PART, "models run from files"
    if os.environ.get("MTKIT_TRIAL") == "0":
        return TRIAL_PART, "MTKIT_TRIAL is 0"
    try:
        try_out(ModelHeader(source), LoadSettings())
    except MtkitError as error:
        is_answer = isinstance(error, (FormatError, UnsupportedError))
        if is_answer and not isinstance(error, MissingExtra):
            what = error.what.removeprefix(f"{source.name}: ")
            what = f"{error.field}: {what}" if error.field else what
            return Finding(RUNS_MODEL, RUNS_MODEL.field, what, advice=error.hint)
        return TRIAL_PART, error.what
    return None
