"""What a command's help cannot hold: the texts of ``mtkit help TOPIC``."""

from __future__ import annotations

TOPICS = {
    "losses": (
        "what a conversion can lose, and when it is refused",
        """\
mtkit compares every field of your tokenizer with what the target format can hold. Each loss has
a code:

- `ids`: ordinary text can get different ids; the conversion is refused unless you pass
  `--allow-loss ids`
- `ids-special`: only texts that contain a special token, U+2581 or invalid UTF-8 can get
  different ids
- `ids-possible`: rare texts can get different ids, because the target has code or rules of its own;
  the conversion is refused only if one of mtkit's test texts gets different ids and you do not
  pass `--allow-loss ids-possible`
- `decoding`: the same ids can be decoded to slightly different text, such as a missing space
- `chat`: the chat template or a setting for chats is not kept
- `metadata`: information that affects neither ids nor text is not kept

Before any file is written, mtkit reads the result back and checks about 200 texts: ids and decoded
text must match, apart from the losses listed. For a `tokenizer.model`, read or written, the
sentencepiece library must agree, too. `mtkit convert -v` lists every loss.
""",
    ),
    "formats": (
        "which formats mtkit knows, and how it recognizes them",
        """\
mtkit recognizes a file by its content, never by its name. `mtkit formats` lists the formats. In a
folder it looks for the file names that published repositories use, and takes the first. `mtkit
convert --to NAME` ignores case. Without `--to`, the name of the output decides: .gguf, .mtok,
.model (spm), .tiktoken, .json (hf), tekken.json, vocab.json (vocab-merges), vocab.txt (wordpiece),
.bin (llama2c).
""",
    ),
    "names": (
        "how -t and -m find a file, and the defaults",
        """\
mtkit tries a name in this order: a file; a folder; ORG/NAME or ORG/NAME@REVISION, a repository in
the local HuggingFace cache (HF_HUB_CACHE, HF_HOME); NAME alone, if the cache has exactly one
repository of that name; and for a tokenizer a published encoding (cl100k_base, o200k_base ...) in
tiktoken's local cache (TIKTOKEN_CACHE_DIR). `--download` downloads the tokenizer of a repository;
only `mtkit convert --to gguf` downloads the weights, too. Without a name: MTKIT_TOKENIZER or
MTKIT_MODEL, then `mtkit config`, then the file that ships with mtkit.
""",
    ),
    "special-tokens": (
        "special tokens around a text, in a text, and when decoding",
        """\
Around a text: `encode` adds what the file's own library adds (BOS, EOS, [CLS] ...). `--no-special`
leaves these out; `--bos` and `--eos` choose. In a text: `<|im_end|>` is parsed as a special token
if the file's own library does so by default; `--parse-special` and `--no-parse-special` choose.
In a chat only the template produces special tokens; a message that spells one is plain text.
`decode` skips special tokens in every format. `--special` prints them if the file's own library
can: sentencepiece never does.
""",
    ),
    "offsets": (
        "what --offsets counts",
        """\
Start and end of a token count characters (code points) of the original text, before any
normalization; the end is exclusive. A token for a part of a character has the offsets of the whole
character. Tokens added around the text have 0 and 0.
""",
    ),
    "numbers": (
        "how to write numbers on the command line",
        """\
Numbers of tokens can be written 8k (8192) or 1m (1048576). Ids have no thousands separators;
ranges are 5000-5010, lists 1,2,3.
""",
    ),
    "exit-codes": (
        "what a command's exit code means",
        """\
0 done; 1 done, and the answer is no; 2 wrong usage or missing file; 3 damaged or unknown file;
4 refused (not supported, or a loss that was not allowed); 5 out of memory or disk space; 70 a bug
in mtkit; 130 interrupted.
""",
    ),
}
"""Name -> (what it is about, text)."""


def topic(words: list[str]) -> str | None:
    """Return the text that ``mtkit help`` prints for the words after it; None for another topic."""
    name = "-".join(words).lower().replace("_", "-").replace(" ", "-")
    if name in ("topics", "topic"):
        width = max(map(len, TOPICS))
        return "".join(f"{name:{width}}  {about}\n" for name, (about, _) in TOPICS.items())
    names = {one for one in TOPICS if name in (one, one.removesuffix("s"), one.partition("-")[0])}
    return TOPICS[names.pop()][1] if len(names) == 1 else None
