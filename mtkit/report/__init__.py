"""A file, or two, as one page for a browser: ``mtkit report``.

Python collects what the other packages say of a file and packs it; the page in ``page/`` shows it,
by itself and without a network.
"""

from __future__ import annotations

from mtkit.report.build import report

__all__ = ["report"]
