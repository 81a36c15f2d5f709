"""Keywords of mtkit.generate and mtkit.Model, by python -m tools.generate."""

from typing import TypedDict

from mtkit.settings import Flash, KvType, Waiting

class AnswerKeywords(TypedDict, total=False):
    """Those of one answer; docs/settings.md says what they do."""

    n_predict: int
    stops: tuple[str, ...]
    parse_special: bool
    images: tuple[str, ...]
    audio: tuple[str, ...]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical: float
    top_n_sigma: float
    repeat_penalty: float
    frequency_penalty: float
    presence_penalty: float
    penalty_last: int
    dry: float
    dry_base: float
    dry_length: int
    dry_last: int
    xtc: float
    xtc_threshold: float
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    grammar: str | None
    json_schema: str | None
    logit_bias: tuple[tuple[int | str, float], ...]
    ignore_eos: bool
    seed: int | None
    add_special: bool
    special: bool
    logprobs: bool

class ModelKeywords(AnswerKeywords, total=False):
    """Those of a model; docs/settings.md says what they do."""

    n_ctx: int | None
    n_batch: int
    n_ubatch: int
    kv_type: KvType
    flash_attention: Flash
    swa_full: bool
    threads: int | None
    wait: Waiting
    gpu_layers: int
    devices: tuple[str, ...]
    tensor_split: tuple[float, ...]
    mmap: bool | None
    mlock: bool
    check_tensors: bool
    repack: bool
    backends: str | None
    trial: bool
    lora: tuple[str, ...]
    mmproj: str | None
    draft: str | None
    draft_profile: str | None
    draft_max: int
    draft_p_min: float
    draft_auto: bool
    draft_width: int
    draft_lookup: bool
    draft_match: bool
    sx_static_vocab: str | None
    sx_quant_embd: str | None
    sx_scales: str | None
    sx_topk: int
    sx_threshold: float
    sx_seed_prompt: bool
    sx_learn: bool
    exact: bool

class GenerateKeywords(ModelKeywords, total=False):
    """Those of one call; docs/settings.md says what they do."""

    check_tokenizer: bool
    load_session: str | None
    save_session: str | None
    force: bool
