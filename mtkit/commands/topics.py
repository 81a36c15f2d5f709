"""What a command's help cannot hold: the texts of ``mtkit help TOPIC``."""

from __future__ import annotations

TOPICS = {
    "losses": (
        "what a conversion loses, and when it stops",
        """\
Losses are computed field by field for the tokenizer at hand. The codes:

- `ids`: ordinary text can get other ids; stops unless `--allow-loss ids` is given
- `ids-special`: only texts that spell out special tokens, U+2581 or invalid UTF-8 can
- `ids-possible`: the same components, but another reference runs them; stops only where
  the built-in texts differ
- `decoding`, `chat`, `metadata`: what the words say

What was written is read back and has to give the same ids on some 200 texts, but for what
is listed, before a file appears. `mtkit convert -v` prints every loss.
""",
    ),
    "formats": (
        "which formats there are, and how a file is recognized",
        """\
A file is recognized by its content, never by its name; `mtkit formats` lists what is read and
written. Of a folder the first of the files counts that published repositories have.
`mtkit convert --to NAME` takes the format's name in any case. Without `--to` the name of the
output says it: .gguf, .mtok, .model (spm), .tiktoken, .json (hf), tekken.json, vocab.json
(vocab-merges), vocab.txt (wordpiece), .bin (llama2c).
""",
    ),
    "names": (
        "how -t and -m find a file, and which defaults there are",
        """\
A name is, in this order: a file; a folder; ORG/NAME or ORG/NAME@REVISION, a repository in the
hub's local cache (HF_HUB_CACHE, HF_HOME); NAME alone, if one repository of that name is there;
for a tokenizer a published encoding (cl100k_base, o200k_base ...) in tiktoken's local cache
(TIKTOKEN_CACHE_DIR). `--download` fetches the tokenizer of a repository, never a model.
Without a name: MTKIT_TOKENIZER or MTKIT_MODEL, then `mtkit config`, then what ships with mtkit.
""",
    ),
    "special-tokens": (
        "special tokens around a text, in it, and when it is decoded",
        """\
Around a text: `encode` adds what the file's reference adds (BOS, EOS, [CLS] ...); `--no-special`
leaves them out, `--bos` and `--eos` choose. In a text: `<|im_end|>` is recognized where the
reference does so when it is called plainly; `--parse-special` and `--no-parse-special` choose.
In a chat only the template writes special tokens; what a message spells is text.
`decode` leaves special tokens out of the text, in every format; `--special` shows them, where the
file's reference can: sentencepiece never does.
""",
    ),
    "offsets": (
        "what the numbers of --offsets count",
        """\
Start and end of a token are characters (code points) of the text as it was given, before any
normalizer; the end is exclusive. A token that stands for a part of a character has the whole
character. Tokens that were added around the text have 0 and 0.
""",
    ),
    "numbers": (
        "how numbers are written on the command line",
        """\
Tokens of context, of an answer or of a batch can be written 8k (8192) or 1m (1048576).
Ids never have a separator; ranges are 5000-5010, lists 1,2,3.
""",
    ),
    "exit-codes": (
        "what the exit code of a command says",
        """\
0 done; 1 done, and the answer is no; 2 wrong usage or missing file; 3 damaged or unknown
file; 4 refused (unsupported, or a loss that was not allowed); 5 out of resources; 70 a bug in
mtkit; 130 interrupted.
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
