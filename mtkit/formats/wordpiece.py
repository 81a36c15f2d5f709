"""BERT's vocab.txt: one token a line, the id is the line's number.

The file holds the vocabulary alone. The rest is that of BertTokenizer, with the switches and
special tokens of tokenizer_config.json beside it: its normalizer, its pre-tokenizer, ``##`` for
pieces that continue a word, ``[CLS]`` in front and ``[SEP]`` behind. Other classes build another
tokenizer from the same file and are refused.

Source: huggingface/transformers 5, models/bert (``BertTokenizer``, which leaves ``never_split`` and
``do_basic_tokenize`` aside); huggingface/tokenizers 0.23, models/wordpiece/mod.rs (``read_file``).
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.packed import Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Reading, Written, losses_between
from mtkit.formats.tokenizer_config import CONFIG, Settings, role_settings
from mtkit.spec import (
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    decoders,
    model_name,
    models,
    normalizers,
    post_processors,
    pre_tokenizers,
    replace,
)
from mtkit.unicode.characters import WHITE_SPACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.formats.contract import LossRule, WriteOptions

NAME = "wordpiece"
TITLE = "BERT vocab.txt"

_UNK = b"[UNK]"
_ROLES = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_CLASS = "BertTokenizer"
_CLASSES = dict.fromkeys(
    (
        _CLASS, "DistilBertTokenizer", "ElectraTokenizer", "MobileBertTokenizer",
        "ConvBertTokenizer", "SqueezeBertTokenizer", "LxmertTokenizer", "LayoutLMTokenizer",
    ),
    _CLASS,
)  # fmt: skip
"""Classes that build the same tokenizer as BertTokenizer."""
_BLANKS = "".join(WHITE_SPACE)
"""Stripped from the end of a line."""
_HEAD_BYTES = 1 << 16
_LONGEST_LINE = 1 << 10


def sniff(source: Source) -> bool:
    """Tell by short lines of text without blanks, among them BERT's special tokens."""
    head = bytes(source.data[:_HEAD_BYTES])
    lines = head.split(b"\n")
    if any(len(line) > _LONGEST_LINE for line in lines):
        return False
    return _UNK in (line.rstrip(b"\r") for line in lines)


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a vocabulary.

    Raises:
        FormatError: It is not UTF-8, or lacks the unknown token.
        UnsupportedError: tokenizer_config.json names a class that builds another tokenizer.
    """
    lines = _lines(bytes(source.data))
    ids = {line: token_id for token_id, line in enumerate(lines)}  # of equal lines the last
    settings = Settings(source)
    name = settings.family(_CLASSES)
    role_tokens = settings.role_tokens(_ROLES)
    added, roles = settings.added_tokens(role_tokens, ids, again=None)
    unk, sep, cls = (role_tokens[role] for role in ("unk", "sep", "cls"))
    if unk is None or sep is None or cls is None or roles.sep is None or roles.cls is None:
        raise UnsupportedError("unk_token, sep_token and cls_token are needed", field=CONFIG)
    if unk.content not in ids:
        field = unk.content.decode("utf-8")
        raise FormatError("is on no line", field=field, hint="is it a BERT vocabulary?")
    spec = TokenizerSpec(
        Vocabulary(
            Pieces.of(lines), hidden=tuple(at for at, line in enumerate(lines) if ids[line] != at)
        ),
        models.WordPiece(ids[unk.content]),
        normalizer=normalizers.Bert(
            handle_chinese_chars=settings.flag("tokenize_chinese_chars", True),
            strip_accents=settings.config.optional_boolean("strip_accents"),
            lowercase=settings.flag("do_lower_case", True),
        ),
        pre_tokenizer=pre_tokenizers.Bert(),
        post_processor=_template(
            (cls.content.decode("utf-8"), roles.cls), (sep.content.decode("utf-8"), roles.sep)
        ),
        decoder=decoders.WordPiece(),
        added_tokens=added,
        special_ids=roles,
    )
    assumption = f"normalizer, pre-tokenizer and template of {_CLASS}"
    lower = () if "do_lower_case" in settings.config else ("text is lower-cased",)
    return Reading(
        spec, (assumption if name is None else f"{assumption}, which {CONFIG} names", *lower)
    )


def _lines(data: bytes) -> list[bytes]:
    """Return the tokens: lines that end in LF, without white space at their ends."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("is not UTF-8", field="line", offset=error.start) from None
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    return [line.rstrip(_BLANKS).encode("utf-8") for line in lines]


def _template(cls: tuple[str, int], sep: tuple[str, int]) -> post_processors.Template:
    first = post_processors.Slot(None, (cls[1],), 0, cls[0])
    text = post_processors.Slot(0)
    middle = post_processors.Slot(None, (sep[1],), 0, sep[0])
    other = post_processors.Slot(1, type_id=1)
    last = post_processors.Slot(None, (sep[1],), 1, sep[0])
    return post_processors.Template((first, text, middle), (first, text, middle, other, last))


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a WordPiece vocabulary, and a tokenizer_config.json where defaults do not suffice."""
    import json

    model = spec.model
    if not isinstance(model, models.WordPiece) or model.prefix != "##":
        name = model_name(model)
        if isinstance(model, models.WordPiece):
            name = f"with {model.prefix!r}"
        raise UnsupportedError(f"{TITLE} supports WordPiece with ## only, not {name}")
    pieces = spec.vocabulary.pieces
    if model.unk is None or _UNK not in pieces.ids:
        raise UnsupportedError(f"{TITLE} needs an unknown token, and is known by a line [UNK]")
    lines = []
    for token_id, piece in enumerate(pieces):
        if spec.vocabulary.type_of(token_id) is TokenType.ABSENT:
            raise UnsupportedError(f"there is no token {token_id}, and a line cannot be left out")
        text = piece.decode("utf-8", "replace")
        if "\n" in text or text != text.rstrip(_BLANKS) or text.encode("utf-8") != piece:
            raise UnsupportedError(f"token {token_id} cannot stand in a line: {piece!r}")
        lines.append(piece + b"\n")
    files = {"vocab.txt": b"".join(lines)}
    ids = {piece: at for at, piece in enumerate(pieces)}
    settings = role_settings(spec, _roles(spec, model.unk), _ROLES, ids)
    if isinstance(spec.normalizer, normalizers.Bert):
        normalizer = spec.normalizer
        switches = {
            "do_lower_case": normalizer.lowercase,
            "strip_accents": normalizer.strip_accents,
            "tokenize_chinese_chars": normalizer.handle_chinese_chars,
        }
        settings.update({k: v for k, v in switches.items() if v is not _SWITCHES[k]})
    if settings:
        settings["tokenizer_class"] = _CLASS
        files[CONFIG] = json.dumps(settings, ensure_ascii=False, indent=1).encode("utf-8")
    back = read(Source("vocab.txt", files["vocab.txt"], siblings=files), {}).spec
    return Written(files, losses_between(spec, back, rules=_RULES))


def _roles(spec: TokenizerSpec, unk: int) -> SpecialIds:
    """Return the ids of the roles; cls and sep are the tokens around a text, if there are any."""
    post, roles = spec.post_processor, replace(spec.special_ids, unk=unk)
    if isinstance(post, post_processors.Bert):
        return replace(roles, sep=post.sep[1], cls=post.cls[1])
    if isinstance(post, post_processors.Template) and len(post.single) == 3:
        ends = [slot.ids for slot in post.single[::2]]
        if all(len(ids) == 1 for ids in ends):
            return replace(roles, cls=ends[0][0], sep=ends[1][0])
    return roles


_SWITCHES = {"do_lower_case": True, "strip_accents": None, "tokenize_chinese_chars": True}


_RULES: Mapping[str, LossRule] = {
    "normalizer": ("ids", "text is normalized by BERT's rules"),
    "pre_tokenizer": ("ids", "text is split by BERT's rules"),
    "model": ("ids", "words longer than 100 characters become unknown"),
}
"""Field -> its loss, where it does not come back."""
