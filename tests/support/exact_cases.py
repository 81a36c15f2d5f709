"""Whole tokenizers and texts drawn from a seed, compared with ``tokenizers`` check by check.

``Drawn(seed, number)`` is one tokenizer; the same two numbers always give the same one.
``Drawn.ids_case`` compares the ids of a text and their places, ``Drawn.whole_case`` everything that
encoding and decoding give, pairs, truncation and padding included, in the engine and the pipeline.
A case that the library refuses (an exception, or a panic of its own) counts as agreed only where
mtkit says what is wrong in an error of its own; ``Counts`` has their number.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pipeline_cases as cases
from pipeline_cases import draw_model, draw_tokenizer
from support import reference

from mtkit.base.binary import Source
from mtkit.engine import Engine, load_engine
from mtkit.errors import MtkitError
from mtkit.formats import hf
from mtkit.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable

TEXTS = 50
"""Texts for one drawn tokenizer."""
BATCH_BYTES = 270_000
"""Of a batch: a second thread takes part from 262,144 on."""
THREADS = 1, 2, 8
TRAINED = 0.15
"""Part of the models that are trained instead of drawn."""


class Refused:
    """No answer, and why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def __repr__(self) -> str:
        return f"refused ({self.why})"


class Counts:
    """What was compared, and what did not agree.

    Attributes:
        counted: Cases, tokenizers, refusals by both, by kind.
        mismatches: One line each, from which the case can be made again.
    """

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()
        self.mismatches: list[str] = []

    def compare(self, where: str, expected: Any, got: Any) -> bool:
        """Compare two answers; True where both gave the same one."""
        if isinstance(expected, Refused):
            self.counted[expected.why] += 1
            if isinstance(got, Refused):
                return False
        elif not isinstance(got, Refused) and got == expected:
            return True
        if isinstance(expected, tuple) and isinstance(got, tuple):
            parts = zip(expected, got, strict=True)
            expected, got = next(pair for pair in parts if pair[0] != pair[1])
        self.mismatches.append(f"{where}: expected {str(expected)[:400]}, got {str(got)[:400]}")
        return False


def library(ask: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return the library's answer; it raises plain exceptions, ValueError and Rust's panics."""
    try:
        return ask(*args, **options)
    except BaseException as error:
        if type(error).__name__ == "PanicException":
            return Refused("panics of the library")
        if type(error) not in {Exception, ValueError}:
            raise
        return Refused("errors of the library")


def ours(ask: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Return our answer; anything but our own errors is a mistake."""
    try:
        return ask(*args, **options)
    except MtkitError as error:
        return Refused(str(error))
    except Exception as error:  # noqa: BLE001  whatever it is, it is a mismatch
        return f"{type(error).__name__}: {error}"


class Drawn:
    """One drawn tokenizer, the library's and ours."""

    def __init__(self, seed: int, number: int, counts: Counts) -> None:
        self.name = f"--seed {seed} --only {number}"
        self.counts = counts
        rng = random.Random(f"tokenizer {seed} {number}")
        model = trained_model(rng) if rng.random() < TRAINED else draw_model(rng)
        self.library = draw_tokenizer(rng, model)
        self.json = self.library.to_str()
        # A template can call its tokens what it likes; it is not asked here what they are called.
        self.renames = '"tokens":["x","y"]' in self.json
        self.plain = reference("tokenizers").Tokenizer.from_str(self.json)
        self.plain.no_truncation()
        self.plain.no_padding()
        self.spec = hf.read(Source("tokenizer.json", self.json.encode()), {}).spec
        self.engine = load_engine(self.spec)
        if isinstance(self.engine, Engine):
            self.engine._native.warm()  # short texts alone would never reach the borders
        self.implementations = [("engine", self.engine), ("pipeline", Pipeline(self.spec))]
        self.seeds = seed, number
        self.rng = random.Random(f"texts {seed} {number}")
        self.pieces = sorted(self.library.get_vocab())
        counts.counted["tokenizers"] += 1
        counts.counted["tokenizers in the engine"] += isinstance(self.engine, Engine)

    def text(self, rng: random.Random) -> str:
        """Draw a text, half of them from the pieces of the vocabulary."""
        if rng.random() < 0.5:
            return cases.text(rng)
        parts = rng.choices(self.pieces, k=rng.randint(0, 10))
        return rng.choice(["", "", " "]).join(parts)

    def ids_case(self, text: str, where: str) -> None:
        """Compare the ids of one text and their places: the engine's short ways.

        Truncation and padding are not for them.
        """
        special, as_text = self.rng.random() < 0.5, self.rng.random() < 0.2
        self.plain.encode_special_tokens = as_text
        options = {"add_special_tokens": special}

        def ids_and_places() -> tuple[list[int], list[tuple[int, int]]]:
            found = self.plain.encode(text, **options)
            return found.ids, found.offsets

        def our_places() -> tuple[list[int], list[tuple[int, int]]]:
            ids, places = self.engine.encode_offsets(text, parse_special=not as_text, **options)
            return ids.tolist(), list(zip(places[::2], places[1::2], strict=True))

        expected = library(ids_and_places)
        got = ours(self.engine.encode_ids, text, parse_special=not as_text, **options)
        wanted = expected[0] if isinstance(expected, tuple) else expected
        self.counts.compare(f"{where} ids {text!r} {options} {as_text}", wanted, got)
        for _ in range(2):  # the second time from what is remembered
            got = ours(our_places)
            if isinstance(expected, Refused) and isinstance(got, Refused):
                continue  # counted above
            self.counts.compare(f"{where} places {text!r} {options} {as_text}", expected, got)

    def whole_case(self, text: str, where: str, *, pipeline: bool) -> None:
        """Compare everything, in the engine and, if asked, in the pipeline."""
        # Of its own, so that the texts are the same however many cases the pipeline takes.
        rng = random.Random(f"pipeline {self.seeds} {text}")
        pair = self.text(rng) if rng.random() < 0.3 else None
        special, as_text = rng.random() < 0.7, rng.random() < 0.2
        self.library.encode_special_tokens = as_text
        expected = library(columns, self.library, text, pair, special)
        where = f"{where} {text!r} {pair!r} {special} {as_text}"
        ids = [rng.randrange(60) for _ in range(4)]
        if isinstance(expected, tuple):
            ids += expected[0]
            rng.shuffle(ids)
        texts = [
            library(self.library.decode, ids, skip_special_tokens=skip) for skip in (False, True)
        ]
        if self.renames and isinstance(expected, tuple):
            expected = expected[:-1]
        for name, ask in self.implementations[: 1 + pipeline]:
            got = ours(our_columns, ask, text, pair, special, not as_text)
            if self.renames and isinstance(got, tuple):
                got = got[:-1]
            self.counts.counted[f"{name} cases"] += 1
            self.counts.compare(f"{where} {name}", expected, got)
            for skip, decoded in enumerate(texts):
                got = ours(ask.decode, ids, skip_special_tokens=bool(skip))
                self.counts.compare(f"{where} {name} decode {ids} {skip}", decoded, got)

    def batch_case(self, texts: list[str]) -> None:
        """Compare the ids of texts in one call, so many of them that several threads take part."""
        self.plain.encode_special_tokens = False
        pairs = [(text, library(lambda t: self.plain.encode(t).ids, text)) for text in texts]
        pairs = [pair for pair in pairs if not isinstance(pair[1], Refused)]
        size = sum(len(text.encode()) for text, _ in pairs)
        if not size or not isinstance(self.engine, Engine):
            return
        pairs *= BATCH_BYTES // size + 1
        several, expected = [text for text, _ in pairs], [ids for _, ids in pairs]
        whole = [number for ids in expected for number in ids]
        ask = self.engine.encode_batch_ids, self.engine.encode_batch_arrays
        for threads in THREADS:
            options = {"parse_special": True, "threads": threads}
            got = ours(ask[0], several, **options), ours(lambda o: ask[1](several, **o), options)
            flat = got[1][0].tolist() if isinstance(got[1], tuple) else got[1]
            self.counts.counted["batches"] += 1
            self.counts.compare(f"{self.name} batch {threads} lists", expected, got[0])
            self.counts.compare(f"{self.name} batch {threads} flat", whole, flat)

    def run(self, texts: int = TEXTS, pipeline_every: int = 1) -> None:
        """Compare some texts, every so manieth in the pipeline too, and all as a batch."""
        drawn = []
        for number in range(texts):
            text, where = self.text(self.rng), f"{self.name} text {number}"
            drawn.append(text)
            self.ids_case(text, where)
            self.whole_case(text, where, pipeline=number % pipeline_every == 0)
        self.batch_case(drawn)


def columns(tokenizer: Any, text: str, pair: str | None, special: bool) -> Any:
    """Return what the library says of each token."""
    found = tokenizer.encode(text, pair, add_special_tokens=special)
    masks = found.special_tokens_mask, found.attention_mask
    return found.ids, found.offsets, found.type_ids, *masks, found.tokens


def our_columns(ours: Any, text: str, pair: str | None, special: bool, parse_special: bool) -> Any:
    """Return the same of ours."""
    options = {"add_special_tokens": special, "parse_special": parse_special}
    found = ours.encode(text, pair, padding="file", truncation="file", **options)
    masks = found.special_tokens_mask, found.attention_mask
    return found.ids, found.offsets, found.type_ids, *masks, found.tokens


def trained_model(rng: random.Random) -> Any:
    """Train a model on a few drawn texts."""
    tokenizers = reference("tokenizers")
    models, trainers = tokenizers.models, tokenizers.trainers
    kind = rng.choice(["BPE", "BPE", "Unigram", "WordPiece", "WordLevel"])
    special = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[X]", "[Y]"]
    options: dict[str, Any] = {"vocab_size": rng.choice([60, 150]), "show_progress": False}
    if kind == "BPE":
        model = models.BPE(
            unk_token=rng.choice(["[UNK]", None]),
            fuse_unk=rng.random() < 0.5,
            ignore_merges=rng.random() < 0.3,
            byte_fallback=rng.random() < 0.2,
        )
        options["continuing_subword_prefix"] = rng.choice([None, None, "##", "\u2581"])
        options["end_of_word_suffix"] = rng.choice([None, None, "</w>"])
        options["limit_alphabet"] = rng.choice([None, 20])
        options = {name: value for name, value in options.items() if value is not None}
    elif kind == "Unigram":
        model = models.Unigram()
        options |= {"unk_token": "[UNK]", "shrinking_factor": 0.6, "max_piece_length": 8}
    elif kind == "WordPiece":
        model = models.WordPiece(unk_token="[UNK]")
        options["continuing_subword_prefix"] = rng.choice(["##", "@"])
    else:
        model = models.WordLevel(unk_token="[UNK]")
    trainer = getattr(trainers, kind.replace("BPE", "Bpe") + "Trainer")(
        special_tokens=special, **options
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    letters = "".join(rng.sample(cases.GROUPS, 2)) + "aabbc  "
    lines = ["".join(rng.choices(letters, k=60)) for _ in range(20)]
    tokenizer.train_from_iterator(lines, trainer)
    return tokenizer.model
