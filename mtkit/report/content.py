"""What a page shows of a file: a GGUF, its tokenizer, its chat templates.

Of a GGUF, what ``inspect`` finds, tensors as columns, sizes and histograms; of a tokenizer, columns
by id, what they add up to, merges and stages; of each template, its text and a short conversation
rendered by it.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from mtkit.base.escape import as_text, escape, printable, visible
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.spec import TokenType, models
from mtkit.spec.vocabulary import SEGMENTED
from mtkit.unicode import tables as unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from mtkit.gguf import GgufFile, Tensor
    from mtkit.inspection.gguf import GgufReport
    from mtkit.report.page import Columns
    from mtkit.spec import TokenizerSpec
    from mtkit.tokenizer.tokenizer import Tokenizer

    Progress = Callable[[float], None]


def describe_model(
    report: GgufReport, columns: Columns, *, histograms: bool, progress: Progress
) -> dict[str, Any]:
    """Return what a page shows of a GGUF; its columns are kept among the others."""
    from mtkit.inspection.document import gguf_document

    document = gguf_document(report, (), ())
    for elsewhere in ("path", "layers", "metadata", "tensors", "warnings"):
        del document[elsewhere]
    document["shards"] = report.shards and report.shards.count
    tensors = _tensors(report)
    return {
        "inspect": document,
        "metadata": _metadata(report.file),
        "layers": [group.name for group in report.layers],
        "sizes": _sizes(report),
        "tensors": _tensor_table([tensor for _, tensor in tensors], report, columns),
        "values": _tensor_values(tensors, progress) if histograms else None,
    }


def _tensors(report: GgufReport) -> list[tuple[GgufFile, Tensor]]:
    """Return the tensors of a file, or of the set that it belongs to, with their file."""
    shards = report.shards
    files = [one.file for one in shards.shards if one.file] if shards else []
    if not shards or not shards.is_complete:
        files = [report.file]
    return [(file, tensor) for file in files for tensor in file.tensors]


def _metadata(file: GgufFile) -> list[list[str]]:
    """Return key, type and value of each key; a text as it is."""
    from mtkit.inspection.document import format_short

    rows = []
    for key, value in file.metadata.items():
        kind = file.metadata.type_name(key)
        text = value if isinstance(value, str) else format_short(value, kind)
        rows.append([key, kind, text])
    return rows


def _tensor_table(tensors: list[Tensor], report: GgufReport, columns: Columns) -> dict[str, Any]:
    from mtkit.inspection.document import shape_text

    layers = {id(tensor): at for at, group in enumerate(report.layers) for tensor in group.tensors}
    return {
        "count": len(tensors),
        "name": columns.texts(printable(tensor.name) for tensor in tensors),
        "layer": columns.counts(layers[id(tensor)] for tensor in tensors),
        "type": columns.named(tensor.type.name for tensor in tensors),
        "shape": columns.texts(shape_text(tensor, "×") for tensor in tensors),
        "parameters": columns.counts(tensor.n_elements for tensor in tensors),
        "bytes": columns.counts(tensor.n_bytes for tensor in tensors),
        "offset": columns.counts(tensor.offset for tensor in tensors),
    }


def _sizes(report: GgufReport) -> list[list[Any]]:
    """Return layer, type, tensors, parameters and bytes of what is of one type in one layer."""
    from mtkit.inspection.gguf import quantization_mix

    return [
        [layer, mix.type, mix.tensors, mix.parameters, mix.n_bytes]
        for layer, group in enumerate(report.layers)
        for mix in quantization_mix(group.tensors)
    ]


def _tensor_values(tensors: list[tuple[GgufFile, Tensor]], progress: Progress) -> list[Any]:
    """Return what the values of each tensor are, or why that is not known."""
    from mtkit.inspection.document import json_number
    from mtkit.inspection.statistics import tensor_statistics

    total = sum(tensor.n_bytes for _, tensor in tensors) or 1
    found: list[Any] = []
    done = 0
    for file, tensor in tensors:
        progress(done / total)
        done += tensor.n_bytes
        try:
            told = tensor_statistics(file, tensor)
        except UnsupportedError as error:
            found.append(error.what)
            continue
        names = ("finite", "zeros", "nan", "infinite", "least", "greatest", "mean", "deviation")
        row = {name: json_number(getattr(told, name)) for name in names}
        found.append({**row, "bins": [[json_number(low), json_number(high), count]
                                      for low, high, count in told.histogram]})  # fmt: skip
    progress(1)
    return found


SEVERAL, DIGITS, SIGNS, SPACES, BYTES, EMPTY = (
    "several scripts", "digits", "signs", "white space", "bytes", "nothing",
)  # fmt: skip
_JAPANESE = {"Han", "Hiragana", "Katakana"}
_ANY = {"Common", "Inherited", "Unknown"}


def script_of(text: bytes) -> str:
    """Return what the text of a token is written in; letters count more than what is around."""
    try:
        letters = text.decode("utf-8")
    except UnicodeDecodeError:
        return BYTES
    if not letters:
        return EMPTY
    kinds = set(map(_character_kind, letters))
    scripts = kinds - {DIGITS, SIGNS, SPACES}
    if scripts:
        if len(scripts) == 1:
            return scripts.pop()
        return "Japanese" if scripts <= _JAPANESE else SEVERAL
    return next(kind for kind in (DIGITS, SIGNS, SPACES) if kind in kinds)


@lru_cache(maxsize=1 << 16)
def _character_kind(character: str) -> str:
    script = unicode.script(character)
    if script not in _ANY:
        return script.replace("_", " ")
    if character.isspace():
        return SPACES
    return DIGITS if unicode.category(character, "17.0")[0] == "N" else SIGNS


_LONG_TOKEN = 24
"""Longer tokens are one column of the picture."""


def describe_tokenizer(tokenizer: Tokenizer, columns: Columns) -> dict[str, Any]:
    """Return what a page shows of a tokenizer; its columns are kept among the others."""
    from mtkit.formats import get_format
    from mtkit.inspection.tokenizer import inspect_tokenizer

    spec, found = tokenizer.spec, inspect_tokenizer(tokenizer.spec)
    ids = range(spec.vocab_size)
    raw = [tokenizer.token_bytes(i) for i in ids]
    kinds = [tokenizer.token_kind(i) for i in ids]
    texts = [visible(text) for text in raw]
    spelled = _spellings(spec)
    scripts = [
        script_of(text) if kind in _TEXT_KINDS else kind
        for text, kind in zip(raw, kinds, strict=True)
    ]
    scores = spec.vocabulary.scores
    beyond = [float("nan")] * (len(ids) - len(spec.vocabulary))
    return {
        "format": tokenizer.format_name,
        "title": get_format(tokenizer.format_name).TITLE,
        "count": len(ids),
        "assumptions": tokenizer.assumptions,
        "warnings": tokenizer.warnings,
        "stages": [
            [stage.stage, stage.name, stage.settings]
            for stage in found.stages
        ],
        "counts": list(found.counts.items()),
        "special": [[name, i, visible(tokenizer.token_bytes(i))] for name, i in
                    found.special_ids.items()],
        "text": columns.texts(texts),
        "spelling": columns.texts(spelled),
        "same_spelling": spelled == texts,
        "kind": columns.named(kinds),
        "script": columns.named(scripts),
        "bytes": columns.counts(map(len, raw)),
        "score": None if scores is None else columns.floats([*scores, *beyond]),
        "lengths": _lengths(
            text for text, kind in zip(raw, kinds, strict=True) if kind in _TEXT_KINDS
        ),
        "scripts": Counter(scripts).most_common(),
        "merges": _merges(spec, columns),
    }  # fmt: skip


_TEXT_KINDS = {"normal", "user_defined", "added"}
"""Kinds that stand for text; of others the kind says more than their letters."""


def _spellings(spec: TokenizerSpec) -> list[str]:
    """Return how the vocabulary spells each id, then those that only added tokens have."""
    added = {token.id: token.content for token in spec.added_tokens.tokens}
    pieces = [escape(as_text(piece)) for piece in spec.vocabulary.pieces]
    beyond = range(len(pieces), spec.vocab_size)
    return pieces + [escape(as_text(added.get(i, b""))) for i in beyond]


def _lengths(texts: Iterable[bytes]) -> list[list[Any]]:
    """Count the lengths in characters: [length, tokens], long ones together."""
    counts = Counter(min(len(text.decode("utf-8", "replace")), _LONG_TOKEN) for text in texts)
    most = max(counts, default=0)
    return [[f"{n}+" if n == _LONG_TOKEN else str(n), counts[n]] for n in range(1, most + 1)]


def _merges(spec: TokenizerSpec, columns: Columns) -> dict[str, Any] | None:
    """Return what a page needs to run the model on a token; None where no merges make one."""
    model, vocabulary = spec.model, spec.vocabulary
    head: dict[str, Any] = {"size": len(vocabulary), "hidden": list(vocabulary.hidden)}
    if isinstance(model, models.RankBPE):
        return {**head, "kind": "ranks", "before": True}
    if isinstance(model, models.BPE):
        if model.continuing_subword_prefix or model.end_of_word_suffix:
            return None
        by_text = model.missing == "after"
        return {
            "kind": "pairs",
            "size": len(vocabulary),
            "hidden": [] if by_text else head["hidden"],
            "first": by_text,
            "before": not by_text,
            "pairs": columns.numbers(model.merges.pairs),
            "unlisted": columns.texts(escape(as_text(part)) for part in model.merges.unlisted),
        }
    if isinstance(model, models.ScoreBPE):
        types = vocabulary.all_types()
        listed = SEGMENTED if model.mergeable == "listed" else frozenset(TokenType)
        table = bytearray(kind in listed for kind in range(256))
        if model.whole:
            table[TokenType.USER_DEFINED] = 2
        scores = vocabulary.scores
        return {
            **head,
            "kind": "scores",
            "before": model.missing == "before",
            "floor": model.score_above,
            "roles": columns.counts(types.translate(bytes(table))),
            "scores": columns.floats([0.0] * len(vocabulary) if scores is None else scores),
        }
    return None


EXAMPLE_MESSAGES = (
    {"role": "user", "content": "Which way is up?"},
    {"role": "assistant", "content": "Away from the ground."},
    {"role": "user", "content": "And on the Moon?"},
)
"""What every template takes: some refuse a system message."""
_MOST_TOKENS = 2000
_PLAIN_KINDS = {"normal", "byte", "unused"}


def describe_templates(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Return name, text and example of each template; the example as its tokens."""
    return [
        {"name": one.name, "text": one.text, **_example(tokenizer, one.text)}
        for one in tokenizer.spec.chat_templates
    ]


def _example(tokenizer: Tokenizer, template: str) -> dict[str, Any]:
    from mtkit.chat.template import apply

    try:
        text = apply(
            tokenizer.spec, EXAMPLE_MESSAGES, template=template, add_generation_prompt=True
        ).text
        ids = tokenizer.encode_ids(text, add_special_tokens=False, parse_special=True)
    except MtkitError as error:
        return {"error": str(error)}
    shown = [
        [i, visible(tokenizer.token_bytes(i)), tokenizer.token_kind(i) not in _PLAIN_KINDS]
        for i in ids[:_MOST_TOKENS]
    ]
    return {"count": len(ids), "tokens": shown}
