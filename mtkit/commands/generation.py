"""What ``generate`` and ``chat`` show: progress, the prompt, the text as it comes, timings."""

from __future__ import annotations

import os
import sys
import time

from mtkit.api.generation import Watcher
from mtkit.chat.answer import Thought
from mtkit.commands import output
from mtkit.commands.arguments import finite_number
from mtkit.commands.terminal import Progress, columns
from mtkit.errors import format_count
from mtkit.llama import log
from mtkit.llama.media import text_ids

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.api.generation import Generation, Timings
    from mtkit.chat.answer import Part
    from mtkit.llm.runner import Runner, Token
    from mtkit.llm.sampling import Sampler
    from mtkit.settings import SamplerSettings
    from mtkit.speculative.rounds import Statistics


_FLUSH_SECONDS = 0.02
_PLAIN = "\n\t\u200c\u200d"
_LITTLE = 0.01
"""Seconds that are too few to mention."""


class TextOutput:
    """Writes text as it comes: at line ends, and otherwise at most fifty times a second."""

    def __init__(self, wrap: Callable[[str], str] | None = None) -> None:
        """Begin a line."""
        self._parts: list[str] = []
        self._written = 0.0
        self._ends_line = True
        self._terminal = output.is_terminal()
        self._wrap = wrap or (lambda text: text)
        self._is_dim = False

    def write(self, text: str) -> None:
        """Take a piece of text."""
        if not text:
            return
        self._parts.append(text)
        now = time.perf_counter()
        if "\n" in text or now - self._written >= _FLUSH_SECONDS:
            self.flush()
            self._written = now

    def write_parts(self, parts: Sequence[Part]) -> None:
        """Take parts of an answer; reasoning is for a terminal, and dim."""
        for part in parts:
            if isinstance(part, str):
                was_dim = self._is_dim
                self._dim(is_dim=False)
                self.write(part.lstrip("\n") if was_dim else part)
            elif isinstance(part, Thought) and self._terminal:
                self._dim(is_dim=True)
                self.write(part.text)

    def _dim(self, *, is_dim: bool) -> None:
        """Change between reasoning and text, with an empty line between them."""
        if is_dim == self._is_dim:
            return
        self.flush()
        if not is_dim:
            output.write(self._wrap("\n" if self._ends_line else "\n\n"))
            self._ends_line = True
        if not os.environ.get("NO_COLOR"):
            output.write("\x1b[2m" if is_dim else "\x1b[0m")
        self._is_dim = is_dim

    def flush(self) -> None:
        """Write the buffered text."""
        if not self._parts:
            return
        text = "".join(self._parts)
        self._parts.clear()
        self._ends_line = text.endswith("\n")
        output.write(self._wrap(_printable_text(text)) if self._terminal else text)

    def end(self) -> None:
        """End the line."""
        self.flush()
        if self._is_dim:
            self._dim(is_dim=False)
        if not self._ends_line:
            output.write("\n")
            self._ends_line = True


def _printable_text(text: str) -> str:
    """Escape what would steer a terminal; line breaks, tabs and joiners stay."""
    from mtkit.base.escape import printable

    if text.isprintable():
        return text
    return "".join(
        part if part in _PLAIN or part.isprintable() else printable(part) for part in text
    )


class GenerationScreen(Watcher):
    """Shows a generation as it runs."""

    def __init__(self, *, echo: bool, verbose: bool, quiet: bool, form: str, ids: bool) -> None:
        self._echo, self._verbose, self._quiet = echo, verbose, quiet
        self._form, self._ids = form, ids
        self._bar = Progress("loading")
        self.out = TextOutput()

    def progress(self, part: float) -> None:
        """Show how much of the model is loaded."""
        self._bar.show(part)

    def loaded(self, runner: Runner) -> None:
        """Say what was loaded."""
        model = runner.model
        if self._verbose:
            write_note(f"model: {model.description}, {output.format_size(model.size_bytes)}")
            write_note(f"threads wait: {runner.waiting}")

    def warning(self, text: str) -> None:
        """Show a warning."""
        if text:
            write_note(f"warning: {text}")
        elif self._verbose:
            write_note("the tokenizers agree")

    def prompt(self, runner: Runner, ids: list[int]) -> None:
        """Echo the prompt, token by token."""
        if self._verbose:
            shown = (str(token_id) if token_id >= 0 else "-1" for token_id in ids)
            write_note(f"prompt: {format_count(len(ids), 'token')}: {' '.join(shown)}")
        if self._echo and self._form == "text":
            piece = runner.model.piece
            stream = b"".join(piece(token_id, special=True) for token_id in text_ids(ids))
            if output.wants_color():  # where the prompt ends and the model begins
                output.write("\x1b[2m")
            self.out.write(stream.decode("utf-8", "replace"))
            self.out.flush()
            if output.wants_color():
                output.write("\x1b[0m")

    def ready(self, runner: Runner, sampler: Sampler) -> None:
        """Say what the context and the sampler are."""
        log.is_shown = False  # what llama.cpp says from now on would stand in the text
        context = runner.context
        assert context is not None
        if not self._quiet:
            warn_untrained(context.n_ctx, runner.model.n_ctx_train)
        if self._verbose:
            s = context.settings
            write_note(
                f"context: {format_count(context.n_ctx, 'token')}, batch {context.n_batch}, "
                f"ubatch {min(s.n_ubatch, context.n_batch)}, "
                f"kv {s.kv_type}, flash attention {s.flash_attention}, threads {s.threads}"
            )
            write_note(f"sampler: {' -> '.join(sampler.steps)}")

    def token(self, token: Token) -> None:
        """Show a token."""
        if self._form == "text":
            self.out.write(f"{token.id} " if self._ids and token.id >= 0 else token.text)
        elif self._form == "jsonl":
            output.write_json(token_document(token), is_line=True)


def token_document(token: Token) -> dict[str, object]:
    """Return one token as a JSON line."""
    from mtkit.base.escape import byte_escapes

    return {
        "id": token.id if token.id >= 0 else None,
        "piece": byte_escapes(token.piece.decode("utf-8", "backslashreplace")),
        "text": token.text,
        "logprob": finite_number(token.logprob),
    }


def write_note(text: str) -> None:
    """Write a line to stderr."""
    from mtkit.base.escape import printable

    sys.stderr.write(fold_line(f"mtkit: {printable(text)}", 7) + "\n")


def fold_line(line: str, indent: int) -> str:
    """Break a line between words where a terminal is too narrow for it."""
    if not sys.stderr.isatty() or len(line) <= (width := columns()):
        return line
    from textwrap import fill

    return fill(
        line,
        width,
        subsequent_indent=" " * min(indent, width // 4),
        break_long_words=False,
        break_on_hyphens=False,
    )


def warn_untrained(n_ctx: int, trained: int) -> None:
    """Warn of a context beyond the trained one; 0: that is not known."""
    if n_ctx > trained > 0:
        write_note(
            f"warning: the context of {format_count(n_ctx, 'token')} is longer than "
            f"the {trained} that the model was trained with"
        )


def warn_unused(sampler: SamplerSettings) -> None:
    """Warn of sampling options that greedy decoding ignores."""
    options = ", ".join(sampler.declared[name].options[-1] for name in sampler.unused())
    if options:
        write_note(
            f"warning: without --temp the most likely token is taken, whatever {options} says"
        )


def show_timings(timings: Timings) -> None:
    """Write the timings to stderr."""
    rows = (
        ("load", None, timings.load),
        ("prompt", timings.prompt_tokens, timings.prompt),
        ("generation", timings.tokens, timings.generation),
    )
    for name, tokens, seconds in rows:
        text = f"{name:<11}{seconds:8.3f} s"
        if tokens is not None:
            rate = tokens / seconds if seconds > 0 else 0.0
            text += f" {tokens:6d} {'token' if tokens == 1 else 'tokens':6} {rate:9.1f} tokens/s"
        write_note(text)


def show_drafting(seen: Statistics) -> None:
    """Write to stderr how drafting went."""
    extra = [("measuring", seen.measure_seconds), ("loading the draft", seen.load_seconds)]
    took = "".join(f"; {seconds:.3f} s of {what}" for what, seconds in extra if seconds >= _LITTLE)
    if not seen.drafted:
        reason = seen.reason or "no draft promised to be faster"
        again = " (--no-draft-auto drafts anyway)" if seen.declined else ""
        write_note(f"drafting   nothing: {reason}{again}{took}")
        return
    write_note(
        f"drafting   {seen.draft_seconds:8.3f} s {seen.drafted:6d} tokens, "
        f"{seen.acceptance:.0%} accepted, {seen.per_round:.2f} tokens per round{took}{seen.balance}"
    )


def generation_document(generated: Generation, *, model: str) -> dict[str, object]:
    """Return a generation as a JSON document."""
    from mtkit.base.escape import byte_escapes

    timings, context = generated.timings, generated.context
    assert context.n_ctx is not None
    drafting = {} if generated.drafting is None else {"drafting": generated.drafting.document()}
    return {
        "schema": "mtkit.generate/1",
        "model": model,
        "prompt_ids": generated.prompt_ids,
        "ids": generated.ids,
        "pieces": [byte_escapes(p.decode("utf-8", "backslashreplace")) for p in generated.pieces],
        "logprobs": [finite_number(value) for value in generated.logprobs],
        "text": generated.text,
        "end": generated.end,
        "seed": generated.seed,
        "sampler": list(generated.steps),
        "context": {
            "n_ctx": context.n_ctx,
            "n_batch": min(context.n_batch, context.n_ctx),
            "n_ubatch": min(context.n_ubatch, context.n_batch, context.n_ctx),
            "kv_type": context.kv_type,
            "flash_attention": context.flash_attention,
            "threads": context.threads,
            "waiting": generated.waiting,
        },
        "timings": {
            "load_seconds": timings.load,
            "prompt_tokens": timings.prompt_tokens,
            "prompt_seconds": timings.prompt,
            "tokens": timings.tokens,
            "generation_seconds": timings.generation,
            "decode_seconds": timings.decode,
        },
        **drafting,
    }
