"""A specification as a vocabulary-only GGUF that llama.cpp loads.

Tokens stand in the order of their ids, holes as unused placeholders. The file is read back, and
every field that does not come back is a loss.

Source: llama.cpp, src/llama-vocab.cpp (what it requires), conversion/base.py (placeholders).
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Written
from mtkit.formats.gguf.losses import losses_of
from mtkit.formats.gguf.metadata import EXTRA_NUMBERS, ID_KEYS, KINDS, Keys, default_ids
from mtkit.formats.gguf.plan import plan_of
from mtkit.formats.gguf.pre_tokenizers import NAMES
from mtkit.formats.gguf.reader import PREFIX, TEMPLATE, read_spec
from mtkit.formats.gguf.roles import architecture_of, extras_of, separates_pairs, text_ends
from mtkit.formats.gguf.vocabulary import spell_pieces
from mtkit.gguf import open_gguf
from mtkit.gguf.writer import Key, gguf_bytes
from mtkit.spec import TokenType, decoders
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS

TEMPLATES = "tokenizer.chat_templates"
"""Names of the templates besides the default one.

Source: ggml-org/llama.cpp, gguf-py/gguf/constants.py (``Keys.Tokenizer.CHAT_TEMPLATES``).
"""
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.formats.contract import WriteOptions
    from mtkit.formats.gguf.plan import Plan
    from mtkit.spec import ChatTemplate, TokenizerSpec


def write_spec(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a specification."""
    plan = plan_of(spec)
    texts = _texts(spec, plan)
    types = _types(spec, plan, len(texts))
    keys = [
        Key("general.architecture", "string", architecture_of(spec)),
        Key("general.name", "string", _name(spec, options)),
        Key(PREFIX + "model", "string", plan.model),
        Key(PREFIX + "pre", "string", plan.pre or str(extras_of(spec).get("pre", "default"))),
        Key(PREFIX + "tokens", "string[]", Pieces.of(texts)),
    ]
    if plan.scores is not None:
        lacking = [0.0] * (len(texts) - len(plan.scores))
        keys.append(Key(PREFIX + "scores", "f32[]", Numbers.of("f", [*plan.scores, *lacking])))
    keys.append(Key(PREFIX + "token_type", "i32[]", Numbers.of("i", types)))
    if plan.merges is not None:
        keys.append(Key(PREFIX + "merges", "string[]", Pieces.of(plan.merges)))
    if plan.charsmap:
        keys.append(Key(PREFIX + "precompiled_charsmap", "u8[]", Numbers("B", plan.charsmap)))
    keys += _roles(spec, plan, len(texts))
    keys += [Key(PREFIX + name, "bool", value) for name, value in plan.flags]
    for name in EXTRA_NUMBERS:
        number = extras_of(spec).get(name)
        if isinstance(number, int):
            keys.append(Key(PREFIX + name, "u32", number))
    keys += template_keys(spec.chat_templates)
    data = gguf_bytes(keys)
    try:
        back = read_spec(Keys(open_gguf(Source(".gguf", data)), {}))
    except FormatError as error:
        raise UnsupportedError(f"llama.cpp would refuse it: {error}") from None
    return Written(
        {".gguf": data}, losses_of(spec, back, plan), assumptions=tuple(_assumptions(spec, plan))
    )


def template_keys(templates: Sequence[ChatTemplate]) -> Iterator[Key]:
    """Yield the keys of chat templates."""
    names = sorted({template.name for template in templates} - {"default"})
    if names:
        yield Key(TEMPLATES, "string[]", names)
    for template in templates:
        suffix = "" if template.name == "default" else f".{template.name}"
        yield Key(TEMPLATE + suffix, "string", template.text)


def _assumptions(spec: TokenizerSpec, plan: Plan) -> Iterator[str]:
    """Yield what llama.cpp needs in the file although the specification does not say it."""
    extras = extras_of(spec)
    if plan.pre and extras.get("pre") != plan.pre:
        yield f'pre-tokenizer named "{plan.pre}" (its rules are the same)'
    if not extras.get("architecture"):
        yield f'architecture "{architecture_of(spec)}" (the tokenizer names none)'


def _name(spec: TokenizerSpec, options: WriteOptions) -> str:
    """Return the model's name, from which llama.cpp derives rules of special tokens."""
    name = options.name or spec.name
    takes_space = sum(token.rstrip for token in spec.added_tokens.tokens)
    is_phi = "phi-3" in name.lower() or "phi3" in name.lower()
    if takes_space > len(spec.added_tokens.tokens) // 2 and takes_space and not is_phi:
        return f"{name} phi-3".strip()
    if is_phi and not takes_space:
        return ""
    return name


def _texts(spec: TokenizerSpec, plan: Plan) -> list[bytes]:
    texts = list(spell_pieces(plan.model, spec.vocabulary.pieces))
    if plan.blanks:
        texts = [text.replace(b" ", MARK_BYTES) for text in texts]
    texts += [b""] * (spec.vocab_size - len(texts))
    holes = {number for number, piece in enumerate(texts) if not piece}
    if spec.vocabulary.types is not None:
        types = spec.vocabulary.types
        holes |= {number for number, kind in enumerate(types) if kind == TokenType.ABSENT}
    replaces_texts = decoders.Pieces("bytes") != spec.decoder
    for token in spec.added_tokens.tokens:
        if replaces_texts or token.id in holes:
            texts[token.id] = token.content
        holes.discard(token.id)
    others = set(texts)
    for number in sorted(holes):
        if texts[number].startswith(b"[EMPTY_"):
            continue
        text = b"[PAD%d]" % number
        texts[number] = text if text not in others else b"[PAD_%d]" % number
    if len(set(texts)) != len(texts):
        from collections import Counter

        twice = next(text for text, count in Counter(texts).items() if count > 1)
        what = f"two ids have the text {twice[:40].decode('utf-8', 'backslashreplace')!r}"
        raise UnsupportedError(what, field="vocabulary.pieces")
    return texts


def _types(spec: TokenizerSpec, plan: Plan, size: int) -> list[int]:
    """Return the GGUF type of every id."""
    vocabulary = spec.vocabulary
    stored = list(vocabulary.types) if vocabulary.types is not None else []
    types = [TokenType.NORMAL if plan.model else 0] * len(vocabulary)
    types = [*(stored or types), *[TokenType.ABSENT] * (size - len(vocabulary))]
    untyped = vocabulary.types is None or TokenType.BYTE not in stored
    if untyped and getattr(spec.model, "byte_fallback", False):
        ids = vocabulary.pieces.ids
        for text in BYTE_TOKENS:
            if text in ids:
                types[ids[text]] = TokenType.BYTE
    unk = spec.special_ids.unk
    from_llama = isinstance(spec.decoder, decoders.Pieces)
    for token in spec.added_tokens.tokens:
        typed = token.id < len(vocabulary) and types[token.id] != TokenType.ABSENT
        if from_llama and typed and vocabulary.types is not None:
            continue  # by its type it becomes an added token again
        kind = TokenType.CONTROL if token.special else TokenType.USER_DEFINED
        types[token.id] = kind
    if (
        unk is not None
        and unk < size
        and not from_llama
        and plan.model in {"llama", "t5", "plamo2"}
        and not (stored and stored[unk] == TokenType.CONTROL)  # as the files of a folder say
    ):
        types[unk] = TokenType.UNKNOWN
    return [TokenType.UNUSED if kind == TokenType.ABSENT else kind for kind in types]


def _roles(spec: TokenizerSpec, plan: Plan, size: int) -> list[Key]:
    """Return the keys of ids with a role, and which of them are added to texts."""
    ids = {role: getattr(spec.special_ids, role) for role in ID_KEYS}
    ends = text_ends(spec)
    first, last = ends or ((), ())
    add = {"bos": bool(first), "eos": bool(last)}
    if first:
        ids["bos"] = first[0]
    if last and plan.ends != "always":
        ids["eos"] = last[-1]
    if plan.ends == "always":
        _frame(spec, ids, last)
    usual = default_ids(KINDS[plan.model], NAMES.get(plan.pre), size)
    keys = [
        Key(PREFIX + ID_KEYS[role], "u32", number)
        for role, number in ids.items()
        if number is not None and number < size
        # An id that only the template needs has no key where it is the default.
        if getattr(spec.special_ids, role) is not None or usual.get(role) != number
    ]
    if plan.ends == "can":
        for role in ("bos", "eos"):
            if add[role] and ids[role] is None:
                raise UnsupportedError(f"there is no {role.upper()} to add", field="special_ids")
            keys.append(Key(f"{PREFIX}add_{role}_token", "bool", add[role]))
        separates = separates_pairs(spec)
        if separates or KINDS[plan.model].family == "bpe":
            keys.append(Key(PREFIX + "add_sep_token", "bool", separates))
    return keys


def _frame(spec: TokenizerSpec, ids: dict[str, int | None], last: tuple[int, ...]) -> None:
    """Set BOS and SEP, which llama.cpp puts around every text of this family."""
    if last:
        ids["sep"] = last[-1]
    if ids["bos"] is None:
        ids["bos"] = spec.special_ids.cls
    if ids["bos"] is None or ids["sep"] is None:
        what = "llama.cpp puts a token in front of and behind every text of this kind"
        raise UnsupportedError(what, field="special_ids")
