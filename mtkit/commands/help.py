"""Help beyond that of a command: ``mtkit help TOPIC``, and the line to type instead.

``topic_text`` has what a command's help cannot hold. ``unknown_command`` and ``reorder_line`` tell
what somebody means who begins with a word that is not a command. The words are those of ttok,
tiktoken, llama.cpp's tools, gguf-dump, gguf-parser, ollama and the hub's client, and the plain
words for what the commands do.
"""

from __future__ import annotations

import os
from shlex import join

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.errors import UsageError


TOPICS = {
    "losses": (
        "what a conversion can lose, and when it is refused",
        """\
mtkit compares every field of your tokenizer with what the target format can hold. Each loss has
a code:

- `ids`: ordinary text can get different ids; the conversion is refused unless you pass
  `--allow-loss ids`
- `ids-special`: only texts with a special token, U+2581 or invalid UTF-8 can get different ids
- `ids-possible`: rare texts can get different ids, because the target has code or rules of its own;
  the conversion is refused only if one of mtkit's test texts gets different ids and you do not
  pass `--allow-loss ids-possible`
- `ids-blank`: only texts that begin with a blank get different ids: llama.cpp puts one more blank
  before them
- `decoding`: the same ids can be decoded to slightly different text, such as a missing space
- `chat`: the chat template or a setting for chats is not kept
- `metadata`: information that affects neither ids nor text is not kept
- `values`: weights of a model are NaN or infinite, or too large or small for the new type; the
  conversion is refused unless you pass `--allow-loss values`

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


def topic_text(words: list[str]) -> str | None:
    """Return the text that ``mtkit help`` prints for the words after it; None for another topic."""
    name = "-".join(words).lower().replace("_", "-").replace(" ", "-")
    if name in ("topics", "topic"):
        width = max(map(len, TOPICS))
        return "".join(f"{name:{width}}  {about}\n" for name, (about, _) in TOPICS.items())
    names = {
        topic
        for topic in TOPICS
        if name in (topic, topic.removesuffix("s"), topic.partition("-")[0])
    }
    return TOPICS[names.pop()][1] if len(names) == 1 else None


_WORDS = {
    "encode": "tokenize tokenise tok ttok tiktoken llama-tokenize ids get_encoding spm_encode",
    "count": "count-tokens count_tokens tokens wc length len",
    "decode": "detokenize detokenise detok untokenize text spm_decode",
    "dump vocab": "vocab vocabulary pieces spm_export_vocab",
    "dump merges": "merges",
    "dump metadata": "metadata meta keys kv get-key",
    "dump tensors": "tensors weights layers",
    "dump scores": "scores",
    "inspect": "show info view cat stat header describe summary read open gguf-dump gguf_dump gguf"
    " parse gguf-parser gguf-info file details llama-gguf from_pretrained"
    " autotokenizer.from_pretrained",
    "report": "html page visualize visualise dashboard treemap browse netron",
    "check": "verify validate lint doctor ggufdoctor",
    "edit": "gguf-set-metadata gguf_set_metadata set-metadata gguf-new-metadata rename patch",
    "split": "gguf-split llama-gguf-split shard",
    "merge": "join concat",
    "hash": "gguf-hash gguf_hash llama-gguf-hash checksum sha256 sha256sum sha1sum digest",
    "inspect --plan": "plan memory mem ram vram estimate fit size llama-fit-params",
    "token": "lookup id piece find grep",
    "compare": "cmp",
    "convert": "export transform transcode conv"
    " convert-hf-to-gguf convert_hf_to_gguf convert_hf_to_gguf.py to-gguf gguf-new",
    "generate": "complete completion-text predict continue infer simple"
    " llama-simple llama-completion llama-lookup llama-speculative",
    "serve": "server llama-server api up start load",
    "quantize": "quantise quant llama-quantize requantize",
    "trim": "prune shrink",
    "corpus encode": "preprocess preprocess_data tokenize-corpus",
    "bench": "benchmark llama-bench speed",
    "chat": "run talk ask converse repl interactive conversation main cli llama-cli llama-run",
    "perplexity": "ppl llama-perplexity evaluate eval score",
    "imatrix": "llama-imatrix importance",
    "logits": "probs probabilities next top",
    "template": "chat-template chat_template apply-chat-template jinja render prompt",
    "formats": "format types supported",
    "config": "settings set default defaults env configure",
    "generate --devices": "devices gpus --list-devices",
    "--version": "version",
    "--help": "usage man commands",
}
"""Command -> words that people type for it; the arguments stay."""
_NEEDS = {
    "encode": ['"TEXT"'],
    "count": ["FILE"],
    "decode": ["ID ..."],
    "inspect": ["FILE"],
    "check": ["FILE"],
    "report": ["FILE"],
    "inspect --plan": ["MODEL.gguf"],
    "bench": ["-m MODEL.gguf"],
    "dump metadata": ["MODEL.gguf"],
    "dump tensors": ["MODEL.gguf"],
    "token": ['ID|"TEXT"'],
    "edit": ["MODEL.gguf --set KEY=VALUE -o NEW.gguf"],
    "split": ["MODEL.gguf --split-max-size 2G"],
    "merge": ["MODEL-00001-of-00002.gguf -o MODEL.gguf"],
    "hash": ["MODEL.gguf"],
    "compare": ["A B"],
    "serve": ["-m MODEL.gguf"],
    "quantize": ["MODEL.gguf --type Q4_K_M -o NEW.gguf"],
    "trim": ["MODEL.gguf --corpus FILE -o NEW.gguf"],
    "corpus encode": ["FOLDER -o TRAIN.bin"],
    "convert": ["FILE --to gguf"],
    "generate": ['"TEXT" -m MODEL.gguf'],
    "perplexity": ["FILE -m MODEL.gguf"],
    "imatrix": ["FILE -m MODEL.gguf -o imatrix.gguf"],
    "logits": ['"TEXT"'],
    "template": ['MODEL.gguf --user "TEXT"'],
}
"""What stands for the arguments where none are given."""
_FILE_ALONE = {
    "corpus encode": "-o TRAIN.bin",
    "convert": "--to gguf",
    "quantize": "--type Q4_K_M -o NEW.gguf",
    "template": '--user "TEXT"',
}
"""What is needed next to a file."""
_ELSEWHERE = {
    "ls list models scan-cache cache scan": "mtkit inspect FOLDER shows the models in a folder,"
    " mtkit config the defaults; -m NAME takes a model of Ollama or LM Studio by its name",
    "download pull fetch clone get": "mtkit inspect ORG/NAME --download downloads a tokenizer;"
    " mtkit chat -m ORG/NAME:QUANT --download a GGUF; hf download ORG/NAME a whole repository",
    "search": "huggingface.co/models has models;"
    " mtkit chat -m ORG/NAME:QUANT --download runs one; mtkit token TEXT looks up a token",
    "import": "mtkit chat -m FILE.gguf runs a file where it is;"
    " mtkit convert FILE --to gguf makes one of a model folder or tokenizer",
    "unload status log logs ps stop": "nothing of mtkit runs in the background: mtkit serve -m"
    " MODEL.gguf runs until Ctrl-C, says what it does on stderr, and has its state at /health",
    "push upload login logout signin signout whoami repo auth": "mtkit needs no account and"
    " uploads nothing; hf, the command of huggingface_hub, does",
    "embed embedding embeddings llama-embedding": "mtkit serve -m MODEL.gguf answers"
    " /v1/embeddings",
    "train tokenizers spm_train": "mtkit does not train; it reads what the tokenizers library and"
    " sentencepiece write",
    "export-lora llama-export-lora lora peft adapter merge_and_unload": "mtkit merge BASE --lora"
    " ADAPTER -o MERGED.gguf merges a LoRA adapter, mtkit convert ADAPTER makes a GGUF of one,"
    " mtkit generate --lora ADAPTER.gguf runs with one",
    "create modelfile preset presets": "mtkit has no Modelfiles or presets:"
    " mtkit chat -m MODEL.gguf --system TEXT takes settings as options, mtkit edit stores a chat"
    " template",
    "gui ui web webui app browser playground desktop": "mtkit serve -m MODEL.gguf has a chat page"
    " at http://127.0.0.1:8080",
    "launch": "mtkit serve -m MODEL.gguf serves coding agents; docs/agents.md has the settings of"
    " each",
    "rpc-server llama-rpc-server": "mtkit runs models on this machine alone",
    "llama-batched-bench": "mtkit bench -m MODEL.gguf measures one sequence at a time",
    "llama-finetune llama-tts llama-diffusion-cli llama-cvector-generator": "mtkit does not do"
    " that; llama.cpp's own program does",
    "llmexport llmexport.py mnnconvert": "mtkit writes tokenizers for MNN, not models:"
    " mtkit convert FOLDER --vocab-only --to mtok",
    "llama-mtmd-cli llama-llava-cli llava-cli": "mtkit chat -m MODEL.gguf --image FILE -p TEXT"
    " shows a picture to a model",
    "llm_demo": "mtkit chat -m MODEL.gguf runs GGUF models",
    "transformers-cli": "mtkit --version -v shows the engine and Python",
    "rm delete remove cp copy": "mtkit does not manage files:"
    " mtkit edit and mtkit convert write new ones, mtkit inspect shows them",
    "install update upgrade self-update": "use pip: pip install -U mtkit",
    "encoding_for_model list_encoding_names": "mtkit encode -t cl100k_base uses a"
    " published encoding; mtkit help names says where mtkit looks for it",
}
_PROGRAMS = ("ollama", "hf", "huggingface-cli", "lms", "llama")
"""Programs whose own commands follow."""
_SHOWS = {
    "--template": "dump template",
    "--system": "dump template",
    "--parameters": "dump metadata",
    "--license": "dump metadata",
}
"""What ``ollama show`` shows."""
_OLLAMA_RUN: dict[str, tuple[int, list[str]]] = {
    "--format": (1, ["--json-schema", '{"type": "object"}']),
    "--verbose": (0, ["--timings"]),
    "--think": (0, ["--reasoning", "on"]),
    "--think=false": (0, ["--reasoning", "off"]),
    "--hidethinking": (0, []),
    "--nowordwrap": (0, []),
    "--insecure": (0, []),
    "--keepalive": (1, []),
}
_RUNS: dict[str, dict[str, tuple[int, list[str]]]] = {
    "run": _OLLAMA_RUN,
    "load": {
        "--gpu off": (1, []),
        "--gpu": (1, ["-ngl", "all"]),
        "--context-length": (0, ["--ctx"]),
        "--identifier": (0, ["--alias"]),
        "--ttl": (0, ["--sleep-idle-seconds"]),
        "--exact": (0, []),
        "-y": (0, []),
        "--yes": (0, []),
    },
    "server": {"--cors": (0, []), "--bind": (0, ["--host"])},
    "llama-bench": {
        "-r": (0, ["--rounds"]),
        "--repetitions": (0, ["--rounds"]),
        "-t": (0, ["--threads"]),
    },
}
"""Word of ollama, lms or llama.cpp -> option -> number of its values, and what does it here."""
_HUBS = ("https://huggingface.co/", "huggingface.co/", "https://hf.co/", "hf.co/")
_OTHERS = ("--no-tensors", "--modelfile", "--split", "--merge", "--path")
"""Options of other programs that a command implies here."""
_TAKES_MODEL = ("generate", "chat", "serve", "logits", "perplexity", "imatrix")
_TAKES_TOKENIZER = ("encode", "decode", "explain", "count", "token", "bench")
_SECOND = {"split": "-o", "convert-endian": "-o", "trim": "-o", "edit": "-o", "report": "-o",
           "template": "--user"}  # fmt: skip
"""Command -> option for a second word."""
_MODEL_OPTIONS = ("-m", "--model", "-hf", "--hf-repo", "-mu", "--path")
_PROMPT_OPTIONS = ("-p", "--prompt", "-f", "--file", "-n", "--n-predict", "--predict")
_MODELS = (".gguf", ".bin", ".ggml")
_TOKENIZERS = (".json", ".mtok", ".model", ".tiktoken")


def unknown_command(name: str, args: Sequence[str], commands: Sequence[str]) -> UsageError:
    """Return the error that names the right command."""
    from mtkit.errors import UsageError

    kind = "option" if name.startswith("-") else "command"
    synonyms = {word: right for right, words in _WORDS.items() for word in words.split()}
    elsewhere = {word: advice for words, advice in _ELSEWHERE.items() for word in words.split()}
    lower = name.lower()
    what = f"no such {kind}: {name}"
    if lower in elsewhere:
        return UsageError(what, hint=_with_repository(elsewhere[lower], args))
    if lower in _PROGRAMS and not args:
        return UsageError(what, hint="mtkit --help lists the commands")
    if lower in _PROGRAMS:
        own = args[0] in commands
        hint = (
            _line(args[0], args[1:]) if own else unknown_command(args[0], args[1:], commands).hint
        )
        return UsageError(what, hint=hint)
    if lower == "server" and args[:1] in (["stop"], ["status"]):
        return UsageError(what, hint=elsewhere["stop"])
    if lower in synonyms:
        return UsageError(what, hint=_line(synonyms[lower], args, word=lower))
    line = _option(name, args) if kind == "option" else _file(name, args)
    if line:
        return UsageError(what if kind == "option" else f"{name} is not a command", hint=line)
    close = _close(name, [*commands, *synonyms, "--help", "--version"])
    if close:
        right = synonyms.get(close)
        return UsageError(what, hint=_line(right, args) if right else f"did you mean {close}?")
    if list(args) == ["--help"]:
        hint = "mtkit --help lists commands, mtkit help topics lists topics"
        return UsageError(f"no help on {name}", hint=hint)
    if kind == "option":
        return UsageError(what, hint="mtkit --help lists the options")
    text = join([" ".join([name, *(arg for arg in args if not arg.startswith("-"))])])
    hint = f"mtkit encode {text} shows its tokens, mtkit generate {text} continues it"
    return UsageError(what, hint=hint)


def _with_repository(advice: str, args: Sequence[str]) -> str:
    """Return advice about ORG/NAME with the name that was typed, if one was."""
    if len(args) != 1 or "/" not in args[0]:
        return advice
    name = args[0]
    for hub in _HUBS:
        name = name.removeprefix(hub)
    repository = name.partition(":")[0]
    advice = advice.replace("ORG/NAME:QUANT", join([name]))
    return advice.replace("ORG/NAME", join([repository]))


def reorder_line(command: str, args: Sequence[str], extra: str) -> str:
    """Return the command line for words in the order of other programs; empty if there is none."""
    option = "-m" if command in _TAKES_MODEL else "-t" if command in _TAKES_TOKENIZER else ""
    words = list(args)
    if option:
        is_named = _is_model if option == "-m" else _is_tokenizer
        model = next((word for word in words if is_named(word)), None)
        options = [*_MODEL_OPTIONS, "-t", "--tokenizer"]
        if model is None or any(word.partition("=")[0] in options for word in words):
            return ""
    else:
        option, model = _SECOND.get(command, ""), extra
        if not option or option in words or extra not in words:
            return ""
    words.remove(model)
    return f"run: mtkit {command} {join([*words, option, model])}"


def _line(right: str, args: Sequence[str], word: str = "") -> str:
    """Return a command line with the arguments, or with placeholders."""
    if right == "split" and "--merge" in args:
        right = "merge"
    shows = next((_SHOWS[arg] for arg in args if arg in _SHOWS), "") if word == "show" else ""
    right = shows or right
    args = [arg for arg in args if arg not in (*_OTHERS, *(_SHOWS if shows else ()))]
    if right in ("chat", "generate", "serve", "bench"):
        right, args = _run_line(right, args, word)
    pair = len(args) > 1 and not any(arg.startswith("-") for arg in args[-2:])
    if right == "split" and pair:
        args = [*args[:-1], "-o", args[-1]]
    if right == "edit" and len(args) == 3 and pair:  # gguf-set-metadata
        args = [args[0], "--set", f"{args[1]}={args[2]}", "--in-place"]
    elif right == "edit" and pair and any(arg.startswith("--general-") for arg in args):
        args = [args[-2], "--set", "general.name=NAME", "-o", args[-1]]
    if right == "formats" or right.startswith("--"):
        args = ()
    arguments = join(args) if args else " ".join(_NEEDS.get(right, ()))
    if len(args) == 1 and right in _FILE_ALONE:
        arguments += f" {_FILE_ALONE[right]}"
    return f"run: mtkit {right} {arguments}".rstrip()


def _run_line(right: str, args: Sequence[str], word: str) -> tuple[str, list[str]]:
    """Return the command and the words of a line that runs a model, which may stand first."""
    words: list[str] = []
    rest, table = list(args), _RUNS.get(word, {})
    while rest:
        arg = rest.pop(0)
        option, equals, value = arg.partition("=")
        if equals and option in table and arg not in table:
            arg, rest = option, [value, *rest]
        pair = f"{arg} {rest[0]}" if rest else ""
        skipped, instead = table.get(pair) or table.get(arg, (0, [arg]))
        del rest[:skipped]
        hub = next((hub for hub in _HUBS if arg.startswith(hub)), "")
        words += [arg.removeprefix(hub)] if hub else instead
    if word == "server" and words[:1] == ["start"]:
        del words[0]
    if words and (_is_model(words[0]) or _names_model(word, words[0])):
        text = [arg for arg in words[1:] if not arg.startswith("-")]
        if right == "generate" and not text:
            right = "chat"
        words = [*words[1:], "-m", words[0]]
    if right == "chat" and {"-no-cnv", "--no-conversation"} & {*words}:
        right = "generate"
    return right, words


def _option(name: str, args: Sequence[str]) -> str:
    """Return the command line for options without a command."""
    option = name.partition("=")[0]
    all_args = [name, *args]
    if option in ("--encode", "--decode", "--count", "--tokenize", "--detokenize", "--show-count"):
        right = {"--tokenize": "encode", "--detokenize": "decode", "--show-count": "count"}
        return _line(right.get(option, option[2:]), args)
    if option in _MODEL_OPTIONS:
        if option not in ("-m", "--model"):
            all_args = ["-m", *args]
        talks = not any(arg.partition("=")[0] in _PROMPT_OPTIONS for arg in args)
        return _line("chat" if talks else "generate", all_args)
    if option in _PROMPT_OPTIONS:
        return _line("generate", all_args)
    return _line("encode", all_args) if option in ("-t", "--tokenizer", "--ids", "--tokens") else ""


def _file(name: str, args: Sequence[str]) -> str:
    """Return the command line for a file or folder alone."""
    suffix = os.path.splitext(name)[1].lower()
    is_there = os.path.exists(os.path.expanduser(name))
    if suffix in _MODELS + _TOKENIZERS or os.path.isdir(os.path.expanduser(name)):
        if suffix in _MODELS and args and not args[0].startswith("-"):
            return _line("generate", [name, *args])
        return _line("inspect", [name, *args])
    return _line("count", [name, *args]) if is_there else ""


def _names_model(word: str, name: str) -> bool:
    """Tell whether a word is a name of a model, as after ``ollama run`` and ``lms load``."""
    return word in ("run", "llama-run", "load") and not name.startswith("-") and " " not in name


def _is_tokenizer(name: str) -> bool:
    return name.lower().endswith(_TOKENIZERS) or _is_model(name)


def _is_model(name: str) -> bool:
    return name.lower().endswith(_MODELS) or os.path.isdir(os.path.expanduser(name))


def _close(name: str, words: Sequence[str]) -> str:
    from difflib import get_close_matches

    return next(iter(get_close_matches(name, words, 1, 0.7)), "") if " " not in name else ""
