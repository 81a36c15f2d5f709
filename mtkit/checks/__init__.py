"""What is wrong with a file or a model folder, for whom, and what to do: ``mtkit check``.

``check`` reads a file tolerantly and checks what it could read against every rule: those of the
readers (``gguf.rules``, ``spec.rules``) and those of the modules here, each a table of rules about
one thing. A part that was not checked is listed as skipped, with the reason.
"""

from __future__ import annotations

from mtkit.checks.checker import check
from mtkit.checks.report import Report

__all__ = ["Report", "check"]
