"""Programs that tokenize, and their answers: ``check --runs-on``, ``compare --as``, ``convert``.

mtkit has the rules of llama.cpp and MNN itself: they are its formats gguf and mtok. For the others,
their own library reads the file in its own process (``program_child``), since native code can end
a process.
"""

from __future__ import annotations

import os

from mtkit.base.files import temporary_folder
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
"""Time for a library to be imported, to read a file and to answer; it takes about five."""
_OFFLINE = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
}


class Answer(Record):
    """What a tokenizer makes of a text.

    Attributes:
        ids: Without special tokens around the text; None: it refuses the text.
        around: With them; None: unknown.
        decoded: Text of the ids of the file's own tokenizer; None: not decoded.
        undecoded: Why it does not decode the ids.
    """

    ids: tuple[int, ...] | None
    around: tuple[int, ...] | None = None
    decoded: str | None = None
    error: str = ""
    undecoded: str = ""


def tokenizer_answers(
    tokenizer: Tokenizer, texts: Sequence[str], references: Sequence[Answer] | None = None
) -> list[Answer]:
    """Return the answers of one of mtkit's tokenizers.

    Args:
        references: Answers of the file's own tokenizer, whose ids are decoded; None: this one.
    """
    answers = []
    for number, text in enumerate(texts):
        try:
            ids = tuple(tokenizer.encode_ids(text, add_special_tokens=False))
            around = tuple(tokenizer.encode_ids(text))
        except NoToken as error:
            answers.append(Answer(None, error=error.what))
            continue
        decodable = ids if references is None else references[number].ids
        try:
            back = decodable and tokenizer.decode_bytes(list(decodable), skip_special_tokens=False)
        except MtkitError as error:
            answers.append(Answer(ids, around, undecoded=error.what))
        else:
            decoded = back.decode("utf-8", "replace") if back else None
            answers.append(Answer(ids, around, decoded))
    return answers


def library_answers(
    program: Program, kind: str, path: str, texts: Sequence[str], references: Sequence[Answer]
) -> tuple[str, list[Answer]]:
    """Return the name of a program's own library and its answers for a file."""
    import json
    import subprocess

    from mtkit.base.process import command_line

    pairs = [(text, answer.ids) for text, answer in zip(texts, references, strict=True)]
    arguments = (program.name, kind, os.path.abspath(path))
    try:
        process = subprocess.run(  # noqa: S603  this interpreter
            command_line("mtkit.conversion.program_child", arguments),
            input=json.dumps(pairs).encode(), env={**os.environ, **_OFFLINE},
            capture_output=True, check=False, timeout=LIBRARY_SECONDS,
        )  # fmt: skip
    except OSError as error:
        raise ResourceError(f"no process for {program.name}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise ResourceError(f"{program.name} took more than {LIBRARY_SECONDS} s") from None
    lines = process.stdout.split(b"\n")[:-1]  # each line is whole, or its process ended
    head, *replies = [json.loads(line) for line in lines] or [{}]
    if "missing" in head:
        missing = f"its library is not installed ({head['missing']})"
        raise MissingExtra(missing, hint=f"pip install {program.package}")
    if "refused" in head:
        raise FormatError(head["refused"])
    code = process.returncode
    how = f"signal {-code}" if code < 0 else f"status {code}"
    if "name" not in head:
        raise FormatError(f"its process ended with {how}")
    answers = [_parse_answer(reply) for reply in replies]
    answers += [Answer(None, error=f"its process ended with {how}")] * (len(answers) < len(texts))
    return str(head["name"]), answers


def library_answers_in_memory(
    program: Program, files: Mapping[str, bytes], texts: Sequence[str], references: Sequence[Answer]
) -> tuple[str, list[Answer]]:
    """As ``library_answers``, for files in memory, the main one first."""
    with temporary_folder() as folder:
        for name, content in files.items():
            with open(os.path.join(folder, name), "wb") as file:
                file.write(content)
        path = os.path.join(folder, next(iter(files)))
        return library_answers(program, program.writes, path, texts, references)


def _parse_answer(reply: dict[str, Any]) -> Answer:
    ids, around = reply.get("ids"), reply.get("around")
    return Answer(
        None if ids is None else tuple(ids),
        None if around is None else tuple(around),
        reply.get("text"),
        reply.get("error", ""),
        reply.get("undecoded", ""),
    )
