"""``mtkit compare``: two tokenizers on the same texts."""

from __future__ import annotations

import sys
from itertools import chain

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import load_tokenizer, special_mode
from mtkit.commands.options import Option, program_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.tokenizer.comparison import Comparison
    from mtkit.tokenizer.tokenizer import Tokenizer


_SHOWN_TOKENS = 8
_LONGEST_NAME = 32
_SHOWN_LETTERS = 200


OPTIONS = {
    "left": Option("", "File or folder.", "A"),
    "right": Option("", "File or folder; default with --as: A.", "B"),
    "files": Option("-f --file", "Compare the lines of this file. Repeatable.", "FILE", "--input"),
    "most": Option("-n --most", "Differences to show; default: 10, on a terminal 3.", "N", low=0),
    "as_program": Option(
        "--as", "Read B as this program does: transformers, mnn …", "NAME", values=program_names
    ),
    "as_draft": Option("--as-draft", "Compare what ids mean, for A as a draft of B."),
}


def compare(
    left: str,
    right: str | None = None,
    files: list[str] | None = None,
    most: int | None = None,
    no_special: bool = False,
    parse_special: bool = False,
    no_parse_special: bool = False,
    download: bool = False,
    as_program: str | None = None,
    as_draft: bool = False,
    as_json: bool = False,
) -> None:
    """Compare the ids of two tokenizers; exit code 1 if any differ.

    Without --file, about 200 built-in texts are compared. Each difference shows the text, the stage
    where the two diverge, and both token lists from just before the first different token.
    --as-draft instead counts the ids of A that mean the same in B, which a draft model can propose,
    and shows the first that does not; exit code 1 if there are none.

    With --as, B is read as another program reads it: llama.cpp, mnn, transformers, executorch,
    onnxruntime or sentencepiece. The last four need their own library.

    \b
    Examples:
      mtkit compare tokenizer.json model.gguf
      mtkit compare folder/ --as transformers
      mtkit compare old/ new/ -f corpus.txt --json
      mtkit compare small.gguf model.gguf --as-draft
    """
    from mtkit.errors import UsageError
    from mtkit.tokenizer.comparison import compare as run
    from mtkit.tokenizer.comparison import probe_texts

    if right is None and as_program is None:
        raise UsageError("two tokenizers are needed", hint="mtkit compare A B")
    special = special_mode(parse_special, no_parse_special)
    if as_program is not None and (as_draft or special is not None):
        option = "--as-draft" if as_draft else f"--{'' if special else 'no-'}parse-special"
        what = f"does not go with {option}"
        raise UsageError(what, field="--as")
    first = load_tokenizer(left, download=download)
    second = first if right is None else load_tokenizer(right, download=download)
    if as_draft:
        if files or most is not None:
            raise UsageError(
                "compares vocabularies, not texts: omit --file and --most", field="--as-draft"
            )
        _show_as_draft(first, second, as_json=as_json)
        return
    corpus = chain.from_iterable(map(_lines, files)) if files else probe_texts()
    if most is None:
        most = 3 if output.is_terminal() else 10
    if as_program is not None:
        from mtkit.checks.programs import compare_as
        from mtkit.conversion.programs import find_program

        program = find_program(as_program)
        comparison = compare_as(
            program, first, second, corpus, most=most, add_special_tokens=not no_special
        )
    else:
        comparison = run(
            first,
            second,
            corpus,
            most=most,
            add_special_tokens=not no_special,
            parse_special=special,
        )
    if as_json:
        output.write_json(comparison.document())
    elif output.is_terminal():
        _show(comparison, (first, second), "line" if files else "text")
        if as_program is None and "mtok" in (first.format_name, second.format_name):
            _show_reading()
    else:
        names = _names((first, second))
        output.write("".join(f"{line}\n" for line in _lines_of_a_pipe(comparison, names)))
    if comparison.differences and {difference.stage for difference in comparison.differences} == {
        "post-processor"
    }:
        sys.stderr.write(
            "mtkit: only added special tokens differ here; --no-special leaves them out,"
            " mtkit convert --no-bos writes none\n"
        )
    if not comparison.equal:
        raise SystemExit(1)


command = Command(compare, OPTIONS)


def _show_as_draft(draft: Tokenizer, target: Tokenizer, *, as_json: bool) -> None:
    """Show how much of a draft's vocabulary means something in the target's."""
    from mtkit.base.escape import byte_escapes
    from mtkit.speculative.translation import Translation

    overlap = Translation(target, draft).overlap
    spellings = {}
    if overlap.first is not None:
        for name, side in (("draft", draft), ("target", target)):
            text = side.token_bytes(overlap.first).decode("utf-8", "backslashreplace")
            spellings[name] = byte_escapes(text)
    if as_json:
        output.write_json(
            {
                "schema": "mtkit.compare-draft/1",
                "draft_ids": overlap.draft_ids,
                "target_ids": overlap.target_ids,
                "shared": overlap.shared,
                "same_id": overlap.same_id,
                "first": {"id": overlap.first, **spellings} if spellings else None,
            }
        )
    else:
        output.write(
            f"{overlap.shared} of the draft's {overlap.draft_ids} ids mean the same as one of the "
            f"target's {overlap.target_ids} ids, {overlap.same_id} of them under the same id\n"
        )
        for name, text in spellings.items():
            output.write(f"id {overlap.first}, the first that differs, is {text!r} in the {name}\n")
    if not overlap.shared:
        raise SystemExit(1)


def _lines(path: str) -> Iterator[bytes]:
    import os

    from mtkit.base.binary import open_input, standard_input
    from mtkit.commands.terminal import byte_progress
    from mtkit.tokenizer.comparison import corpus_lines

    if path == "-":
        yield from corpus_lines(standard_input())
        return
    with open_input(path) as file:
        if not sys.stderr.isatty():
            yield from corpus_lines(file)
            return
        size, show = os.fstat(file.fileno()).st_size, byte_progress("compare")
        try:
            yield from corpus_lines(file, lambda n_read: show(n_read, size))
        finally:
            show(size, size)


def _lines_of_a_pipe(comparison: Comparison, names: Sequence[str]) -> Iterator[str]:
    from mtkit.base.escape import printable
    from mtkit.errors import format_count

    verdict = "equal" if comparison.equal else f"{comparison.different} different"
    if 0 < len(comparison.differences) < comparison.different:
        verdict += f" (the first {len(comparison.differences)} shown)"
    first, second = comparison.tokens
    yield f"{format_count(comparison.texts, 'text')}, {verdict}; tokens {first} and {second}"
    for difference in comparison.differences:
        yield f"text {difference.number}\t{difference.stage}\t{printable(difference.text)}"
        for name, (ids, tokens) in zip(names, (difference.left, difference.right), strict=True):
            start = max(difference.first - 2, 0)
            pairs = zip(ids[start:], tokens[start:], strict=True)
            cells = " ".join(f"{i}:{printable(token)}" for i, token in pairs)
            yield f"  {printable(name)} from token {start}\t{cells}"


def _show(comparison: Comparison, sides: Sequence[Tokenizer], what: str) -> None:
    """Show the verdict, and of each difference the text and the tokens from where they part."""
    from mtkit.base.escape import printable
    from mtkit.commands.terminal import Screen, count_part, join_parts, part, sticky, token_text

    screen = Screen()
    if comparison.equal:
        tokens = count_part(comparison.tokens[0], "token")
        facts = join_parts([count_part(comparison.texts, what), tokens, "all ids are equal"])
        screen.verdict(*facts, good=True)
        return
    first = comparison.differences[0] if comparison.differences else None
    where = f", first at {what} {first.number}, stage: {first.stage}" if first else ""
    many = sticky(f"{comparison.different} of {count_part(comparison.texts, what)}")
    screen.verdict(many, f" differ{where}", good=False)
    names = _names(sides)
    for difference in comparison.differences:
        screen.heading(f"{what} {difference.number}", difference.stage)
        rows: list[tuple[str, list[object]]] = [("  text", [_cut(printable(difference.text))])]
        start = max(difference.first - 2, 0)
        for name, (ids, _), tokenizer in zip(
            names, (difference.left, difference.right), sides, strict=True
        ):
            cells = [
                join_parts([part("id", i), token_text(tokenizer.token_bytes(i))], sticky(" "))
                for i in ids[start : start + _SHOWN_TOKENS]
            ]
            more = [part("dim", f"… {len(ids)} in all")] * (len(ids) > start + _SHOWN_TOKENS)
            before = [part("dim", f"{count_part(start, 'token')} …")] * (start > 0)
            rows.append((f"  {name}", join_parts([*before, *cells, *more], "  ")))
        screen.facts(rows)
    if len(comparison.differences) < comparison.different:
        more_text = f"--most {comparison.different} shows all, --json with every token"
        screen.heading("")
        screen.line(part("hint", more_text))


def _show_reading() -> None:
    """Say that a .mtok may have more than MNN reads of it."""
    from mtkit.commands.terminal import Screen, part

    remark = " reads B as MNN does; without it, mtkit's own part of a .mtok counts"
    Screen().line(part("hint", "--as mnn"), part("dim", remark))


def _names(sides: Sequence[Tokenizer]) -> list[str]:
    """Return names for the two sides: those of the files, or A and B if they are equal or long."""
    import os

    paths = [os.path.normpath(side.source) for side in sides]
    names = [os.path.basename(path) for path in paths]
    names = names if names[0] != names[1] else paths
    long = names[0] == names[1] or max(map(len, names)) > _LONGEST_NAME
    return ["A", "B"] if long else names


def _cut(text: str) -> output.Escaped:
    """Shorten a text for a terminal, with its true length."""
    more = f" … {len(text)} characters" if len(text) > _SHOWN_LETTERS else ""
    return output.Escaped(f'"{text[:_SHOWN_LETTERS]}"{more}')
