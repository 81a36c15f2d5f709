"""Reading a .mtok: the specification in its extension, or the base as MNN's loader reads it.

The base: header lines, normalizer, pre-tokenizer, model, decoder, added tokens; then blocks as long
as bytes are left: chat template, eos text, flags, bos text, post-processor program. There are no
section lengths: every part has to be read to find the next.

The loader checks no bounds in front of the tail and reads a truncated file at random; here a file
that ends anywhere but between two blocks is damaged. docs/formats/mtok.md has every deviation.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, by its behavior.
"""

from __future__ import annotations

from mtkit.base.binary import Reader
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Reading
from mtkit.formats.mnn_header import read_header
from mtkit.formats.mtok.columns import BaseColumns, Fetcher
from mtkit.formats.mtok.component_reader import read_decoder, read_normalizer, read_pre_tokenizer
from mtkit.formats.mtok.extension import (
    MUST_KNOW,
    base_alone,
    begins_extension,
    find_extension,
    verify_checksums,
)
from mtkit.formats.mtok.layout import read_string
from mtkit.formats.mtok.model_reader import read_columns, read_model
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    ChatTemplate,
    SpecialIds,
    TokenizerSpec,
    components_of,
    pre_tokenizers,
)
from mtkit.spec.decoders import Bytewise
from mtkit.spec.post_processors import Slot, Template

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.formats.mnn_header import Header
    from mtkit.formats.mtok.extension import Extension
    from mtkit.formats.mtok.model_reader import ModelReading
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.pre_tokenizers import PreTokenizer


BASE_KIND = 4
PROGRAM_TEXT, PROGRAM_ID = 0, 1
CLEAN_UP_FLAG = 1


class BaseTail(Record):
    """The optional blocks at the end."""

    template: bytes = b""
    eos: bytes = b""
    flags: int = 0
    bos: bytes = b""
    program: tuple[int | None, ...] = ()
    """Ids, and None for the text; empty: no program."""


class BaseParts(Record):
    """A file, part by part; ``end`` is the offset behind the last byte that is read."""

    header: Header
    normalizer: Normalizer | None
    pre_tokenizer: PreTokenizer | None
    model: ModelReading
    decoder: Decoder | None
    added: list[AddedToken]
    tail: BaseTail
    end: int


def read_base(data: Buffer) -> Reading:
    """Read a base file."""
    return Reading(spec_of_base(read_base_parts(data)))


def spec_of_base(parts: BaseParts) -> TokenizerSpec:
    """Return the specification of the parts of a file."""
    header, model, tail = parts.header, parts.model, parts.tail
    pre_tokenizer = parts.pre_tokenizer
    if model.byte_level:
        letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        before = () if pre_tokenizer is None else (pre_tokenizer,)
        pre_tokenizer = pre_tokenizers.Sequence((*before, letters))
    chain = Bytewise(tuple(components_of(parts.decoder)), model.unknown)
    tokens = _added_tokens(header, model, chain, parts.added)
    return TokenizerSpec(
        vocabulary=model.vocabulary,
        model=model.model,
        normalizer=parts.normalizer,
        pre_tokenizer=pre_tokenizer,
        post_processor=_post_processor(tail.program),
        decoder=chain,
        added_tokens=tokens,
        special_ids=_special_ids(header, model, parts.added, tail),
        chat_templates=(
            (ChatTemplate("default", tail.template.decode("utf-8", "surrogateescape")),)
            if tail.template
            else ()
        ),
        invalid_utf8="keep",
        clean_up_spaces="contractions" if tail.flags & CLEAN_UP_FLAG else "none",
        join="",
        prefix_ids=header.prefix,
    )


def read_base_parts(data: Buffer) -> BaseParts:
    """Read a base part by part."""
    header = read_header(data)
    if header.kind != BASE_KIND:
        raise FormatError(f"is {header.kind}, not {BASE_KIND}", field="kind", offset=0)
    reader = Reader(data, offset=header.end)
    return BaseParts(
        header,
        read_normalizer(reader),
        read_pre_tokenizer(reader),
        read_model(reader),
        read_decoder(reader),
        _read_added(reader),
        _read_tail(reader),
        reader.offset,
    )


def _read_added(reader: Reader) -> list[AddedToken]:
    at = reader.offset
    count = reader.count(reader.u32("added token count"), 9, "added token count", at)
    tokens = []
    for _ in range(count):
        at = reader.offset
        token_id = reader.u32("added token id")
        if token_id >= 1 << 31:
            raise FormatError(f"{token_id} is not a token id", field="added token id", offset=at)
        special, lstrip, rstrip = (reader.u8("added token flags") != 0 for _ in range(3))
        content = read_string(reader, "added token content")
        tokens.append(AddedToken(token_id, content, lstrip=lstrip, rstrip=rstrip, special=special))
    return tokens


def _read_tail(reader: Reader) -> BaseTail:
    """Read the blocks up to the end of the file."""
    values: dict[str, Any] = {}
    if reader.left:
        values["template"] = reader.take(reader.u32("chat template length"), "chat template")
    if reader.left:
        values["eos"] = read_string(reader, "eos text")
    if reader.left:
        values["flags"] = reader.u8("flags")
    if reader.left:
        values["bos"] = read_string(reader, "bos text")
    if reader.left:
        values["program"] = _read_program(reader)
    return BaseTail(**values)


def _read_program(reader: Reader) -> tuple[int | None, ...]:
    """Read u16 count and the operations.

    Files of a few weeks in 2026 have u32 ids there, to be put behind the text. The loader assumes
    that form whenever exactly four bytes an entry are left in the file.
    """
    count = reader.u16("program size")
    if count and reader.left == 4 * count:
        return (None, *(reader.i32("program id") for _ in range(count)))
    program: list[int | None] = []
    for _ in range(count):
        operation = reader.u8("program operation")
        if operation == PROGRAM_TEXT:
            program.append(None)
        elif operation == PROGRAM_ID:
            program.append(reader.i32("program id"))
        else:
            break  # the loader stops here and keeps the operations so far
    return tuple(program)


def _post_processor(program: tuple[int | None, ...]) -> Template | None:
    if not program:
        return None
    slots = (Slot(text=0) if each is None else Slot(ids=(each,)) for each in program)
    once = program.count(None) == 1
    return Template(tuple(slots), without="texts" if once else "text")


def _added_tokens(
    header: Header, model: ModelReading, chain: Bytewise, added: list[AddedToken]
) -> AddedTokens:
    """Return the two groups: the texts of the header's special ids, then the added tokens.

    Only the header's list makes a token special; the flag of an added token has no effect.
    """
    from mtkit.pipeline.byte_decoders import single_piece_text

    special = frozenset(header.special)
    pieces = model.vocabulary.pieces
    listed = []
    for token_id in header.special:
        piece = pieces[token_id] if 0 <= token_id < len(pieces) else model.unknown
        listed.append(AddedToken(token_id, single_piece_text(chain, piece), special=True))
    first = AddedTokens(tuple(listed), match="first_listed") if listed else None
    tokens = tuple(
        AddedToken(
            token.id,
            token.content,
            lstrip=token.lstrip,
            rstrip=token.rstrip,
            special=token.id in special,
        )
        for token in added
    )
    return AddedTokens(tokens, strip="ascii", first=first)


def _special_ids(
    header: Header, model: ModelReading, added: list[AddedToken], tail: BaseTail
) -> SpecialIds:
    names = {token.content: token.id for token in reversed(added)}

    def id_of(text: bytes) -> int | None:
        return names.get(text, model.vocabulary.ids.get(text)) if text else None

    return SpecialIds(
        bos=id_of(tail.bos),
        eos=id_of(tail.eos),
        unk=model.unk,
        stop=tuple(sorted(set(header.stop))),
    )


SPEC_TAG = "SPEC"
COLUMN_TAGS = ("VOCB", "TYPE", "SCOR", "MERG", "UNLS", "CMAP", "C")
"""Beginnings of the tags of columns (``columns``)."""


def read_file(data: Buffer) -> Reading:
    """Read a whole file."""
    extension = find_extension(data)
    if extension is None:
        view = memoryview(data).cast("B")
        parts = read_base_parts(data)
        if begins_extension(view[parts.end :]):
            raise FormatError(
                "ends before its foot",
                field="extension",
                offset=len(view),
                hint=f"the file is cut; {base_alone()}",
            )
        return Reading(spec_of_base(parts))
    verify_checksums(data, extension)
    return Reading(read_spec(data, extension))


def read_spec(data: Buffer, extension: Extension) -> TokenizerSpec:
    """Decode the specification that an extension holds."""
    import json

    from mtkit.spec import TokenizerSpec
    from mtkit.spec.codec import decode

    for tag, flags in extension.flags.items():
        if flags & MUST_KNOW and not tag.startswith((SPEC_TAG, *COLUMN_TAGS)):
            what = f"section {tag} is not known"
            raise UnsupportedError(what, hint="a newer mtkit wrote the file")
    content = extension.sections.get(SPEC_TAG)
    if content is None:
        raise FormatError("is missing", field=f"extension section {SPEC_TAG}")
    try:
        document = json.loads(bytes(content).decode("utf-8", "surrogatepass"))
    except (ValueError, RecursionError):
        raise FormatError("is not JSON", field=f"extension section {SPEC_TAG}") from None
    base = memoryview(data).cast("B")[: extension.base_length]
    columns: list[BaseColumns] = []

    def base_columns() -> BaseColumns:
        if not columns:
            columns.append(read_base_columns(base))
        return columns[0]

    spec = decode(document, TokenizerSpec, fetch=Fetcher(extension.sections, base_columns).fetch)
    assert isinstance(spec, TokenizerSpec)
    return spec


def read_base_columns(base: Buffer) -> BaseColumns:
    """Read the columns of a base alone."""
    reader = Reader(base, offset=read_header(base).end)
    read_normalizer(reader)
    read_pre_tokenizer(reader)
    return read_columns(reader)
