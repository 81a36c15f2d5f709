"""Models and their encodings, as ``tiktoken.model``."""

from __future__ import annotations

from mtkit.sources.encodings import model_encoding, model_tables
from mtkit.tiktoken.registry import get_encoding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.tiktoken.core import Encoding

MODEL_TO_ENCODING, MODEL_PREFIX_TO_ENCODING = model_tables()


def encoding_for_model(model_name: str) -> Encoding:
    """Return the encoding of a model.

    Raises:
        KeyError: The model is unknown.
    """
    return get_encoding(encoding_name_for_model(model_name))


def encoding_name_for_model(model_name: str) -> str:
    """Return the name of a model's encoding.

    Raises:
        KeyError: The model is unknown.
    """
    name = model_encoding(model_name)
    if name is None:
        raise KeyError(
            f"Could not automatically map {model_name} to a tokeniser: tiktoken.get_encoding takes "
            "the name of an encoding"
        )
    return name
