"""``mtkit encode``: text to ids."""

from __future__ import annotations

import os
import sys
from functools import partial
from itertools import chain

from mtkit.commands import output
from mtkit.commands.command import Command
from mtkit.commands.inputs import find_model, load_tokenizer, open_texts, read_lines, special_mode
from mtkit.commands.options import Option, parse_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from mtkit.errors import MtkitError
    from mtkit.pipeline.encoding import Encoding
    from mtkit.tokenizer.tokenizer import Tokenizer

    Ids = tuple[list[int], list[int] | memoryview, list[int]]

    """Ids before a text, of the text (of a long one not each a Python object), and after it."""


_SHORT_BYTES = 1 << 16
"""Of a text whose ids are a list, which is made sooner than a buffer."""


OPTIONS = {
    "text": Option("", "Text to encode; - for standard input.", "TEXT"),
    "messages": Option(
        "--messages",
        "File with messages; - for standard input. Default tokenizer: the default model's.",
        "JSON",
    ),
    "lines": Option("--lines", "Encode line by line, one result per line."),
    "only_ids": Option("--ids", "Print ids, separated by spaces."),
    "only_tokens": Option("--tokens", "Print tokens, escaped, separated by spaces."),
    "count": Option("--count", "Print the number of tokens.", also="--show-count"),
    "offsets": Option("--offsets", "Print id, start, end and token, one per line."),
    "truncate": Option(
        "--truncate",
        "Keep at most N tokens, including special ones.",
        "N",
        "--max-length",
        reads=parse_whole,
    ),
    "bos": Option("--bos", "Add BOS before the text even if the tokenizer does not."),
    "eos": Option("--eos", "Add EOS after the text even if the tokenizer does not."),
}


def encode(
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
    if messages is not None and tokenizer is None:
        tokenizer = find_model(None)  # whose template it is, as of ``mtkit template``
    source = load_tokenizer(
        tokenizer,
        reader=as_reader,
        encoding=encoding,
        download=download,
        verify_tables=verify_tables,
    )
    texts = _Texts(text, prompt, files, lines=lines)
    if messages is not None:
        from mtkit.commands.arguments import render_messages

        texts.rendered = render_messages(source, messages)
    has_template = not (no_special or bos or eos or messages is not None)
    encoder = _Encoder(source, has_template, special, truncate, bos=bos, eos=eos)
    forms = (
        ("trace", trace),
        ("count", count),
        ("json", as_json),
        ("tokens", only_tokens),
        ("offsets", offsets),
        ("ids", only_ids or not output.is_terminal()),
        ("table", True),
    )
    form = next(name for name, is_on in forms if is_on)
    try:
        _FORMS[form](encoder, texts, as_json)
    except (UsageError, NoToken) as error:
        texts.locate(error, partial(source.encode_ids, parse_special=special))
        raise error from None


command = Command(encode, OPTIONS)


class _Texts:
    """The texts that are to be encoded: whole ones one by one, lines as they come.

    Attributes:
        file: Where the last one comes from; "" for the command line and a pipe.
        before: How many lines of the file came before the last group.
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
        self.files = files or []
        self.lines = lines
        self.rendered: bytes | None = None
        self.file = ""
        self.group: list[bytes] = []
        self.before = 0

    def groups(self) -> Iterator[Sequence[str | bytes]]:
        """Yield lines as they come, all that are there by then; whole texts one by one."""
        if self.rendered is not None:
            yield [self.rendered]
            return
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

    def __iter__(self) -> Iterator[str | bytes]:
        return chain.from_iterable(self.groups())

    def locate(self, error: MtkitError, encode: Callable[[bytes], object]) -> None:
        """Say of an error which file and which line it is about."""
        from mtkit.errors import UsageError
        from mtkit.tokenizer.tokenizer import first_refused

        if self.lines and error.is_about_text:
            number = first_refused(((line,) for line in self.group), encode)
            if number is not None:
                of_file = f" of {self.file}" if error.source and self.file else ""
                error.which = f"line {self.before + number + 1}{of_file}"
        if isinstance(error, UsageError):
            error.located(self.file)


class _Encoder:
    """Makes ids of a text, alone or with all that is known of them."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        has_template: bool,
        parse_special: bool | None,
        most: int | None,
        *,
        bos: bool,
        eos: bool,
    ) -> None:
        self.tokenizer = tokenizer
        self.special: dict[str, Any] = {
            "add_special_tokens": has_template,
            "parse_special": parse_special,
        }
        self.most = most
        self.front = [self._added_id(tokenizer.bos_id, "BOS")] if bos else []
        self.back = [self._added_id(tokenizer.eos_id, "EOS")] if eos else []

    def _added_id(self, token_id: int | None, name: str) -> int:
        from mtkit.errors import UsageError

        if token_id is None:
            raise UsageError(f"has no {name} token", source=self.tokenizer.source)
        return token_id

    def encoding(self, text: str | bytes) -> Encoding:
        """Return ids with their tokens, offsets and so on."""
        encoding = self.tokenizer.encode(text, **self.special)
        if self.front or self.back:
            encoding = self.tokenizer.surround(encoding, self.front, self.back)
        return encoding if self.most is None else truncate(encoding, self.most)

    def ids(self, text: str | bytes) -> Ids:
        """Return the ids of a text, and those around it."""
        if self.most is not None:
            return [], self.encoding(text).ids, []
        is_short = len(text) <= _SHORT_BYTES
        to_ids = self.tokenizer.encode_ids if is_short else self.tokenizer.encode_array
        return self.front, to_ids(text, **self.special), self.back

    def batch_ids(self, texts: Sequence[str | bytes]) -> Iterable[Iterable[int]]:
        """Return the ids of several texts; by one native call where nothing is added or cut."""
        if self.most is None and not (self.front or self.back):
            return self.tokenizer.encode_batch_ids(texts, **self.special)
        return (chain(*self.ids(text)) for text in texts)


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
    rest = [at for at in range(len(encoding.ids)) if at not in cut]
    columns = (getattr(encoding, name) for name in fields(encoding))
    return type(encoding)(*([values[at] for at in rest] for values in columns))


def _write_traces(encoder: _Encoder, texts: _Texts, as_json: bool) -> None:
    from mtkit.commands.trace import show_trace

    for text in texts:
        show_trace(encoder.tokenizer.trace(text, **encoder.special), as_json=as_json)


def _write_counts(encoder: _Encoder, texts: _Texts, as_json: bool) -> None:
    if len(texts.files) > 1 and not texts.lines:
        from mtkit.commands.count import show_counts

        pairs = zip(texts.files, texts, strict=True)
        counts = [(name, sum(map(len, encoder.ids(text)))) for name, text in pairs]
        show_counts(counts, as_json=as_json)
        return
    for group in texts.groups():
        numbers = (sum(map(len, encoder.ids(text))) for text in group)
        if as_json:
            for number in numbers:
                output.write_json({"schema": "mtkit.encode/1", "count": number})
        else:
            output.write("".join(f"{number}\n" for number in numbers))


def _write_ids(encoder: _Encoder, texts: _Texts, _: bool) -> None:
    for group in texts.groups():
        if texts.lines:
            rows = encoder.batch_ids(group)
            output.write("".join(" ".join(map(str, ids)) + "\n" for ids in rows))
        else:
            for text in group:
                output.write_numbers(encoder.ids(text))


def _write_documents(encoder: _Encoder, texts: _Texts, _: bool) -> None:
    from mtkit.base.escape import byte_escapes

    for encoding in map(encoder.encoding, texts):
        output.write_json(
            {
                "schema": "mtkit.encode/1",
                "ids": encoding.ids,
                "tokens": [byte_escapes(token) for token in encoding.tokens],
                "offsets": encoding.offsets,
                "special_tokens_mask": encoding.special_tokens_mask,
            }
        )


def _write_tokens(encoder: _Encoder, texts: _Texts, _: bool) -> None:
    from mtkit.base.escape import printable

    for encoding in map(encoder.encoding, texts):
        if output.is_terminal():
            from mtkit.commands.terminal import token_text

            raw = map(encoder.tokenizer.token_bytes, encoding.ids)
            output.write(" ".join(map(token_text, raw)) + "\n")
        else:
            output.write(" ".join(map(printable, encoding.tokens)) + "\n")


def _write_offsets(encoder: _Encoder, texts: _Texts, _: bool) -> None:
    for encoding in map(encoder.encoding, texts):
        rows = zip(encoding.ids, encoding.offsets, encoding.tokens, strict=True)
        output.write_rows((i, start, end, token) for i, (start, end), token in rows)


def _write_tables(encoder: _Encoder, texts: _Texts, _: bool) -> None:
    from mtkit.commands.trace import show_tokens

    for text in texts:
        show_tokens(encoder.tokenizer, encoder.encoding(text), text)


_FORMS: dict[str, Callable[[_Encoder, _Texts, bool], None]] = {
    "trace": _write_traces,
    "count": _write_counts,
    "json": _write_documents,
    "tokens": _write_tokens,
    "offsets": _write_offsets,
    "ids": _write_ids,
    "table": _write_tables,
}
"""What each option prints."""
