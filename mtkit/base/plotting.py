"""The one door to matplotlib, which the extra ``bench`` brings."""

from __future__ import annotations

from mtkit.errors import MissingExtra

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def library() -> Any:
    """Return matplotlib, set up to write files.

    Raises:
        MissingExtra: It is not installed.
    """
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra(
            "matplotlib is not installed", hint="pip install 'mtkit[bench]', or leave out --plot"
        ) from None
    matplotlib.use("Agg")
    return matplotlib
