"""Writing a .mtok: the base for MNN's loader, and behind it the whole specification.

Of the tokens around a text, leading ones go into the header's prefix, trailing ones into the
post-processor program, so that no version of the loader adds one twice. Special tokens are written
longest first, as the loader takes the first that matches; those that strip white space are written
as added tokens alone, which the loader finds afterwards.
"""

from __future__ import annotations

from mtkit.base.record import Record, fields
from mtkit.errors import UnsupportedError
from mtkit.formats.contract import Losses, Written, other_spellings
from mtkit.formats.mtok.columns import Keeper
from mtkit.formats.mtok.component_writer import write_decoder, write_normalizer, write_pre_tokenizer
from mtkit.formats.mtok.extension import MUST_KNOW, append_extension
from mtkit.formats.mtok.layout import STRING_LIMIT, string, u8, u32
from mtkit.formats.mtok.model_writer import placeholder, write_model
from mtkit.formats.mtok.reader import SPEC_TAG, read_base_columns
from mtkit.spec import AddedToken, TokenType, decoders
from mtkit.spec import post_processors as po
from mtkit.spec.codec import encode
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import is_sparse
from mtkit.unicode.utf8 import letters_of_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtkit.formats.contract import Loss, WriteOptions
    from mtkit.spec import AddedTokens, TokenizerSpec
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.post_processors import PostProcessor, Slot


MAGIC_LINE = b"430 4\n"


class Base(Record):
    """A base and its losses.

    Attributes:
        forbidden_length: Number of bytes behind it that would make the loader misread it.
    """

    data: bytes
    losses: tuple[Loss, ...]
    forbidden_length: int | None


def write_base(spec: TokenizerSpec) -> Base:
    """Write the base of a specification."""
    losses = Losses()
    if spec.vocabulary.also:
        loss = other_spellings(spec)
        losses.add(loss.code, loss.field, loss.effect)
    pieces = dense_pieces(spec)
    body = write_normalizer(spec.normalizer, losses)
    body += write_pre_tokenizer(spec.pre_tokenizer, losses)
    body += write_model(spec, pieces, losses)
    body += write_decoder(spec, losses)
    body += _write_added_tokens(spec, losses)
    body += _write_texts(spec, pieces, losses)
    leading, trailing = _ids_around(spec, losses)
    count = 1 + len(trailing) if trailing else 0
    program = (u8(0) if trailing else b"") + b"".join(u8(1) + u32(each) for each in trailing)
    body += count.to_bytes(2, "little") + program
    _note_other_fields(spec, losses)
    stop = spec.special_ids.stop
    if not stop and spec.special_ids.eos is not None:
        stop = (spec.special_ids.eos,)
    data = _header(_special_ids(spec, pieces), stop, (*spec.prefix_ids, *leading)) + body
    forbidden = 4 * count - len(program) if count else None
    if forbidden == 0:
        # The loader would take exactly four bytes an entry for a list of ids: add a byte.
        data += b"\0"
        forbidden = None
    return Base(data, tuple(losses), forbidden)


def _header(special: list[int], stop: tuple[int, ...], prefix: tuple[int, ...]) -> bytes:
    counts = f"{len(special)} {len(stop)} {len(prefix)}\n"
    ids = " ".join(str(token_id) for token_id in (*special, *stop, *prefix))
    return MAGIC_LINE + counts.encode() + ids.encode() + b"\n"


def dense_pieces(spec: TokenizerSpec) -> list[bytes]:
    """Return the text of every id, those of added tokens and of holes included."""
    vocabulary = spec.vocabulary
    types = vocabulary.types
    pieces: list[bytes | None] = list(vocabulary.pieces)
    if types is not None:
        for token_id, kind in enumerate(types):
            if kind == TokenType.ABSENT:
                pieces[token_id] = None
    ids = [token.id for token in added_tokens(spec)]
    highest = max(ids, default=-1)
    if is_sparse(highest + 1, len(pieces) + len(ids)):
        raise UnsupportedError(f"the highest id is {highest}, but there are far fewer tokens")
    pieces += [None] * (highest + 1 - len(pieces))
    letters = spells_bytes(spec.decoder)
    for token in added_tokens(spec):
        if token.id >= 0 and pieces[token.id] is None and token.content:
            pieces[token.id] = (
                letters_of_bytes(token.content).encode() if letters else token.content
            )
    return [placeholder(i) if piece is None else piece for i, piece in enumerate(pieces)]


def spells_bytes(decoder: Decoder | None) -> bool:
    """Tell whether decoding maps letters of the byte alphabet back."""
    if isinstance(decoder, (decoders.Sequence, decoders.Bytewise)):
        return any(spells_bytes(step) for step in decoder.steps)
    if isinstance(decoder, decoders.Pieces):
        return decoder.spelling == "byte_alphabet"
    return isinstance(decoder, decoders.ByteLevel)


def added_tokens(spec: TokenizerSpec) -> Iterator[AddedToken]:
    """Yield the added tokens of all groups."""
    group: AddedTokens | None = spec.added_tokens
    while group is not None:
        yield from group.tokens
        group = group.first


def _special_ids(spec: TokenizerSpec, pieces: list[bytes]) -> list[int]:
    """Return the ids that the loader finds first, and skips in decoding."""
    greedy = {token.id for token in spec.added_tokens.tokens if token.lstrip or token.rstrip}
    special = {token.id for token in added_tokens(spec) if token.special}
    types = spec.vocabulary.types
    if types is not None:
        special |= {token_id for token_id, kind in enumerate(types) if kind == TokenType.CONTROL}
    ids = (token_id for token_id in special - greedy if 0 <= token_id < len(pieces))
    return sorted(ids, key=lambda token_id: (-len(pieces[token_id]), token_id))


def _write_added_tokens(spec: TokenizerSpec, losses: Losses) -> bytes:
    """Write u32 count, and per token u32 id, three flags and the content."""
    tokens = [token for token in spec.added_tokens.tokens if _is_written(token, spec.added_tokens)]
    _note_added_tokens(spec, tokens, losses)
    rows = [
        u32(token.id) + u8(token.special, token.lstrip, token.rstrip) + string(token.content)
        for token in (*tokens, *_user_defined_tokens(spec))
    ]
    return u32(len(rows)) + b"".join(rows)


def _is_written(token: AddedToken, group: AddedTokens) -> bool:
    is_found = group.parse_special or not token.special
    return is_found and 0 < len(token.content) <= STRING_LIMIT


def _user_defined_tokens(spec: TokenizerSpec) -> Iterator[AddedToken]:
    """Yield the user-defined pieces of the vocabulary, which the loader finds as added tokens."""
    ids = {token.id for token in spec.added_tokens.tokens}
    types = spec.vocabulary.types
    for token_id, kind in enumerate(types if types is not None else ()):
        if kind == TokenType.USER_DEFINED and token_id not in ids:
            piece = spec.vocabulary.pieces[token_id]
            if b" " not in piece:  # else never found: the normalized text has marks for spaces
                yield AddedToken(token_id, piece.replace(MARK_BYTES, b" "))


def _note_added_tokens(spec: TokenizerSpec, tokens: list[AddedToken], losses: Losses) -> None:
    group = spec.added_tokens
    letters = spells_bytes(spec.decoder)
    for token in tokens:
        if token.single_word:
            effect = "whole-word special tokens are also found inside words"
            losses.add("ids-special", "added_tokens", effect)
        if token.normalized and spec.normalizer is not None:
            effect = "added tokens are searched in the text before normalization"
            losses.add("ids-possible", "added_tokens", effect)
        if letters and not token.content.isascii():
            effect = "added tokens outside ASCII are decoded to their own text"
            losses.add("decoding", "added_tokens", effect)
    if not group.parse_special:
        effect = "special tokens that are spelled out in a text are recognized"
        losses.add("ids-special", "added_tokens.parse_special", effect)
    strips = any(token.lstrip or token.rstrip for token in group.tokens)
    has_other_rules = group.match != "leftmost_longest" or (strips and group.strip != "ascii")
    if group.tokens and has_other_rules:
        effect = "special tokens in a text are found and stripped by the loader's rules"
        losses.add("ids-special", "added_tokens", effect)


def _write_texts(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    """Write chat template, EOS text, flags and BOS text."""
    template = b""
    for number, chat in enumerate(spec.chat_templates):
        if chat.name == "default" or (number == 0 and len(spec.chat_templates) == 1):
            template = chat.text.encode("utf-8", "surrogateescape")
        else:
            losses.add("chat", "chat_templates", f"the template {chat.name!r} is not kept")
    contents = {token.id: token.content for token in added_tokens(spec)}

    def text(token_id: int | None) -> bytes:
        if token_id is None or not 0 <= token_id < len(pieces):
            return string(b"")
        return string(contents.get(token_id, pieces[token_id])[:STRING_LIMIT])

    clean = spec.clean_up_spaces not in {"none", "on_request"}
    if clean and spec.clean_up_spaces != "contractions":
        losses.add("decoding", "clean_up_spaces", "decoding drops spaces only in contractions")
    ids = spec.special_ids
    return u32(len(template)) + template + text(ids.eos) + u8(clean) + text(ids.bos)


def _ids_around(spec: TokenizerSpec, losses: Losses) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids in front of and behind a text."""
    leading: list[int] = []
    trailing: list[int] = []
    texts = 0
    for slot in _slots(spec.post_processor, losses):
        if slot.text is None:
            (trailing if texts else leading).extend(slot.ids)
        else:
            texts += 1
    if spec.post_processor is not None and texts != 1:
        effect = "tokens are added around a text only once, with the text in the middle"
        losses.add("ids", "post_processor", effect)
    post = spec.post_processor
    if isinstance(post, (po.Bert, po.Roberta)) or (isinstance(post, po.Template) and post.pair):
        effect = "rules for text pairs and type ids are not kept"
        losses.add("metadata", "post_processor.pair", effect)
    return tuple(leading), tuple(trailing)


def _slots(component: PostProcessor | None, losses: Losses) -> tuple[Slot, ...]:
    text = po.Slot(text=0)
    match component:
        case po.Template():
            return component.single
        case po.Bert() | po.Roberta():
            return (po.Slot(ids=(component.cls[1],)), text, po.Slot(ids=(component.sep[1],)))
        case po.Sequence():
            slots: tuple[Slot, ...] = (text,)
            for step in component.steps:
                inner = _slots(step, losses)
                at = next((i for i, slot in enumerate(slots) if slot.text is not None), None)
                if at is not None and inner != (text,):
                    slots = (*slots[:at], *inner, *slots[at + 1 :])
            return slots
        case _:
            return (text,)


def _note_other_fields(spec: TokenizerSpec, losses: Losses) -> None:
    """Add the losses of fields that the base has no place for."""
    if spec.truncation is not None:
        losses.add("metadata", "truncation", "the setting is not kept")
    if spec.padding is not None:
        losses.add("metadata", "padding", "the setting is not kept")
    if spec.invalid_utf8 != "keep":
        effect = "text that is not valid UTF-8 is encoded byte by byte"
        losses.add("ids-special", "invalid_utf8", effect)
    roles = [
        name
        for name in fields(spec.special_ids)
        if name not in {"bos", "eos", "unk", "stop"} and getattr(spec.special_ids, name) is not None
    ]
    if roles:
        losses.add("metadata", "special_ids", f"not kept: {', '.join(roles)}")
    if spec.extras:
        losses.add("metadata", "extras", "settings that only the source format has are not kept")


SUFFIX = ".mtok"


def write_file(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a file; with the extension it has no losses."""
    base = write_base(spec)
    if not options.extension:
        return Written({SUFFIX: base.data}, base.losses)
    keeper = Keeper(read_base_columns(base.data))
    content = spec_section(spec, keeper)
    parts = [(SPEC_TAG, MUST_KNOW, content)]
    parts += [(tag, MUST_KNOW, column) for tag, column in keeper.sections.items()]
    tables = make_tables(spec, dict(options.values).get("tables", ""))
    parts += [(tag, 0, table) for tag, table in tables.items()]
    data = append_extension(base.data, parts, forbidden_length=base.forbidden_length)
    return Written({SUFFIX: data}, partial=(("mnn", base.losses),))


def make_tables(spec: TokenizerSpec, choice: str) -> Mapping[str, bytes]:
    """Return the engine's tables: none for "no", required for "yes", else if possible."""
    if choice == "no":
        return {}
    from mtkit.engine import stored_tables

    try:
        return stored_tables(spec)
    except (ImportError, UnsupportedError) as error:
        if choice != "yes":
            return {}
        if isinstance(error, UnsupportedError):
            raise
        raise UnsupportedError("tables are made by the native core, which is not here") from None


def spec_section(spec: TokenizerSpec, keeper: Keeper) -> bytes:
    """Return the canonical JSON of a specification, its long columns in other sections."""
    import json

    document = encode(spec, brief=True, keep=keeper.keep)
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogatepass")
