"""Options of other programs that mtkit does not have, and what does their work here.

A guess by spelling alone would lead astray: ``--bigendian`` is not ``--encoding``. Of what is not
in the table, an option is suggested where it is the same word but for a slip of the fingers, or a
longer or shorter form of it.

llama.cpp's tools have short options of several letters. A reader that splits words takes
``-ctk q8_0`` for ``-c tk`` and ``-hfr`` for ``-h``, so ``read_line`` looks at the words first.
Source: the help of convert_hf_to_gguf.py, convert_lora_to_gguf.py, llama-quantize,
llama-gguf-split, gguf_new_metadata.py and gguf_set_metadata.py; common/arg.cpp of llama.cpp; the
help of ollama, lms, huggingface-cli and MNN's llm_demo.
"""

from __future__ import annotations

import re

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtkit.commands.command import Command
    from mtkit.commands.options import Parameter


_DRAFT = "mtkit converts no draft heads (MTP); convert_hf_to_gguf.py does"
_AS_IS = "mtkit writes the tensors that the model has; convert_hf_to_gguf.py can fuse them"
_BY_SIZE = "mtkit does not choose types by size; --tensor-type PATTERN=TYPE sets them"
_SET = "edit has --set KEY=VALUE, as in --set "
_NO_VIDEO = "mtkit takes pictures and sounds, and no videos"
_TOKENS = "a picture has the number of tokens that its projector gives it (mtkit explain --image)"
_LAYERS = "mtkit places whole layers: --gpu-layers N"
_ONE_GPU = "--device NAME picks a GPU (mtkit generate --devices lists them)"
_ROPE = (
    "mtkit runs a model as its metadata says; "
    "mtkit edit MODEL.gguf --set KEY=VALUE -o NEW.gguf changes it"
)
_THREADS = "--threads N counts for prompts and drafts, too"
_LOOKUP = "--draft-lookup drafts from the text itself"
_DRAFT_LOADS = "a draft model is loaded as the model is"
_PLAN = "mtkit inspect MODEL.gguf --plan shows what fits; --gpu-layers and --ctx set it"
_SAYS = "mtkit generate has it: mtkit generate --special"
_RUN: dict[str, str] = {
    "-tb --threads-batch -td --threads-draft -tbd --threads-batch-draft": _THREADS,
    "-sm --split-mode": "mtkit splits by layers: --tensor-split A,B; --device NAME takes one GPU",
    "-mg --main-gpu -devd --device-draft": _ONE_GPU,
    "-ngld --gpu-layers-draft --n-gpu-layers-draft --spec-draft-ngl": _DRAFT_LOADS,
    "-ctkd --cache-type-k-draft -ctvd --cache-type-v-draft": _DRAFT_LOADS,
    "-ot --override-tensor -cmoe --cpu-moe -ncmoe --n-cpu-moe -ncffn --n-cpu-ffn": _LAYERS,
    "-nkvo --no-kv-offload": "the cache lies where its layers are: --gpu-layers N",
    "-fit --fit -fitt --fit-target -fitc --fit-ctx": _PLAN,
    "-lm --load-mode --direct-io -dio": "--mmap, --no-mmap and --mlock say how a file is loaded",
    "--numa": "numactl places a process: numactl --interleave=all mtkit …",
    "--rpc": "mtkit runs models on this machine alone",
    "-mmu --mmproj-url": "fetch the file (curl -LO URL), then: --mmproj FILE.gguf",
    "--image-min-tokens --image-max-tokens --mtmd-batch-max-tokens": _TOKENS,
    "--video --video-fps": _NO_VIDEO,
    "-mu --model-url": "fetch the file (curl -LO URL), then: -m FILE.gguf",
    "-dr --docker-repo": "-m ORG/NAME:QUANT --download fetches a model from HuggingFace",
    "-hff --hf-file": "write the file behind the repository: -hf ORG/NAME:FILE.gguf",
    "-hft --hf-token": "the environment has it: HF_TOKEN=…",
    "-cl --cache-list": "mtkit inspect FOLDER shows the models of a folder",
    "--rope-scaling --rope-scale --rope-freq-base --rope-freq-scale --yarn-orig-ctx": _ROPE,
    "--yarn-ext-factor --yarn-attn-factor --yarn-beta-slow --yarn-beta-fast": _ROPE,
    "-gan --grp-attn-n -gaw --grp-attn-w": "mtkit has no self-extend; --ctx N sets the context",
    "--override-kv": "mtkit edit MODEL.gguf --set KEY=VALUE -o NEW.gguf writes it into a copy",
    "--control-vector --control-vector-scaled": "mtkit has no control vectors; --lora has adapters",
    "--samplers --sampler-seq --sampling-seq": (
        "the samplers run in llama.cpp's order; --top-k 0, --top-p 1, --min-p 0 switch one off"
    ),
    "--dynatemp-range --dynatemp-exp --adaptive-target --adaptive-decay": "--temp is fixed here",
    "--dry-sequence-breaker": "DRY has llama.cpp's own breakers here",
    "--draft-min --draft-n-min --spec-draft-n-min": "--draft-p-min P ends a draft early",
    "--spec-type -lcs --lookup-cache-static -lcd --lookup-cache-dynamic": _LOOKUP,
    "--keep": "mtkit chat keeps the system message, and drops the oldest messages after it",
    "-lv --verbosity --log-verbosity --log-verbose": "-v shows llama.cpp's log",
    "--log-file": "-v shows llama.cpp's log on stderr: 2> FILE",
    "-o --output --output-file": "the text goes to stdout: > FILE",
    "-e --escape": "a text is taken as it is; in bash, $'…' has \\n for a line break",
    "-co": "it is called --color auto|always|never",
    "--format": '--json-schema \'{"type": "object"}\' holds the text to JSON',
    "--verbose-prompt": "mtkit encode shows the tokens of a text, -v those of the prompt",
    "--no-jinja --skip-chat-parsing": "chat templates are Jinja here; mtkit generate uses none",
    "--reasoning-preserve --no-reasoning-preserve": "the chat template decides",
    "--reasoning-budget-message": "mtkit ends a reasoning with the sign of the template alone",
}
"""What generate, chat and serve answer alike; its keys are lists of options."""
_DIALOGUE = "mtkit chat has conversations"


def _each(*tables: dict[str, str]) -> dict[str, str]:
    """Return option -> text of tables whose keys are lists of options."""
    return {
        name: text for table in tables for names, text in table.items() for name in names.split()
    }


_HABITS: dict[str, dict[str, str]] = {
    "generate": _each(
        _RUN,
        {
            "-cnv --conversation -i --interactive -if --interactive-first -st --single-turn "
            "-mli --multiline-input": f"{_DIALOGUE}: mtkit chat -m MODEL.gguf",
            "-sys --system --system-prompt -sysf --system-prompt-file --chat-template "
            "--chat-template-file --chat-template-kwargs --reasoning -rea --reasoning-format "
            "--reasoning-budget --in-prefix --in-suffix --in-prefix-bos": (
                f"{_DIALOGUE}, by the chat template: mtkit chat -m MODEL.gguf --system TEXT -p TEXT"
            ),
            "-bf --binary-file": "-f FILE takes any file",
            "--prompt-cache --prompt-cache-all --prompt-cache-ro": (
                "--save-session FILE writes the state of a run, --load-session FILE continues it"
            ),
            "-ptc --print-token-count": "the number of tokens is printed at the end",
        },
    ),
    "chat": _each(
        _RUN,
        {
            "-no-cnv --no-conversation": "mtkit generate continues a text without a template",
            "--think --hidethinking": "--reasoning on|off switches it",
            "--keepalive": "a model stays loaded as long as the chat runs; mtkit serve keeps it",
            "-sysf --system-prompt-file": '--system "$(cat FILE)"',
            "-sp --special": _SAYS,
            "--list-devices": "mtkit generate --devices lists the devices",
            "--chat-template-kwargs": "--reasoning on|off switches reasoning",
            "--reasoning-format": "reasoning is dimmed on a terminal; --json has it by itself",
            "--reasoning-budget": "--reasoning off switches reasoning off",
            "--in-prefix --in-suffix --in-prefix-bos": "the chat template writes what is around",
            "-bf --binary-file": "-f FILE takes any file",
            "--prompt-cache --prompt-cache-all --prompt-cache-ro": (
                "/save FILE writes a conversation, /load FILE goes on with it"
            ),
        },
    ),
    "serve": _each(
        _RUN,
        {
            "-p --prompt -f --file -bf --binary-file": "requests have the texts: POST /completion",
            "--image --audio": "messages of requests have them (docs/serve.md)",
            "-sys --system --system-prompt -sysf --system-prompt-file": (
                'requests have it: {"role": "system", "content": …}'
            ),
            "-r --reverse-prompt --stop": 'requests have it: "stop": ["TEXT"]',
            "-sp --special": 'requests have it: "return_tokens": true gives the ids',
            "--list-devices": "mtkit generate --devices lists the devices",
            "--slots": "/slots is served in any case; --slots N is how many answers run at a time",
            "--models-dir --models-preset": "-m NAME=FILE, as often as there are models",
            "--models-autoload --no-models-autoload": "models are loaded when requests name them",
            "--reasoning-format": 'requests have it: "reasoning_format": "none"',
            "--path --api-prefix": "a proxy such as nginx or caddy serves files and prefixes",
            "--ssl-key-file --ssl-cert-file": "a proxy such as caddy or nginx has TLS",
            "-to --timeout": "answers take the time they need; --keepalive N has streams go on",
            "--no-cache-prompt": 'requests have it: "cache_prompt": false',
            "--cache-reuse": "what prompts have in common is reused from their beginning",
            "-cram --cache-ram -ctxcp --ctx-checkpoints --swa-checkpoints": (
                "the cache has the size of --ctx; --swa-full keeps all of sliding windows"
            ),
            "-nocb --no-cont-batching": "--slots 1 answers one request at a time",
            "--tools --ui-mcp-proxy --webui-mcp-proxy --mcp-servers-config --agent -ag": (
                "mtkit has no MCP; clients run the tools"
            ),
            "--props": "GET /props is served; the settings are options",
            "--gpu": "-ngl all puts the model on a GPU",
            "--context-length": "--ctx N is the context of all slots together",
            "--identifier": "--alias NAME, or -m NAME=FILE",
            "--ttl": "--sleep-idle-seconds N unloads a model that gets no request",
            "--cors": "--allow-origin URL lets pages of other servers in",
            "--prompt-cache --prompt-cache-all --prompt-cache-ro": (
                "--slot-save-path DIR lets requests save the state of a slot"
            ),
        },
    ),
    "convert": {
        "--bigendian": "write the file, then run: mtkit convert-endian MODEL.gguf -o BIG.gguf",
        "--big-endian": "write the file, then run: mtkit convert-endian MODEL.gguf -o BIG.gguf",
        "--remote": "--download fetches ORG/NAME into the local HuggingFace cache",
        "--mistral-format": (
            "consolidated.safetensors with params.json is read where the folder has no "
            "model*.safetensors, which hold the same model; without experts"
        ),
        "--disable-mistral-community-chat-template": "edit has --unset and --chat-template-file",
        "--mtp": _DRAFT,
        "--no-mtp": "mtkit leaves draft heads (MTP) out",
        "--target-model-dir": _DRAFT,
        "--fuse-gate-up-exps": _AS_IS,
        "--fuse-qkv": _AS_IS,
        "--fp8-as-q8": "take the model in BF16 or F16, and --type q8_0",
        "--lora": "run: mtkit merge BASE --lora ADAPTER -o MERGED.gguf",
        "--merge": "run: mtkit merge BASE --lora ADAPTER -o MERGED.gguf",
        "--quantize": "--type Q4_K_M (or another type) quantizes",
        "--trust-remote-code": "mtkit runs no code of models",
    },
    "merge": {
        "--merge": "mtkit merge is that command; leave it out",
        "--adapter": "it is called --lora",
        "--scale": "write it after the adapter: --lora ADAPTER=0.5",
        "--split": "mtkit split cuts a file",
    },
    "split": {
        "--split": "mtkit split is that command; leave it out",
        "--merge": "mtkit merge joins shards",
    },
    "edit": {
        "--remove": "--unset KEY removes a key",
        "--remove-metadata": "--unset KEY removes a key",
        "--delete": "--unset KEY removes a key",
        "--special-token-by-id": f"{_SET}tokenizer.ggml.eos_token_id=2",
        "--general-name": f"{_SET}general.name=TEXT",
        "--general-description": f"{_SET}general.description=TEXT",
        "--pre-tokenizer": f"{_SET}tokenizer.ggml.pre=TEXT",
        "--chat-template-config": "--chat-template-file FILE takes the template itself",
        "--dense-modules": "mtkit convert writes them, from the folder",
    },
    "quantize": {
        "--outtype": "--type TYPE is the new type",
        "--target-bpw": _BY_SIZE,
        "--target-size": _BY_SIZE,
    },
    "bench": _each(
        {
            "-r --repetitions": "--rounds N",
            "-pg -d --n-depth": "-p and -n measure prompts and single tokens, each on its own",
            "-ctv --cache-type-v": "--kv-type TYPE sets keys and values",
            "-f --file": "a text is an argument: mtkit bench FILE",
        }
    ),
    "imatrix": {"--show-statistics": "mtkit inspect IMATRIX.gguf --all shows what is in it"},
    "export-lora": {"--lora": "run: mtkit merge BASE --lora ADAPTER -o MERGED.gguf"},
}
"""Command -> option -> what to do instead."""
_SHORT = """
    -bf -bs -C -Cb -Cbd -Cd -Cr -Crb -Crd -cb -cd -cl -cmoe -cmoed -cms -cnv -co -cram -ctk -ctkd
    -ctv -ctvd -ctxcp -dev -devd -dio -dr -dt -fa -fit -fitc -fitt -gan -gaw -hf -hfd -hff -hfr
    -hfrd -hft -if -jf -kvo -kvu -lcd -lcs -lm -lv -lzm -md -mg -mli -mm -mmu -mu -mv -nb -ncffn
    -ncmoe -ncmoed -ngl -ngld -nkvo -no-cnv -no-kvu -nocb -nr -np -ns -ot -otd -pps -ps -ptc -rea
    -sm -sp -sps -st -sys -sysf -tb -tbd -td -to -ts -ub
"""
"""Short options of several letters, none of which is one letter with a value."""
_OF_ALL = {
    "--jinja": 0, "--warmup": 0, "--no-warmup": 0, "--repack": 0, "-kvo": 0, "--kv-offload": 0,
    "--mmproj-auto": 0, "--offline": 0, "--log-disable": 0, "--log-prefix": 0,
    "--no-log-prefix": 0, "--log-timestamps": 0, "--no-log-timestamps": 0,
    "--log-colors": 1, "--no-escape": 0, "--no-host": 0, "--op-offload": 0, "--simple-io": 0,
    "--no-context-shift": 0, "-dt": 1, "--defrag-thold": 1, "--prio": 1, "--prio-batch": 1,
    "--poll": 1, "--poll-batch": 1,
}  # fmt: skip
_WITHOUT_EFFECT: dict[str, dict[str, int]] = {
    "generate": {
        **_OF_ALL, "--no-display-prompt": 0, "-no-cnv": 0, "--no-conversation": 0, "--perf": 0,
        "--show-timings": 0,
    },
    "chat": {
        **_OF_ALL, "--no-display-prompt": 0, "-cnv": 0, "--conversation": 0, "-i": 0, "-if": 0,
        "--interactive": 0, "--interactive-first": 0, "-mli": 0, "--multiline-input": 0,
        "--no-perf": 0, "--no-show-timings": 0, "--nowordwrap": 0,
    },
    "serve": {
        **_OF_ALL, "--metrics": 0, "--webui": 0, "--ui": 0, "-cb": 0, "--cont-batching": 0,
        "--embedding": 0, "--embeddings": 0, "--rerank": 0, "--reranking": 0, "--perf": 0,
        "--prefill-assistant": 0, "--cache-prompt": 0, "--threads-http": 1, "--no-perf": 0,
    },
}  # fmt: skip
"""Command -> option -> number of its values: what is done, or left out, here in any case."""
_VALUES: dict[str, dict[str, str]] = {
    "flash_attention": {
        "1": "on", "true": "on", "enabled": "on", "0": "off", "false": "off", "disabled": "off",
        "-1": "auto",
    },
}  # fmt: skip
"""Setting -> llama.cpp's words for its values."""
_BARE = {"flash_attention": "on"}
"""Setting -> value where none follows."""
_WORDS = dict.fromkeys(("--no-mmproj", "--no-mmproj-auto"), ("--mmproj", "none"))
"""Option of llama.cpp -> an option here with its value."""
_CACHE_TYPES = {"-ctk": "K", "--cache-type-k": "K", "-ctv": "V", "--cache-type-v": "V"}
_NUMBER = re.compile(r"[-+]?[0-9.]")
_LEAST_RATIO = 0.8
_LEAST_PREFIX = 3


def instead_of(command: str, option: str) -> str:
    """Return what does here what an option does elsewhere; empty where it is not known."""
    return _HABITS.get(command, {}).get(option, "")


def near_options(option: str, options: Iterable[str]) -> list[str]:
    """Return the options that another word can stand for: a slip, or a shorter or longer form."""
    return [other for other in options if _is_near(option.lstrip("-"), other.lstrip("-"))]


def _is_near(word: str, other: str) -> bool:
    from difflib import SequenceMatcher

    short, long = sorted((word, other), key=len)
    if len(short) >= _LEAST_PREFIX and (long.startswith(short) or f"-{short}" in long):
        return True
    return SequenceMatcher(None, word, other).ratio() >= _LEAST_RATIO


def read_line(name: str, command: Command, args: Sequence[str]) -> list[str]:
    """Return a line as typer reads it; an option of another program raises UsageError."""
    return _Line(name, command).read(args)


class _Line:
    """The words of a line: options with their values, and texts."""

    def __init__(self, name: str, command: Command) -> None:
        self._name = name
        self._options = {
            spelling: parameter
            for parameter in command.parameters()
            for spelling, _ in parameter.spellings()
        }
        self._without_effect = _WITHOUT_EFFECT.get(name, {})
        self._cache_types: dict[str, str] = {}

    def read(self, args: Sequence[str]) -> list[str]:
        """Return the words that mtkit's own options and texts are."""
        words: list[str] = []
        rest = list(args)
        while rest:
            word = rest.pop(0)
            if word == "--":
                words += [word, *rest]
                break
            option = word.partition("=")[0] if word.startswith("-") else word
            if option in self._without_effect:
                del rest[: self._without_effect[option] if option == word else 0]
            elif option in _CACHE_TYPES and "kv_type" in self._settings():
                value = word.partition("=")[2] or (rest.pop(0) if rest else "")
                self._cache_types[_CACHE_TYPES[option]] = value
            elif option in self._options:
                words += self._own(word, rest)
            elif word in _WORDS and _WORDS[word][0] in self._options:
                words += _WORDS[word]
            else:
                words += self._other(word)
        return [*words, *self._cache_type()]

    def _settings(self) -> set[str]:
        return {parameter.name for parameter in self._options.values()}

    def _own(self, word: str, rest: list[str]) -> list[str]:
        """Return an option of this command with its value."""
        option, equals, value = word.partition("=")
        parameter = self._options[option]
        if parameter.is_flag:
            return [word]
        if equals:
            value = self._value(parameter, value)
            return [option, value] if len(option) == 2 else [f"{option}={value}"]
        is_text = not (parameter.option.choices or parameter.option.reads or _is_number(parameter))
        if not rest or (rest[0] in self._options and not is_text):
            if parameter.name in _BARE:
                return [option, _BARE[parameter.name]]
            hint = instead_of(self._name, option) or f"see mtkit {self._name} --help"
            raise self._error(f"{option} requires a value", hint)
        if parameter.name in _BARE and not self._is_value(parameter, rest[0]):
            return [option, _BARE[parameter.name]]
        values = [rest.pop(0) for _ in range(min(parameter.words, len(rest)))]
        return [option, *(self._value(parameter, value) for value in values)]

    def _value(self, parameter: Parameter, value: str) -> str:
        return _VALUES.get(parameter.name, {}).get(value, value)

    def _is_value(self, parameter: Parameter, value: str) -> bool:
        return self._value(parameter, value) in parameter.option.choices

    def _other(self, word: str) -> list[str]:
        """Return a text, or what typer reads of a word that is no option of this command."""
        option = word.partition("=")[0]
        if not word.startswith("-") or word == "-" or _NUMBER.match(word):
            return [word]
        advice = instead_of(self._name, option)
        if advice:
            raise self._error(f"no such option: {option}", advice)
        if word.startswith("--"):
            return [word]
        for end in range(len(word) - 1, 2, -1):  # -ngl99
            parameter = self._options.get(word[:end])
            if parameter is not None and not parameter.is_flag and _NUMBER.match(word[end:]):
                return [word[:end], self._value(parameter, word[end:])]
        if word in ("-h",) or self._is_glued(word):
            return [word]
        raise self._error(f"no such option: {option}", f"see mtkit {self._name} --help")

    def _is_glued(self, word: str) -> bool:
        """Tell whether a word is letters that switch, or a letter with its value."""
        parameter = self._options.get(word[:2])
        if parameter is None or word in _SHORT.split():
            return False
        if parameter.is_flag:
            switches = (self._options.get(f"-{letter}") for letter in word[1:])
            return all(other is not None and other.is_flag for other in switches)
        return not _is_number(parameter) or _NUMBER.match(word[2:]) is not None

    def _cache_type(self) -> list[str]:
        """Return the option for the types of keys and values, which are one here."""
        types = self._cache_types
        if not types:
            return []
        if len(types) == 2 and types["K"] == types["V"]:
            return ["--kv-type", types["K"]]
        typed = next(name for name, half in _CACHE_TYPES.items() if half in types)
        value = types[_CACHE_TYPES[typed]]
        what = "-ctk and -ctv differ" if len(types) == 2 else f"{typed} is one half of the cache"
        raise self._error(what, f"--kv-type {value or 'TYPE'} sets keys and values")

    def _error(self, what: str, hint: str) -> UsageError:
        return UsageError(what, source=self._name, hint=hint)


def _is_number(parameter: Parameter) -> bool:
    return parameter.annotation.partition(" ")[0] in ("int", "float")
