"""All that a user does with a tokenizer file, in process; only errors of mtkit's own are let pass.

``use`` gives what became of the file: ``refused``, or ``read``; anything that is not a clear error
goes through to the caller.
"""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from mtkit import formats
from mtkit.base.escape import printable
from mtkit.checks.checker import CheckOptions, check_source
from mtkit.commands import dump, trace
from mtkit.commands.inspect import gguf as inspect_gguf
from mtkit.conversion.tokenizer import memory_source, verify
from mtkit.engine import Engine, load_engine
from mtkit.errors import AnswerNo, MtkitError
from mtkit.formats.contract import LOSS_CODES, WriteOptions
from mtkit.inspection.tokenizer import specification_document
from mtkit.pipeline import Pipeline
from mtkit.tokenizer import load as loading

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from random import Random

    from mtkit.base.binary import Source
    from mtkit.engine import AnyEngine
    from mtkit.tokenizer.tokenizer import Tokenizer

    Answer = tuple[str, tuple[list[int], bytes, str]]

TEXTS = (
    "ab abc\n \u2581 b <x>",
    "a" * 60,
    "",
    "<x>Ab's 123 \u00e9e\u0301\u0130\U0001f389\t\u4e2d<y> \u0000.",
    "\u3042\u30ab \u0e01\u200d\r\n\ufdfa  \ud55c",
    b"a\xff\x00\xed\xa0\x80b",
)
IDS = 80
"""Ids that are decoded one by one."""
LINE = 600
TARGETS = tuple(name for name in formats.FORMATS if hasattr(formats.get_format(name), "write"))


def use(source: Source, rng: Random | None = None) -> str:
    """Read a file and do everything with it; with ``rng`` one of the things that one can do.

    A mutant is used in one way so that many are: what breaks one way of use breaks it for others
    of its kind.
    """
    with printed():
        return _use(source, rng)


def _use(source: Source, rng: Random | None) -> str:
    if source.data[:4] == b"GGUF":
        with clear():
            inspect_gguf.show_gguf(
                source, sections=(), pattern=None, sort=None, in_full=True, as_json=False,
                quiet=False,
            )  # fmt: skip
    if rng is None or rng.random() < 0.1:
        with clear():
            for finding in check_source(source, CheckOptions(deep=True)).findings:
                assert_plain(str(finding))
    tokenizer = None
    with clear():
        tokenizer = loading.load_source(source)
        tokenizer.spec  # noqa: B018  what a .mtok with tables holds is read when it is asked for
    if tokenizer is None:
        with clear():
            formats.recognize(source)
        return "refused"
    targets = list(TARGETS) if rng is None else [rng.choice(TARGETS)]
    steps: list[Callable[[Tokenizer], None]] = [
        looked_at, listed, traced, lambda tokenizer: encoded(tokenizer, rng),
        *(lambda tokenizer, to=to: converted(tokenizer, to) for to in targets),
    ]  # fmt: skip
    if rng is not None:
        steps = rng.sample(steps, 1)
    if rng is None or rng.random() < 0.01:
        steps.append(lambda tokenizer: verified(tokenizer, targets[0]))
    for step in steps:
        with clear():
            step(tokenizer)
    return "read"


def assert_plain(text: str) -> None:
    """Check that a message has nothing that a terminal obeys or that cannot be seen."""
    told = {unicodedata.category(char) for char in printable(text)}
    assert told.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"}), ascii(text)


@contextmanager
def clear() -> Iterator[None]:
    """Let errors of mtkit pass that are one line."""
    try:
        yield
    except MtkitError as error:
        message = printable(str(error))
        assert "\n" not in str(error), message
        assert len(message.encode()) < LINE, message


@contextmanager
def printed() -> Iterator[None]:
    """Give commands pipes to write to."""
    screens = sys.stdout, sys.stderr
    sys.stdout = sys.stderr = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdout, sys.stderr = screens


def looked_at(tokenizer: Tokenizer) -> None:
    """Inspect: rows and JSON."""
    from mtkit.commands import output
    from mtkit.commands.inspect import tokenizer as screen
    from mtkit.inspection.tokenizer import inspect_tokenizer

    output.write_rows(screen._rows(tokenizer, inspect_tokenizer(tokenizer.spec), None, 12))
    output.write_json(specification_document(tokenizer.spec))


def listed(tokenizer: Tokenizer) -> None:
    """Dump vocabulary, merges, scores and templates; ask for each token."""
    from mtkit.commands import output

    for kind in dump._KINDS.values():
        with clear():
            _, rows = kind(tokenizer)
            found = list(rows)
            output.write_rows([dump._format_cell(cell) for cell in row] for row in found)
            keys = [str(number) for number in range(9)]
            output.write_json([dump._entry(keys[: len(row)], row) for row in found])
    for number in range(min(tokenizer.vocab_size, IDS)):
        token = tokenizer.id_to_token(number)
        if token is not None:
            tokenizer.token_to_id(token)
        tokenizer.token_bytes(number)
    output.write_json({one.name: one.text for one in tokenizer.spec.chat_templates})


def encoded(tokenizer: Tokenizer, rng: Random | None) -> None:
    """Encode and decode with the engine and with the pipeline: the same where both answer."""
    texts = TEXTS if rng is None else rng.sample(TEXTS, 2)
    with clear():
        tokenizer.encode(TEXTS[0])
    if tokenizer.format_name == "mtok":  # perhaps with tables of its own, which may be forged
        answers(tokenizer.engine, texts)
    engine = load_engine(tokenizer.spec)
    found = answers(engine, texts)
    if isinstance(engine, Engine):
        for text, (name, expected) in answers(Pipeline(tokenizer.spec), texts).items():
            said = found.get(text, (name, expected))[1]
            assert said == expected, f"{text!r}: {engine.name} {said}, {name} {expected}"


def answers(engine: AnyEngine, texts: Sequence[str | bytes]) -> dict[str | bytes, Answer]:
    """Use an engine in every way; return ids and decoded text of the texts that it takes."""
    found: dict[str | bytes, Answer] = {}
    for text in texts:
        with clear():
            ids = engine.encode_ids(text)
            found[text] = engine.name, (ids, *decoded(engine, ids))
    with clear():
        engine.encode_ids(TEXTS[0], add_special_tokens=False, parse_special=True)
    with clear():
        engine.encode_array(TEXTS[0])
    with clear():
        engine.encode(TEXTS[0], TEXTS[3], padding="file", truncation="file")
    with clear():
        engine.encode_batch([TEXTS[0], (TEXTS[1], TEXTS[0])], padding="file")
    ids = list(range(min(engine.vocab_size, IDS)))
    with clear():
        decoded(engine, ids)
    with clear():
        for number in ids[:20]:
            engine.decode_bytes([number], skip_special_tokens=False)
    return found


def decoded(engine: AnyEngine, ids: list[int]) -> tuple[bytes, str]:
    """Decode at once and as a stream."""
    stream = engine.decode_stream()
    for number in ids:
        stream.push(number)
    stream.finish()
    return engine.decode_bytes(ids), engine.decode(ids)


def traced(tokenizer: Tokenizer) -> None:
    """Trace both ways, for people and as JSON."""
    for text in (TEXTS[0], TEXTS[3]):
        with clear():
            found = tokenizer.trace(text)
            trace.show_trace(found, as_json=True)
            trace.show_trace(found, as_json=False)
            back = tokenizer.trace_decode(found.ids)
            trace.show_trace(back, as_json=True)
            trace.show_trace(back, as_json=False)


def converted(tokenizer: Tokenizer, to: str) -> None:
    """Write another format and read that."""
    written = formats.get_format(to).write(tokenizer.spec, WriteOptions())
    for loss in written.losses:
        json.dumps([loss.code, loss.field, loss.effect], ensure_ascii=False)
    formats.get_format(to).read(memory_source(written), {})


def verified(tokenizer: Tokenizer, to: str) -> None:
    """Compare what was written on the built-in texts, as a conversion does."""
    module = formats.get_format(to)
    written = module.write(tokenizer.spec, WriteOptions())
    with suppress(AnswerNo):
        verify(tokenizer, module, written, LOSS_CODES)
