"""Post-processors: the special tokens around the texts, segment numbers, trimmed offsets.

Each works on a list of token runs, at first one for each text, and gives such a list back; what is
left at the end is joined.

Source: huggingface/tokenizers 0.23, processors/.
"""

from __future__ import annotations

from mtkit.errors import ResourceError, UnsupportedError
from mtkit.pipeline.encoding import Tokens, truncate
from mtkit.pipeline.growth import GROWTH_FACTOR
from mtkit.spec import post_processors as spec
from mtkit.unicode.characters import is_white_space
from mtkit.unicode.utf8 import BYTE_LETTERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Literal

    from mtkit.spec import TokenizerSpec
    from mtkit.spec.post_processors import PostProcessor, Slot

GROWTH_TOKENS = 1 << 20
"""A template may add so many tokens, or ``GROWTH_FACTOR`` times those of its texts."""
_SPACE = BYTE_LETTERS[0x20]


def assemble(
    tokenizer: TokenizerSpec,
    texts: list[Tokens],
    *,
    add_special_tokens: bool,
    truncation: Literal["file"] | None = None,
) -> Tokens:
    """Cut one or two texts as the file asks and join them; ``texts`` are used up."""
    limits = tokenizer.truncation if truncation else None
    if limits:
        added = added_count(tokenizer.post_processor, pair=len(texts) > 1)
        size = limits.max_length - (added if add_special_tokens else 0)
        # Where the special tokens alone are too many the reference cuts nothing more.
        if size >= 0:
            truncate(texts[0], texts[1] if len(texts) > 1 else None, limits, size)
    return post_process(tokenizer.post_processor, texts, add_special_tokens=add_special_tokens)


def added_count(component: PostProcessor | None, *, pair: bool) -> int:
    """Return how many tokens a post-processor adds."""
    if isinstance(component, spec.Sequence):
        return sum(added_count(step, pair=pair) for step in component.steps)
    if isinstance(component, spec.Template):
        return sum(len(slot.ids) for slot in (component.pair if pair else component.single))
    if isinstance(component, spec.Bert):
        return 3 if pair else 2
    if isinstance(component, spec.Roberta):
        return 4 if pair else 2
    return 0


def post_process(
    component: PostProcessor | None, texts: list[Tokens], *, add_special_tokens: bool
) -> Tokens:
    """Join the tokens of one or two texts as a post-processor says; ``texts`` are used up."""
    runs: Iterable[Tokens] = texts
    if component is not None:
        for number, tokens in enumerate(texts):
            tokens.set_type(number)
        runs = _process(component, texts, add_special_tokens)
    result = Tokens([], [], [])
    for tokens in runs:
        result.extend(tokens)
    return result


def _process(component: PostProcessor, runs: list[Tokens], add: bool) -> Iterable[Tokens]:
    if isinstance(component, spec.Sequence):
        for step in component.steps:
            runs = list(_process(step, runs, add))
        return runs
    if isinstance(component, spec.Template):
        return _template(component, runs, add)
    if isinstance(component, spec.Bert):
        return [_bert(component, run, number) for number, run in enumerate(runs)] if add else runs
    if isinstance(component, spec.Roberta):
        if component.trim_offsets:
            _trim_all(runs, component.add_prefix_space)
        for run in runs:
            run.set_type(0)
        return (
            [_roberta(component, run, number) for number, run in enumerate(runs)] if add else runs
        )
    if isinstance(component, spec.ByteLevel):
        if component.trim_offsets:
            _trim_all(runs, component.add_prefix_space)
        return runs
    raise UnsupportedError(f"does not know the post-processor {type(component).__name__}")


def _template(component: spec.Template, runs: list[Tokens], add: bool) -> Iterator[Tokens]:
    if len(runs) > 2:
        raise UnsupportedError("a template follows a post-processor that has added tokens already")
    if not add and component.without == "text":
        yield from runs
        return
    slots = component.pair if len(runs) == 2 else component.single
    if any(slot.text is not None and slot.text >= len(runs) for slot in slots):
        raise UnsupportedError("the template for one text uses a second one")
    slots = slots if add else tuple(slot for slot in slots if slot.text is not None)
    _check_growth(slots, runs)
    for slot in slots:
        if slot.text is not None:
            run = runs[slot.text]
            run.set_type(slot.type_id)
            copied = run.part(0, len(run))
            copied.overflow = list(run.overflow)
            yield copied
        else:
            yield Tokens.added(slot.ids, [slot.name] * len(slot.ids), slot.type_id)


def _check_growth(slots: tuple[Slot, ...], runs: list[Tokens]) -> None:
    """Stop a template that multiplies its texts or its special tokens, before it does."""
    before = sum(map(len, runs))
    after = sum(len(slot.ids) if slot.text is None else len(runs[slot.text]) for slot in slots)
    most = max(GROWTH_TOKENS, GROWTH_FACTOR * before)
    if after - before > most:
        raise ResourceError(
            f"adds {after - before} tokens to {before}, at most {most} can be",
            field="post_processor",
        )


def _surrounded(
    run: Tokens, front: tuple[str, int], back: tuple[str, int], types: tuple[int, int]
) -> Tokens:
    """Put one token on each side of a run and of each of its overflows."""
    result = Tokens.added([front[1]], [front[0]], types[0])
    result.extend(_plain(run))
    result.extend(Tokens.added([back[1]], [back[0]], types[1]))
    result.overflow = [_surrounded(part, front, back, types) for part in run.overflow]
    return result


def _plain(run: Tokens) -> Tokens:
    """Return a run in which no token counts as special, even if one before added it."""
    copied = run.part(0, len(run))
    copied.special = [0] * len(run)
    return copied


def _bert(component: spec.Bert, run: Tokens, number: int) -> Tokens:
    if number == 0:
        return _surrounded(run, component.cls, component.sep, (0, 0))
    result = _plain(run)
    result.extend(Tokens.added([component.sep[1]], [component.sep[0]], 1))
    result.overflow = [_bert(component, part, number) for part in run.overflow]
    return result


def _roberta(component: spec.Roberta, run: Tokens, number: int) -> Tokens:
    front = component.cls if number == 0 else component.sep
    result = _surrounded(run, front, component.sep, (0, 0))
    for part in result.overflow:
        part.set_type(0)
    return result


def _trim_all(runs: list[Tokens], add_prefix_space: bool) -> None:
    for run in runs:
        for part in (run, *run.overflow):
            part.offsets = [
                _trimmed(value, offsets, at, add_prefix_space)
                for at, (value, offsets) in enumerate(zip(part.values, part.offsets, strict=True))
            ]


def _trimmed(
    value: str, offsets: tuple[int, int], at: int, add_prefix_space: bool
) -> tuple[int, int]:
    """Take the spaces of a token out of its offsets."""
    start, end = offsets
    leading = next((n for n, c in enumerate(value) if not _is_space(c)), len(value))
    trailing = next((n for n, c in enumerate(reversed(value)) if not _is_space(c)), len(value))
    if leading == 1 and add_prefix_space and (at == 0 or start == 0):
        # It was put in front, the text does not have it.
        leading = 0
    start = min(start + leading, end)
    if trailing and end >= trailing:
        end = max(end - trailing, start)
    return start, end


def _is_space(character: str) -> bool:
    return character == _SPACE or is_white_space(character)
