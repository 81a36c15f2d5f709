"""The table of settings: how a model is loaded, what it remembers, how its tokens are chosen.

Every setting stands here and nowhere else; declaration.py says what follows from a line. Further
spellings are llama.cpp's, as its own tools take them.
"""

from __future__ import annotations

from typing import Literal  # at run time: choices are read from it, and llama.cpp's package has it

from mtkit.errors import UsageError
from mtkit.memory_plan.kv_types import KvType  # noqa: TC001  read from the annotations
from mtkit.settings.declaration import Settings, setting

Flash = Literal["on", "off", "auto"]
Pooling = Literal["mean", "cls", "last", "rank"]
Thinking = Literal["auto", "on", "off"]
Waiting = Literal["auto", "active", "passive", "default"]
Trigger = Literal["likely", "emitted", "either"]
Position = Literal["first", "any"]

MOST_THREADS = 512
"""ggml's GGML_MAX_N_THREADS."""
_MOST = (1 << 31) - 1
"""Greatest number of a C int."""
_GREATEST_FLOAT32 = float((1 << 128) - (1 << 104))
_ANY = 1 << 20
HEADINGS = ("Serving", "Text", "Sampling", "Drafting", "Context", "Computing", "Session")
"""In the order in which they are shown."""


class LoadSettings(Settings, heading="Computing"):
    """How a model is loaded."""

    wait: Waiting = setting(
        "auto", "How threads wait: auto, active, passive or default.", metavar="POLICY"
    )
    gpu_layers: int = setting(
        0, "Layers on GPUs; -1: all.", -1, _MOST, option="-ngl --gpu-layers", also="--n-gpu-layers"
    )
    devices: tuple[str, ...] = setting(
        (), "Use this device. Repeatable.", option="--device", also="-dev", metavar="NAME"
    )
    tensor_split: tuple[float, ...] = setting(
        (), "Share of each GPU.", 0, 1 << 30, also="-ts", metavar="A,B"
    )
    mmap: bool | None = setting(
        None, "Map the file instead of reading it.", option="--mmap/--no-mmap"
    )
    check_tensors: bool = setting(False, "Look for values that are not numbers while loading.")
    repack: bool = setting(
        True, "Let llama.cpp rearrange the weights for this CPU.",
        off="Leave the weights as the file has them.", also="-nr",
    )  # fmt: skip
    backends: str | None = setting(None, "Folder of more back ends.", metavar="DIR")
    trial: bool = setting(
        True, "Try a file that never ran before in a process of its own.",
        off="Run a file that never ran before without trying it first.",
    )  # fmt: skip


class ContextSettings(Settings, heading="Context"):
    """What a context is made with.

    Attributes:
        embeddings: Give hidden states as well.
        pooling: How they become one vector; None: the model's way.
        n_seq: Sequences that share ``n_ctx``.
        kv_unified: Each may take all of it, instead of an equal part.
    """

    n_ctx: int | None = setting(
        None, "Tokens of context; none: what is needed.", 1, _MOST, option="-c --ctx",
        also="--ctx-size",
    )  # fmt: skip
    n_batch: int = setting(
        512, "Tokens given at once.", 1, _MOST, option="--batch-size --batch", also="-b"
    )
    n_ubatch: int = setting(
        512, "Tokens computed at once.", 1, _MOST, option="--ubatch", also="-ub --ubatch-size"
    )
    kv_type: KvType = setting("f16", "Type of keys and values: f16, bf16, q8_0 …", metavar="TYPE")
    flash_attention: Flash = setting(
        "on", "Attention in one kernel.", also="-fa --flash-attn", metavar="on|off|auto"
    )
    swa_full: bool = setting(
        False, "Layers with a sliding window keep the whole context, which can be cut anywhere."
    )
    threads: int | None = setting(
        None, "Threads; none: measured.", 1, MOST_THREADS, also="-t", heading="Computing"
    )
    embeddings: bool = False
    pooling: Pooling | None = None
    n_seq: int = 1
    kv_unified: bool = False

    def __post_init__(self) -> None:
        """Check what goes together."""
        super().__post_init__()
        if self.flash_attention == "off" and self.kv_type not in ("f32", "f16", "bf16"):
            raise UsageError(f"{self.kv_type} needs flash attention, which is off", field="kv_type")


class SharedContextSettings(ContextSettings, heading="Context"):
    """What a context is made with that slots share."""

    n_ctx: int | None = setting(
        None, "Tokens of context, which the slots share; auto: what the model was trained with, as "
        "far as memory allows.", 1, _MOST, option="-c --ctx", also="--ctx-size", metavar="N|auto",
    )  # fmt: skip


class WindowSettings(ContextSettings, heading="Context"):
    """What a context is made with that computes windows of a text, several in one batch."""

    n_ctx: int | None = setting(
        None, "Tokens in a window; none: 512, or what the model was trained with if that is less.",
        1, _MOST, option="-c --ctx", also="--ctx-size",
    )  # fmt: skip
    n_batch: int = setting(
        2048, "Tokens given at once.", 1, _MOST, option="--batch-size --batch", also="-b"
    )


class SamplerSettings(Settings, heading="Sampling"):
    """How tokens are chosen."""

    temperature: float = setting(
        0.0, "0: always the most likely token.", 0, 1000, option="--temp", also="--temperature",
        metavar="T",
    )  # fmt: skip
    top_k: int = setting(40, "Keep the K most likely; 0: all.", 0, 1 << 30, metavar="K")
    top_p: float = setting(
        0.95, "Keep the most likely that together have probability P; 1: all.", 0, 1, metavar="P"
    )
    min_p: float = setting(
        0.05, "Keep those with this part of the highest probability.", 0, 1, metavar="P"
    )
    typical: float = setting(
        1.0, "Keep those of typical information; 1: all.", 0, 1, also="--typical-p", metavar="P"
    )
    top_n_sigma: float = setting(
        0.0, "Keep logits within X standard deviations of the highest; 0: all.", 0, 1_000_000,
        also="--top-nsigma",
    )  # fmt: skip
    repeat_penalty: float = setting(
        1.0, "Divides the logits of tokens seen lately; 1: none.", 0.001, 1000
    )
    frequency_penalty: float = setting(
        0.0, "Taken from a logit for every time the token was seen lately.", -1000, 1000
    )
    presence_penalty: float = setting(
        0.0, "Taken from the logit of every token seen lately.", -1000, 1000
    )
    penalty_last: int = setting(64, 'How many tokens "lately" is.', 0, _ANY, also="--repeat-last-n")
    dry: float = setting(
        0.0, "Strength of DRY's penalty against repeated sequences; 0: none.", 0, 1000,
        also="--dry-multiplier",
    )  # fmt: skip
    dry_base: float = setting(1.75, "DRY's growth for every further token.", 0, 1000)
    dry_length: int = setting(
        2, "Longest repetition that costs nothing in DRY.", 1, _ANY, also="--dry-allowed-length"
    )
    dry_last: int = setting(
        -1, "Tokens that DRY looks at; -1: the context.", -1, _ANY, also="--dry-penalty-last-n"
    )
    xtc: float = setting(
        0.0, "Probability that XTC removes the most likely tokens.", 0, 1,
        also="--xtc-probability", metavar="P",
    )  # fmt: skip
    xtc_threshold: float = setting(0.1, "Least probability of what XTC removes.", 0, 1, metavar="P")
    mirostat: int = setting(0, "1 or 2: mirostat instead of the cuts above; 0: none.", 0, 2)
    mirostat_tau: float = setting(
        5.0, "Mirostat's aim: surprise in bits.", 0, 1000, also="--mirostat-ent"
    )
    mirostat_eta: float = setting(0.1, "Mirostat's rate.", 0, 1000, also="--mirostat-lr")
    grammar: str | None = setting(
        None, "GBNF that the text follows: file or text.", also="--grammar-file", metavar="GBNF"
    )
    json_schema: str | None = setting(
        None, "JSON schema that the text follows: file or text.",
        also="-j -jf --json-schema-file", metavar="SCHEMA",
    )  # fmt: skip
    logit_bias: tuple[tuple[int | str, float], ...] = setting(
        (), "Added to a token's logit, or TEXT=N; false: never. Repeatable.", metavar="ID=N"
    )
    ignore_eos: bool = setting(False, "Never choose a token that ends the text.")
    seed: int | None = setting(
        None, "Of the random numbers; none: another one each time.", 0, (1 << 32) - 1, also="-s"
    )

    def __post_init__(self) -> None:
        """Check what goes together."""
        super().__post_init__()
        if self.grammar is not None and self.json_schema is not None:
            raise UsageError("a grammar and a JSON schema exclude each other")
        for name, value in self.logit_bias:
            if not value <= _GREATEST_FLOAT32:
                what = f"is {value} for {name!r}, not a number of 32 bits"
                raise UsageError(what, field="logit_bias")

    @property
    def is_greedy(self) -> bool:
        """Whether always the most likely token is chosen."""
        return self.temperature == 0 and not self.mirostat

    @property
    def has_penalties(self) -> bool:
        """Whether tokens seen before count."""
        return bool(
            self.repeat_penalty != 1
            or self.frequency_penalty
            or self.presence_penalty
            or self.dry > 0
        )

    def unused(self) -> list[str]:
        """Return the fields that say how to choose at random, where nothing is."""
        return [
            name
            for name in _AT_RANDOM
            if self.is_greedy and getattr(self, name) != self.declared[name].default
        ]


_AT_RANDOM = ("top_k", "top_p", "min_p", "typical", "top_n_sigma", "xtc", "xtc_threshold", "seed")


class DraftSettings(Settings, heading="Drafting"):
    """How tokens are drafted that the model then verifies together (speculative decoding)."""

    draft: str | None = setting(
        None, "Model that drafts: file, folder or ORG/NAME.", also="-md --model-draft",
        metavar="GGUF",
    )  # fmt: skip
    draft_max: int = setting(
        8, "Tokens drafted at once, at most; 0: none.", 0, 62, also="--draft-n"
    )
    draft_p_min: float = setting(
        0.0, "Draft no further where no token has this probability.", 0, 1, metavar="P"
    )
    draft_auto: bool = setting(
        True, "Draft as many as pays on this machine, perhaps none.",
        off="Always draft as many as allowed.",
    )  # fmt: skip
    draft_lookup: bool = setting(
        False, "Draft what followed the last tokens where they occurred before."
    )
    draft_lookup_min: int = setting(2, "Tokens that have to agree for that.", 1, 64)
    draft_by_text: bool = setting(
        False, "Tokenize the draft's text anew: for a draft of another vocabulary."
    )
    draft_match: bool = setting(
        False, "Accept what plain decoding would choose: same seed, same text."
    )
    sx_static_vocab: str | None = setting(
        None, "The draft proposes the ids of this vocab.txt alone.", metavar="FILE"
    )
    sx_quant_embd: str | None = setting(
        None, "Look for ids like an unknown one in this quant_embeddings.bin.", metavar="FILE"
    )
    sx_scales: str | None = setting(None, "Its scales.bin.", metavar="FILE")
    sx_neighbors: str | None = setting(
        None,
        "Instead: take them from this neighbors.bin.",
        metavar="FILE",
        also="--sx-neighbours",
    )
    sx_topk: int = setting(50, "Neighbors of an id that join it at most.", 0, 65536)
    sx_threshold: float = setting(0.85, "Least cosine of a neighbor.", -1, 1)
    sx_quantile: float | None = setting(
        None, "Instead: the cosine that this part of all pairs of ids stays below.", 0, 1,
        metavar="P",
    )  # fmt: skip
    sx_trigger: Trigger = setting(
        "likely", "Whose id: the most likely, the emitted, or either.", metavar="WHICH"
    )
    sx_position: Position = setting(
        "first", "Where it was rejected: first, or any.", metavar="WHERE"
    )
    sx_seed_prompt: bool = setting(False, "The prompt's ids can be proposed, too.")
    sx_learn: bool = setting(False, "Every id that was emitted can be proposed, too.")
    sx_cap: int = setting(4096, "Ids beside the static ones at most.", 0, 1 << 20)
    exact: bool = setting(
        True, "Greedy text is that of plain decoding, to the bit.",
        off="Greedy text may differ from plain decoding where two tokens are all but equal.",
    )  # fmt: skip


class ServedDraftSettings(DraftSettings, heading="Drafting"):
    """How tokens are drafted where several answers share a batch."""

    draft_match: bool = setting(True, "Always: an answer does not depend on drafts.", option=None)
    exact: bool = setting(
        False, "Greedy answers do not depend on what else is computed, to the bit.",
        heading="Serving",
    )  # fmt: skip


class ModelSettings(Settings):
    """What opening a model takes."""

    model: str | None = setting(
        None, "File, folder or ORG/NAME; none: the small one.", option="-m --model", metavar="GGUF"
    )
    context: ContextSettings = ContextSettings()
    load: LoadSettings = LoadSettings()
    lora: tuple[str, ...] = setting(
        (), "Add this LoRA adapter, FILE or FILE:SCALE. Repeatable.", also="--lora-scaled",
        metavar="GGUF",
    )  # fmt: skip


class TextSettings(ModelSettings):
    """What going through a text in windows takes."""

    context: ContextSettings = WindowSettings()


class AnswerSettings(ModelSettings, heading="Text"):
    """What an answer is made with."""

    n_predict: int = setting(
        -1, "Tokens at most; -1: until the end.", -1, _MOST, option="-n --tokens",
        also="--predict --n-predict",
    )  # fmt: skip
    stops: tuple[str, ...] = setting((), "End there. Repeatable.", option="--stop", metavar="TEXT")
    parse_special: bool = setting(False, "Special tokens spelled in the text are special tokens.")
    sampler: SamplerSettings = SamplerSettings()
    drafting: DraftSettings = DraftSettings()


class GenerateSettings(AnswerSettings, heading="Text"):
    """What a generation is made with."""

    n_predict: int = setting(
        128, "Tokens at most; -1: until the end.", -1, _MOST, option="-n --tokens",
        also="--predict --n-predict",
    )  # fmt: skip
    parse_special: bool = setting(
        True, "Special tokens spelled in the text are special tokens.",
        off="Special tokens spelled in the text are text.",
    )  # fmt: skip
    add_special: bool = setting(
        True, "Add special tokens (BOS, EOS …) as the tokenizer does.",
        off="Do not add special tokens (BOS, EOS …).", option="--no-special",
    )  # fmt: skip
    special: bool = setting(False, "Show control tokens that are generated.", also="-sp")
    logprobs: bool = setting(False, "Compute the probability of each token.", option=None)
    check_tokenizer: bool = setting(False, "Compare the prompt's ids with mtkit's own tokenizer.")
    load_session: str | None = setting(
        None, "Go on from this session; the prompt follows its text.", metavar="FILE",
        heading="Session",
    )  # fmt: skip
    save_session: str | None = setting(
        None, "Write a session at the end.", metavar="FILE", heading="Session"
    )
    force: bool = setting(False, "Replace the session file.", heading="Session")


class ServeSettings(ModelSettings, heading="Serving"):
    """What a model is served with; the sampler's are what a request does not say."""

    host: str = setting(
        "127.0.0.1", "Address to listen on, or several with commas; others than this machine's "
        "need a key.",
    )  # fmt: skip
    port: int = setting(8080, "Port; 0: any free one.", 0, 65535)
    slots: int = setting(
        4, "Answers given at the same time, which share --ctx.", 1, 256, option="-np --slots",
        also="--parallel",
    )  # fmt: skip
    kv_unified: bool = setting(
        False, "An answer may take all of --ctx, as long as the others leave it; so with auto."
    )
    context_shift: bool = setting(
        False, "A full slot forgets half of its text and goes on, up to the limit of the request."
    )
    queue: int = setting(64, "Requests that wait for a slot at most.", 0, 1 << 16)
    api_key: str | None = setting(None, "Key that requests have to carry.", metavar="KEY")
    api_key_file: str | None = setting(None, "File with such keys, one a line.", metavar="FILE")
    allow_host: tuple[str, ...] = setting(
        (), "Name that this server may be called by. Repeatable.", metavar="NAME"
    )
    allow_origin: tuple[str, ...] = setting(
        (), "Origin whose web pages may ask, or null: pages of files. Repeatable.", metavar="URL"
    )
    cors_origins: str | None = setting(
        None, "The same with commas; localhost: all pages of this machine, *: any page.",
        metavar="URLS",
    )  # fmt: skip
    alias: str | None = setting(
        None, "Name of the model in the API, or several with commas; none: the file's.",
        option="-a --alias", metavar="NAME",
    )  # fmt: skip
    tags: str | None = setting(None, "Tags that /v1/models tells, with commas.", metavar="TAGS")
    n_predict: int = setting(
        -1, "Tokens of an answer where a request does not say; -1: as many as fit.", -1, _MOST,
        option="-n --tokens", also="--predict --n-predict",
    )  # fmt: skip
    pooling: Pooling | None = setting(
        None, "How /v1/embeddings makes one vector of a text; none: the model's way, else mean.",
        metavar="mean|cls|last|rank",
    )  # fmt: skip
    slot_save_path: str | None = setting(
        None, "Folder in which requests may save slots.", metavar="DIR"
    )
    chat_template_kwargs: str | None = setting(
        None, "Variables of the chat template, as a JSON object.", metavar="JSON"
    )
    reasoning: Thinking = setting(
        "auto", "Let the model think, where its template has a switch; auto: as on.",
        metavar="auto|on|off",
    )  # fmt: skip
    reasoning_budget: int = setting(
        -1, "Tokens of thinking before it is ended; 0: --reasoning off, -1: no limit.", -1, _MOST
    )
    prefill_assistant: bool = setting(
        True, "Continue a last message of the assistant.",
        off="Answer a last message of the assistant instead of continuing it.",
    )  # fmt: skip
    spm_infill: bool = setting(False, "Fill gaps with what stands behind them first.")
    webui: bool = setting(
        True, "A page to chat at /.", off="No page at /.", also="--no-ui",
    )  # fmt: skip
    metrics: bool = setting(True, "Counters at /metrics.", off="No counters at /metrics.")
    show_slots: bool = setting(
        True, "What the slots do at /slots.", off="Not a word of the slots at /slots.",
        option="--no-slots",
    )  # fmt: skip
    verbose: bool = setting(
        False, "llama.cpp's log, and prompts and settings in the answers (__verbose).",
        option="-v --verbose",
    )  # fmt: skip
    strict: bool = setting(False, "Refuse fields of requests that are not known.")
    grace: int = setting(
        10, "Seconds that running answers have to end when the server does.", 0, 3600
    )
    context: ContextSettings = SharedContextSettings()
    sampler: SamplerSettings = SamplerSettings()
    drafting: ServedDraftSettings = ServedDraftSettings()
