"""tiktoken's rank files: one ``base64 rank`` a line.

The file holds neither the split pattern nor the special tokens. They come from ``pattern.json``
beside it (``{"pattern": …, "special_tokens": {…}}``, and ``"normalizer": "NFC"`` where text is put
into that form first), from the name of a published encoding, or from recognizing the ranks of one;
otherwise reading asks, it never guesses.

Source: openai/tiktoken, tiktoken/load.py (``load_tiktoken_bpe``), src/lib.rs (``CoreBPE``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.formats.contract import Reading, Written
from mtkit.formats.rank_spec import (
    HIGHEST_RANK,
    RULES,
    check_holes,
    rank_spec,
    rank_vocabulary,
    ranks_of,
)
from mtkit.formats.remainder import with_remainder
from mtkit.formats.tiktoken_encodings import ENCODINGS, END, Encoding, names_of
from mtkit.spec import SpecialIds, TokenizerSpec, TokenType, Vocabulary, normalizers, replace
from mtkit.spec.vocabulary import present_types

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Buffer, Source
    from mtkit.formats.contract import WriteOptions

NAME = "tiktoken"
TITLE = "tiktoken ranks"

_FORMS = {form: normalizers.UnicodeForm(form) for form in ("NFC", "NFD", "NFKC", "NFKD")}


def sniff(source: Source) -> bool:
    """Tell by a first line of base64, a blank and a number."""
    import re

    head = bytes(source.data[:400])
    return re.match(rb"(?:[A-Za-z0-9+/]+={0,2}|=)[ \t]+\d{1,9}[\r\n]", head) is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a rank file.

    Args:
        source: The file.
        overrides: ``encoding`` names a published encoding; with ``published`` the ranks have to be
            the published ones, too, by their SHA-256.

    Raises:
        FormatError: The file is damaged, or is not the published one.
        UnsupportedError: Nothing says which pattern and special tokens belong to it.
        UsageError: The named encoding is not known.
    """
    name = overrides.get("encoding")
    if overrides.get("published") and name not in names_of(source.data):
        what = f"is not the published rank file of {name}: its SHA-256 is another"
        raise FormatError(what, hint="delete it so that tiktoken downloads it again")
    vocabulary = _packed(source.data) or rank_vocabulary(parse_ranks(bytes(source.data)))
    encoding, said = _encoding(source, name)
    ranks = [number for number in encoding.special.values() if number < len(vocabulary)]
    both = [number for number in ranks if vocabulary.type_of(number) != TokenType.ABSENT]
    if both:
        raise FormatError(f"id {min(both)} is a rank and a special token", field="special_tokens")
    return Reading(_spec(vocabulary, encoding), (said,))


def _packed(data: Buffer) -> Vocabulary | None:
    """Return the vocabulary of an ordinary file, as the core reads it; None for ``parse_ranks``."""
    try:
        from mtkit.base.native import native
    except ImportError:
        return None
    found = native.read_rank_lines(data)
    if found is None:
        return None
    blob, ends, present = found
    check_holes(len(present), present.count(1))
    types = Numbers("B", present_types(present)) if 0 in present else None
    return Vocabulary(Pieces(blob, Numbers("I", ends)), types)


def _spec(vocabulary: Vocabulary, encoding: Encoding) -> TokenizerSpec:
    end = SpecialIds(eos=encoding.special.get(END))
    spec = rank_spec(vocabulary, encoding.pattern, encoding.special, end)
    if encoding.form is None:
        return spec
    # Special tokens are looked for in what the normal form has made of the text.
    tokens = tuple(replace(token, normalized=True) for token in spec.added_tokens.tokens)
    added = replace(spec.added_tokens, tokens=tokens)
    return replace(spec, normalizer=_FORMS[encoding.form], added_tokens=added)


def parse_ranks(data: bytes) -> dict[bytes, int]:
    """Read the lines of a rank file, of a byte string that occurs twice the last.

    What stands for no bytes at all (``=``) is a token that text never becomes.

    Raises:
        FormatError: A line is not base64 and a rank, or no token stands for some byte.
    """
    import binascii

    ranks: dict[bytes, int] = {}
    at = 0
    for whole in data.splitlines(keepends=True):
        line = whole.rstrip(b"\r\n")
        if line:
            try:
                text, number = line.split()
                rank = int(number)
                ranks[binascii.a2b_base64(text)] = rank
            except ValueError:
                rank = -1
            if not 0 <= rank <= HIGHEST_RANK:
                what = f"is {line[:60]!r}, not base64 and a rank"
                raise FormatError(what, field="line", offset=at)
        at += len(whole)
    lacking = next((byte for byte in range(256) if bytes([byte]) not in ranks), None)
    if lacking is not None:
        raise FormatError(
            f"lack the byte 0x{lacking:02x}", field="ranks", hint="the file is probably truncated"
        )
    return ranks


def _encoding(source: Source, name: object) -> tuple[Encoding, str]:
    """Return what the file does not hold, and where it was found."""
    belongs = "split pattern and special tokens"
    if name is not None:
        if name not in ENCODINGS:
            known = ", ".join(ENCODINGS)
            raise UsageError(f"{name!r} is not a published encoding", hint=f"known: {known}")
        return ENCODINGS[str(name)](), f"{belongs} of {name}, as asked"
    beside = source.beside("pattern.json")
    if beside is not None:
        return _read_pattern(beside), f"{belongs} from pattern.json beside it"
    names = names_of(source.data)
    if not names:
        raise UnsupportedError(
            f"the file does not say its {belongs}",
            source=source.name,
            hint=f"--encoding {'|'.join(ENCODINGS)}, or put a pattern.json beside it",
        )
    others = f" (which --encoding {' or '.join(names[1:])} has, too)" if names[1:] else ""
    return ENCODINGS[names[0]](), f"{belongs} of {names[0]}, known by its ranks{others}"


def _read_pattern(data: bytes) -> Encoding:
    from mtkit.formats.json_fields import Fields, check_plain, parse

    table = Fields(parse(data, "pattern.json"), "pattern.json")
    check_plain(table.values, "pattern.json")
    special = table.object("special_tokens").values if "special_tokens" in table else {}
    for text, token_id in special.items():
        if type(token_id) is not int or not 0 <= token_id < HIGHEST_RANK or not text:
            raise FormatError(f"{text!r} has no id", field="pattern.json special_tokens")
    form = table.choice("normalizer", {name: name for name in _FORMS}, None)
    return Encoding(table.string("pattern"), special, form)


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a byte-level specification as ranks with a pattern.json beside.

    Raises:
        UnsupportedError: It is not a byte-level BPE that ranks can express.
    """
    import binascii
    import json

    normalizer = spec.normalizer
    form = normalizer.form if isinstance(normalizer, normalizers.UnicodeForm) else None
    ranks, pattern, losses = ranks_of(replace(spec, normalizer=None) if form else spec, "tiktoken")
    lines = [
        (binascii.b2a_base64(piece, newline=False) or b"=") + f" {rank}\n".encode()
        for piece, rank in sorted(ranks.items(), key=lambda item: item[1])
    ]
    tokens = spec.added_tokens.tokens
    special = {token.content.decode("utf-8", "replace"): token.id for token in tokens}
    table = {"pattern": pattern, "special_tokens": special}
    if form is not None:
        table["normalizer"] = form
    beside = json.dumps(table, ensure_ascii=False, indent=1).encode("utf-8")
    return Written(
        {".tiktoken": b"".join(lines), "pattern.json": beside},
        with_remainder(
            spec, _spec(rank_vocabulary(ranks), Encoding(pattern, special, form)), losses, RULES
        ),
    )
