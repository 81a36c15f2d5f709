"""Pre-tokenizers that cut by the kind of characters, see native/steps/scripts.cpp."""

from __future__ import annotations

from mtkit.engine.opcodes import PreTokenizerKind
from mtkit.engine.program_writer import numbers, u8
from mtkit.engine.sets import categories, scripts
from mtkit.errors import UnsupportedError
from mtkit.pipeline.pre_tokenizers import DIGIT_GROUPS_UNICODE
from mtkit.spec import pre_tokenizers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec.pre_tokenizers import PreTokenizer


def by_characters(component: PreTokenizer) -> bytes:
    """Return the step of one of them.

    Raises:
        UnsupportedError: It is another one.
    """
    if isinstance(component, pre_tokenizers.UnicodeScripts):
        return u8(PreTokenizerKind.SCRIPTS) + numbers(scripts())
    if isinstance(component, pre_tokenizers.DigitGroups):
        return u8(PreTokenizerKind.DIGIT_GROUPS) + numbers(categories(DIGIT_GROUPS_UNICODE, "N"))
    raise UnsupportedError(f"the core has no step for {type(component).__name__}")
