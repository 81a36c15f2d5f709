"""Programs that tokenize, and asking them: ``check --runs-on``, ``compare --as``, ``convert``.

mtkit has the rules of llama.cpp and MNN itself: they are its formats gguf and mtok. The others are
asked: their own library reads the file in a process of its own (``program_child``), because native
code can end it.
"""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.errors import FormatError, MissingExtra, MtkitError, NoToken, ResourceError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.tokenizer.tokenizer import Tokenizer


class Program(Record):
    """A program that tokenizes."""

    name: str
    reads: tuple[str, ...]
    writes: str
    package: str = ""


PROGRAMS = {
    program.name: program
    for program in (
        Program("llama.cpp", ("gguf",), "gguf"),
        Program("mnn", ("mtok", "mnn-text"), "mtok"),
        Program("transformers", ("hf", "vocab-merges", "wordpiece"), "hf", "transformers"),
        Program("executorch", ("hf", "spm", "llama2c"), "hf", "pytorch-tokenizers"),
        Program("onnxruntime", ("hf",), "hf", "onnxruntime-extensions"),
        Program("sentencepiece", ("spm",), "spm", "sentencepiece"),
    )
}


def find_program(name: str) -> Program:
    """Return the program that a user names."""
    if name not in PROGRAMS:
        raise UsageError(f"unknown program {name!r}", hint=f"known: {', '.join(PROGRAMS)}")
    return PROGRAMS[name]


LIBRARY_SECONDS = 300
"""For a library to be imported, to read a file and to answer; it takes some five."""
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


class Answer(Record):
    """What a tokenizer says of a text.

    Attributes:
        ids: Without what stands around a text; None: it refuses the text.
        around: With it; None: not asked.
        decoded: What the ids of the file's own tokenizer are decoded to; None: not asked.
        undecoded: Why it does not decode the ids.
    """

    ids: tuple[int, ...] | None
    around: tuple[int, ...] | None = None
    decoded: str | None = None
    error: str = ""
    undecoded: str = ""


def tokenizer_answers(
    tokenizer: Tokenizer, texts: Sequence[str], asked: Sequence[Answer] | None = None
) -> list[Answer]:
    """Ask one of mtkit's tokenizers.

    Args:
        asked: What the file's own tokenizer said, whose ids are decoded; None: that is this one.
    """
    found = []
    for number, text in enumerate(texts):
        try:
            ids = tuple(tokenizer.encode_ids(text, add_special_tokens=False))
            around = tuple(tokenizer.encode_ids(text))
        except NoToken as error:
            found.append(Answer(None, error=error.what))
            continue
        wanted = ids if asked is None else asked[number].ids
        try:
            back = wanted and tokenizer.decode_bytes(list(wanted), skip_special_tokens=False)
        except MtkitError as error:
            found.append(Answer(ids, around, undecoded=error.what))
        else:
            decoded = back.decode("utf-8", "replace") if back else None
            found.append(Answer(ids, around, decoded))
    return found


def library_answers(
    program: Program, kind: str, path: str, texts: Sequence[str], asked: Sequence[Answer]
) -> tuple[str, list[Answer]]:
    """Ask a program's own library about a file.

    Returns:
        What read the file, and what it said of each text.
    """
    import json
    import subprocess

    from mtkit.base.process import command_line

    request = json.dumps([(text, one.ids) for text, one in zip(texts, asked, strict=True)])
    arguments = (program.name, kind, os.path.abspath(path))
    try:
        done = subprocess.run(  # noqa: S603  this interpreter
            command_line("mtkit.conversion.program_child", arguments),
            input=request.encode(), capture_output=True, check=False, timeout=LIBRARY_SECONDS,
            env={**os.environ, **_OFFLINE},
        )  # fmt: skip
    except OSError as error:
        raise ResourceError(f"no process for {program.name}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ResourceError(f"{program.name} took more than {LIBRARY_SECONDS} s") from None
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
    found = [_parse_answer(answer) for answer in answers]
    found += [Answer(None, error=f"its process ended with {how}")] * (len(found) < len(texts))
    return str(head["name"]), found


def library_answers_in_memory(
    program: Program, files: Mapping[str, bytes], texts: Sequence[str], asked: Sequence[Answer]
) -> tuple[str, list[Answer]]:
    """Ask a program's own library about files in memory, the main one first.

    Returns, Raises: As ``said_by_library``.
    """
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        path = os.path.join(folder, next(iter(files)))
        return library_answers(program, program.writes, path, texts, asked)


def _parse_answer(answer: dict[str, Any]) -> Answer:
    ids, around = answer.get("ids"), answer.get("around")
    return Answer(
        None if ids is None else tuple(ids),
        None if around is None else tuple(around),
        answer.get("text"),
        answer.get("error", ""),
        answer.get("undecoded", ""),
    )
