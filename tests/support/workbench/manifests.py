"""Ollama's manifests, changed, and names that ask for them: no path outside the store is given."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

from file_uses import clear
from mutants import byte_level, json_level

from mtkit.sources import stores

if TYPE_CHECKING:
    from random import Random

    Mutant = tuple[bytes, str]
    """Content of a manifest, and the name that is asked for."""

DIGEST = "ab" * 32
SIZE = 24
NAMES = ("m", "m:latest", "library/m", "registry.ollama.ai/library/m:latest", "M", "m:", ":", "",
         "/", "..", "../m", "m:..", "m/../m", "a/b/c/d", "m\0", "\ud800", "m:/etc/passwd",
         "/etc/passwd", "m" * 200, "m\t", ".m", "ollama:m", "m:a:b", "~", "\u0131")  # fmt: skip
DIGESTS = (f"sha256:{DIGEST}", f"sha256-{DIGEST}", f"sha256:{DIGEST[:-1]}", f"sha256:{DIGEST}\n",
           "sha256:../../secret", f"sha512:{DIGEST}", f"sha256:{DIGEST.upper()}",
           f"sha256:{'cd' * 32}", "", "sha256:" + "\u0661" * 64)  # fmt: skip


@cache
def _store() -> Path:
    """Make a store with one blob."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "blobs").mkdir()
    (folder / "blobs" / f"sha256-{DIGEST}").write_bytes(b"GGUF" + bytes(SIZE - 4))
    (folder / "manifests/registry.ollama.ai/library/m").mkdir(parents=True)
    return folder


def mutant(rng: Random) -> tuple[str, Mutant]:
    """Change a manifest, and in some cases the name."""
    _store()  # the process that starts the workers makes and removes it
    media = "application/vnd.ollama.image."
    document = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.docker.distribution.manifest.v2+json",
        "config": {"mediaType": "application/vnd.docker.container.image.v1+json",
                   "digest": f"sha256:{DIGEST}", "size": SIZE},
        "layers": [
            {"mediaType": media + "license", "digest": f"sha256:{'0' * 64}", "size": 5},
            {"mediaType": media + "model", "digest": rng.choice((DIGESTS[0], *DIGESTS)),
             "size": rng.choice((SIZE, SIZE, SIZE, 0, -1, 1 << 70, "24", None, 24.0))},
        ],
    }  # fmt: skip
    content = json.dumps(document).encode()
    change = rng.choice((json_level.mutate, json_level.mutate, byte_level.mutate))
    content = change(rng, content)
    name = rng.choice(NAMES) if rng.random() < 0.15 else "m"
    if rng.random() < 0.05:
        raw = byte_level.mutate(rng, b"library/m:latest").replace(b"\n", b"\r")
        name = raw.decode("utf-8", "surrogateescape")[:100]
    return f"{change.__module__.rpartition('.')[2]} {name!r:.40}", (content, name)


def use(made: Mutant, rng: Random) -> str:
    """Ask for the model; what is given is a blob of the store."""
    content, name = made
    folder = _store()
    place = folder / "manifests/registry.ollama.ai/library/m/latest"
    place.write_bytes(content)
    found = None
    with patch.dict(os.environ, {"OLLAMA_MODELS": str(folder), "HOME": str(folder)}), clear():
        found = stores.find(rng.choice(("", stores.OLLAMA)) + name)
    if found is None:
        return "refused"
    assert os.path.dirname(os.path.realpath(found)) == os.path.realpath(folder / "blobs"), found
    return "read"
