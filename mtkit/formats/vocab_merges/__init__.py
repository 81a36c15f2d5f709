"""Byte-level BPE in two files: vocab.json (token → id) and merges.txt (a pair a line, by rank).

Either file can be named; the other must lie beside it. They hold vocabulary and merges alone; what
surrounds them is that of the class which tokenizer_config.json beside them names: GPT2Tokenizer's
(where none is named), RobertaTokenizer's or Qwen2Tokenizer's. Others build another tokenizer of the
same files and are refused.

Source: huggingface/tokenizers 0.23, models/bpe/model.rs (``read_file``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.formats.added_tokens import CONFIG
from mtkit.formats.contract import Reading
from mtkit.formats.tokenizer_class import Settings
from mtkit.formats.vocab_merges.classes import CLASSES, FAMILIES, GPT2, template
from mtkit.spec import TokenizerSpec, TokenType, Vocabulary, decoders, models, post_processors
from mtkit.spec.vocabulary import is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Source
    from mtkit.formats.contract import WriteOptions, Written
    from mtkit.formats.vocab_merges.classes import Family
    from mtkit.spec import SpecialIds

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
    name = settings.family(CLASSES)
    family = FAMILIES[name or GPT2.class_name]
    ids = _ids(vocab)
    named = settings.named(family.roles)
    added, roles = settings.added(named, ids, again=family.again)
    texts = {role: token.content.decode("utf-8") for role, token in named.items() if token}
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
    said = f"split pattern, byte alphabet and special tokens of {family.class_name}"
    return Reading(spec, (said if name is None else f"{said}, which {CONFIG} names",))


def _post_processor(
    settings: Settings, family: Family, roles: SpecialIds, texts: Mapping[str, str]
) -> post_processors.PostProcessor | None:
    if not family.surrounds:
        bos, eos = (settings.flag(f"add_{role}_token", False) for role in ("bos", "eos"))
        return template(roles, texts, bos=bos, eos=eos)
    if roles.sep is None or roles.cls is None:
        raise UnsupportedError("sep_token and cls_token are needed", field=CONFIG)
    return post_processors.Roberta(
        (texts["sep"], roles.sep),
        (texts["cls"], roles.cls),
        settings.flag("trim_offsets", True),
        settings.flag("add_prefix_space", False),
    )


def _ids(data: bytes) -> dict[bytes, int]:
    from mtkit.formats.json_fields import Fields, encode, parse

    table = Fields(parse(data, "vocab.json"), "vocab.json")
    return {encode(t, "vocab.json"): table.integer(t, most=HIGHEST_ID) for t in table.values}


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
    """Read the pairs by rank; of one that occurs twice the later place counts."""
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
    """Write byte-level BPE, with a tokenizer_config.json where defaults do not say enough.

    Raises:
        UnsupportedError: It is another model, or a merge cannot stand in a line.
    """
    from mtkit.formats.vocab_merges.writer import write_spec

    return write_spec(spec, TITLE, lambda source: read(source, {}))
