"""Session files: a model's state after a text, to go on from there later.

Layout, little-endian: 8 bytes ``MTKITSES``, u32 version, u32 length of the head, the head as JSON
(model hash, tokens, how many of them are computed, the context's settings), llama.cpp's state, and
32 bytes SHA-256 of everything before. llama.cpp loads a state of other weights of the same shape
without a word, so the model's hash is what decides whether a session fits.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct

from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.llm.threads import cores
from mtkit.settings import ContextSettings
from mtkit.settings.declaration import settings_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.llm.header import ModelHeader
    from mtkit.llm.runner import Runner
    from mtkit.settings import Flash, KvType

MAGIC = b"MTKITSES"
VERSION = 2
_HEAD = struct.Struct("<8sII")
_SUM_BYTES = 32
_PART_BYTES = 1 << 24


class Session(Record):
    """A session as read from its file.

    Attributes:
        n_past: How many of the ids the state has seen; fewer than all.
    """

    model_hash: str
    ids: list[int]
    n_past: int
    kv_type: KvType
    flash_attention: Flash
    state: memoryview


def model_hash(header: ModelHeader) -> str:
    """Return the SHA-256 of a model: of all its files' bytes, in parts that all cores share.

    The bytes of an adapter are followed by its scale.
    """
    from concurrent.futures import ThreadPoolExecutor

    def hash_part(part: memoryview) -> bytes:
        return hashlib.sha256(part).digest()

    whole = hashlib.sha256()
    adapters = [(adapter.file, repr(adapter.scale).encode()) for adapter in header.adapters]
    for file, suffix in (*((file, b"") for file in header.files), *adapters):
        data = memoryview(file.data)
        parts = [data[at : at + _PART_BYTES] for at in range(0, len(data), _PART_BYTES)]
        with ThreadPoolExecutor(cores()) as pool:
            try:
                for digest in pool.map(hash_part, parts):
                    whole.update(digest)
            except BaseException:  # Ctrl-C does not wait for gigabytes
                pool.shutdown(cancel_futures=True)
                raise
        whole.update(suffix)
    return whole.hexdigest()


def save_session(path: str, runner: Runner, model_digest: str, *, force: bool = False) -> None:
    """Write a runner's state; the file appears whole or not at all."""
    from mtkit.base.files import write_files

    context = runner.context
    if runner.model.has_encoder or context is None:
        raise UnsupportedError("sessions of encoder-decoder models cannot be saved")
    ids = runner.ids
    if min(ids, default=0) < 0:
        raise UnsupportedError("sessions with pictures or sounds cannot be saved")
    if context.n_past >= len(ids) and not context.truncate(len(ids) - 1):
        raise UnsupportedError("the last token cannot be undone, so the session cannot be saved")
    head = {
        "model": model_digest,
        "ids": ids,
        "n_past": context.n_past,
        "kv_type": context.settings.kv_type,
        "flash_attention": context.settings.flash_attention,
    }
    text = json.dumps(head).encode()
    start = _HEAD.pack(MAGIC, VERSION, len(text)) + text
    state = context.state()
    digest = hashlib.sha256(start)
    digest.update(state)
    write_files({path: iter((start, state, digest.digest()))}, force=force)


def check_can_save(path: str, *, force: bool) -> None:
    """Check before a long run that a session can be written at its end."""
    from mtkit.base.files import check_target

    folder = os.path.dirname(path) or "."
    check_target(path, force=force)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError("the folder cannot be written", source=folder)


def read_session(path: str) -> Session:
    """Read a session file."""
    from mtkit.base.binary import map_file

    data = memoryview(map_file(path))
    if len(data) < _HEAD.size + _SUM_BYTES or data[:8] != MAGIC:
        raise FormatError("is not a session file", source=path)
    _, version, size = _HEAD.unpack_from(data)
    if version != VERSION:
        raise FormatError(f"is {version}, known is {VERSION}", source=path, field="version")
    end = len(data) - _SUM_BYTES
    if hashlib.sha256(data[:end]).digest() != data[end:]:
        raise FormatError("the checksum is wrong", source=path, hint="the file is cut or damaged")
    state = _HEAD.size + size
    if state > end:
        raise FormatError(f"is {size}", source=path, field="head length")
    try:
        head = json.loads(bytes(data[_HEAD.size : state]))
        return _session(head, data[state:end])
    except (ValueError, KeyError, TypeError, RecursionError, UsageError):
        raise FormatError("is damaged", source=path, field="head") from None


def _session(head: Any, state: memoryview) -> Session:
    ids, n_past = head["ids"], head["n_past"]
    if not all(type(token_id) is int for token_id in ids) or type(n_past) is not int:
        raise TypeError
    if not 0 <= n_past < len(ids):
        raise ValueError
    if not isinstance(head["model"], str):
        raise TypeError
    names = ("kv_type", "flash_attention")
    context = settings_of(ContextSettings, {name: head[name] for name in names})
    return Session(head["model"], ids, n_past, context.kv_type, context.flash_attention, state)


def check_model(session: Session, digest: str, path: str) -> None:
    """Check that a session belongs to a model."""
    if session.model_hash != digest:
        raise UnsupportedError(
            "belongs to another model", source=path, hint="use the model that it was saved with"
        )
