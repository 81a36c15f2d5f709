"""Byte-level BPE in two files: vocab.json (token → id) and merges.txt (a pair a line, by rank).

Either file can be named; the other must lie beside it. They hold vocabulary and merges alone; the
rest is that of the class in tokenizer_config.json beside them: GPT2Tokenizer (the default),
RobertaTokenizer or Qwen2Tokenizer. Other classes build another tokenizer from the same files and
are refused.

Source: huggingface/transformers 5, models/gpt2, models/roberta, models/qwen2 (``__init__``),
tokenization_utils_tokenizers.py (``update_post_processor``; ``TokenizersBackend``: an added token
that vocab.json lacks gets the next free id, whatever id the files have for it);
huggingface/tokenizers 0.23, models/bpe/model.rs (``read_file``).
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.formats import tokenizer_config
from mtkit.formats.contract import Loss, Reading, Written, losses_between
from mtkit.formats.tokenizer_config import CONFIG, Settings, role_settings
from mtkit.spec import (
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
from mtkit.spec.text import Regex
from mtkit.spec.vocabulary import is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mtkit.formats.contract import LossRule, WriteOptions
    from mtkit.formats.tokenizer_config import Again
    from mtkit.spec import SpecialIds


class Family(Record):
    """What a class has besides vocabulary and merges.

    Attributes:
        roles: Role -> text of its special tokens by default.
        split: Split pattern in front of the byte alphabet; empty for GPT-2's own.
        surrounds: Whether the class puts cls and sep around a text, whatever the settings say.
        again: How it adds its special tokens a second time.
    """

    class_name: str
    roles: Mapping[str, str]
    split: str = ""
    nfc: bool = False
    surrounds: bool = False
    again: Again = None

    def letters(self, prefix: bool) -> pre_tokenizers.PreTokenizer:
        """Return the pre-tokenizer."""
        letters = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not self.split)
        if not self.split:
            return letters
        return pre_tokenizers.Sequence((pre_tokenizers.Split(Regex(self.split)), letters))

    @property
    def normalizer(self) -> normalizers.UnicodeForm | None:
        """The normalizer."""
        return normalizers.UnicodeForm("NFC") if self.nfc else None


_END = "<|endoftext|>"
GPT2 = Family("GPT2Tokenizer", {"bos": _END, "eos": _END, "unk": _END})
ROBERTA = Family(
    "RobertaTokenizer",
    {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>",
     "mask": "<mask>"},
    surrounds=True,
)  # fmt: skip
QWEN2 = Family(
    "Qwen2Tokenizer",
    {"eos": _END, "unk": _END, "pad": _END},
    split=tokenizer_config.QWEN2_SPLIT,
    nfc=True,
    again="plain",
)
_FAMILIES = {family.class_name: family for family in (GPT2, ROBERTA, QWEN2)}
_CLASSES = {name: name for name in _FAMILIES} | dict.fromkeys(
    ("BartTokenizer", "LEDTokenizer", "LongformerTokenizer", "MvpTokenizer"), ROBERTA.class_name
)
"""Class -> the one whose tokenizer it builds."""


def _ends_template(
    roles: SpecialIds, texts: Mapping[str, str], *, bos: bool, eos: bool
) -> post_processors.Template | None:
    """Return the template of BOS and EOS around each text; None for neither."""

    def around(text: int) -> tuple[post_processors.Slot, ...]:
        first = _token_slot(roles.bos, texts.get("bos"), text) if bos else ()
        last = _token_slot(roles.eos, texts.get("eos"), text) if eos else ()
        return (*first, post_processors.Slot(text, type_id=text), *last)

    if len(around(0)) == 1:
        return None
    return post_processors.Template(around(0), around(0) + around(1))


def _token_slot(
    number: int | None, name: str | None, part: int
) -> tuple[post_processors.Slot, ...]:
    if number is None or name is None:
        return ()
    return (post_processors.Slot(None, (number,), part, name),)


def write_pair(spec: TokenizerSpec, title: str, read: Callable[[Source], Reading]) -> Written:
    """Write a specification."""
    import json

    model = spec.model
    if not isinstance(model, models.BPE):
        raise UnsupportedError(f"{title} store BPE by merges, not {model_name(model)}")
    if model.merges.unlisted:
        raise UnsupportedError("a merge has a part that is not a token")
    family = _family_of(spec)
    vocab = {
        piece: number
        for number, piece in enumerate(spec.vocabulary.pieces)
        if spec.vocabulary.type_of(number) is not TokenType.ABSENT
    }
    merges = _merge_lines(model.merges, spec.vocabulary.pieces, vocab)
    # An added token whose next free id would be another one has to be in vocab.json.
    free = set(range(spec.vocab_size)) - set(vocab.values())
    more = {t.content: t.id for t in spec.added_tokens.tokens if t.id in free} | vocab
    for ids in (vocab, more):
        texts = {_token_text(piece): number for piece, number in ids.items()}
        files = {
            "vocab.json": json.dumps(texts, ensure_ascii=False).encode("utf-8"),
            "merges.txt": merges,
        }
        settings = _settings(spec, family, ids)
        if settings:
            settings["tokenizer_class"] = family.class_name
            files[CONFIG] = json.dumps(settings, ensure_ascii=False, indent=1).encode("utf-8")
        back = read(Source("vocab.json", files["vocab.json"], siblings=files)).spec
        if _added_ids(spec).items() <= _added_ids(back).items():
            break
    return Written(files, losses_between(spec, back, rules=_LOSS_RULES))


def _added_ids(spec: TokenizerSpec) -> dict[bytes, int]:
    return {token.content: token.id for token in spec.added_tokens.tokens}


def _family_of(spec: TokenizerSpec) -> Family:
    if isinstance(spec.post_processor, post_processors.Roberta):
        return ROBERTA
    same = spec.normalizer == QWEN2.normalizer and _without_trimming(spec) in (
        QWEN2.letters(False),
        QWEN2.letters(True),
    )
    return QWEN2 if same else GPT2


def _without_trimming(spec: TokenizerSpec) -> pre_tokenizers.PreTokenizer | None:
    pre_tokenizer = spec.pre_tokenizer
    if isinstance(pre_tokenizer, pre_tokenizers.ByteLevel):
        return replace(pre_tokenizer, trim_offsets=True)
    if isinstance(pre_tokenizer, pre_tokenizers.Sequence) and pre_tokenizer.steps:
        last = pre_tokenizer.steps[-1]
        if isinstance(last, pre_tokenizers.ByteLevel):
            steps = (*pre_tokenizer.steps[:-1], replace(last, trim_offsets=True))
            return pre_tokenizers.Sequence(steps)
    return pre_tokenizer


def _settings(spec: TokenizerSpec, family: Family, ids: Mapping[bytes, int]) -> dict[str, object]:
    """Return the fields of tokenizer_config.json."""
    post, roles = spec.post_processor, spec.special_ids
    if isinstance(post, post_processors.Roberta):
        roles = replace(roles, sep=post.sep[1], cls=post.cls[1])
    settings = role_settings(spec, roles, family.roles, ids)
    if _without_trimming(spec) == family.letters(True):
        settings["add_prefix_space"] = True
    if isinstance(post, post_processors.Roberta) and not post.trim_offsets:
        settings["trim_offsets"] = False
    if isinstance(post, post_processors.Template):
        settings.update(_end_settings(post, spec.special_ids))
    return settings if settings or family is not GPT2 else {}


def _end_settings(post: post_processors.Template, roles: SpecialIds) -> dict[str, bool]:
    """Return the settings that give a template, if any do."""
    names = {slot.ids[0]: slot.name for slot in post.single if len(slot.ids) == 1}
    texts = {
        role: names[number]
        for role, number in (("bos", roles.bos), ("eos", roles.eos))
        if number in names
    }
    for bos, eos in ((True, False), (False, True), (True, True)):
        if _ends_template(roles, texts, bos=bos, eos=eos) == post:
            return {"add_bos_token": bos, "add_eos_token": eos}
    return {}


def _merge_lines(merges: models.Merges, pieces: Pieces, vocab: Mapping[bytes, int]) -> bytes:
    lines = [b"#version: 0.2\n"]
    for rank, (first, second) in enumerate(merges.pairs.pairs()):
        left, right = pieces[first], pieces[second]
        both = left + right
        if any(mark in both for mark in b" \n\r") or left.startswith(b"#version"):
            raise UnsupportedError(f"merge {rank} cannot stand in a line: {left!r} {right!r}")
        if both not in vocab:
            raise UnsupportedError(f"merge {rank} makes no token: {left!r} {right!r}")
        lines.append(left + b" " + right + b"\n")
    return b"".join(lines)


def _token_text(piece: bytes) -> str:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsupportedError(f"the token {piece!r} is not text") from None


def _pre_tokenizer_losses(spec: TokenizerSpec, back: TokenizerSpec) -> Iterator[Loss]:
    if _without_trimming(spec) == back.pre_tokenizer:
        yield Loss("metadata", "pre_tokenizer", "offsets do not include leading spaces")
    else:
        yield Loss("ids", "pre_tokenizer", "text is split by the model class's own pattern")


_LOSS_RULES: Mapping[str, LossRule] = {
    "normalizer": ("ids", "text is normalized by the model class's own rules"),
    "pre_tokenizer": _pre_tokenizer_losses,
    "model": ("ids", "options of the model other than the merges are not kept"),
}
"""Field -> its loss, where it does not come back."""


NAME = "vocab-merges"
TITLE = "GPT-2 vocab.json and merges.txt"

HIGHEST_ID = 1 << 24
"""No vocabulary comes near; a higher id is damage."""


def sniff(source: Source) -> bool:
    """Tell by a JSON object of strings with numbers, or a line of two words, and the other file."""
    import re

    head = bytes(source.data[:1000])
    if re.match(rb'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*\d+\s*[,}]', head):
        return source.beside("merges.txt") is not None
    lines = head.split(b"\n")
    first = lines[1] if lines[0].startswith(b"#version") and len(lines) > 1 else lines[0]
    return len(first.split(b" ")) == 2 and source.beside("vocab.json") is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read the pair.

    Raises:
        FormatError: A file is damaged.
        UnsupportedError: tokenizer_config.json names a class that builds another tokenizer.
        UsageError: The other file is missing.
    """
    data = bytes(source.data)
    is_vocab = data.lstrip().startswith(b"{")
    vocab = data if is_vocab else source.beside("vocab.json")
    merges = source.beside("merges.txt") if is_vocab else data
    if vocab is None or merges is None:
        raise UsageError("the other file of the pair is missing", source=source.name)
    settings = Settings(source)
    name = settings.family(_CLASSES)
    family = _FAMILIES[name or GPT2.class_name]
    ids = _ids(vocab)
    role_tokens = settings.role_tokens(family.roles)
    added, roles = settings.added_tokens(role_tokens, ids, again=family.again)
    texts = {role: token.content.decode("utf-8") for role, token in role_tokens.items() if token}
    spec = TokenizerSpec(
        _vocabulary(ids),
        models.BPE(_merges(merges, ids)),
        normalizer=family.normalizer,
        pre_tokenizer=family.letters(settings.flag("add_prefix_space", False)),
        post_processor=_post_processor(settings, family, roles, texts),
        decoder=decoders.ByteLevel(),
        added_tokens=added,
        special_ids=roles,
    )
    assumption = f"split pattern, byte alphabet and special tokens of {family.class_name}"
    return Reading(spec, (assumption if name is None else f"{assumption}, which {CONFIG} names",))


def _post_processor(
    settings: Settings, family: Family, roles: SpecialIds, texts: Mapping[str, str]
) -> post_processors.PostProcessor | None:
    if not family.surrounds:
        bos, eos = (settings.flag(f"add_{role}_token", False) for role in ("bos", "eos"))
        return _ends_template(roles, texts, bos=bos, eos=eos)
    if roles.sep is None or roles.cls is None:
        raise UnsupportedError("sep_token and cls_token are needed", field=CONFIG)
    return post_processors.Roberta(
        (texts["sep"], roles.sep),
        (texts["cls"], roles.cls),
        settings.flag("trim_offsets", True),
        settings.flag("add_prefix_space", False),
    )


def _ids(data: bytes) -> dict[bytes, int]:
    from mtkit.formats.json_fields import Fields, encode_text, parse_json

    table = Fields(parse_json(data, "vocab.json"), "vocab.json")
    return {encode_text(t, "vocab.json"): table.integer(t, most=HIGHEST_ID) for t in table.values}


def _vocabulary(ids: Mapping[bytes, int]) -> Vocabulary:
    size = max(ids.values(), default=-1) + 1
    if is_sparse(size, len(ids)):
        what = f"has id {size - 1} and only {len(ids)} tokens"
        raise FormatError(what, field="vocab.json")
    pieces = [b""] * size
    types = bytearray([TokenType.ABSENT]) * size
    for piece, token_id in ids.items():
        if types[token_id] != TokenType.ABSENT:
            raise FormatError(f"id {token_id} occurs twice", field="vocab.json")
        pieces[token_id] = piece
        types[token_id] = TokenType.NORMAL
    whole = TokenType.ABSENT not in types
    return Vocabulary(Pieces.of(pieces), None if whole else Numbers("B", bytes(types)))


def _merges(data: bytes, ids: Mapping[bytes, int]) -> models.Merges:
    """Read the pairs by rank; of two equal ones the later counts."""
    ranks: dict[tuple[int, int], int] = {}
    at = 0
    for rank, line in enumerate(data.split(b"\n")):
        words = line.removesuffix(b"\r").split(b" ")
        if line.strip() and not line.startswith(b"#version"):
            if len(words) != 2 or words[0] not in ids or words[1] not in ids:
                what = f"is {line[:60]!r}, not two tokens of vocab.json"
                raise FormatError(what, field="merges.txt line", offset=at)
            if words[0] + words[1] not in ids:
                what = f"{line[:60]!r} makes what is not a token of vocab.json"
                raise FormatError(what, field="merges.txt line", offset=at)
            ranks[ids[words[0]], ids[words[1]]] = rank
        at += len(line) + 1
    pairs = [part for pair in sorted(ranks, key=ranks.__getitem__) for part in pair]
    return models.Merges(Numbers.of("I", pairs), Pieces.of([]))


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write byte-level BPE, with a tokenizer_config.json where defaults do not suffice."""
    return write_pair(spec, TITLE, lambda source: read(source, {}))
