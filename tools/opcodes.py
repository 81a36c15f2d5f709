"""native/tables/opcodes.hpp, made from mtkit/engine/opcodes.py by ``python -m tools.generate``."""

from __future__ import annotations

from enum import IntEnum

from mtkit.engine import opcodes as steps
from mtkit.engine.program_writer import NONE, OUTSIDE

HEAD = """\
// The numbers of the program: versions, kinds of steps, flags.
//
// Made from mtkit/engine/opcodes.py by `python -m tools.generate`; change it there.
#pragma once

#include <cstdint>

namespace mtkit {
"""


def header() -> str:
    """Return the text of the header."""
    out = [HEAD, _constant("PROGRAM_VERSION", steps.PROGRAM_VERSION)]
    out.append(_constant("DECODER_VERSION", steps.DECODER_VERSION))
    for kind in enums():
        out += ["", f"// {kind.__doc__}", f"enum class {kind.__name__} : std::uint8_t {{"]
        out += [f"    {member.name} = {int(member)}," for member in kind]
        out.append("};")
    out += ["", "// No id.", _constant("NONE", hex(NONE))]
    out += ["// An id that is none: where a text needs it, the pipeline says what is wrong."]
    out += [_constant("OUTSIDE", hex(OUTSIDE)), "", "} // namespace mtkit", ""]
    return "\n".join(out)


def _constant(name: str, value: object) -> str:
    return f"inline constexpr std::uint32_t {name} = {value};"


def enums() -> list[type[IntEnum]]:
    """Return the lists of numbers in the order of their module."""
    found = [kind for kind in vars(steps).values() if isinstance(kind, type)]
    return [kind for kind in found if issubclass(kind, IntEnum) and kind is not IntEnum]
