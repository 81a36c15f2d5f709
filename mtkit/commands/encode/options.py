"""The options of ``mtkit encode``; typer is not imported: plain lines are read by them, too."""

from __future__ import annotations

from mtkit.commands.declared import SHARED, Option

OPTIONS = {
    **SHARED,
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
        reads="whole",
    ),
    "bos": Option("--bos", "Add BOS before the text even if the tokenizer does not."),
    "eos": Option("--eos", "Add EOS after the text even if the tokenizer does not."),
}
"""Parameter of ``encode.run`` -> option."""
