"""Writing vocab.json and merges.txt, and what tokenizer_config.json must say besides.

Source: huggingface/transformers 5, tokenization_utils_tokenizers.py (``TokenizersBackend``: an
added token that vocab.json lacks gets the next free id, whatever id the files have for it).
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.errors import UnsupportedError
from mtkit.formats.added_tokens import CONFIG
from mtkit.formats.contract import Loss, Written
from mtkit.formats.remainder import with_remainder
from mtkit.formats.tokenizer_class import role_settings
from mtkit.formats.vocab_merges.classes import GPT2, QWEN2, ROBERTA, Family, template
from mtkit.spec import TokenType, models, post_processors, pre_tokenizers, replace
from mtkit.spec.model_names import model_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from mtkit.base.packed import Pieces
    from mtkit.formats.contract import Reading
    from mtkit.formats.remainder import Rule
    from mtkit.spec import SpecialIds, TokenizerSpec


def write_spec(spec: TokenizerSpec, title: str, read: Callable[[Source], Reading]) -> Written:
    """Write a specification.

    Args:
        spec: What is written.
        title: Name of the format, for messages.
        read: Its reader.

    Raises:
        UnsupportedError: It is another model, or a merge cannot stand in a line.
    """
    import json

    model = spec.model
    if not isinstance(model, models.BPE):
        raise UnsupportedError(f"{title} store BPE by merges, not {model_name(model)}")
    if model.merges.unlisted:
        raise UnsupportedError("a merge has a part that is not a token")
    family = _family_of(spec)
    vocab = {
        piece: number
        for number, piece in enumerate(spec.vocabulary.pieces)
        if spec.vocabulary.type_of(number) is not TokenType.ABSENT
    }
    merges = _lines(model.merges, spec.vocabulary.pieces, vocab)
    # Where its next free id is another one, an added token has to be in vocab.json.
    free = set(range(spec.vocab_size)) - set(vocab.values())
    more = {t.content: t.id for t in spec.added_tokens.tokens if t.id in free} | vocab
    for ids in (vocab, more):
        texts = {_text(piece): number for piece, number in ids.items()}
        files = {
            "vocab.json": json.dumps(texts, ensure_ascii=False).encode("utf-8"),
            "merges.txt": merges,
        }
        settings = _settings(spec, family, ids)
        if settings:
            settings["tokenizer_class"] = family.class_name
            files[CONFIG] = json.dumps(settings, ensure_ascii=False, indent=1).encode("utf-8")
        back = read(Source("vocab.json", files["vocab.json"], siblings=files)).spec
        if _numbers(spec).items() <= _numbers(back).items():
            break
    return Written(files, with_remainder(spec, back, rules=_RULES))


def _numbers(spec: TokenizerSpec) -> dict[bytes, int]:
    return {token.content: token.id for token in spec.added_tokens.tokens}


def _family_of(spec: TokenizerSpec) -> Family:
    """Return the class that comes nearest."""
    if isinstance(spec.post_processor, post_processors.Roberta):
        return ROBERTA
    same = spec.normalizer == QWEN2.normalizer and _untrimmed(spec) in (
        QWEN2.letters(False),
        QWEN2.letters(True),
    )
    return QWEN2 if same else GPT2


def _untrimmed(spec: TokenizerSpec) -> pre_tokenizers.PreTokenizer | None:
    """Return the pre-tokenizer as it is but for offsets."""
    found = spec.pre_tokenizer
    if isinstance(found, pre_tokenizers.ByteLevel):
        return replace(found, trim_offsets=True)
    if isinstance(found, pre_tokenizers.Sequence) and found.steps:
        last = found.steps[-1]
        if isinstance(last, pre_tokenizers.ByteLevel):
            steps = (*found.steps[:-1], replace(last, trim_offsets=True))
            return pre_tokenizers.Sequence(steps)
    return found


def _settings(spec: TokenizerSpec, family: Family, ids: Mapping[bytes, int]) -> dict[str, object]:
    """Return what tokenizer_config.json must say."""
    post, roles = spec.post_processor, spec.special_ids
    if isinstance(post, post_processors.Roberta):
        roles = replace(roles, sep=post.sep[1], cls=post.cls[1])
    settings = role_settings(spec, roles, family.roles, ids)
    if _untrimmed(spec) == family.letters(True):
        settings["add_prefix_space"] = True
    if isinstance(post, post_processors.Roberta) and not post.trim_offsets:
        settings["trim_offsets"] = False
    if isinstance(post, post_processors.Template):
        settings.update(_ends(post, spec.special_ids))
    return settings if settings or family is not GPT2 else {}


def _ends(post: post_processors.Template, roles: SpecialIds) -> dict[str, bool]:
    """Return the settings that make a template; none where no settings do."""
    names = {slot.ids[0]: slot.name for slot in post.single if len(slot.ids) == 1}
    texts = {
        role: names[number]
        for role, number in (("bos", roles.bos), ("eos", roles.eos))
        if number in names
    }
    for bos, eos in ((True, False), (False, True), (True, True)):
        if template(roles, texts, bos=bos, eos=eos) == post:
            return {"add_bos_token": bos, "add_eos_token": eos}
    return {}


def _lines(merges: models.Merges, pieces: Pieces, vocab: Mapping[bytes, int]) -> bytes:
    lines = [b"#version: 0.2\n"]
    for rank, (first, second) in enumerate(merges.pairs.pairs()):
        left, right = pieces[first], pieces[second]
        both = left + right
        if any(mark in both for mark in b" \n\r") or left.startswith(b"#version"):
            raise UnsupportedError(f"merge {rank} cannot stand in a line: {left!r} {right!r}")
        if both not in vocab:
            raise UnsupportedError(f"merge {rank} makes no token: {left!r} {right!r}")
        lines.append(left + b" " + right + b"\n")
    return b"".join(lines)


def _text(piece: bytes) -> str:
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        raise UnsupportedError(f"the token {piece!r} is not text") from None


def _pre_tokenizer(spec: TokenizerSpec, back: TokenizerSpec) -> Iterator[Loss]:
    if _untrimmed(spec) == back.pre_tokenizer:
        yield Loss("metadata", "pre_tokenizer", "offsets do not include leading spaces")
    else:
        yield Loss("ids", "pre_tokenizer", "text is split by the model class's own pattern")


_RULES: Mapping[str, Rule] = {
    "normalizer": ("ids", "text is normalized by the model class's own rules"),
    "pre_tokenizer": _pre_tokenizer,
    "model": ("ids", "options of the model other than the merges are not kept"),
}
"""What it means that a field does not come back."""
