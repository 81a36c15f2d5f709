"""Asking tokenizers the same texts: those of mtkit, and those of other programs' libraries."""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.errors import FormatError, MissingExtra, MtkitError, NoToken, ResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.programs import Program
    from mtkit.tokenizer.tokenizer import Tokenizer

SECONDS = 300
"""For a library to be imported, to read a file and to answer; it takes some five."""
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


class Said(Record):
    """What a tokenizer says of a text.

    Attributes:
        ids: Without what stands around a text; None: it refuses the text.
        around: With it; None: not asked.
        decoded: What the ids of the file's own tokenizer are decoded to; None: not asked.
        error: Why it refuses the text.
        undecoded: Why it does not decode the ids.
    """

    ids: tuple[int, ...] | None
    around: tuple[int, ...] | None = None
    decoded: str | None = None
    error: str = ""
    undecoded: str = ""


def said_by(
    tokenizer: Tokenizer, texts: Sequence[str], asked: Sequence[Said] | None = None
) -> list[Said]:
    """Ask one of mtkit's tokenizers.

    Args:
        tokenizer: Which.
        texts: What it encodes.
        asked: What the file's own tokenizer said, whose ids are decoded; None: that is this one.
    """
    found = []
    for number, text in enumerate(texts):
        try:
            ids = tuple(tokenizer.encode_ids(text, add_special_tokens=False))
            around = tuple(tokenizer.encode_ids(text))
        except NoToken as error:
            found.append(Said(None, error=error.what))
            continue
        wanted = ids if asked is None else asked[number].ids
        try:
            back = wanted and tokenizer.decode_bytes(list(wanted), skip_special_tokens=False)
        except MtkitError as error:
            found.append(Said(ids, around, undecoded=error.what))
        else:
            decoded = back.decode("utf-8", "replace") if back else None
            found.append(Said(ids, around, decoded))
    return found


def said_by_library(
    program: Program, kind: str, path: str, texts: Sequence[str], asked: Sequence[Said]
) -> tuple[str, list[Said]]:
    """Ask a program's own library about a file.

    Returns:
        What read the file, and what it said of each text.

    Raises:
        MissingExtra: The library is not installed.
        FormatError: It refuses the file, or ends its process.
        ResourceError: It takes too long.
    """
    import json
    import subprocess

    from mtkit.base.process import command

    request = json.dumps([(text, one.ids) for text, one in zip(texts, asked, strict=True)])
    arguments = (program.name, kind, os.path.abspath(path))
    try:
        done = subprocess.run(  # noqa: S603  this interpreter
            command("mtkit.programs.child", arguments),
            input=request.encode(), capture_output=True, check=False, timeout=SECONDS,
            env={**os.environ, **_OFFLINE},
        )  # fmt: skip
    except OSError as error:
        raise ResourceError(f"no process for {program.name}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ResourceError(f"{program.name} took more than {SECONDS} s") from None
    lines = done.stdout.split(b"\n")[:-1]  # each line is whole, or its process ended
    head, *answers = [json.loads(line) for line in lines] or [{}]
    if "missing" in head:
        missing = f"its library is not installed ({head['missing']})"
        raise MissingExtra(missing, hint=f"pip install {program.package}")
    if "refused" in head:
        raise FormatError(head["refused"])
    how = f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"
    if "name" not in head:
        raise FormatError(f"its process ended with {how}")
    found = [_said(answer) for answer in answers]
    found += [Said(None, error=f"its process ended with {how}")] * (len(found) < len(texts))
    return str(head["name"]), found


def said_of_files(
    program: Program, files: Mapping[str, bytes], texts: Sequence[str], asked: Sequence[Said]
) -> tuple[str, list[Said]]:
    """Ask a program's own library about files in memory, the main one first.

    Returns, Raises: As ``said_by_library``.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        path = os.path.join(folder, next(iter(files)))
        return said_by_library(program, program.writes, path, texts, asked)


def _said(answer: dict[str, Any]) -> Said:
    ids, around = answer.get("ids"), answer.get("around")
    return Said(
        None if ids is None else tuple(ids),
        None if around is None else tuple(around),
        answer.get("text"),
        answer.get("error", ""),
        answer.get("undecoded", ""),
    )
