"""The native core as ``native``; nothing else imports ``mtkit._native``.

Where it is not built, or MTKIT_PURE is set, importing this is an ImportError, and the readable
modules do its work. A core left over from other sources would fail far from the cause, and the
readable modules in its place would hide it: it is refused here, once.
"""

from __future__ import annotations

import os

from mtkit.errors import UsageError

__all__ = ["INTERFACE", "native"]

INTERFACE = 23
"""Raised when ``_native.pyi`` or ``PROGRAM_VERSION`` changes; native/bind/module.cpp has it too."""

if os.environ.get("MTKIT_PURE"):
    raise ImportError("MTKIT_PURE is set")

from mtkit import _native as native  # noqa: E402  only where it is wanted

if getattr(native, "INTERFACE", None) != INTERFACE:
    raise UsageError(
        "the native core was built from other sources than the package around it",
        source=str(native.__file__),
        hint="in a checkout, run python -m tools.native; otherwise reinstall mtkit",
    )
native.simd()  # MTKIT_SIMD may name what this machine does not have: an error before anything runs
