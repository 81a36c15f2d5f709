"""HuggingFace ``tokenizer.json``, with the configuration and chat templates beside it.

A JSON object: version, truncation, padding, added_tokens, normalizer, pre_tokenizer,
post_processor, decoder, model, with the meaning that the ``tokenizers`` library (0.23) gives them.
The files beside it (tokenizer_config.json, special_tokens_map.json, generation_config.json,
chat_template.jinja, additional_chat_templates/) give special ids and chat templates.

Source: huggingface/tokenizers, tokenizer/serialization.rs.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Source
    from mtkit.formats.contract import OtherReading, Reading, WriteOptions, Written
    from mtkit.spec import TokenizerSpec

NAME = "hf"
TITLE = "HuggingFace tokenizer.json"
ADDS_SPECIAL_TOKENS = True

_HEAD_BYTES = 4096
_TAIL_BYTES = 65536
_MARKS = (b"added_tokens", b"pre_tokenizer", b"post_processor", b"normalizer", b"model")


def sniff(source: Source) -> bool:
    """Tell by a JSON object that has one of the sections, near its start or its end."""
    import re

    head = bytes(source.data[:_HEAD_BYTES])
    if not head.lstrip(b" \t\r\n").startswith(b"{"):
        return False
    section = rb'"(?:' + b"|".join(_MARKS) + rb')"\s*:\s*(?:[\[{]|null\b)'
    tail = bytes(source.data[-_TAIL_BYTES:]) if len(source.data) > _HEAD_BYTES else b""
    return re.search(section, head) is not None or re.search(section, tail) is not None


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a tokenizer.json with what lies beside it.

    Raises:
        FormatError: A file is damaged.
        UnsupportedError: It holds a component that mtkit does not know.
    """
    from mtkit.formats.hf.reader import read_spec

    return read_spec(source)


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write tokenizer.json and tokenizer_config.json."""
    from mtkit.formats.hf.writer import write_spec

    return write_spec(spec)


def other_readings() -> dict[str, OtherReading]:
    """Return transformers' reading, which takes a class from the files beside it."""
    from mtkit.formats.contract import OtherReading
    from mtkit.formats.hf.auto_tokenizer import read_as_transformers

    return {"transformers": OtherReading("transformers 5", read_as_transformers)}
