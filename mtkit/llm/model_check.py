"""A converted model held against its folder: llama.cpp's logits and those that numpy computes.

The folder is computed twice, with and without the rounding that the file's type brings. How far
these lie apart tells how far llama.cpp, which rounds in another order, may be from the second: it
was measured at up to 1.2 times that, in models of 2 to 24 layers, and wrong models at 5 to 50.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.checkpoints import model_folder
from mtkit.errors import AnswerNo, UnsupportedError, format_count
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.llm.forward import Decoder
from mtkit.llm.header import ModelHeader
from mtkit.llm.runner import open_model
from mtkit.settings import ContextSettings, ModelSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.gguf.types import TensorType

_TYPES = ("Q8_0", "BF16", "F16", "F32")
"""Types of a file's matrices; the first that occurs is the file's."""
_LEAST = 0.005
"""Deviation that is always allowed, in standard deviations of the logits."""
_TIMES = 2.0
"""How many times what rounding does is allowed besides."""
_FARTHEST = 8.0
"""How many times farther than the mean one logit may be."""
_LENGTHS = (12, 48)
"""Tokens of the prompts."""


class ModelCheck(Record):
    """How far llama.cpp and the folder are apart.

    Attributes:
        deviation: Of llama.cpp from the folder as the file rounds it: root mean square over the
            vocabulary, in standard deviations of the logits; the largest of the prompts.
    """

    prompts: int
    deviation: float
    rounding: float


def verify_model(
    folder: str, gguf: str, prompts: Sequence[Sequence[int]] | None = None, *, name: str = ""
) -> ModelCheck:
    """Compare what llama.cpp computes of a GGUF with what transformers computes of its folder.

    Args:
        gguf: The file made of it: F32, F16, BF16 or Q8_0.
        prompts: Ids; None: two of 12 and 48.
    """
    import numpy as np

    model = model_folder.read(folder)
    plain = Decoder(model)
    kind = _type(ModelHeader(gguf))
    if prompts is None:
        prompts = _prompts(plain.vocab)
    rounded = Decoder(model, kind).last_logits(prompts)
    exact = plain.last_logits(prompts)
    rounding = max(map(_distance, rounded, exact))
    allowed = _LEAST + _TIMES * rounding
    logits = compute_logits(gguf, prompts)
    for number, (row, expected) in enumerate(zip(logits, rounded, strict=True)):
        mean, farthest = _distance(row, expected), np.abs(row - expected).max() / expected.std()
        if not (mean <= allowed and farthest <= _FARTHEST * allowed):  # NaN fails, too
            raise AnswerNo(
                f"llama.cpp computes other logits than the folder gives: {mean:.2%} of their"
                f" deviation apart (one {farthest:.0%}) behind prompt {number + 1} of"
                f" {format_count(len(prompts[number]), 'token')}, rounding explains {allowed:.2%};"
                f" the next token is {int(row.argmax())}, not {int(expected.argmax())}",
                source=name or gguf,
            )
    return ModelCheck(len(prompts), max(map(_distance, logits, rounded)), rounding)


def _prompts(vocab: int) -> list[list[int]]:
    """Return prompts whose ids are spread over a vocabulary."""
    step = max(vocab // 61, 1) | 1
    return [
        [(17 * at + step * at * number + 20) % vocab for at in range(size)]
        for number, size in enumerate(_LENGTHS)
    ]


def _type(header: ModelHeader) -> TensorType:
    types = {tensor.type.name: tensor.type for tensor in header.tensors if len(tensor.shape) > 1}
    other = sorted(set(types) - set(_TYPES))
    if other:
        what = f"has matrices in {', '.join(other)}, whose rounding is not known"
        hint = "compare the file that was quantized"
        raise UnsupportedError(what, source=header.path, hint=hint)
    return next((types[name] for name in _TYPES if name in types), TENSOR_TYPES[0])


def compute_logits(path: str, prompts: Sequence[Sequence[int]]) -> list[Any]:
    """Return llama.cpp's logits behind each prompt: float32 of shape (vocabulary,)."""
    size = max(map(len, prompts))
    # Flash attention computes in F16, whatever the model.
    settings = ContextSettings(n_ctx=size, kv_type="f32", flash_attention="off", n_batch=size)
    logits = []
    with open_model(ModelSettings(path, settings)) as runner:
        context = runner.open_context(size)
        for ids in prompts:
            context.clear()
            context.decode(ids)
            logits.append(context.logits().copy())
    return logits


def _distance(logits: Any, reference: Any) -> float:
    """Return the root of the mean square of a difference, in standard deviations of the other."""
    import numpy as np

    return float(np.sqrt(np.square(logits - reference).mean()) / reference.std())
