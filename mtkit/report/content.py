"""The facts of a page: about a GGUF, its tokenizer, its chat templates.

For a GGUF the document of ``inspect``, tensors as columns, sizes and histograms; for a tokenizer
columns by id, their sums, merges and stages; for each template its text and a short conversation
rendered by it.
"""

from __future__ import annotations

from collections import Counter
from functools import lru_cache

from mtkit.base.escape import as_text, printable, visible
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
    """Return the facts about a GGUF; its columns go to the others."""
    from mtkit.inspection.document import gguf_document

    document = gguf_document(report, (), ())
    for name in ("path", "layers", "metadata", "tensors", "warnings"):
        del document[name]
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
    files = [shard.file for shard in shards.shards if shard.file] if shards else []
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
        "type": columns.names(tensor.type.name for tensor in tensors),
        "shape": columns.texts(shape_text(tensor, "×") for tensor in tensors),
        "parameters": columns.counts(tensor.n_elements for tensor in tensors),
        "bytes": columns.counts(tensor.n_bytes for tensor in tensors),
        "offset": columns.counts(tensor.offset for tensor in tensors),
    }


def _sizes(report: GgufReport) -> list[list[Any]]:
    """Return layer, type, tensors, parameters and bytes for each type in each layer."""
    from mtkit.inspection.gguf import quantization_mix

    return [
        [layer, mix.type, mix.tensors, mix.parameters, mix.n_bytes]
        for layer, group in enumerate(report.layers)
        for mix in quantization_mix(group.tensors)
    ]


def _tensor_values(tensors: list[tuple[GgufFile, Tensor]], progress: Progress) -> list[Any]:
    """Return statistics of each tensor's values, or why there are none."""
    from mtkit.inspection.document import json_number
    from mtkit.inspection.statistics import tensor_statistics

    total = sum(tensor.n_bytes for _, tensor in tensors) or 1
    rows: list[Any] = []
    n_bytes = 0
    for file, tensor in tensors:
        progress(n_bytes / total)
        n_bytes += tensor.n_bytes
        try:
            statistics = tensor_statistics(file, tensor)
        except UnsupportedError as error:
            rows.append(error.what)
            continue
        names = ("finite", "zeros", "nan", "infinite", "least", "greatest", "mean", "deviation")
        row = {name: json_number(getattr(statistics, name)) for name in names}
        rows.append({**row, "bins": [[json_number(low), json_number(high), count]
                                     for low, high, count in statistics.histogram]})  # fmt: skip
    progress(1)
    return rows


SEVERAL, DIGITS, SIGNS, SPACES, BYTES, EMPTY = (
    "several scripts", "digits", "signs", "white space", "bytes", "nothing",
)  # fmt: skip
_JAPANESE = {"Han", "Hiragana", "Katakana"}
_ANY = {"Common", "Inherited", "Unknown"}


def script_of(text: bytes) -> str:
    """Return the script of a token's text; letters count more than digits, signs and spaces."""
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
"""Longer tokens share one bar of the chart."""


def describe_tokenizer(tokenizer: Tokenizer, columns: Columns) -> dict[str, Any]:
    """Return the facts about a tokenizer; its columns go to the others."""
    from mtkit.formats import get_format
    from mtkit.inspection.tokenizer import inspect_tokenizer

    spec, report = tokenizer.spec, inspect_tokenizer(tokenizer.spec)
    ids = range(spec.vocab_size)
    raw = [tokenizer.token_bytes(i) for i in ids]
    kinds = [tokenizer.token_kind(i) for i in ids]
    texts = [visible(text) for text in raw]
    spellings = _spellings(spec)
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
            for stage in report.stages
        ],
        "counts": list(report.counts.items()),
        "special": [[name, i, visible(tokenizer.token_bytes(i))] for name, i in
                    report.special_ids.items()],
        "text": columns.texts(texts),
        "spelling": columns.texts(spellings),
        "same_spelling": spellings == texts,
        "kind": columns.names(kinds),
        "script": columns.names(scripts),
        "bytes": columns.counts(map(len, raw)),
        "score": None if scores is None else columns.floats([*scores, *beyond]),
        "lengths": _lengths(
            text for text, kind in zip(raw, kinds, strict=True) if kind in _TEXT_KINDS
        ),
        "scripts": Counter(scripts).most_common(),
        "merges": _merges(spec, columns),
    }  # fmt: skip


_TEXT_KINDS = {"normal", "user_defined", "added"}
"""Kinds that stand for text; for others the kind says more than the script of their letters."""


def _spellings(spec: TokenizerSpec) -> list[str]:
    """Return the vocabulary's spelling of each id, then those of added tokens beyond it."""
    added = {token.id: token.content for token in spec.added_tokens.tokens}
    pieces = [printable(as_text(piece)) for piece in spec.vocabulary.pieces]
    beyond = range(len(pieces), spec.vocab_size)
    return pieces + [printable(as_text(added.get(i, b""))) for i in beyond]


def _lengths(texts: Iterable[bytes]) -> list[list[Any]]:
    """Count the lengths in characters: [length, tokens], long ones together."""
    counts = Counter(min(len(text.decode("utf-8", "replace")), _LONG_TOKEN) for text in texts)
    most = max(counts, default=0)
    return [[f"{n}+" if n == _LONG_TOKEN else str(n), counts[n]] for n in range(1, most + 1)]


def _merges(spec: TokenizerSpec, columns: Columns) -> dict[str, Any] | None:
    """Return what a page needs to run the model on a token; None for a model without merges."""
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
            "unlisted": columns.texts(printable(as_text(part)) for part in model.merges.unlisted),
        }
    if isinstance(model, models.ScoreBPE):
        types = vocabulary.all_types()
        mergeable = SEGMENTED if model.mergeable == "listed" else frozenset(TokenType)
        table = bytearray(kind in mergeable for kind in range(256))
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
"""Without a system message, which some templates refuse."""
_MOST_TOKENS = 2000
_PLAIN_KINDS = {"normal", "byte", "unused"}


def describe_templates(tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Return name, text and example of each template; the example as its tokens."""
    return [
        {"name": chat.name, "text": chat.text, **_example(tokenizer, chat.text)}
        for chat in tokenizer.spec.chat_templates
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
    tokens = [
        [i, visible(tokenizer.token_bytes(i)), tokenizer.token_kind(i) not in _PLAIN_KINDS]
        for i in ids[:_MOST_TOKENS]
    ]
    return {"count": len(ids), "tokens": tokens}
