"""Whether the patterns of a specification can be compiled, asked when its file is read."""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.spec.text import Regex
from mtkit.spec.traverse import flat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec

_STAGES = ("normalizer", "pre_tokenizer", "decoder")


def check_patterns(spec: TokenizerSpec) -> None:
    """Compile all patterns; what was compiled once is kept.

    Raises:
        UnsupportedError: One cannot be compiled; the field names its component.
    """
    for stage in _STAGES:
        for component in flat(getattr(spec, stage)):
            pattern = getattr(component, "pattern", None)
            if isinstance(pattern, Regex):
                from mtkit.patterns.matcher import compile_pattern

                try:
                    compile_pattern(pattern)
                except UnsupportedError as error:
                    error.field = f"{stage}: {type(component).__name__}"
                    raise
