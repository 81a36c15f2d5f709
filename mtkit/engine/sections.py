"""A specification's tables: flat arrays under four-letter tags, see native/tables/tables.hpp.

The heavy part (hash tables over pieces and merges) is made by the core from the packed vocabulary;
the result depends on the specification alone.

The program's part and the tables of models that few tokenizers have stand at the end.
"""

from __future__ import annotations

import struct
from contextlib import suppress

from mtkit.base.native import native
from mtkit.base.packed import whole
from mtkit.engine.decode_program import DecodeProgram
from mtkit.engine.opcodes import ModelKind
from mtkit.engine.program import Program
from mtkit.engine.program_writer import NONE, OUTSIDE, f64, numbers, text, u8, u32
from mtkit.errors import UnsupportedError
from mtkit.spec import TokenType, models, replace
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec, Vocabulary

    Sections = dict[str, bytes]


SEGMENTED = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED)
OTHERS = (TokenType.UNKNOWN, TokenType.ABSENT)
RESERVED = tuple(role for role in range(256) if role not in SEGMENTED + OTHERS)
_USER_DEFINED = {"score": 0, "zero": 1, "preferred": 2}


def tables(spec: TokenizerSpec) -> dict[str, bytes]:
    """Return the tables of a specification."""
    if spec.vocabulary.also:
        raise UnsupportedError("the core knows one spelling of each id")
    program = Program(spec)
    pieces = spec.vocabulary.pieces
    sections: dict[str, bytes] = {}
    listed = b""
    mapped = None
    if program.raw:
        blob, ends, listed = native.raw_pieces(pieces.blob, pieces.ends.data)
        sections["PCSB"], sections["PCSE"], mapped = blob, ends, listed
        _check_letters(spec, listed)
    else:
        sections["PCSB"], sections["PCSE"] = whole(pieces.blob), whole(pieces.ends.data)
    if spec.vocabulary.hidden:
        marks = bytearray(listed or b"\1" * len(pieces))
        for token_id in spec.vocabulary.hidden:
            marks[token_id] = 0
        listed = bytes(marks)
    part = _Model(spec, program, sections, listed).compile()
    sections["PROG"] = program.compile(part, cacheable=True)
    # Decoders that the core lacks are the pipeline's.
    with suppress(UnsupportedError):
        sections["DECO"] = DecodeProgram(program, mapped).compile()
    sections.update(program.sections)
    return sections


def _check_letters(spec: TokenizerSpec, listed: bytes) -> None:
    """Check that no piece is part of a letter: BPE looks it up where the letter is no token."""
    if isinstance(spec.model, models.BPE) and b"\0" in listed:
        pieces = spec.vocabulary.pieces
        odd = (pieces[token_id] for token_id, is_listed in enumerate(listed) if not is_listed)
        if any(len(piece) == 1 and piece >= b"\x80" for piece in odd):
            raise UnsupportedError("the core does not look up parts of byte-level letters")


class _Model:
    """Makes the tables of the model and its part of the program."""

    def __init__(
        self,
        spec: TokenizerSpec,
        program: Program,
        sections: dict[str, bytes],
        listed: bytes,
    ) -> None:
        self.spec = spec
        self.program = program
        self.vocabulary = spec.vocabulary
        self.sections = sections
        self.listed = listed
        self.raw = program.raw
        types = spec.vocabulary.types
        self.types = b"" if types is None else whole(types.data)

    def compile(self) -> bytes:
        """Return the program's part."""
        model, is_guarded = guard_ids(self.spec.model)
        part = self._compile(model)
        return u8(part[0] | ModelKind.GUARDED) + part[1:] if is_guarded else part

    def _compile(self, model: models.Model) -> bytes:
        if isinstance(model, models.BPE):
            return self._bpe(model)
        if isinstance(model, models.ScoreBPE):
            return self._score_bpe(model)
        if isinstance(model, models.Unigram):
            return self._unigram(model)
        if isinstance(model, (models.Characters, models.Words)):
            self._roles(takes_all=False)
            by_word = isinstance(model, models.Words)
            head = u8(ModelKind.CHARACTERS) + u8(by_word)
            return head + u32(model.unk) + u8(model.byte_fallback)
        if isinstance(model, models.Trie):
            self._trie(self.listed)
            return u8(ModelKind.TRIE) + u32(model.unk)
        if isinstance(model, models.ShortestPath):
            return shortest_path_part(self.vocabulary, self.sections)
        if isinstance(model, models.LatticeUnigram):
            self._trie(self.listed)
            return lattice_unigram_part(self.vocabulary, model, self.sections)
        self._words(self.listed)
        if isinstance(model, models.RankBPE):
            return u8(ModelKind.RANK_BPE)
        if isinstance(model, models.LooseBPE):
            return loose_bpe_part(self.vocabulary, model, self.sections)
        if isinstance(model, models.SectionBPE):
            head = section_bpe_part(self.program, model, self.sections)
            return head + self._bpe(model.bpe)[1:]
        if isinstance(model, models.WordPiece):
            return self._word_piece(model)
        if isinstance(model, models.WordLevel):
            return u8(ModelKind.WORD_LEVEL) + u32(model.unk)
        raise UnsupportedError(f"the core has no model {type(model).__name__}")

    def _is_token(self, piece: bytes) -> bool:
        token_id = self.vocabulary.find(piece)
        return token_id is not None and not (self.listed and not self.listed[token_id])

    def _of_role(self, *roles: int) -> bytes:
        """Return for each id whether it has one of the roles (and is listed)."""
        table = bytearray(256)
        for role in roles:
            table[role] = 1
        types = self.vocabulary.all_types()
        marks = types.translate(table)
        if not self.listed:
            return marks
        return bytes(map(int.__and__, marks, self.listed))

    def _word_table(self, listed: bytes) -> bytes:
        sections = self.sections
        extra = sections.get("XTRB", b""), sections.get("XTRE", b"")
        return native.build_words(sections["PCSB"], sections["PCSE"], *extra, listed)

    def _words(self, listed: bytes) -> None:
        self.sections["WORD"] = self._word_table(listed)

    def _trie(self, listed: bytes) -> None:
        self.sections["TRIE"] = native.build_trie(
            self.sections["PCSB"], self.sections["PCSE"], listed
        )

    def _roles(self, *, takes_all: bool) -> None:
        """Make the tables of segmented and of reserved pieces."""
        listed = self.listed if takes_all else self._of_role(*SEGMENTED)
        words = None if self.raw else self.vocabulary.pieces.indexed().words(listed)
        self.sections["WORD"] = self._word_table(listed) if words is None else words
        if self.types:
            self.sections["KIND"] = self.types
            self.sections["RSVD"] = self._word_table(self._of_role(*RESERVED))

    def _scores(self) -> tuple[bytes, bool]:
        """Return the scores packed, and whether they have 64 bits."""
        scores = self.vocabulary.scores
        if scores is None:
            return bytes(4 * len(self.vocabulary)), False
        return whole(scores.data), scores.code == "d"

    def _score_bpe(self, model: models.ScoreBPE) -> bytes:
        takes_all = model.mergeable == "any"
        self._roles(takes_all=takes_all)
        self.sections["RANK"] = native.build_ranks(*self._scores(), model.score_above)
        return b"".join(
            [
                u8(ModelKind.SCORE_BPE),
                u32(model.unk),
                u8(model.byte_fallback),
                u8(takes_all),
                u8(model.whole),
                u8(model.symbols == "continuation"),
                u8(model.missing == "before"),
            ]
        )

    def _unigram(self, model: models.Unigram) -> bytes:
        takes_all = model.candidates == "any"
        apart = model.byte_places == "last"
        if apart and not all(map(self._is_token, BYTE_TOKENS)):
            raise UnsupportedError("the core spells single characters where all bytes have a token")
        if takes_all and not self.vocabulary.pieces.are_distinct():
            last = set(self.vocabulary.last_ids.values())  # of equal pieces
            self.listed = bytes(number in last for number in range(len(self.vocabulary)))
        self._roles(takes_all=takes_all)
        tried = self.listed
        if not takes_all:
            unused = (TokenType.UNUSED,) if model.candidates == "listed" else ()
            tried = self._of_role(TokenType.NORMAL, TokenType.USER_DEFINED, *unused)
        self._trie(tried)
        self.sections["OFRS"], unknown = native.build_path_scores(
            self.sections["PCSB"],
            self.sections["PCSE"],
            *self._scores(),
            self.types,
            _USER_DEFINED[model.user_defined],
            takes_all,
        )
        return b"".join(
            [
                u8(ModelKind.UNIGRAM),
                u8(model.precision == "f32"),
                u32(model.unk),
                u8(model.byte_fallback * (1 + apart)),
                u8(model.fuse_unk and not apart),
                u8(takes_all),
                f64(unknown),
            ]
        )

    def _word_piece(self, model: models.WordPiece) -> bytes:
        return b"".join(
            [
                u8(ModelKind.WORD_PIECE),
                u32(model.unk),
                text(model.prefix),
                u32(model.max_chars),
                u8(model.unit == "bytes"),
                u8(model.too_long == "nothing"),
                u8(model.gap == "rest"),
                text(model.restart),
            ]
        )

    def _check_parts(self, merges: models.Merges) -> None:
        """Check that parts of merges can be looked up."""
        if not self.vocabulary.hidden:
            return
        pieces, ids = self.vocabulary.pieces, self.vocabulary.ids
        lost = {number for number in self.vocabulary.hidden if pieces[number] not in ids}
        if lost and not lost.isdisjoint(merges.pairs.view):
            raise UnsupportedError("the core merges what it looks up")

    def _bpe(self, model: models.BPE) -> bytes:
        if model.dropout:
            # The pipeline refuses a text, for the same reason: nobody encodes exactly with it.
            raise UnsupportedError("the core skips no merges")
        prefix, suffix = model.continuing_subword_prefix, model.end_of_word_suffix
        if model.missing == "after":
            self._check_parts(model.merges)
            prefix = suffix = ""  # characters merge as they stand in the text
        unlisted = model.merges.unlisted
        if len(unlisted):
            if self.raw:
                blob, ends, _ = native.raw_pieces(unlisted.blob, unlisted.ends.data)
            else:
                blob, ends = bytes(unlisted.blob), bytes(unlisted.ends.data)
            self.sections["XTRB"], self.sections["XTRE"] = blob, ends
        self._words(self.listed)
        pairs = native.build_pairs(
            model.merges.pairs.data,
            dict[str, object](self.sections),
            len(to_bytes(prefix)),
            model.missing == "after",
        )
        self.sections["PAIR"], self.sections["MRGD"], self.sections["PBIT"] = pairs
        if not (prefix or suffix or model.missing == "after"):
            sections = dict[str, object](self.sections)
            own = native.build_own_words(model.merges.pairs.data, sections, self.raw)
            if own:
                self.sections["OWNW"] = own
        return b"".join(
            [
                u8(ModelKind.BPE),
                u32(model.unk),
                u8(model.fuse_unk),
                u8(model.byte_fallback),
                u8(model.ignore_merges),
                u8(model.missing == "after"),
                u8(model.whole_newlines),
                u8(model.without_unk == "error"),
                text(prefix),
                text(suffix),
            ]
        )


def guard_ids(model: models.Model) -> tuple[models.Model, bool]:
    """Return a model with OUTSIDE for ids that are none, and whether it has such ids."""
    names = [name for name in ("unk", "unknown") if hasattr(model, name)]
    bad = [name for name in names if not 0 <= (getattr(model, name) or 0) < OUTSIDE]
    changed: models.Model = replace(model, **dict.fromkeys(bad, OUTSIDE))
    if isinstance(changed, models.SectionBPE):
        inner, is_bad = guard_ids(changed.bpe)
        return replace(changed, bpe=inner), is_bad or bool(bad)
    return changed, bool(bad)


def shortest_path_part(vocabulary: Vocabulary, sections: Sections) -> bytes:
    """Make the tables of ``ShortestPath``: a trie of the pieces that can be taken, their costs."""
    from mtkit.pipeline.models.best_path import byte_token_ids, piece_costs

    priced = piece_costs(vocabulary)
    every = range(len(vocabulary))
    sections["TRIE"] = native.build_trie(
        sections["PCSB"], sections["PCSE"], bytes(int(i in priced) for i in every)
    )
    sections["COST"] = struct.pack(f"<{len(every)}i", *(priced.get(i, 0) for i in every))
    return u8(ModelKind.SHORTEST_PATH) + numbers(byte_token_ids(vocabulary))


def loose_bpe_part(vocabulary: Vocabulary, model: models.LooseBPE, sections: Sections) -> bytes:
    """Make the tables of ``LooseBPE``: the pairs that can come up, and the rank of each."""
    firsts = set(vocabulary.ids.values())
    order = {rank: place for place, rank in enumerate(sorted(set(model.ranks)))}
    parts = iter(model.pairs)
    pairs: list[int] = []
    ranks: list[int] = []
    for left, right, rank in zip(parts, parts, model.ranks, strict=True):
        if left in firsts and right in firsts:
            pairs += left, right
            ranks.append(order[rank])
    sections["PAIR"], sections["MRGD"], sections["PBIT"] = native.build_pairs(
        struct.pack(f"<{len(pairs)}I", *pairs), dict[str, object](sections), 0, True
    )
    sections["RANK"] = struct.pack(f"<{len(ranks)}I", *ranks)
    return u8(ModelKind.LOOSE_BPE)


def lattice_unigram_part(
    vocabulary: Vocabulary, model: models.LatticeUnigram, sections: Sections
) -> bytes:
    """Make the scores of ``LatticeUnigram`` as f64."""
    from mtkit.spec.vocabulary import BYTE_TOKENS

    size = len(vocabulary)
    scores = list(vocabulary.scores or [0.0] * size)
    sections["OFRS"] = struct.pack(f"<{size}d", *scores)
    ids = vocabulary.ids
    return b"".join(
        [
            u8(ModelKind.LATTICE_UNIGRAM),
            u32(model.unk),
            f64(scores[model.unk]),
            u8(model.byte_fallback),
            numbers(ids.get(piece, NONE) for piece in BYTE_TOKENS),
        ]
    )


def section_bpe_part(program: Program, model: models.SectionBPE, sections: Sections) -> bytes:
    """Make the table of runs of ``SectionBPE``; its BPE stands behind, without its kind."""
    from mtkit.pipeline.models.bpe import SECTION_MARK, SECTION_RUN_BYTES

    pieces = program.spec.vocabulary.pieces
    size = SECTION_RUN_BYTES + len(SECTION_MARK)
    runs = bytes(int(len(piece) == size and piece.endswith(SECTION_MARK)) for piece in pieces)
    sections["RUNS"] = native.build_words(sections["PCSB"], sections["PCSE"], b"", b"", runs)
    return b"".join(
        [
            u8(ModelKind.SECTION_BPE),
            u32(model.begin),
            text(pieces[model.begin]),
            u32(model.end),
            text(pieces[model.end]),
            u32(model.unknown),
            program.inner(model.words),
        ]
    )
