"""The type of single tensors of a model that is quantized, as ``--tensor-type`` names them.

Source: tools/quantize/quantize.cpp of llama.cpp (``parse_tensor_type``); llama-quant.cpp, where the
first pattern that is found in the name of a tensor counts, and the types of head and embedding
before all patterns.
"""

from __future__ import annotations

import re

from mtkit.base.record import Record
from mtkit.errors import UsageError
from mtkit.gguf.types import TENSOR_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.gguf import GgufFile

_NOT_WRITTEN = frozenset({"I8", "I16", "I32", "I64", "F64", "Q8_1", "Q8_K"})
"""Types that no weights are quantized to."""


_LEAST_DIMENSIONS = 2
"""Of a tensor that llama.cpp quantizes."""


class TensorKinds(Record):
    """Types that the mix does not choose.

    Attributes:
        tensors: Each PATTERN=TYPE; a pattern is found anywhere in a name.
        output: Of the head; empty: as the mix has it.
        embedding: Of the embedding, likewise.
    """

    tensors: Sequence[str] = ()
    output: str = ""
    embedding: str = ""

    def numbers(self) -> dict[str, object]:
        """Return what llama.cpp is told: patterns with the numbers of their types, and two more.

        Raises:
            UsageError: A type is not known, or there is no pattern.
        """
        return {
            "tensor_types": [
                (pattern.lower(), _number(kind, "--tensor-type"))
                for pattern, kind in map(_halves, self.tensors)
            ],
            "output_type": self.output and _number(self.output, "--output-tensor-type"),
            "embedding_type": self.embedding and _number(self.embedding, "--token-embedding-type"),
        }

    def without_effect(self, file: GgufFile) -> Iterator[str]:
        """Say of each pattern that is found in no name, or in those of tensors of one dimension."""
        for text in self.tensors:
            pattern = _halves(text)[0].lower()
            try:
                found = [tensor for tensor in file.tensors if re.search(pattern, tensor.name)]
            except re.error:
                continue  # llama.cpp has regular expressions of its own
            if not found:
                yield f"no tensor's name has {pattern!r}"
            elif all(len(tensor.shape) < _LEAST_DIMENSIONS for tensor in found):
                first = found[0]
                yield f"{first.name} has one dimension and stays {first.type.name}: {pattern!r}"


def _halves(text: str) -> tuple[str, str]:
    pattern, sign, kind = text.partition("=")
    if not pattern or not sign:
        what = f"{text!r} is not PATTERN=TYPE"
        raise UsageError(what, field="--tensor-type", hint="write it like attn_v=q6_k")
    return pattern, kind


def _number(kind: str, option: str) -> int:
    known = {one.name: one.number for one in TENSOR_TYPES.values() if one.name not in _NOT_WRITTEN}
    if kind.upper() not in known:
        hint = f"one of {' '.join(known)}"
        raise UsageError(f"{kind!r} is not a tensor type", field=option, hint=hint)
    return known[kind.upper()]
