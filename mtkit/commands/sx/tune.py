"""``mtkit sx tune``: find what drafts best for a model on this machine."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.options import FORCE_FILES, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.settings import GenerateSettings
    from mtkit.speculative.tune import Answers, CandidateResult, Comparison


OPTIONS = {
    "drafts": Option("", "Draft models to try.", "[DRAFT]..."),
    "prompts": Option(
        "--prompts",
        "Prompts: lines of text (\\n: line break) or JSON; repeatable, one file a kind.",
        "FILE",
    ),
    "out": Option("-o --output", "Profile to write (.json).", "FILE"),
    "count": Option("-c --count", "Maximum number of prompts per file.", "N", low=1),
    "tokens": Option(
        "-n --n-predict", "Maximum number of tokens per answer.", "N", "--predict --tokens", low=2
    ),
    "seconds": Option("--seconds", "Start only the final timing after S seconds.", "S", low=0),
    "disk": Option("--disk", "Maximum disk space for requantized drafts.", "GB", low=0),
    "no_exact": Option("--no-exact", "Allow a profile that may change the text."),
    "threads": Option("--threads", "Number of threads to tune for.", "N", low=1),
    "force": FORCE_FILES,
}


def tune(
    target: str,
    drafts: list[str] | None = None,
    *,
    prompts: list[str],
    out: str = "draft-profile.json",
    count: int = 9,
    tokens: int = 64,
    seconds: float = 600,
    disk: float = 4,
    no_exact: bool = False,
    threads: int = 1,
    force: bool = False,
    plot: str | None = None,
    as_json: bool = False,
) -> None:
    """Find the fastest way to draft.

    The result is a profile for the option --draft-profile of generate, chat and serve.

    Candidates: prompt lookup; each draft model as it is, requantized to Q4_0, and with its
    vocabulary cut to the 65,536, 32,768, 16,384, 8,192 or 4,096 most frequent ids of TARGET's
    answers; and lookup combined with each of these. Half of the prompts are for choosing: all
    candidates are scored on one of TARGET's answers, the better half on three, and the better half
    of those on nine. With the other half, the two best generate answers twice as long in processes
    of their own, in turn with plain generation and its defaults; loading and reading the prompt
    count. The first one with which each kind of prompt runs at 0.99 times the speed of plain
    generation or more, and one kind at 1.1 or more, becomes the profile. If there is none, the
    profile changes nothing. Measurements are cached: to resume, repeat the command.

    Columns: candidate, milliseconds per drafted token, acceptance rate, maximum draft length,
    expected speed against plain decoding, measured speed against plain generation (slowest and
    fastest kind of prompts), texts identical to plain generation.

    \b
    Examples:
      mtkit sx tune model.gguf small.gguf --prompts prompts.jsonl -o model.json
      mtkit generate -m model.gguf --draft-profile model.json -f code.py
    """
    import time

    from mtkit.base import plotting
    from mtkit.base.files import check_target
    from mtkit.base.record import replace
    from mtkit.commands import output
    from mtkit.commands.arguments import read_prompts
    from mtkit.commands.inputs import find_model
    from mtkit.errors import UsageError
    from mtkit.settings import ContextSettings, DraftSettings, GenerateSettings
    from mtkit.speculative import plots, setup
    from mtkit.speculative.tune import split_prompts

    until = time.monotonic() + seconds
    check_target(out, force=force)
    if plot is not None:
        plotting.require()
    kinds = {name: list(filter(None, read_prompts(name)))[:count] for name in prompts}
    for name, texts in kinds.items():
        if not texts:
            raise UsageError("has no prompts", source=name)
    split = {name: split_prompts(texts) for name, texts in kinds.items()}
    path, small = find_model(target), [find_model(name) for name in drafts or ()]
    plain = GenerateSettings(path, ContextSettings(threads=threads))
    settings = setup.prepare_settings(replace(plain, drafting=DraftSettings(draft_lookup=True)))
    to_choose = [first for first, _ in split.values()]
    folder = _folder([path, *small], (to_choose, tokens, threads))
    answers, results = _search(settings, small, to_choose, tokens, folder, disk, until)
    held_out = {name: texts for name, (_, texts) in split.items()}
    best = _choose(out, settings, results, answers, held_out, tokens, folder, exact=not no_exact)
    results.sort(key=lambda x: (x is not best, x.measured is None, -x.promised))
    if plot is not None:
        plots.plot_tuning(answers.known, results, plot)
    n_texts = sum(map(len, held_out.values()))
    if as_json:
        output.write_json(_document(out, best, results, answers, n_texts))
    else:
        _show(out, path, threads, best, results, answers, n_texts)


def _search(
    settings: GenerateSettings,
    small: list[str],
    kinds: Sequence[list[str]],
    tokens: int,
    folder: str,
    disk: float,
    until: float,
) -> tuple[Answers, list[CandidateResult]]:
    """Let the target answer the prompts to choose by, and the candidates read along."""
    from itertools import zip_longest

    from mtkit.commands.terminal import Progress
    from mtkit.llm.runner import open_model
    from mtkit.settings import DraftSettings
    from mtkit.speculative.tune import Tuner, candidates_of

    texts = [text for row in zip_longest(*kinds) for text in row if text is not None]
    with open_model(settings, Progress("loading").show) as runner:
        ids = [runner.model.tokenize(text) for text in texts]
        n_ctx = min(max(map(len, ids)) + tokens, max(runner.model.n_ctx_train, tokens + 2))
        runner.open_context(n_ctx + 2)
        tuner = Tuner(runner, settings, f"{folder}/state.json", until)
        answers = tuner.answers(
            [prompt_ids[-(n_ctx - tokens) :] for prompt_ids in ids if prompt_ids], tokens
        )
        small = [*small, *_requantized(small, folder, disk, until)]
        vocabularies = _vocabularies(runner, answers, folder) if small else {}
        table = candidates_of(DraftSettings(draft_lookup=False), small, vocabularies)
        return answers, tuner.search(table, answers, Progress("reading along").show)


def _choose(
    out: str,
    settings: GenerateSettings,
    results: list[CandidateResult],
    answers: Answers,
    held_out: dict[str, list[str]],
    tokens: int,
    folder: str,
    *,
    exact: bool,
) -> CandidateResult | None:
    """Write the profile of the first result that is fast enough; without one, of no draft.

    What was measured is put into ``results``.
    """
    import os

    from mtkit.base.files import write_files
    from mtkit.base.record import replace
    from mtkit.settings import ContextSettings, DraftSettings
    from mtkit.speculative import setup
    from mtkit.speculative.costs import Costs
    from mtkit.speculative.tune import LEAST, WORTH, Comparison, finalists

    paths = {
        name: [f"{folder}/{kind}-{at}.txt" for at in range(len(texts))]
        for kind, (name, texts) in enumerate(held_out.items())
    }
    for name, texts in held_out.items():
        for path, text in zip(paths[name], texts, strict=True):
            write_files({path: text.encode("utf-8", "surrogateescape")}, force=True)
    threads = settings.context.threads
    assert settings.model is not None
    costly = settings.context.kv_type != ContextSettings().kv_type
    comparison = Comparison(
        settings.model, ["-n", str(2 * tokens), "--threads", str(threads)], alone=threads == 1
    )
    try:
        for result in finalists(results, exact=exact):
            _write(out, settings, result, answers, folder)
            measured = _measure(comparison, paths, out, costly=costly)
            speeds, same = zip(*measured.values(), strict=True)
            new = replace(result, measured=(min(speeds), max(speeds)), same=sum(same))
            results[results.index(result)] = new
            is_same = new.same == sum(map(len, held_out.values())) or not new.drafting.exact
            if min(speeds) >= LEAST and max(speeds) >= WORTH and is_same:
                return new
        about: dict[str, object] = {"target": os.path.basename(settings.model)}
        setup.write_profile(out, DraftSettings(), Costs(), about)
    except BaseException:  # what was not measured is no profile
        os.unlink(out)
        raise
    return None


def _measure(
    comparison: Comparison, held_out: dict[str, list[str]], profile: str, *, costly: bool
) -> dict[str, tuple[float, int]]:
    """Return the speed of each kind of prompts, and of the first where nothing is drafted.

    Args:
        costly: The profile changes the context, which costs texts without drafts something, too.
    """
    from mtkit.commands.terminal import Progress

    measured, progress = {}, Progress("generating")
    for number, (kind, paths) in enumerate(held_out.items(), 1):
        measured[kind] = comparison.speed(paths, profile)
        progress.show(number / (len(held_out) + costly))
    if costly:
        first = next(iter(held_out.values()))[:1]
        measured["drafting nothing"] = comparison.speed(first, profile, "--draft-max", "0")[0], 0
        progress.show(1)
    return measured


command = Command(tune, OPTIONS)


def _folder(files: Sequence[str], more: object) -> str:
    """Return the cache folder of these files' measurements and drafts."""
    import hashlib
    import os

    from mtkit.base.process import cache_folder

    stamps = [(os.path.abspath(path), os.stat(path).st_mtime_ns) for path in files]
    name = hashlib.sha256(repr((stamps, more, 2)).encode()).hexdigest()
    folder = os.path.join(cache_folder("tune"), name)
    os.makedirs(folder, exist_ok=True)
    return folder


def _requantized(drafts: Sequence[str], folder: str, disk: float, until: float) -> list[str]:
    """Return the drafts quantized to other types, cached in the folder."""
    import os
    import time

    from mtkit.commands.terminal import Progress
    from mtkit.errors import MtkitError
    from mtkit.gguf import open_gguf
    from mtkit.llm.quantization import file_type, quantize, quantized_types
    from mtkit.speculative.tune import DRAFT_TYPES

    paths, room = [], disk * 1e9
    for draft in drafts:
        for kind in DRAFT_TYPES:
            name = os.path.basename(draft).removesuffix(".gguf")
            path = os.path.join(folder, f"{name}-{kind.lower()}.gguf")
            room -= os.path.getsize(path if os.path.exists(path) else draft)
            if quantized_types(open_gguf(draft)) == [kind] or room < 0:
                continue
            try:
                if not os.path.exists(path) and time.monotonic() < until:
                    quantize(draft, path, file_type(kind), pure=True, allow_requantize=True,
                             progress=Progress("quantizing").show)  # fmt: skip
            except MtkitError:  # a type that its shapes do not allow
                continue
            paths += [path] if os.path.exists(path) else []
    return paths


def _vocabularies(runner: Any, answers: Answers, folder: str) -> dict[int, str]:
    """Write a vocab.txt for each size that is smaller than the model's own vocabulary."""
    from collections import Counter

    from mtkit.base.files import write_files
    from mtkit.llm import frequencies
    from mtkit.speculative.tune import VOCABULARY_SIZES

    counts: Counter[int] = Counter()
    for text in (*answers.texts, *answers.prompts):
        counts.update(text)
    metadata, n_vocab = runner.header.file.metadata, runner.model.n_vocab
    always, paths = frequencies.required_ids(metadata), {}
    for size in VOCABULARY_SIZES:
        if len(always) <= size < 0.75 * n_vocab:
            ids = frequencies.most_frequent_ids(counts, size, always, n_vocab)
            path = f"{folder}/vocab-{size}.txt"
            listed = frequencies.format_vocabulary(
                ids, f"{size} ids by the answers to some prompts"
            )
            write_files({path: listed.encode()}, force=True)
            paths[size] = path
    return paths


def _write(
    out: str,
    settings: GenerateSettings,
    result: CandidateResult,
    answers: Answers,
    folder: str,
) -> None:
    """Write a profile, and beside it the files that were made for it, as they are used."""
    import os
    import shutil

    from mtkit.base.record import replace
    from mtkit.gguf import open_gguf
    from mtkit.gguf.values import count_rows
    from mtkit.llm import frequencies
    from mtkit.speculative import draft_file, setup
    from mtkit.speculative.tune import profile_costs

    assert settings.model is not None
    drafting, stem = result.drafting, out.removesuffix(".json")
    draft, vocabulary = drafting.draft, drafting.sx_static_vocab
    if draft is not None and (vocabulary is not None or os.path.dirname(draft) == folder):
        # A pruned model needs beside it what it was made of.
        shutil.copyfile(draft, f"{stem}-draft.gguf")
        draft = f"{stem}-draft.gguf"
    if draft is not None and vocabulary is not None:
        ids = frequencies.read_vocabulary(vocabulary, count_rows(open_gguf(draft)))
        draft_file.prune(draft, ids, f"{stem}-pruned.gguf", force=True)
        draft = f"{stem}-pruned.gguf"
    drafting = replace(drafting, draft=draft, sx_static_vocab=None)
    about: dict[str, object] = {
        "target": os.path.basename(settings.model), "threads": settings.context.threads,
        "origin": setup.describe_origin(settings.model, draft, settings.context.threads),
    }  # fmt: skip
    setup.write_profile(out, drafting, profile_costs(result, answers), about)


def _document(
    out: str,
    best: CandidateResult | None,
    results: Sequence[CandidateResult],
    answers: Answers,
    n_texts: int,
) -> dict[str, object]:
    return {
        "schema": "mtkit.sx-tune/2",
        "profile": out,
        "best": best.candidate.name if best else None,
        "speed": best.measured if best else None,
        "token_ms": 1000 * answers.plain,
        "batches": {str(size): cost for size, cost in sorted(answers.known.sizes.items())},
        "texts": n_texts,
        "candidates": [
            {
                "name": result.candidate.name, "exact": result.drafting.exact,
                "draft_max": result.drafting.draft_max,
                "draft_ms": 1000 * answers.plain * result.cost, "acceptance": result.acceptance,
                "expected": result.promised, "measured": result.measured,
                "identical": result.same if result.measured is not None else None,
            }
            for result in results
        ],
    }  # fmt: skip


def _show(
    out: str,
    target: str,
    threads: int,
    best: CandidateResult | None,
    results: Sequence[CandidateResult],
    answers: Answers,
    n_texts: int,
) -> None:
    from mtkit.commands import output
    from mtkit.speculative.tune import LEAST, WORTH

    rows = [
        (
            result.candidate.name, f"{1000 * answers.plain * result.cost:.1f}",
            f"{result.acceptance:.0%}", str(result.drafting.draft_max), f"{result.promised:.2f}",
            "" if result.measured is None else "{:.2f} to {:.2f}".format(*result.measured),
            "" if result.measured is None else f"{result.same}/{n_texts}",
        )
        for result in results
    ]  # fmt: skip
    if not output.is_terminal():
        output.write_rows(rows)
        return
    from mtkit.commands.terminal import Screen

    screen = Screen()
    costs = ", ".join(f"{n}: {cost:.2f}" for n, cost in sorted(answers.known.sizes.items()))
    screen.line(f"a token takes {1000 * answers.plain:.1f} ms; batches, in tokens: {costs}")
    screen.table(("candidate", "draft ms>", "accepted>", "drafted>", "expected>", "measured>",
                  "as plain>"), rows)  # fmt: skip
    if best is None or best.measured is None:
        screen.line(
            f"no draft reaches {LEAST} times the speed of plain generation with each kind of"
        )
        screen.line(f"prompts, and {WORTH} with one: {out} drafts nothing and changes nothing")
        return
    low, high = best.measured
    screen.line(f"{best.candidate.name}: {low:.2f} to {high:.2f} times as fast as plain generation")
    screen.line(f"mtkit generate -m {target} --threads {threads} --draft-profile {out}")
