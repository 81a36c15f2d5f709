"""``mtkit encode``: text to ids.

A plain command line comes here without typer (``commands.plain_line``); of any other, ``command``
has typer read it. The options are ``ENCODE_OPTIONS`` of
``commands.options``.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import chain

from mtkit.commands.inputs import find_model, load_tokenizer, open_texts, read_lines, special_mode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtkit.errors import MtkitError
    from mtkit.pipeline.encoding import Encoding
    from mtkit.tokenizer.tokenizer import Tokenizer

    Ids = tuple[list[int], list[int] | memoryview, list[int]]

    """Ids before a text, of the text (of a long one not each a Python object), and after it."""


_SHORT_BYTES = 1 << 16
"""Of a text whose ids are a list, which is made sooner than a buffer."""


def run(
    *,
    text: str | None = None,
    tokenizer: str | None = None,
    prompt: str | None = None,
    files: list[str] | None = None,
    messages: str | None = None,
    lines: bool = False,
    only_ids: bool = False,
    only_tokens: bool = False,
    count: bool = False,
    offsets: bool = False,
    truncate: int | None = None,
    no_special: bool = False,
    no_parse_special: bool = False,
    parse_special: bool = False,
    bos: bool = False,
    eos: bool = False,
    encoding: str | None = None,
    as_reader: str | None = None,
    trace: bool = False,
    download: bool = False,
    verify_tables: bool = False,
    as_json: bool = False,
) -> None:
    """Encode text to token ids.

    On a terminal, the output is a table of ids, tokens and bytes; piped output is the ids on one
    line. --messages encodes a whole chat as `mtkit template --ids` does, up to the beginning of the
    answer.

    \b
    Examples:
      mtkit encode "Hello, MNN!"
      mtkit encode "Hello, MNN!" -t tokenizer.json --trace
      mtkit encode --messages chat.json --count -t model.gguf
      mtkit encode -f book.txt --truncate 512 -t model.gguf | mtkit decode -t model.gguf
    """
    from mtkit.errors import NoToken, UsageError

    special = special_mode(parse_special, no_parse_special)
    if truncate is not None and truncate < 0:
        raise UsageError(f"is {truncate}, but must be 0 or more", field="--truncate")
    if sum((only_ids, only_tokens, count, offsets, trace)) > 1:
        raise UsageError("give only one of --ids, --tokens, --count, --offsets and --trace")
    if trace and (bos or eos or truncate is not None):
        what = "--trace shows the file's own template, without --bos, --eos and --truncate"
        raise UsageError(what)
    if messages is not None and (lines or bos or eos or any((text, prompt, files))):
        what = "--messages cannot be combined with TEXT, --prompt, --file, --lines, --bos or --eos"
        raise UsageError(what)
    template = not (no_special or bos or eos or messages is not None)
    if messages is not None and tokenizer is None:
        tokenizer = find_model(None)  # whose template it is, as of ``mtkit template``
    source = load_tokenizer(
        tokenizer,
        reader=as_reader,
        encoding=encoding,
        download=download,
        verify_tables=verify_tables,
    )
    texts = _TextGroups(text, prompt, files, lines=lines)
    if messages is None:
        groups = iter(texts)
    else:
        from mtkit.commands.arguments import render_messages

        groups = iter([[render_messages(source, messages)]])
    try:
        if trace:
            from mtkit.commands.trace import show_trace

            for one in chain.from_iterable(groups):
                show_trace(
                    source.trace(one, add_special_tokens=template, parse_special=special),
                    as_json=as_json,
                )
            return
        from mtkit.commands import output

        to_ids, to_encoding = _encoders(source, template, special, truncate, bos=bos, eos=eos)
        if count and len(files or ()) > 1 and not lines:
            from mtkit.commands.count import show_counts

            named = zip(files or (), chain.from_iterable(groups), strict=True)
            counts = [(name, sum(map(len, to_ids(one)))) for name, one in named]
            show_counts(counts, as_json=as_json)
            return
        plain = only_ids or not output.is_terminal()
        if count or (plain and not (as_json or only_tokens or offsets)):
            if lines and not (count or bos or eos) and truncate is None:
                for group in groups:
                    found = source.encode_batch_ids(
                        group, add_special_tokens=template, parse_special=special
                    )
                    output.write("".join(" ".join(map(str, ids)) + "\n" for ids in found))
                return
            for group in groups:
                _write_numbers(map(to_ids, group), count=count, as_json=as_json, lines=lines)
            return
        form = "json" if as_json else "tokens" if only_tokens else "offsets" if offsets else "table"
        printer = _Printer(source, to_encoding, form)
        for one in chain.from_iterable(groups):
            printer.print(one)
    except (UsageError, NoToken) as error:
        if lines:
            texts.name_line(error, partial(source.encode_ids, parse_special=special))
        if isinstance(error, UsageError):
            error.located(texts.file)
        raise error from None


def _write_numbers(texts: Iterator[Ids], *, count: bool, as_json: bool, lines: bool) -> None:
    """Write the ids of each text, or their number; those of lines together."""
    from mtkit.commands import output

    if count and as_json:
        for ids in texts:
            output.write_json({"schema": "mtkit.encode/1", "count": sum(map(len, ids))})
    elif count:
        output.write("".join(f"{sum(map(len, ids))}\n" for ids in texts))
    elif lines:
        output.write("".join(" ".join(map(str, chain(*ids))) + "\n" for ids in texts))
    else:
        for ids in texts:
            output.write_numbers(ids)


class _TextGroups:
    """The texts that are to be encoded: whole ones one by one, lines as they come.

    Attributes:
        file: Where the last one comes from; "" for the command line and a pipe.
        before: How many lines of the file came before them.
    """

    def __init__(
        self,
        text: str | None,
        prompt: str | None,
        files: Sequence[str] | None,
        *,
        lines: bool,
    ) -> None:
        self.text = text
        self.prompt = prompt
        self.files = files
        self.lines = lines
        self.file = ""
        self.group: list[bytes] = []
        self.before = 0

    def __iter__(self) -> Iterator[list[bytes]]:
        if self.text is not None and os.path.isfile(self.text):
            sys.stderr.write("mtkit: the text is the name of a file; --file reads the file\n")
        hint = 'mtkit encode "Hello, MNN!" or --file FILE'
        for name, content in open_texts(self.text, self.prompt, self.files, hint):
            self.file = name if name != "-" else ""
            if self.lines:
                self.before = 0
                for self.group in read_lines(content):
                    yield self.group
                    self.before += len(self.group)
            else:
                yield [content if isinstance(content, bytes) else content.read()]

    def name_line(self, error: MtkitError, encode: Callable[[bytes], object]) -> None:
        """Say which line an error is about."""
        from mtkit.tokenizer.tokenizer import first_refused

        if not error.is_about_text:
            return
        number = first_refused(((line,) for line in self.group), encode)
        if number is not None:
            of_file = f" of {self.file}" if error.source and self.file else ""
            error.which = f"line {self.before + number + 1}{of_file}"


class _Printer:
    """Prints encodings in the form that the options ask for."""

    def __init__(
        self, tokenizer: Tokenizer, encode: Callable[[str | bytes], Encoding], form: str
    ) -> None:
        self.tokenizer = tokenizer
        self.encode = encode
        self.form = form

    def print(self, text: str | bytes) -> None:
        """Encode one text and print it."""
        from mtkit.base.escape import byte_escapes, escape
        from mtkit.commands import output

        encoding = self.encode(text)
        if self.form == "tokens" and output.is_terminal():
            from mtkit.commands.terminal import token_text

            raw = map(self.tokenizer.token_bytes, encoding.ids)
            output.write(" ".join(map(token_text, raw)) + "\n")
        elif self.form == "tokens":
            output.write(" ".join(map(escape, encoding.tokens)) + "\n")
        elif self.form == "offsets":
            rows = zip(encoding.ids, encoding.offsets, encoding.tokens, strict=True)
            output.write_rows((i, start, end, token) for i, (start, end), token in rows)
        elif self.form == "json":
            output.write_json(
                {
                    "schema": "mtkit.encode/1",
                    "ids": encoding.ids,
                    "tokens": [byte_escapes(token) for token in encoding.tokens],
                    "offsets": encoding.offsets,
                    "special_tokens_mask": encoding.special_tokens_mask,
                }
            )
        else:
            from mtkit.commands.trace import show_tokens

            show_tokens(self.tokenizer, encoding, text)


def _encoders(
    tokenizer: Tokenizer,
    template: bool,
    parse_special: bool | None,
    most: int | None,
    *,
    bos: bool,
    eos: bool,
) -> tuple[Callable[[str | bytes], Ids], Callable[[str | bytes], Encoding]]:
    """Return how a text becomes ids, and ids with all that is known of them."""
    from mtkit.errors import UsageError

    before = tokenizer.bos_id if bos else None
    after = tokenizer.eos_id if eos else None
    for asked, token_id, name in ((bos, before, "BOS"), (eos, after, "EOS")):
        if asked and token_id is None:
            raise UsageError(f"has no {name} token", source=tokenizer.source)
    front = [] if before is None else [before]
    back = [] if after is None else [after]

    def encoded(text: str | bytes) -> Encoding:
        found = tokenizer.encode(text, add_special_tokens=template, parse_special=parse_special)
        found = tokenizer.surround(found, front, back) if bos or eos else found
        return found if most is None else truncate(found, most)

    def ids(text: str | bytes) -> Ids:
        if most is not None:
            return [], encoded(text).ids, []
        to_ids = tokenizer.encode_array if len(text) > _SHORT_BYTES else tokenizer.encode_ids
        found = to_ids(text, add_special_tokens=template, parse_special=parse_special)
        return front, found, back

    return ids, encoded


def truncate(encoding: Encoding, most: int) -> Encoding:
    """Cut the end of a text so that what stands around it stays, as the tokenizers library does."""
    from mtkit.base.record import fields
    from mtkit.errors import UsageError

    excess = len(encoding.ids) - most
    if excess <= 0:
        return encoding
    own = [at for at, is_added in enumerate(encoding.special_tokens_mask) if not is_added]
    if len(own) < excess:
        added = len(encoding.ids) - len(own)
        hint = "--no-special leaves them out"
        what = f"--truncate {most}: the {added} special tokens around the text do not fit"
        raise UsageError(what, hint=hint)
    cut = set(own[len(own) - excess :])
    kept = [at for at in range(len(encoding.ids)) if at not in cut]
    columns = (getattr(encoding, name) for name in fields(encoding))
    return type(encoding)(*([values[at] for at in kept] for values in columns))
