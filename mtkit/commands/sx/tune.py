"""``mtkit sx tune``: find what drafts best for a model on this machine."""

from __future__ import annotations

from mtkit.commands.command import Command
from mtkit.commands.options import FORCE_FILES, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.settings import DraftSettings, GenerateSettings
    from mtkit.speculative.costs import Costs
    from mtkit.speculative.tune import Answers, CandidateResult


OPTIONS = {
    "drafts": Option("", "Draft models to try.", "[DRAFT]..."),
    "prompts": Option("--prompts", "Prompts: lines of text or of JSON.", "FILE"),
    "out": Option("-o --output", "Profile to write (.json).", "FILE"),
    "count": Option("-c --count", "Maximum number of prompts.", "N", low=1),
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
    prompts: str,
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
    answers; and lookup combined with each of these. Each is tried in the exact configuration
    (docs/speculation.md), with one and with four rows per step, and in the inexact one. All are
    scored on one of TARGET's answers, the better half on three, and the better half of those on
    nine. The two best exact ones, prompt lookup and the best inexact one are then timed. The
    fastest exact one (with --no-exact, the fastest of all) becomes the profile, if it pays off.
    Measurements are cached: to resume, repeat the command.

    Columns: candidate, milliseconds per drafted token, acceptance rate, maximum draft length, rows
    per step, expected speed against plain decoding, measured speed, texts identical to plain
    decoding.

    \b
    Examples:
      mtkit sx tune model.gguf small.gguf --prompts prompts.jsonl -o model.json
      mtkit generate -m model.gguf --draft-profile model.json -f code.py
    """
    import time

    from mtkit.base import plotting
    from mtkit.base.files import check_target
    from mtkit.commands import output
    from mtkit.commands.arguments import read_prompts
    from mtkit.commands.inputs import find_model
    from mtkit.commands.terminal import Progress
    from mtkit.errors import UsageError
    from mtkit.llm.runner import open_model
    from mtkit.settings import ContextSettings, DraftSettings, GenerateSettings
    from mtkit.speculative import plots, setup
    from mtkit.speculative.tune import Tuner, candidates_of, fastest_candidate

    until = time.monotonic() + seconds
    check_target(out, force=force)
    if plot is not None:
        plotting.require()
    texts = list(read_prompts(prompts))[:count]
    if not texts:
        raise UsageError("has no prompts", source=prompts)
    path, small = find_model(target), [find_model(name) for name in drafts or ()]
    drafting = DraftSettings(draft_lookup=True)
    settings = setup.prepare_settings(
        GenerateSettings(path, ContextSettings(threads=threads), drafting=drafting)
    )
    folder = _folder([path, *small], (texts, tokens, threads))
    with open_model(settings, Progress("loading").show) as runner:
        ids = [runner.model.tokenize(text) for text in texts]
        n_ctx = min(max(map(len, ids)) + tokens, max(runner.model.n_ctx_train, tokens + 2))
        runner.open_context(n_ctx + 2)
        tuner = Tuner(runner, settings, f"{folder}/state.json", until)
        answers = tuner.answers(
            [prompt_ids[-(n_ctx - tokens) :] for prompt_ids in ids if prompt_ids], tokens
        )
        small += _requantized(small, folder, disk, until)
        vocabularies = _vocabularies(runner, answers, folder) if small else {}
        table = candidates_of(DraftSettings(draft_lookup=False), small, vocabularies)
        results = tuner.search(table, answers, Progress("reading along").show)
        results, costs = tuner.confirm(results, answers, tokens)
    best = fastest_candidate(results, exact=not no_exact)
    _write(out, path, settings, best, costs, folder)
    if plot is not None:
        plots.plot_tuning(answers.known, results, plot)
    if as_json:
        output.write_json(_document(out, best, results, answers))
    else:
        _show(out, path, best, results, answers)


command = Command(tune, OPTIONS)


def _folder(files: Sequence[str], more: object) -> str:
    """Return the cache folder of these files' measurements and drafts."""
    import hashlib
    import os

    from mtkit.base.process import cache_folder

    stamps = [(os.path.abspath(path), os.stat(path).st_mtime_ns) for path in files]
    name = hashlib.sha256(repr((stamps, more, 1)).encode()).hexdigest()
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
    target: str,
    settings: GenerateSettings,
    best: CandidateResult | None,
    costs: dict[str, Costs],
    folder: str,
) -> None:
    """Write the profile, and beside it the files that were made for it."""
    import os
    import shutil

    from mtkit.base.record import replace
    from mtkit.speculative import setup
    from mtkit.speculative.costs import Costs

    about: dict[str, object] = {
        "target": os.path.basename(target), "threads": settings.context.threads,
        "speed": best.measured if best else 1.0,
    }  # fmt: skip
    if best is None:
        plain = replace(settings.drafting, draft_lookup=False)
        setup.write_profile(out, plain, Costs(), about)
        return
    drafting: DraftSettings = best.drafting
    stem = out.removesuffix(".json")
    for name, end in (("draft", "-draft.gguf"), ("sx_static_vocab", "-vocab.txt")):
        path = getattr(drafting, name)
        if path is not None and os.path.dirname(path) == folder:
            shutil.copyfile(path, stem + end)
            drafting = replace(drafting, **{name: stem + end})
    setup.write_profile(out, drafting, costs[best.candidate.name], about)


def _document(
    out: str, best: CandidateResult | None, results: Sequence[CandidateResult], answers: Answers
) -> dict[str, object]:
    return {
        "schema": "mtkit.sx-tune/1",
        "profile": out,
        "best": best.candidate.name if best else None,
        "speed": best.measured if best else 1.0,
        "token_ms": 1000 * answers.plain,
        "batches": {str(size): cost for size, cost in sorted(answers.known.sizes.items())},
        "candidates": [
            {
                "name": result.candidate.name, "exact": result.drafting.exact,
                "draft_max": result.drafting.draft_max, "width": result.drafting.draft_width,
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
    best: CandidateResult | None,
    results: Sequence[CandidateResult],
    answers: Answers,
) -> None:
    from mtkit.commands import output

    rows = [
        (
            result.candidate.name, f"{1000 * answers.plain * result.cost:.1f}",
            f"{result.acceptance:.0%}", str(result.drafting.draft_max),
            str(result.drafting.draft_width), f"{result.promised:.2f}",
            "" if result.measured is None else f"{result.measured:.2f}",
            "" if result.measured is None else f"{result.same}/{len(answers.texts)}",
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
    screen.table(("candidate", "draft ms>", "accepted>", "drafted>", "rows>", "expected>",
                  "measured>", "as plain>"), rows)  # fmt: skip
    if best is None:
        screen.line(f"plain decoding is the fastest; {out} says so")
        return
    screen.line(f"{best.candidate.name}: {best.measured:.2f} times plain decoding")
    screen.line(f"mtkit generate -m {target} --draft-profile {out}")
