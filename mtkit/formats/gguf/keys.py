"""Metadata of a GGUF with the types that llama.cpp's loader asks for, and values put over them.

A key of another type than expected is refused, as the loader does. Overrides replace single values
(bool, int, float, string), never arrays. C programs end a string at its first NUL byte.
Source: llama.cpp, src/llama-model-loader.cpp (``GGUFMeta::GKV``).
"""

from __future__ import annotations

from mtkit.errors import FormatError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.gguf import GgufArray, GgufFile


class Keys:
    """Typed access to the metadata of one file."""

    def __init__(self, file: GgufFile, overrides: Mapping[str, object]) -> None:
        self.file = file
        self.overrides = overrides
        for key, value in overrides.items():
            if not isinstance(value, (bool, int, float, str)):
                raise UsageError(f"{key} cannot be overridden with {value!r}", hint="see --help")
            entry = file.metadata.entries.get(key)
            if entry is not None and entry.type.name == "array":
                raise UsageError(f"{key} is an array and cannot be overridden")

    def __contains__(self, key: str) -> bool:
        return key in self.overrides or key in self.file.metadata

    def error(self, key: str, what: str) -> FormatError:
        """Make an error that names a key and where it stands."""
        entry = self.file.metadata.entries.get(key)
        return FormatError(what, field=key, offset=entry.offset if entry else None)

    def text(self, key: str) -> str | None:
        """Return a string, cut at NUL."""
        if key in self.overrides:
            value = self.overrides[key]
            if not isinstance(value, str):
                raise UsageError(f"{key} is a string, not {value!r}")
            return value
        if key not in self.file.metadata:
            return None
        self._expect(key, "string")
        found: str = self.file.metadata[key]
        return found.split("\0", 1)[0]

    def flag(self, key: str) -> bool | None:
        """Return a bool."""
        if key in self.overrides:
            value = self.overrides[key]
            if not isinstance(value, bool):
                raise UsageError(f"{key} is true or false, not {value!r}")
            return value
        if key not in self.file.metadata:
            return None
        self._expect(key, "bool")
        return bool(self.file.metadata[key])

    def number(self, key: str) -> int | None:
        """Return an unsigned 32-bit number."""
        if key in self.overrides:
            value = self.overrides[key]
            if isinstance(value, bool) or not isinstance(value, int):
                raise UsageError(f"{key} is a whole number, not {value!r}")
            return value & 0xFFFFFFFF
        if key not in self.file.metadata:
            return None
        self._expect(key, "u32")
        return int(self.file.metadata[key])

    def array(self, key: str, *elements: str, at_least: int = 0) -> GgufArray | None:
        """Return an array whose elements are of one of the named types.

        Raises:
            FormatError: It is of another type or has fewer than ``at_least`` elements.
        """
        entry = self.file.metadata.entries.get(key)
        if entry is None:
            return None
        value: GgufArray = entry.value
        if entry.type.name != "array" or value.element.name not in elements:
            raise self.error(
                key,
                f"is {self.file.metadata.type_name(key)}, not an array of {' or '.join(elements)}",
            )
        if len(value) < at_least:
            raise self.error(key, f"has {len(value)} elements for {at_least} tokens")
        return value

    def _expect(self, key: str, name: str) -> None:
        found = self.file.metadata.type_name(key)
        if found != name:
            raise self.error(key, f"is of type {found}, llama.cpp's loader wants {name}")
