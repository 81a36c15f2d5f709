"""The program of an engine: what its stages do, as bytes that native/encode/engine.cpp reads.

Compiled from a specification; numbers are little-endian, a text is u32 length and bytes, a list of
numbers u32 count and u32 each, an id that does not exist 0xFFFFFFFF. Components become small steps
(drop a set of code points, map code points, split at matches ...), so that the core knows few of
them. What the core has no step for is ``UnsupportedError``: the pipeline does that tokenizer.

What the order of the stages allows comes first: which step is left out, and which the core must not
take. Pre-tokenizers that cut by the kind of characters: see native/steps/scripts.cpp. Then the
special ids around a text, as the core puts them (``special_id_frame``).
"""

from __future__ import annotations

from itertools import takewhile

from mtkit.engine.opcodes import (
    PROGRAM_VERSION,
    Behavior,
    InvalidUtf8,
    Match,
    MatcherKind,
    NormalizerKind,
    PreTokenizerKind,
    Scheme,
    TokenFlag,
)
from mtkit.engine.program_writer import (
    NONE,
    category_set,
    named_set,
    numbers,
    punctuation_set,
    script_runs,
    text,
    u8,
    u32,
)
from mtkit.errors import ResourceError, UnsupportedError
from mtkit.pipeline.pre_tokenizers import DIGIT_GROUPS_UNICODE
from mtkit.spec import (
    components_of,
    models,
    normalizers,
    pre_tokenizers,
    replace,
    user_defined_pieces,
)
from mtkit.spec.text import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.engine.program_writer import Edges
    from mtkit.spec import AddedTokens, TokenizerSpec
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.post_processors import PostProcessor
    from mtkit.spec.pre_tokenizers import PreTokenizer
    from mtkit.spec.text import Pattern


def takes_raw_bytes(model: models.Model) -> bool:
    """Tell whether a model does the same with bytes as with the letters that stand for them."""
    if isinstance(model, models.BPE):
        affixes = model.continuing_subword_prefix or model.end_of_word_suffix
        return not (affixes or model.byte_fallback)
    return isinstance(model, models.RankBPE)


def changes_after_spaces(spec: TokenizerSpec, steps: Iterable[object]) -> bool:
    """Tell whether a later step depends on what the characters that ``Spaces`` wrote stand for."""
    before = [isinstance(step, normalizers.Spaces) for step in components_of(spec.normalizer)]
    depends = (pre_tokenizers.ByteLevel, pre_tokenizers.Metaspace)
    return any(before[:-1]) or (any(before) and any(isinstance(step, depends) for step in steps))


def character_kind_step(component: PreTokenizer) -> bytes:
    """Return the step of one of them."""
    if isinstance(component, pre_tokenizers.UnicodeScripts):
        return u8(PreTokenizerKind.SCRIPTS) + numbers(script_runs())
    if isinstance(component, pre_tokenizers.DigitGroups):
        return u8(PreTokenizerKind.DIGIT_GROUPS) + numbers(category_set(DIGIT_GROUPS_UNICODE, "N"))
    raise UnsupportedError(f"the core has no step for {type(component).__name__}")


def special_id_frame(component: PostProcessor | None, *, add: bool) -> bytes:
    """Return the ids around one text, NONE in its places, as the pipeline lays them out.

    What adds too much is left to the pipeline, which says so, and so is what repeats its text more
    often than that may grow: how long the text is, is not known here.
    """
    from mtkit.pipeline.encoding import Tokens
    from mtkit.pipeline.growth import GROWTH_FACTOR
    from mtkit.pipeline.post_processors import post_process

    try:
        framed = post_process(component, [Tokens([NONE], [""], [(0, 0)])], add_special_tokens=add)
    except (ResourceError, UnsupportedError):
        return u8(0) + numbers(())  # for every text; the pipeline says why
    if framed.ids.count(NONE) > GROWTH_FACTOR:
        return u8(0) + numbers(())
    return u8(1) + numbers(framed.ids)


MOST_STEPS = 1 << 25
"""Bytes of a stage's steps: each has its tables, and a sequence may repeat them."""


class Program:
    """Compiles one specification.

    Attributes:
        raw: The model gets raw bytes: its last step before would be the byte alphabet.
    """

    def __init__(self, spec: TokenizerSpec) -> None:
        self.spec = spec
        self.sections: dict[str, bytes] = {}
        self.patterns: dict[Pattern, int] = {}
        self._steps = steps = list(components_of(spec.pre_tokenizer))
        self.raw = (
            bool(steps)
            and isinstance(steps[-1], pre_tokenizers.ByteLevel)
            and takes_raw_bytes(spec.model)
        )
        if changes_after_spaces(spec, steps):
            raise UnsupportedError("the core does not know where text behind Spaces came from")

    def compile(self, model: bytes, *, cacheable: bool) -> bytes:
        """Return the program with the model's part put in."""
        spec = self.spec
        return b"".join(
            [
                u32(PROGRAM_VERSION),
                u8(InvalidUtf8[spec.invalid_utf8.upper()]),
                u8(self.raw),
                u8(cacheable),
                self._added(spec.added_tokens),
                self.normalizer(spec.normalizer) if spec.normalizer else u8(NormalizerKind.NOTHING),
                self._pre_tokenizer(),
                model,
                numbers(spec.prefix_ids),
                special_id_frame(spec.post_processor, add=True),
                special_id_frame(spec.post_processor, add=False),
            ]
        )

    def _added(self, added: AddedTokens) -> bytes:
        from mtkit.pipeline.added_tokens import Cutter
        from mtkit.pipeline.normalizers import compile_normalizer

        normalize = None
        if self.spec.normalizer and any(token.normalized for token in added.tokens):
            normalize = compile_normalizer(self.spec.normalizer, user_defined_pieces(self.spec))
        contents = Cutter(added, normalize).normalized
        special = {token.content for token in added.tokens if token.special}
        by_content = added.match != "longest_first"
        tokens = list(added.tokens)
        entries = []
        for token in tokens:
            is_special = token.content in special if by_content else token.special
            flags = (
                TokenFlag.SINGLE_WORD * token.single_word
                | TokenFlag.LSTRIP * token.lstrip
                | TokenFlag.RSTRIP * token.rstrip
                | TokenFlag.NORMALIZED * token.normalized
                | TokenFlag.SPECIAL * is_special
                | TokenFlag.VANISHED * (token.normalized and contents.get(token.id) == "")
            )
            content = contents.get(token.id, "") if by_content else token.content
            entries.append(u32(token.id) + u8(flags) + text(content if token.content else b""))
        any_word = any(token.single_word for token in tokens)
        any_strip = any(token.lstrip or token.rstrip for token in tokens)
        space = "ascii_space" if added.strip == "ascii" else "white_space"
        return b"".join(
            [
                u8(Match[added.match.upper()]),
                u8(added.parse_special),
                numbers(named_set(space) if any_strip else ()),
                numbers(named_set("word") if any_word else ()),
                u32(len(entries)),
                *entries,
                u8(added.first is not None),
                self._added(added.first) if added.first else b"",
            ]
        )

    def _pre_tokenizer(self) -> bytes:
        steps = self._steps[:-1] if self.raw else self._steps
        joined = _bounded(self.pre_tokenizer(step) for step in steps)
        if self.raw:
            # Its last step is what the model's tables have undone.
            joined += self._byte_level_split(self._steps[-1])
        if not joined:
            return u8(PreTokenizerKind.NOTHING)
        if len(joined) == 1:
            return joined[0]
        return u8(PreTokenizerKind.SEQUENCE) + u32(len(joined)) + b"".join(joined)

    def inner(self, component: PreTokenizer) -> bytes:
        """Return a pre-tokenizer that a model has of its own, for texts as they stand."""
        plain = replace(self.spec, pre_tokenizer=component, normalizer=None)
        program = Program(plain)
        program.sections, program.patterns = self.sections, self.patterns
        return program._pre_tokenizer()

    def normalizer(self, component: Normalizer) -> bytes:
        """Return the steps of a normalizer as one."""
        steps = _bounded(self._normalizer_steps(step) for step in components_of(component))
        joined = u8(NormalizerKind.SEQUENCE) + u32(len(steps)) + b"".join(steps)
        return steps[0] if len(steps) == 1 else joined

    def _spells_bytes(self) -> bool:
        """Whether a pre-tokenizer writes characters as letters for their bytes."""
        return any(
            isinstance(s, pre_tokenizers.ByteLevel) for s in components_of(self.spec.pre_tokenizer)
        )

    def _normalizer_steps(self, component: Normalizer) -> list[bytes]:
        if isinstance(component, normalizers.Prepend):
            if not component.text and self._spells_bytes():
                # It unties the first character from the text: tokenizers' ByteLevel then writes
                # that character's bytes once more.
                raise UnsupportedError("the core does not prepend nothing")
            return [u8(NormalizerKind.PREPEND) + text(component.text) + u8(component.empty)]
        if isinstance(component, normalizers.Replace):
            matcher = self.matcher(component.pattern)
            return [u8(NormalizerKind.REPLACE) + matcher + text(component.content)]
        if isinstance(component, normalizers.Strip):
            space = "white_space" if component.white_space == "unicode" else "blank"
            sides = u8(component.left) + u8(component.right)
            return [u8(NormalizerKind.STRIP) + sides + numbers(named_set(space))]
        if isinstance(component, normalizers.ByteLevel):
            return [u8(NormalizerKind.BYTE_LEVEL)]
        if isinstance(component, normalizers.Spaces):
            return [self.spaces(component, user_defined_pieces(self.spec))]
        from mtkit.engine.unicode_steps import steps_of

        return steps_of(component)

    def spaces(self, component: normalizers.Spaces, pieces: Iterable[bytes]) -> bytes:
        """Return the step of ``Spaces``, which leaves some pieces as they are."""
        fixed = sorted(piece for piece in set(pieces) if piece)
        return b"".join(
            [
                u8(NormalizerKind.SPACES),
                u8(component.add_dummy_prefix),
                u8(component.remove_extra_whitespaces),
                u8(component.escape_whitespaces),
                u8(component.suffix),
                u8(component.keep == "paths"),
                u8(component.prefix == "word"),
                text(component.charsmap),
                u32(len(fixed)),
                *map(text, fixed),
            ]
        )

    def matcher(self, pattern: Pattern) -> bytes:
        """Return what finds a pattern."""
        if isinstance(pattern, Text) and pattern.text:
            return u8(MatcherKind.TEXT) + text(pattern.text)
        if pattern not in self.patterns:
            from mtkit.patterns.matcher import compile_pattern

            tables = compile_pattern(pattern).tables
            number = self.patterns[pattern] = len(self.patterns)
            self.sections[f"PT{number:02d}"] = tables
        return u8(MatcherKind.PATTERN) + u32(self.patterns[pattern])

    def pre_tokenizer(self, component: PreTokenizer) -> list[bytes]:
        """Return the steps of a pre-tokenizer that is not a sequence."""
        if isinstance(component, pre_tokenizers.ByteLevel):
            return [*self._byte_level_split(component), u8(PreTokenizerKind.MAP_BYTES)]
        if isinstance(component, pre_tokenizers.Metaspace):
            scheme = Scheme[component.prepend_scheme.upper()]
            if scheme is Scheme.FIRST and self._cuts_what_was_one(component):
                scheme = Scheme.FIRST_BY_EXTENT
            options = u8(scheme) + u8(component.split)
            return [u8(PreTokenizerKind.METASPACE) + text(component.replacement) + options]
        if isinstance(component, pre_tokenizers.MarkSpaces):
            return [
                u8(PreTokenizerKind.MARK_SPACES)
                + text(component.replacement)
                + u8(component.prefix)
            ]
        if isinstance(component, pre_tokenizers.Bert):
            return [
                self._split_set(named_set("white_space"), "removed"),
                self._split_set(punctuation_set(component.unicode), "isolated"),
            ]
        if isinstance(component, pre_tokenizers.Split):
            return [
                self._split(
                    self.matcher(component.pattern), component.behavior, invert=component.invert
                )
            ]
        if isinstance(component, pre_tokenizers.Punctuation):
            return [self._split_set(punctuation_set("8.0"), component.behavior)]
        if isinstance(component, pre_tokenizers.Digits):
            return [
                self._split_set(
                    named_set("number"), "isolated" if component.individual else "contiguous"
                )
            ]
        if isinstance(component, pre_tokenizers.Whitespace):
            word, space = named_set("word"), named_set("white_space")
            runs = u8(MatcherKind.WORD_RUNS) + numbers(word) + numbers(space)
            return [self._split(runs, "removed", invert=True)]
        if isinstance(component, pre_tokenizers.WhitespaceSplit):
            return [self._split_set(named_set("white_space"), "removed")]
        if isinstance(component, pre_tokenizers.CharDelimiterSplit):
            return [self._split(u8(MatcherKind.TEXT) + text(component.delimiter), "removed")]
        if isinstance(component, pre_tokenizers.FixedLength) and component.length:
            return [u8(PreTokenizerKind.FIXED_LENGTH) + u32(component.length)]
        return [character_kind_step(component)]

    def _cuts_what_was_one(self, component: PreTokenizer) -> bool:
        """Tell whether parts of what one character became can come apart before a step."""
        steps = list(takewhile(lambda step: step is not component, self._steps))
        if self.spec.normalizer is None:
            # Letters for bytes can come apart behind them, what is put in front at once.
            writing = (pre_tokenizers.ByteLevel, pre_tokenizers.Metaspace)
            return any(isinstance(step, writing) for step in steps)
        added = self.spec.added_tokens.tokens
        return bool(steps) or any(token.normalized for token in added)

    def _byte_level_split(self, component: PreTokenizer) -> list[bytes]:
        assert isinstance(component, pre_tokenizers.ByteLevel)
        steps = [u8(PreTokenizerKind.PREFIX_SPACE)] if component.add_prefix_space else []
        if component.use_regex:
            from mtkit.pipeline.pre_tokenizers import GPT2

            steps.append(self._split(self.matcher(GPT2), "isolated"))
        return steps

    def _split_set(self, edges: Edges, behavior: pre_tokenizers.Behavior) -> bytes:
        return self._split(u8(MatcherKind.SET) + numbers(edges), behavior)

    def _split(
        self, matcher: bytes, behavior: pre_tokenizers.Behavior, *, invert: bool = False
    ) -> bytes:
        return u8(PreTokenizerKind.SPLIT) + matcher + u8(Behavior[behavior.upper()]) + u8(invert)


def _bounded(parts: Iterable[list[bytes]]) -> list[bytes]:
    """Return all steps of components, as long as they are not too long."""
    steps, size = [], 0
    for part in parts:
        steps += part
        size += sum(map(len, part))
        if size > MOST_STEPS:
            raise UnsupportedError(f"the core takes steps of {MOST_STEPS} bytes at most")
    return steps
