"""BERT's vocab.txt: one token a line, the id is the line's number.

The file holds the vocabulary alone. What surrounds it is BERT's: its normalizer (lower-casing,
unless tokenizer_config.json beside it says ``do_lower_case: false``), its pre-tokenizer, ``##``
for pieces that continue a word, ``[CLS]`` in front and ``[SEP]`` behind.

Source: huggingface/transformers, models/bert (``BertTokenizer``); google-research/bert,
tokenization.py (``load_vocab``).
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.packed import Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Loss, Reading, Written
from mtkit.formats.remainder import with_remainder
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    decoders,
    models,
    normalizers,
    post_processors,
    pre_tokenizers,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.formats.contract import WriteOptions

NAME = "wordpiece"
TITLE = "BERT vocab.txt"

_UNK = b"[UNK]"
_SPECIAL = (_UNK, b"[SEP]", b"[PAD]", b"[CLS]", b"[MASK]")
_HEAD_BYTES = 1 << 16
_LONGEST_LINE = 1 << 10


def sniff(source: Source) -> bool:
    """Tell by short lines of text without blanks, among them BERT's special tokens."""
    head = bytes(source.data[:_HEAD_BYTES])
    lines = head.split(b"\n")
    if b"\0" in head or any(len(line) > _LONGEST_LINE for line in lines):
        return False
    return _UNK in (line.rstrip(b"\r") for line in lines)


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a vocabulary.

    Raises:
        FormatError: It is not valid UTF-8, or lacks ``[UNK]``.
    """
    data = bytes(source.data)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("is not UTF-8", field="line", offset=error.start) from None
    # Lines end as Python's text files end them: LF, CR LF or CR.
    lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    ids: dict[bytes, int] = {}
    for token_id, line in enumerate(lines):
        ids[line] = token_id  # of equal lines the last counts
    if _UNK not in ids:
        raise FormatError("is on no line", field="[UNK]", hint="is it a BERT vocabulary?")
    hidden = tuple(at for at, line in enumerate(lines) if ids[line] != at)
    lower, said = _lower_case(source)
    present = sorted((ids[name], name) for name in _SPECIAL if name in ids)
    tokens = tuple(AddedToken(token_id, name, special=True) for token_id, name in present)
    get = ids.get
    cls, sep = get(b"[CLS]"), get(b"[SEP]")
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(lines), hidden=hidden),
        models.WordPiece(ids[_UNK]),
        normalizer=normalizers.Bert(lowercase=lower),
        pre_tokenizer=pre_tokenizers.Bert(),
        post_processor=_template(cls, sep) if cls is not None and sep is not None else None,
        decoder=decoders.WordPiece(),
        added_tokens=AddedTokens(tokens),
        special_ids=SpecialIds(
            unk=ids[_UNK], sep=sep, pad=get(b"[PAD]"), cls=cls, mask=get(b"[MASK]")
        ),
    )
    words = ("BERT's normalizer, pre-tokenizer, [CLS] and [SEP]", *said)
    return Reading(spec, words)


def _lower_case(source: Source) -> tuple[bool, tuple[str, ...]]:
    beside = source.beside("tokenizer_config.json")
    if beside is not None:
        from mtkit.formats.json_fields import parse

        table = parse(beside, "tokenizer_config.json")
        value = table.get("do_lower_case", True) if isinstance(table, dict) else True
        if isinstance(value, bool):
            return value, ()
    return True, ("text is lower-cased",)


def _template(cls: int, sep: int) -> post_processors.Template:
    first = post_processors.Slot(None, (cls,), 0, "[CLS]")
    text = post_processors.Slot(0)
    middle = post_processors.Slot(None, (sep,), 0, "[SEP]")
    other = post_processors.Slot(1, type_id=1)
    last = post_processors.Slot(None, (sep,), 1, "[SEP]")
    return post_processors.Template((first, text, middle), (first, text, middle, other, last))


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a WordPiece vocabulary; a tokenizer_config.json says whether text is lower-cased.

    Raises:
        UnsupportedError: The model is another one, or a token cannot stand in a line.
    """
    import json

    model = spec.model
    if not isinstance(model, models.WordPiece) or model.prefix != "##":
        name = type(model).__name__
        raise UnsupportedError(f"{TITLE} holds WordPiece with ## only, not {name}")
    pieces = spec.vocabulary.pieces
    if model.unk is None or model.unk >= len(pieces) or pieces[model.unk] != _UNK:
        raise UnsupportedError(f"{TITLE} needs [UNK] as the unknown token")
    lines = []
    for token_id, piece in enumerate(spec.vocabulary.pieces):
        if b"\n" in piece or b"\r" in piece:
            raise UnsupportedError(f"token {token_id} holds a line break")
        if spec.vocabulary.type_of(token_id) is TokenType.ABSENT or not piece:
            raise UnsupportedError(f"there is no token {token_id}, and a line cannot be left out")
        lines.append(piece + b"\n")
    lower = not isinstance(spec.normalizer, normalizers.Bert) or spec.normalizer.lowercase
    files = {"vocab.txt": b"".join(lines)}
    if not lower:
        config = {"do_lower_case": False, "tokenizer_class": "BertTokenizer"}
        files["tokenizer_config.json"] = json.dumps(config).encode("utf-8")
    back = read(Source("vocab.txt", files["vocab.txt"], siblings=files), {}).spec
    return Written(files, with_remainder(spec, back, _losses(spec, back)))


def _losses(spec: TokenizerSpec, back: TokenizerSpec) -> list[Loss]:
    """Return the losses that change ids."""
    losses = []
    if spec.normalizer != back.normalizer:
        losses.append(Loss("ids", "normalizer", "BERT's normalizer is run instead"))
    if spec.pre_tokenizer != back.pre_tokenizer:
        losses.append(Loss("ids", "pre_tokenizer", "BERT's pre-tokenizer is run instead"))
    if spec.model != back.model:
        losses.append(Loss("ids", "model", "words of more than 100 characters are unknown"))
    return losses
