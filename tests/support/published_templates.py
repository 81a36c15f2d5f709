"""The chat templates that are published, from the shared folder."""

from __future__ import annotations

import tarfile

from support import shared


def templates() -> dict[str, str]:
    """Return the texts of the templates by their names."""
    found = {
        path.name: path.read_text(encoding="utf-8")
        for path in shared("tokenizers/chat/templates").glob("*.jinja")
    }
    with tarfile.open(shared("templates.tar.xz")) as archive:
        for member in archive:
            if member.name.endswith(".jinja"):
                file = archive.extractfile(member)
                assert file
                found[member.name.rpartition("/")[2]] = file.read().decode()
    return found
