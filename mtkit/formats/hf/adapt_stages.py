"""Components of other references by those of tokenizer.json that come nearest.

A component that the library has, with switches that it lacks, becomes the one without them:
the same rules run by another reference (``ids-possible``). The others are spelled out.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.hf.adapt_model import keeps_user_defined, user_defined
from mtkit.formats.hf.components import component_form, read_component
from mtkit.formats.hf.pattern import for_oniguruma, literal
from mtkit.spec import decoders, models, normalizers, pre_tokenizers, replace
from mtkit.spec.marks import spelled_out
from mtkit.spec.text import MARK, Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Literal

    from mtkit.base.record import Record
    from mtkit.formats.contract import AddLoss, LossCode
    from mtkit.spec import TokenizerSpec


def nearest(component: Any, key: str, add: AddLoss) -> Any:
    """Return the component as the library has it; a difference is listed."""
    if component is None:
        return None
    made = read_component(component_form(component), key, key)
    if made != component:
        code: LossCode = "decoding" if key == "decoder" else "ids-possible"
        changes = "text" if key == "decoder" else "ids"
        add(code, key, f"the tokenizers library has its own code for this: {changes} can differ")
    return made


def _mapped(component: Any, lower: Callable[[Any], tuple[Record, ...]], sequence: Any) -> Any:
    """Spell out the parts of a component; sequences in it are flattened only where needed."""
    if isinstance(component, sequence):
        steps: list[Any] = []
        for step in component.steps:
            made = _mapped(step, lower, sequence)
            spread = isinstance(made, sequence) and not isinstance(step, sequence)
            steps.extend(made.steps if spread else [made])
        return sequence(tuple(steps))
    parts = lower(component)
    return parts[0] if len(parts) == 1 else sequence(tuple(parts))


def _pattern(pattern: Any, key: str, add: AddLoss) -> Any:
    """Spell an expression of another engine as Oniguruma takes it."""
    if isinstance(pattern, Text) or pattern == Regex(pattern.pattern):
        return pattern
    add("ids-possible", key, "the split pattern runs in a different regex engine")
    text = pattern.pattern
    if pattern.counted == "modified" or pattern.anchors == "text":
        text = for_oniguruma(text, anchors=pattern.anchors == "text")
    return Regex(text)


def adapt_normalizer(spec: TokenizerSpec, add: AddLoss) -> Any:
    """Return the normalizer of the library's components."""
    if spec.normalizer is None:
        return None

    def lower(component: Any) -> tuple[Record, ...]:
        if isinstance(component, normalizers.Replace):
            return (replace(component, pattern=_pattern(component.pattern, "normalizer", add)),)
        if isinstance(component, normalizers.Spaces):
            return _spaces(component, add)
        if isinstance(component, normalizers.BertTable):
            add("ids-possible", "normalizer", "accents and case follow Unicode's own tables")
            return (
                normalizers.Bert(
                    clean_text=component.clean_text,
                    handle_chinese_chars=component.handle_chinese_chars,
                    strip_accents=component.strip_accents,
                    lowercase=component.lowercase,
                ),
            )
        return (component,)

    made = _mapped(spec.normalizer, lower, normalizers.Sequence)
    return nearest(made, "normalizer", add)


def _spaces(spaces: normalizers.Spaces, add: AddLoss) -> tuple[Record, ...]:
    """Spell out the rules of a trained subword model for white space."""
    effect = "spaces next to added tokens are handled differently, and U+2581 counts as a space"
    add("ids-special", "normalizer", effect)
    if spaces.charsmap:
        add(
            "ids-possible",
            "normalizer",
            "normalization works on whole graphemes, so rare character sequences can differ",
        )
    return spelled_out(spaces)


def adapt_pre_tokenizer(spec: TokenizerSpec, add: AddLoss) -> Any:
    """Return the pre-tokenizer of the library's components."""
    if spec.pre_tokenizer is None:
        if isinstance(spec.model, models.Words):
            add(
                "metadata",
                "pre_tokenizer",
                "splitting into words becomes a separate component; no text changes",
            )
            return pre_tokenizers.Split(Text(MARK), "merged_with_next")
        whole = user_defined(spec) if keeps_user_defined(spec, by_splitting=True) else []
        if not whole:
            return None
        add("ids-possible", "pre_tokenizer", "user-defined tokens are cut out by a pattern")
        return pre_tokenizers.Split(Regex("|".join(map(literal, whole))))

    def lower(component: Any) -> tuple[Record, ...]:
        if isinstance(component, pre_tokenizers.MarkSpaces):
            add("ids-possible", "pre_tokenizer", "an empty text gets no leading mark")
            scheme: Literal["always", "never"] = "always" if component.prefix else "never"
            return (pre_tokenizers.Metaspace(component.replacement, scheme, split=False),)
        if isinstance(component, pre_tokenizers.DigitGroups):
            raise UnsupportedError("tokenizer.json has no component that groups digits from behind")
        if isinstance(component, pre_tokenizers.Split) and component.behavior.startswith("glued"):
            raise UnsupportedError(f"tokenizer.json cannot split by {component.behavior}")
        if isinstance(component, pre_tokenizers.Split):
            return (replace(component, pattern=_pattern(component.pattern, "pre_tokenizer", add)),)
        return (component,)

    made = _mapped(spec.pre_tokenizer, lower, pre_tokenizers.Sequence)
    return nearest(made, "pre_tokenizer", add)


def adapt_decoder(spec: TokenizerSpec, add: AddLoss) -> Any:
    """Return the decoder of the library's components."""
    given = spec.decoder
    if given is None:
        return None

    def lower(component: Any) -> tuple[Record, ...]:
        steps = _decoder_steps(component)
        if steps is None:
            return (component,)
        add(
            "decoding",
            "decoder",
            "the library decodes unknown, special and byte tokens in its own way",
        )
        return steps

    return nearest(_mapped(given, lower, decoders.Sequence), "decoder", add)


def _decoder_steps(component: Any) -> tuple[Record, ...] | None:
    """Spell out a decoder of another reference; None for one that the library has."""
    marks = (decoders.Replace(Text(MARK), " "), decoders.ByteFallback(), decoders.Fuse())
    strip = decoders.Strip(" ", start=1)
    if isinstance(component, decoders.Subwords):
        return marks if component.drop_marks == "none" else (*marks, strip)
    if isinstance(component, decoders.AfterBos):
        return (*marks, strip)
    if isinstance(component, decoders.Bytewise):
        return component.steps
    if isinstance(component, decoders.Pieces):
        spelled: dict[str, tuple[Record, ...]] = {
            "marks": (*marks, strip) if component.drop_first_space else marks,
            "byte_alphabet": (decoders.ByteLevel(),),
            "words": (decoders.WordPiece(cleanup=False),),
            "plain": (decoders.ByteFallback(), decoders.Fuse()),
        }
        return spelled.get(component.spelling)
    return None
