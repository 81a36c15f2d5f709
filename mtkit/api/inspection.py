"""``mtkit.inspect``, ``explain``, ``compare``, ``diff``, ``count``: what is in a file or a text."""

from __future__ import annotations

from mtkit.base.binary import Source, expand_home
from mtkit.base.idioms import explained
from mtkit.base.record import Record, replace
from mtkit.checkpoints import adapter_folder, kind_of, model_folder
from mtkit.errors import MtkitError
from mtkit.sources.locate import locate
from mtkit.tokenizer.load import load
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Iterable
    from typing import Any

    from mtkit.inspection.difference import Difference, Side
    from mtkit.settings import AnswerSettings
    from mtkit.tokenizer.comparison import Comparison
    from mtkit.tokenizer.explanation import Explanation


@explained
def count(
    text: str | bytes,
    tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
    *,
    add_special_tokens: bool = True,
) -> int:
    """Return the number of tokens of a text.

    Args:
        tokenizer: A tokenizer, or anything that ``load`` accepts; None: the user's default. Load
            it once and pass it for many texts.
        add_special_tokens: Count the special tokens around the text.

    Raises:
        UsageError: The file does not exist.
        FormatError: The file is damaged.
    """
    own = tokenizer if isinstance(tokenizer, Tokenizer) else load(tokenizer)
    return len(own.encode_array(text, add_special_tokens=add_special_tokens))


def explain(
    text: str | bytes,
    tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
    *,
    add_special_tokens: bool = True,
    parse_special: bool | None = None,
) -> Explanation:
    """Return every step from a text to its tokens; a notebook shows it as a picture.

    Args:
        tokenizer: A tokenizer, or anything that ``load`` accepts; None: the user's default.
        add_special_tokens: Add special tokens around the text.
        parse_special: Parse special tokens in the text; None: the default of the file's own
            library.

    Raises:
        UsageError: The file does not exist.
        FormatError: The file is damaged.
    """
    from mtkit.tokenizer.explanation import Explanation, token_rows

    own = tokenizer if isinstance(tokenizer, Tokenizer) else load(tokenizer)
    trace = own.trace(text, add_special_tokens=add_special_tokens, parse_special=parse_special)
    return Explanation(trace, tuple(token_rows(trace, own)))


def inspect(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what is in a file or a model folder, as ``mtkit inspect --json`` prints it.

    Args:
        path: A GGUF, safetensors or tokenizer file, or a folder with a model, an adapter or a
            tokenizer.

    Returns:
        The document, schema ``mtkit.inspect/1``; ``kind`` says what the file is.

    Raises:
        UsageError: There is no such file.
        FormatError: The file is damaged, or its format is unknown.
    """
    name = expand_home(path)
    if model_folder.sniff(name):
        from mtkit.conversion.folder_report import folder_document, folder_report, weight_rows

        folder = folder_report(name)
        return folder_document(folder, list(weight_rows(folder)))
    if adapter_folder.sniff(name):
        from mtkit.inspection.adapter import inspect_adapter

        return inspect_adapter(name).document()
    source = Source.open(model_folder.undescribed_weights(name) or locate(name).path)
    kind = kind_of(source)
    if kind == "gguf":
        from mtkit.inspection.document import gguf_document
        from mtkit.inspection.gguf import inspect_gguf

        return gguf_document(inspect_gguf(source))
    if kind in ("index", "safetensors"):
        from mtkit.inspection.safetensors import (
            WeightRow,
            inspect_safetensors,
            safetensors_document,
        )

        model = inspect_safetensors(source)
        return safetensors_document(model, [WeightRow(*weight) for weight in model.weights])
    from mtkit.conversion.folder_notes import tokenizer_document
    from mtkit.tokenizer.load import load_source

    return tokenizer_document(load_source(source))


def compare(
    left: str | os.PathLike[str] | Tokenizer,
    right: str | os.PathLike[str] | Tokenizer,
    texts: Iterable[str | bytes] | None = None,
    *,
    most: int = 10,
    add_special_tokens: bool = True,
    parse_special: bool | None = None,
) -> Comparison:
    """Encode texts with two tokenizers and compare ids.

    Args:
        left: The first tokenizer, or anything that ``load`` accepts.
        right: The second one.
        texts: The texts, read one at a time; None: about 200 built-in ones.
        most: How many differences to describe.
        add_special_tokens: Add special tokens around each text.
        parse_special: Parse special tokens in the text; None: the default of each file's own
            library.

    Raises:
        UsageError: A file does not exist.
        FormatError: A file is damaged.
    """
    from mtkit.tokenizer.comparison import compare as compare_tokenizers
    from mtkit.tokenizer.comparison import probe_texts as built_in

    a, b = (side if isinstance(side, Tokenizer) else load(side) for side in (left, right))
    return compare_tokenizers(
        a,
        b,
        built_in() if texts is None else texts,
        most=most,
        add_special_tokens=add_special_tokens,
        parse_special=parse_special,
    )


def diff(
    left: str | os.PathLike[str], right: str | os.PathLike[str], *, values: bool = False
) -> Difference:
    """Compare two models: metadata, tensors and chat templates.

    Args:
        left: A GGUF, or a model folder; a folder is compared as the GGUF it would convert to.
        right: The other model.
        values: Dequantize the tensors and measure the error of each against ``left``.

    Raises:
        UsageError: There is no such file.
        FormatError: A file is damaged or not a GGUF.
        UnsupportedError: A folder cannot be converted to a GGUF.
    """
    from mtkit.inspection.difference import find_difference

    return find_difference(_side(left), _side(right), values=values)


def _side(path: str | os.PathLike[str]) -> Side:
    name = expand_home(path)
    if model_folder.sniff(name):
        from mtkit.conversion.folder_report import folder_side

        return folder_side(name)
    from mtkit.gguf.shards import open_whole
    from mtkit.inspection.difference import side_of

    return side_of(open_whole(name))


class Piece(Record):
    """What one part of a picture or sound is in a prompt.

    Attributes:
        kind: "text" around it, "image" (a tile, or all of a picture) or "audio".
        tokens: How many tokens it takes.
        positions: How many positions they share.
        columns, rows: The grid of a tile's tokens; 0 where there is none.
        text: The text.
    """

    kind: str
    tokens: int
    positions: int
    columns: int
    rows: int
    text: str


def explain_medium(path: str, settings: AnswerSettings) -> list[Piece]:
    """Return what becomes of a picture or sound; no weights of the model are loaded."""
    from mtkit.llama import Model
    from mtkit.llama.media import Chunk, Projector, kind_of
    from mtkit.llm.media import read_medium, refuse_media
    from mtkit.llm.runner import open_header
    from mtkit.llm.trial import try_projector

    header, data = open_header(settings), read_medium(path)
    kind = kind_of(data)
    refuse_media(header.projector.kinds if header.projector else frozenset(), kind, path)
    assert header.projector is not None
    try_projector(header, settings.load, settings.context)
    load = replace(settings.load, mmap=False, devices=("CPU",))
    context = replace(settings.context, n_batch=1 << 16, n_ubatch=1 << 16)  # nothing is computed
    with (
        Model(header.path, load, weights=False) as model,
        Projector(model, header.projector.path, context, load) as projector,
    ):
        try:
            parts = projector.parts(data)
        except MtkitError as error:
            raise error.located(path) from None
        pieces = []
        for part in parts:
            if isinstance(part, Chunk):
                pieces.append(Piece(kind, len(part.ids), part.span, *part.grid, ""))
            else:
                text = b"".join(model.piece(token_id, special=True) for token_id in part)
                size = len(part)
                pieces.append(Piece("text", size, size, 0, 0, text.decode("utf-8", "replace")))
        return pieces
