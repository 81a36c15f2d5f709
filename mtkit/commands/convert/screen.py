"""What ``mtkit convert`` shows on a terminal: success on one line, a refusal with one example."""

from __future__ import annotations

from mtkit.commands import output
from mtkit.commands.convert.report import (
    examples,
    loss_texts,
    model_text,
    verdict,
    warnings_and_notes,
)
from mtkit.commands.terminal import Screen, count, joined, part, size, sticky, token_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.conversion.convert import Conversion
    from mtkit.conversion.refusal import Refusal
    from mtkit.conversion.verify import Verified
    from mtkit.errors import LossError
    from mtkit.formats.contract import WriteOptions
    from mtkit.tokenizer.tokenizer import Tokenizer

_MOST_IDS = 8


def show(done: Conversion, *, verbose: bool) -> None:
    """Show what was written: that it is right, what was assumed, what it does not keep."""
    screen = Screen()
    sizes = dict(done.sizes)
    main, others = done.verified[:1], done.verified[1:]
    parts = joined([size(sizes["total"]), *map(_equal, main)])
    differ = any(one.equal < one.total for one in main)
    good = None if differ else True
    screen.verdict(part("name", done.path), output.Escaped("   "), *parts, good=good)
    rows: list[tuple[str, list[object]]] = [
        ("  model", [model_text(done.model)] if done.model else []),
        ("  beside it", joined([part("name", path) for path in done.paths[1:]], ", ")),
    ]
    for text in done.model.notes if done.model else ():
        rows.append(("  note", [text]))
    for one in main if differ else ():
        which = f"{count(one.total - one.equal, 'text')}: {examples(one)}"
        rows.append(("  differ", [output.Escaped(which)]))
    for text in done.assumptions:
        rows.append(("  assumed", [text]))
    for one in others:
        good = one.equal == one.total and not one.unable
        found = output.Escaped(f"! {verdict(one).partition(': ')[2]}")
        said = _equal(one) if good else part("warning", found)
        rows.append((f"  {one.reader}", [said]))
    screen.facts((name, parts) for name, parts in rows if parts)
    warnings, notes = warnings_and_notes(done)
    for head, role, losses in (("!", "warning", warnings), ("·", "dim", notes * verbose)):
        for effect, where in loss_texts(losses, verbose=verbose):
            screen.line(part(role, f"{head} "), effect, part("dim", where), indent=2, hanging=2)
    if notes and not verbose:
        none = "none changes these texts" if len(notes) > 1 else "it changes none of these texts"
        said = f"{count(len(notes), 'note')} on what {done.format_name} does not keep; {none} ("
        more = (part("hint", "-v"), part("dim", " for details)"))
        screen.line(part("dim", said), *more, indent=2, hanging=2)


def _equal(one: Verified) -> object:
    text = sticky(f"{one.equal} of {one.total} texts") + " get the same ids"
    return part("good" if one.equal == one.total else "warning", output.Escaped(text))


def show_refusal(error: LossError, tokenizer: Tokenizer, to: str, options: WriteOptions) -> None:
    """Show why nothing was written, one text with both id lists, and what to type."""
    from mtkit.conversion.refusal import refusal

    screen = Screen(stderr=True)
    found = refusal(tokenizer, to, options)
    if found is None:
        screen.error(error)
        return
    texts = sticky(f"{found.different} of {found.total} texts")
    screen.verdict(
        part("bad", "not written: "),
        texts,
        " would get different ids in ",
        part("name", to),
        good=False,
    )
    for effect, where in loss_texts(found.losses, verbose=False):
        screen.line(effect, part("dim", where), indent=2, hanging=2)
    if found.text:
        screen.line(output.Escaped(f'"{token_text(found.text.encode())}"'), indent=4, hanging=2)
        screen.facts(_ids(found))
    codes = dict.fromkeys(loss.code for loss in found.losses)
    said = " ".join(f"--allow-loss {code}" for code in codes)
    screen.line("write it anyway: ", part("hint", said), indent=2, hanging=2)


def _ids(found: Refusal) -> Iterator[tuple[str, list[object]]]:
    """Yield the ids of both sides, from shortly before where they part."""
    pairs = zip(found.here, found.there, strict=False)
    shortest = min(len(found.here), len(found.there))
    first = next((at for at, (here, there) in enumerate(pairs) if here != there), shortest)
    start = max(first - 2, 0)
    for name, ids in (("    here", found.here), ("    there", found.there)):
        shown = " ".join(map(str, ids[start : start + _MOST_IDS]))
        cut = f"{'… ' * (start > 0)}{shown}{' …' * (len(ids) > start + _MOST_IDS)}"
        yield name, [part("id", cut)]
