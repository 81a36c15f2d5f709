"""Which architecture a GGUF is of, where several are called by its name."""

from __future__ import annotations

from mtkit.architectures import of_name
from mtkit.architectures.tensor_match import match_gguf
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf.arrays import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.architectures import Architecture
    from mtkit.architectures.changes import Shape
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.tensor_match import TensorMatches
    from mtkit.gguf.file import Metadata

ARCHITECTURE = "general.architecture"
TOKENS = "tokenizer.ggml.tokens"
EMBEDDING = "token_embd.weight"


class Recognition(Record):
    """A GGUF as one of an architecture."""

    architecture: Architecture
    dims: Dims
    matched: TensorMatches


def recognize(metadata: Metadata, shapes: Mapping[str, Shape]) -> Recognition:
    """Return the architecture of a GGUF: of those of its name the one with the fewest faults.

    One whose metadata are not of its class is left out; one that tells its class by them comes
    before those that do not. Of classes that a GGUF does not tell apart it is the first of the
    table.

    Args:
        shapes: Name of a tensor -> its shape, slowest axis first.
    """
    name = metadata.get(ARCHITECTURE)
    known = of_name(name) if isinstance(name, str) else []
    if not known:
        what = f"{quoted(str(name))} is an architecture that mtkit does not convert"
        what = "is missing" if name is None else what
        raise UnsupportedError(what, field=ARCHITECTURE)
    vocab = _count_tokens(metadata, shapes)
    found: list[Recognition] = []
    errors: list[FormatError] = []
    for one in known:
        dims = one.sizes(metadata, vocab).among(shapes)
        try:
            if one.fits is None or one.fits(dims):
                found.append(Recognition(one, dims, match_gguf(one, dims, shapes)))
        except FormatError as error:
            errors.append(error)
    if found:
        return min(found, key=_rank)
    if errors:
        raise errors[0]
    raise UnsupportedError(f"is none of the {name} models that mtkit knows", field=ARCHITECTURE)


def _rank(one: Recognition) -> tuple[int, int, bool]:
    counts = dict.fromkeys(("missing", "shape", "unknown"), 0)
    for fault in one.matched.faults:
        counts[fault.kind] += len(fault.names)
    return sum(counts.values()), counts["unknown"], one.architecture.fits is None


def _count_tokens(metadata: Metadata, shapes: Mapping[str, Shape]) -> int:
    """Return the number of tokens; without a tokenizer, of rows of the embedding."""
    tokens = metadata.get(TOKENS)
    table = shapes.get(EMBEDDING) or (0,)
    return len(tokens) if isinstance(tokens, GgufArray) else table[0]
