"""Pictures of figures: the one door to matplotlib, which the extra ``bench`` brings."""

from __future__ import annotations

from contextlib import contextmanager

from mtkit.errors import MissingExtra, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

_KINDS = (".png", ".svg")
_SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "mtkit", "font.size": 8}
"""Text stays text, and the same figures give the same file."""


def require() -> None:
    """Find matplotlib before hours are spent."""
    _library()


@contextmanager
def panels(
    name: str, size: tuple[float, float], heights: Sequence[float] = (1,), columns: int = 1
) -> Iterator[list[list[Any]]]:
    """Give rows of panels to draw on; then write NAME.png and NAME.svg, or the one that NAME is."""
    matplotlib = _library()
    from matplotlib import pyplot

    with matplotlib.rc_context(_SETTINGS):
        figure, axes = pyplot.subplots(
            len(heights), columns, figsize=size, squeeze=False, layout="constrained",
            gridspec_kw={"height_ratios": heights},
        )  # fmt: skip
        try:
            yield axes.tolist()
            for path in [name] if name.endswith(_KINDS) else [name + kind for kind in _KINDS]:
                figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
        except OSError as error:
            raise UsageError(error.strerror or str(error), source=name, field="--plot") from None
        finally:
            pyplot.close(figure)


def _library() -> Any:
    """Return matplotlib, set up to write files."""
    try:
        import matplotlib
    except ImportError:
        raise MissingExtra(
            "matplotlib is not installed", hint="pip install 'mtkit[bench]', or omit --plot"
        ) from None
    matplotlib.use("Agg")
    return matplotlib
