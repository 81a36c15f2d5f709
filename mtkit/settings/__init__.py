"""The table of settings: how a model is loaded, computed, sampled, drafted for and served.

Every setting is declared here and nowhere else; declaration.py says what follows from it. The names
under ``also`` are those of llama.cpp's own tools.
"""

from __future__ import annotations

from typing import Literal  # at run time: choices are read from it, and llama.cpp's package has it

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.settings.declaration import Settings, setting

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

Flash = Literal["on", "off", "auto"]
KvType = Literal["f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"]
Pooling = Literal["mean", "cls", "last", "rank"]
Thinking = Literal["auto", "on", "off"]
Waiting = Literal["auto", "active", "passive", "default"]

MOST_THREADS = 512
"""ggml's GGML_MAX_N_THREADS."""
_MOST = (1 << 31) - 1
"""Greatest number of a C int."""
_GREATEST_FLOAT32 = float((1 << 128) - (1 << 104))
_ID_DIGITS = 20
_ANY = 1 << 20
HEADINGS = ("Serving", "Text", "Sampling", "Drafting", "Context", "Computing", "Session")
"""In the order of help and docs."""


class LoadSettings(Settings, heading="Computing"):
    """How a model is loaded."""

    wait: Waiting = setting(
        "auto", "How threads wait for each other: auto, active, passive, default.", metavar="POLICY"
    )
    gpu_layers: int = setting(
        0, "Layers to offload to GPUs; -1 or all: all.", -1, _MOST, option="-ngl --gpu-layers",
        also="--n-gpu-layers",
    )  # fmt: skip
    devices: tuple[str, ...] = setting(
        (), "Device to use; repeatable.", option="--device", also="-dev", metavar="NAME"
    )
    tensor_split: tuple[float, ...] = setting(
        (), "Share of the model for each GPU.", 0, 1 << 30, also="-ts", metavar="A,B"
    )
    mmap: bool | None = setting(None, "Memory-map the file, or read it.", option="--mmap/--no-mmap")
    mlock: bool = setting(
        False, "Lock the model in memory, as far as the system allows it (ulimit -l)."
    )
    check_tensors: bool = setting(False, "Check the weights for NaN and infinity while loading.")
    repack: bool = setting(
        True, "Repack the weights for this CPU.",
        off="Do not repack the weights for this CPU.", also="-nr",
    )  # fmt: skip
    backends: str | None = setting(None, "Folder with additional ggml backends.", metavar="DIR")
    trial: bool = setting(
        True, "Test-load a new file in a separate process first.",
        off="Do not test-load a new file in a separate process first.",
    )  # fmt: skip


class ContextSettings(Settings, heading="Context"):
    """How a context is made.

    Attributes:
        embeddings: Compute hidden states as well.
        pooling: How they become one vector; None: as the model says.
        n_seq: Sequences that share ``n_ctx``.
        kv_unified: Each may take all of it, instead of an equal part.
    """

    n_ctx: int | None = setting(
        None, "Context size in tokens; default: as needed.", 1, _MOST, option="-c --ctx",
        also="--ctx-size",
    )  # fmt: skip
    n_batch: int = setting(
        512, "Logical batch size in tokens.", 1, _MOST, option="--batch-size --batch", also="-b"
    )
    n_ubatch: int = setting(
        512, "Physical batch size in tokens.", 1, _MOST, option="--ubatch", also="-ub --ubatch-size"
    )
    kv_type: KvType = setting("f16", "KV cache type: f16, bf16, q8_0 …", metavar="TYPE")
    flash_attention: Flash = setting(
        "on", "Use flash attention.", also="-fa --flash-attn", metavar="on|off|auto"
    )
    swa_full: bool = setting(
        False, "Keep a full-size cache for sliding-window layers, so that any prefix can be reused."
    )
    threads: int | None = setting(
        None, "Number of threads; default: measured.", 1, MOST_THREADS, also="-t",
        heading="Computing",
    )  # fmt: skip
    embeddings: bool = False
    pooling: Pooling | None = None
    n_seq: int = 1
    kv_unified: bool = False

    def __post_init__(self) -> None:
        """Check what goes together."""
        super().__post_init__()
        if self.flash_attention == "off" and self.kv_type not in ("f32", "f16", "bf16"):
            raise UsageError(f"{self.kv_type} needs flash attention, which is off", field="kv_type")


class ChatContextSettings(ContextSettings, heading="Context"):
    """How the context of a conversation is made."""

    n_ctx: int | None = setting(
        None, "Context size in tokens; default: 4096, at most the trained context.", 1, _MOST,
        option="-c --ctx", also="--ctx-size",
    )  # fmt: skip


class SharedContextSettings(ContextSettings, heading="Context"):
    """How the context that slots share is made."""

    n_ctx: int | None = setting(
        None, "Context size of all slots together, in tokens; auto: the trained size, as far as "
        "memory allows.", 1, _MOST, option="-c --ctx", also="--ctx-size", metavar="N|auto",
    )  # fmt: skip


class WindowSettings(ContextSettings, heading="Context"):
    """How a context is made that computes windows of a text, several in one batch."""

    n_ctx: int | None = setting(
        None, "Window size in tokens; default: 512, at most the trained context.",
        1, _MOST, option="-c --ctx", also="--ctx-size",
    )  # fmt: skip
    n_batch: int = setting(
        2048, "Logical batch size in tokens.", 1, _MOST, option="--batch-size --batch", also="-b"
    )


def bias_target(name: int | str) -> int | str:
    """Return the id that digits in ``logit_bias`` name; other texts stand for their tokens.

    Keys of JSON and words of a command line are texts, so digits are an id, also one that no
    vocabulary has; more digits than 64 bits hold are a text.
    """
    if isinstance(name, str) and name.isdecimal() and len(name) < _ID_DIGITS:
        return int(name)
    return name


class SamplerSettings(Settings, heading="Sampling"):
    """How tokens are chosen."""

    temperature: float = setting(
        0.0, "Temperature; 0: greedy, always the most likely token.", 0, 1000, option="--temp",
        also="--temperature", metavar="T",
    )  # fmt: skip
    top_k: int = setting(40, "Keep the K most likely tokens; 0: all.", 0, 1 << 30, metavar="K")
    top_p: float = setting(
        0.95, "Keep the most likely tokens up to a total probability of P; 1: all.", 0, 1,
        metavar="P",
    )  # fmt: skip
    min_p: float = setting(
        0.05, "Keep tokens with at least P times the highest probability.", 0, 1, metavar="P"
    )
    typical: float = setting(
        1.0, "Locally typical sampling with parameter P; 1: off.", 0, 1, also="--typical-p",
        metavar="P",
    )  # fmt: skip
    top_n_sigma: float = setting(
        0.0, "Keep logits within X standard deviations of the maximum; 0: all.", 0, 1_000_000,
        also="--top-nsigma",
    )  # fmt: skip
    repeat_penalty: float = setting(
        1.0, "Penalty on recent tokens, dividing their logits; 1: off.", 0.001, 1000
    )
    frequency_penalty: float = setting(
        0.0, "Penalty for each recent occurrence of a token.", -1000, 1000
    )
    presence_penalty: float = setting(
        0.0, "Penalty for every token that occurred recently.", -1000, 1000
    )
    penalty_last: int = setting(
        64, "How many recent tokens the penalties look at.", 0, _ANY, also="--repeat-last-n"
    )
    dry: float = setting(
        0.0, "DRY: strength of the penalty on repeated sequences; 0: off.", 0, 1000,
        also="--dry-multiplier",
    )  # fmt: skip
    dry_base: float = setting(1.75, "DRY: growth of the penalty per further token.", 0, 1000)
    dry_length: int = setting(
        2, "DRY: longest repetition without a penalty.", 1, _ANY, also="--dry-allowed-length"
    )
    dry_last: int = setting(
        -1, "DRY: how many recent tokens to look at; -1: the context.", -1, _ANY,
        also="--dry-penalty-last-n",
    )  # fmt: skip
    xtc: float = setting(
        0.0, "XTC: probability of removing the most likely tokens.", 0, 1,
        also="--xtc-probability", metavar="P",
    )  # fmt: skip
    xtc_threshold: float = setting(
        0.1, "XTC: minimum probability of a token to remove.", 0, 1, metavar="P"
    )
    mirostat: int = setting(0, "Mirostat 1 or 2, instead of top-k, top-p and so on; 0: off.", 0, 2)
    mirostat_tau: float = setting(
        5.0, "Mirostat: target entropy in bits.", 0, 1000, also="--mirostat-ent"
    )
    mirostat_eta: float = setting(0.1, "Mirostat: learning rate.", 0, 1000, also="--mirostat-lr")
    grammar: str | None = setting(
        None, "Constrain the text to a GBNF grammar: file or text.", also="--grammar-file",
        metavar="GBNF",
    )  # fmt: skip
    json_schema: str | None = setting(
        None, "Constrain the text to a JSON schema: file or text.",
        also="-j -jf --json-schema-file", metavar="SCHEMA",
    )  # fmt: skip
    logit_bias: tuple[tuple[int | str, float], ...] = setting(
        (),
        "Add N to the logit of a token (ID=N or TEXT=N), or ban it (ID=false). Repeatable.",
        also="-l",
        metavar="ID=N",
    )
    ignore_eos: bool = setting(False, "Never generate a token that ends the text.")
    seed: int | None = setting(
        None, "Random seed; default: a new one each run.", 0, (1 << 32) - 1, also="-s"
    )

    def __post_init__(self) -> None:
        """Check what goes together."""
        super().__post_init__()
        if self.grammar is not None and self.json_schema is not None:
            raise UsageError("a grammar and a JSON schema exclude each other")
        biases = tuple((bias_target(name), value) for name, value in self.logit_bias)
        self.__dict__["logit_bias"] = biases
        for name, value in biases:
            if not value <= _GREATEST_FLOAT32:
                what = f"is {value} for {name!r}, not a number of 32 bits"
                raise UsageError(what, field="logit_bias")

    @property
    def is_greedy(self) -> bool:
        """Whether always the most likely token is chosen."""
        return self.temperature == 0 and not self.mirostat

    @property
    def has_penalties(self) -> bool:
        """Whether earlier tokens have an influence."""
        return bool(
            self.repeat_penalty != 1
            or self.frequency_penalty
            or self.presence_penalty
            or self.dry > 0
        )

    def unused(self) -> list[str]:
        """Return the fields that have no effect because sampling is greedy."""
        return [
            name
            for name in _AT_RANDOM
            if self.is_greedy and getattr(self, name) != self.declared[name].default
        ]


class ChatSamplerSettings(SamplerSettings, heading="Sampling"):
    """How the tokens of a conversation are chosen: as the model says where nobody does."""

    temperature: float = setting(
        0.8, "Temperature; 0: greedy. Default: the model's own or 0.8; for a single answer of "
        "chat, 0.", 0, 1000, option="--temp", also="--temperature", metavar="T",
    )  # fmt: skip
    explicit: tuple[str, ...] = setting(
        (), "Settings that the model's own do not replace.", option=None
    )

    def with_own(self, metadata: Mapping[str, Any]) -> ChatSamplerSettings:
        """Return these settings with the model's own where none was given.

        Source: LLM_KV_GENERAL_SAMPLING_* of llama.cpp's llama-arch.cpp.
        """
        own = {
            name: metadata.get(f"general.sampling.{key}")
            for key, name in _OF_MODEL.items()
            if name not in self.explicit
        }
        numbers = {name: value for name, value in own.items() if isinstance(value, (int, float))}
        try:
            return replace(self, **numbers)
        except UsageError:  # a key of the model is out of range
            return self


_OF_MODEL = {
    "temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "penalty_repeat": "repeat_penalty", "penalty_last_n": "penalty_last",
}  # fmt: skip
"""End of a key ``general.sampling.…`` -> setting."""


_AT_RANDOM = ("top_k", "top_p", "min_p", "typical", "top_n_sigma", "xtc", "xtc_threshold", "seed")


class DraftSettings(Settings, heading="Drafting"):
    """How tokens are drafted for the model to verify together (speculative decoding)."""

    draft: str | None = setting(
        None, "Draft model: file, folder or ORG/NAME.",
        also="-md --model-draft --spec-draft-model -hfd -hfrd --hf-repo-draft", metavar="GGUF",
    )  # fmt: skip
    draft_profile: str | None = setting(
        None, "Drafting settings that mtkit sx tune found.", metavar="FILE"
    )
    draft_max: int = setting(
        8, "Maximum number of tokens to draft at once; 0: none.", 0, 62,
        also="--draft-n --spec-draft-n-max",
    )  # fmt: skip
    draft_p_min: float = setting(
        0.0, "Stop drafting when the best token's probability is below P.", 0, 1,
        also="--spec-draft-p-min", metavar="P",
    )  # fmt: skip
    draft_auto: bool = setting(
        True, "Draft as many tokens as pays off on this machine, perhaps none.",
        off="Always draft the maximum number of tokens.",
    )  # fmt: skip
    draft_width: int = setting(
        1,
        "Verify at least N tokens per step, by padding; 4 keeps up to three drafted tokens exact "
        "for Q4_K weights.",
        1,
        16,
    )
    draft_lookup: bool = setting(
        False, "Prompt lookup: draft what followed the same tokens earlier in the text."
    )
    draft_match: bool = setting(
        False, "Accept only what plain decoding would choose: same seed, same text."
    )
    sx_static_vocab: str | None = setting(
        None, "Let the draft model propose only the ids in this vocab.txt.", metavar="FILE"
    )
    sx_quant_embd: str | None = setting(
        None,
        "quant_embeddings.bin, to add the neighbors of an id missing from --sx-static-vocab.",
        metavar="FILE",
    )
    sx_scales: str | None = setting(None, "scales.bin for --sx-quant-embd.", metavar="FILE")
    sx_topk: int = setting(50, "Maximum number of neighbors to add with an id.", 0, 65536)
    sx_threshold: float = setting(0.85, "Minimum cosine similarity of a neighbor.", -1, 1)
    sx_seed_prompt: bool = setting(False, "Also propose the ids of the prompt.")
    sx_learn: bool = setting(False, "Also propose every id emitted so far.")
    exact: bool = setting(
        True, "Greedy text is exactly the same as without drafting.",
        off="Let greedy text differ where two tokens are almost equally likely.",
    )  # fmt: skip


class ServedDraftSettings(DraftSettings, heading="Drafting"):
    """How tokens are drafted where several answers share a batch."""

    draft_match: bool = setting(True, "Always on: drafts do not change an answer.", option=None)
    exact: bool = setting(
        False, "Make greedy answers independent of other requests, bit for bit.",
        heading="Serving",
    )  # fmt: skip


class ModelSettings(Settings):
    """How a model is opened."""

    model: str | None = setting(
        None, "Model: file, folder or ORG/NAME[:QUANT]; default: the bundled one.",
        option="-m --model", also="-hf -hfr --hf-repo", metavar="GGUF",
    )  # fmt: skip
    context: ContextSettings = ContextSettings()
    load: LoadSettings = LoadSettings()
    lora: tuple[str, ...] = setting(
        (), "LoRA adapter to apply, FILE or FILE:SCALE. Repeatable.", also="--lora-scaled",
        metavar="GGUF",
    )  # fmt: skip


class TextSettings(ModelSettings):
    """How a text is computed in windows."""

    context: ContextSettings = WindowSettings()


class MediaSettings(ModelSettings):
    """How a model is opened that may see and hear."""

    mmproj: str | None = setting(
        None, "Projector for pictures and sounds; default: mmproj*.gguf beside the model, none: "
        "without.", also="-mm", metavar="GGUF",
    )  # fmt: skip


class AnswerSettings(MediaSettings, heading="Text"):
    """How an answer is generated."""

    n_predict: int = setting(
        -1, "Maximum number of tokens; -1: until the model stops.", -1, _MOST,
        option="-n --n-predict", also="--predict --tokens",
    )  # fmt: skip
    stops: tuple[str, ...] = setting(
        (), "Stop at this text. Repeatable.", option="--stop", also="-r --reverse-prompt",
        metavar="TEXT",
    )  # fmt: skip
    parse_special: bool = setting(
        False, "Parse special tokens in the text.", option="--parse-special/--no-parse-special",
        also="--allow-special",
    )  # fmt: skip
    images: tuple[str, ...] = setting(
        (), "Picture for the model to see: PNG, JPEG, GIF or BMP. Repeatable.", option="--image",
        metavar="FILE",
    )  # fmt: skip
    audio: tuple[str, ...] = setting(
        (), "Sound for the model to hear: WAV, MP3 or FLAC. Repeatable.", option="--audio",
        metavar="FILE",
    )  # fmt: skip
    sampler: SamplerSettings = SamplerSettings()
    drafting: DraftSettings = DraftSettings()


class ChatSettings(AnswerSettings, heading="Text"):
    """How the answers of a conversation are generated."""

    context: ContextSettings = ChatContextSettings()
    sampler: ChatSamplerSettings = ChatSamplerSettings()


class TextAnswerSettings(AnswerSettings, heading="Text"):
    """How a text is continued."""

    n_predict: int = setting(
        128, "Maximum number of tokens; -1: until the model stops.", -1, _MOST,
        option="-n --n-predict", also="--predict --tokens",
    )  # fmt: skip
    parse_special: bool = setting(
        True, "Parse special tokens in the text.", option="--parse-special/--no-parse-special",
        also="--allow-special",
    )  # fmt: skip
    add_special: bool = setting(
        True, "Add special tokens (BOS, EOS …) as the tokenizer does.",
        off="Do not add special tokens (BOS, EOS …) to the prompt.", option="--no-special",
        also="--no-add-special --no-bos",
    )  # fmt: skip
    special: bool = setting(False, "Show special tokens in the output.", also="-sp")
    logprobs: bool = setting(False, "Compute the probability of each token.", option=None)


class GenerateSettings(TextAnswerSettings, heading="Text"):
    """How a text is generated by a command or call of its own."""

    check_tokenizer: bool = setting(False, "Check the prompt's ids against mtkit's own tokenizer.")
    load_session: str | None = setting(
        None, "Continue this session; the prompt is appended to it.", metavar="FILE",
        heading="Session",
    )  # fmt: skip
    save_session: str | None = setting(
        None, "Save the session to this file at the end.", metavar="FILE", heading="Session"
    )
    force: bool = setting(False, "Replace the session file.", heading="Session")


class ServeSettings(MediaSettings, heading="Serving"):
    """How a model is served; the sampler's settings are the defaults of requests."""

    model: str | None = setting(None, "Model: file, folder or ORG/NAME[:QUANT].", option=None)
    models: tuple[str, ...] = setting(
        (), "Model: file, folder or ORG/NAME[:QUANT], or NAME=FILE for one of several; requests "
        "choose by name. Repeatable; default: the bundled one.", option="-m --model",
        also="-hf -hfr --hf-repo", metavar="[NAME=]GGUF", heading="Options",
    )  # fmt: skip
    host: str = setting(
        "127.0.0.1", "Address to listen on, or several separated by commas; a non-local one needs "
        "a key.", metavar="ADDRESS",
    )  # fmt: skip
    port: int = setting(8080, "Port to listen on; 0: any free one.", 0, 65535)
    slots: int = setting(
        4, "Number of answers generated at the same time; each gets an equal part of --ctx.", 1,
        256, option="-np --slots", also="--parallel",
    )  # fmt: skip
    kv_unified: bool = setting(
        False, "Let an answer use all of --ctx that is free; implied by --ctx auto.", also="-kvu"
    )
    context_shift: bool = setting(False, "When a slot is full, drop half of its text and continue.")
    queue: int = setting(64, "Maximum number of requests that wait for a slot.", 0, 1 << 16)
    keepalive: float = setting(
        5.0, "Seconds of silence after which a stream sends a comment, ping or event; 0: never.",
        -1, 3600, also="--sse-ping-interval",
    )  # fmt: skip
    max_held_bytes: int = setting(
        1 << 28, "Maximum memory for incomplete request bodies, in bytes.",
        1 << 22, 1 << 40,
    )  # fmt: skip
    api_key: str | None = setting(None, "API key that requests must send.", metavar="KEY")
    api_key_file: str | None = setting(None, "File with API keys, one per line.", metavar="FILE")
    allow_host: tuple[str, ...] = setting(
        (), "Host name that requests may use for this server. Repeatable.", metavar="NAME"
    )
    allow_origin: tuple[str, ...] = setting(
        (),
        "Origin of web pages that may send requests; null: local files. Repeatable.",
        metavar="URL",
    )
    cors_origins: str | None = setting(
        None, "Like --allow-origin, separated by commas; localhost: pages of this machine, *: any.",
        metavar="URLS",
    )  # fmt: skip
    alias: str | None = setting(
        None, "Model name in the API, or several separated by commas; default: the file's.",
        option="-a --alias", metavar="NAME",
    )  # fmt: skip
    tags: str | None = setting(
        None, "Tags shown by /v1/models, separated by commas.", metavar="TAGS"
    )
    n_predict: int = setting(
        -1, "Maximum tokens per answer, unless the request sets its own; -1: as many as fit (16 "
        "for /v1/completions).", -1, _MOST, option="-n --n-predict", also="--predict --tokens",
    )  # fmt: skip
    pooling: Pooling | None = setting(
        None, "Pooling for /v1/embeddings; default: the model's own, or mean.",
        metavar="mean|cls|last|rank",
    )  # fmt: skip
    media_urls: bool = setting(
        False, "Follow http and https links to pictures and sounds, except to private addresses."
    )
    media_path: str | None = setting(
        None, "Folder of pictures and sounds that requests may name as file://NAME.", metavar="DIR"
    )
    slot_save_path: str | None = setting(
        None, "Folder where requests may save slots.", metavar="DIR"
    )
    chat_template_kwargs: str | None = setting(
        None, "Variables for the chat template, as a JSON object.", metavar="JSON"
    )
    reasoning: Thinking = setting(
        "auto", "Switch reasoning on or off, if the chat template can; auto: on.", also="-rea",
        metavar="auto|on|off",
    )  # fmt: skip
    reasoning_budget: int = setting(
        -1, "Maximum tokens of reasoning; 0: like --reasoning off, -1: no limit.", -1, _MOST
    )
    prefill_assistant: bool = setting(
        True, "Continue the last message if it is the assistant's.",
        off="Answer the last message even if it is the assistant's.",
    )  # fmt: skip
    spm_infill: bool = setting(False, "Infill: put the suffix before the prefix.")
    webui: bool = setting(
        True, "Serve a chat page at /.", off="Do not serve the chat page at /.", also="--no-ui",
    )  # fmt: skip
    metrics: bool = setting(True, "Serve counters at /metrics.", off="Do not serve /metrics.")
    show_slots: bool = setting(
        True, "Serve the state of the slots at /slots.", off="Do not serve /slots.",
        option="--no-slots",
    )  # fmt: skip
    verbose: bool = setting(
        False, "Show llama.cpp's log; add prompts and settings to answers.",
        option="-v --verbose",
    )  # fmt: skip
    strict: bool = setting(False, "Reject requests with unknown fields.")
    models_max: int = setting(
        4, "Maximum number of models loaded at the same time; 0: as many as memory holds.", 0, 1024
    )
    sleep_idle_seconds: int = setting(
        -1, "Unload a model that gets no request for so long; the next one loads it again; -1: "
        "never.", -1, _MOST,
    )  # fmt: skip
    grace: int = setting(10, "Seconds to wait for running answers at shutdown.", 0, 3600)
    context: ContextSettings = SharedContextSettings()
    sampler: ChatSamplerSettings = ChatSamplerSettings()
    drafting: ServedDraftSettings = ServedDraftSettings()
