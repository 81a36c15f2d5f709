"""Writing MNN's text formats: only what a file of one of the four kinds says exactly.

A kind has its normalizer, its split and its model for good. What the file means is read back, and
where that is another tokenizer the specification is refused; fields that decide no ids are listed.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.mnn_header import MAGIC
from mtkit.spec import models
from mtkit.spec.model_names import model_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec

HELD = (
    "model",
    "vocabulary",
    "normalizer",
    "pre_tokenizer",
    "post_processor",
    "added_tokens",
    "prefix_ids",
    "invalid_utf8",
)
"""Fields that decide ids: they must come back as they were."""


def file_of(spec: TokenizerSpec) -> bytes:
    """Return the file of the kind that has the specification's model.

    Raises:
        UnsupportedError: No kind has it.
    """
    match spec.model:
        case models.ScoreBPE():
            kind, body = 0, _scored(spec)
        case models.Trie():
            kind, body = 1, _plain(spec)
        case models.WordPiece():
            kind, body = 2, _plain(spec)
        case models.BPE():
            kind, body = 3, _merged(spec, spec.model)
        case other:
            raise UnsupportedError(
                f"MNN's text formats do not support {model_name(other)}",
                field="model",
                hint="write a .mtok",
            )
    special = [token.id for token in spec.added_tokens.tokens]
    ids = [*special, *spec.special_ids.stop, *spec.prefix_ids]
    counts = f"{len(special)} {len(spec.special_ids.stop)} {len(spec.prefix_ids)}"
    head = f"{MAGIC} {kind}\n{counts}\n{' '.join(map(str, ids))}\n"
    return head.encode() + body


def _scored(spec: TokenizerSpec) -> bytes:
    from binascii import b2a_base64

    vocabulary = spec.vocabulary
    rows = [b"%d\n" % len(vocabulary)]
    for token_id, piece in enumerate(vocabulary.pieces):
        score = 0.0 if vocabulary.scores is None else vocabulary.scores[token_id]
        kind = int(vocabulary.type_of(token_id))
        rows.append(b"%s %s %d\n" % (b2a_base64(piece, newline=False), repr(score).encode(), kind))
    return b"".join(rows)


def _plain(spec: TokenizerSpec) -> bytes:
    from binascii import b2a_base64

    pieces = spec.vocabulary.pieces
    return b"%d\n" % len(pieces) + b"".join(b2a_base64(piece) for piece in pieces)


def _merged(spec: TokenizerSpec, model: models.BPE) -> bytes:
    pieces = [*spec.vocabulary.pieces, *model.merges.unlisted]
    rows = [b"%d %d\n" % (len(spec.vocabulary), len(model.merges))]
    rows += [piece + b"\n" for piece in spec.vocabulary.pieces]
    rows += [b"%s %s\n" % (pieces[a], pieces[b]) for a, b in model.merges.pairs.pairs()]
    return b"".join(rows)
