"""The files and fields of a model folder: which are read, which have no effect, and why.

Whatever is in neither table is named when a folder is converted or checked. In a name ``*`` stands
for any letters. A field whose entry lists values has no effect with these alone.

Source: transformers, configuration_utils.py, generation/configuration_utils.py,
tokenization_utils_base.py; peft, tuners/lora/config.py; sentence_transformers.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import (
    CARD,
    GENERATION,
    INDEX,
    MODEL_CONFIG,
    POOLING_MODULES,
    TORCH_INDEX,
    WEIGHTS,
)
from mtkit.checkpoints.tensor_names import PARTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


class NoEffect(Record):
    """Files or fields that change nothing in the model.

    Attributes:
        reason: Why, as it is shown to people.
        names: Patterns of names.
        values: The values with which a field has no effect; None: any.
    """

    reason: str
    names: tuple[str, ...]
    values: tuple[object, ...] | None = None


READ_FILES: dict[str, tuple[str, ...]] = {
    "the model": (MODEL_CONFIG, "params.json", WEIGHTS, INDEX, TORCH_INDEX, "model*.safetensors"),
    "the tokenizer": (
        "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
        "chat_template.json", "additional_chat_templates/", "tekken*.json", "*.model",
        "*.model.v*", "*.tiktoken", "pattern.json", "vocab.json", "merges.txt", "vocab.txt",
        "rwkv_vocab*.txt", "tokenizer.jsonl", "tokenizer.txt", "tokenizer.bin", "*.mtok",
    ),
    "defaults for sampling, special tokens": (GENERATION,),
    "name, license, tags": (CARD,),
    "pooling, dense layers": (POOLING_MODULES,),
    "an adapter": ("adapter_config.json", "adapter_model.safetensors"),
}  # fmt: skip
"""What for -> names; one that ends in a slash is a folder."""
FILES = (
    NoEffect(
        "text and pictures for people",
        (
            "license*", "*.md", "notice*", "citation*", "use_policy*", "readme*", "copying*",
            "*.png", "*.jpg", "*.jpeg", "*.gif", "*.svg", "*.webp", "*.pdf", "*.mp4", "assets/",
            "figures/", "images/", "imgs/", "media/", "docs/", "examples/", "*.ipynb", "changelog*",
            "third_party*", "*.html",
        ),
    ),
    NoEffect(
        "files of the repository",
        (".*", ".*/", "*.lock", "*.metadata", "checksum*", "sha256sums*", "__pycache__/",
         "modelfile", "requirements*.txt"),
    ),
    NoEffect(
        "state of a training",
        (
            "training_args*", "trainer_*", "optimizer*", "scheduler*", "scaler*", "rng_state*",
            "*_results.json", "events.out.tfevents*", "*.log", "latest", "zero_to_fp32.py",
            "runs/", "logs/", "checkpoint-*/", "global_step*/", "training_*", "eval*.json",
            "mergekit_config.y*ml", "axolotl_config.y*ml", "wandb/",
        ),
    ),
    NoEffect("code for transformers", ("*.py",)),
    NoEffect(
        "how pictures and sound are prepared",
        ("preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
         "image_processor*.json"),
    ),
    NoEffect(
        "what a client of sentence-transformers does: prompts, the length of a text",
        ("config_sentence_transformers.json", "sentence_*_config.json"),
    ),
    NoEffect(
        "other copies of the weights",
        ("*.gguf", "*.gguf.part", "pytorch_model*", "tf_model*", "flax_model*", "rust_model*",
         "model*.onnx*", "consolidated*.pth", "original/", "onnx/", "openvino/", "openvino_model*",
         "coreml/", "gguf/", "mlx/", "*.imatrix", "imatrix*.dat"),
    ),
    NoEffect("parameters of another program", ("params.json", "*.modelfile", "ollama*",
                                               "configuration.json", "index.json")),
)  # fmt: skip

_SAMPLING = NoEffect(
    "a setting of generate() in transformers; in llama.cpp the caller sets it",
    (
        "do_sample", "temperature", "top_k", "top_p", "min_p", "typical_p", "num_beams",
        "num_beam_groups", "diversity_penalty", "repetition_penalty", "length_penalty",
        "encoder_repetition_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
        "bad_words_ids", "num_return_sequences", "max_length", "max_new_tokens", "min_length",
        "min_new_tokens", "max_time", "early_stopping", "exponential_decay_length_penalty",
        "suppress_tokens", "begin_suppress_tokens", "forced_bos_token_id", "forced_eos_token_id",
        "remove_invalid_values", "return_dict_in_generate", "output_scores", "output_logits",
        "decoder_start_token_id", "epsilon_cutoff", "eta_cutoff", "penalty_alpha", "top_h",
        "stop_strings", "renormalize_logits", "constraints", "force_words_ids", "guidance_scale",
        "low_memory", "watermarking_config", "token_healing", "sequence_bias", "prompt_lookup_*",
        "num_assistant_tokens*", "assistant_*", "target_lookbehind", "max_matching_ngram_size",
        "is_assistant", "dola_layers", "cache_implementation", "cache_config", "compile_config",
        "disable_compile", "continuous_batching_config", "use_model_defaults", "custom_generate",
        "generation_kwargs", "chat_format", "max_window_size", "max_context_size",
        "use_mtp",
    ),
)  # fmt: skip
_ABOUT = NoEffect(
    "says how or by what the files were written",
    (
        "transformers_version", "*_version", "dtype", "torch_dtype", "auto_map", "_commit_hash",
        "unsloth_*", "_from_model_config", "_attn_implementation*", "attn_implementation",
        "attn_impl", "use_flash_attn*", "*flash_attention*", "*flash_attn*", "use_kernels",
        "init_device",
        "verbose", "use_cache", "use_mambapy", "use_falcon_mambapy", "slow_but_exact",
        "pretraining_tp", "torchscript", "name_or_path", "finetuning_task", "license", "model_name",
    ),
)  # fmt: skip
FIELDS: dict[str, tuple[NoEffect, ...]] = {
    MODEL_CONFIG: (
        NoEffect(
            "of training alone",
            (
                "*dropout*", "*_pdrop", "initializer_*", "*aux_loss*", "router_z_loss*", "seq_aux",
                "router_jitter_noise", "input_jitter_noise", "output_router_logits",
                "gradient_checkpointing", "problem_type", "tf_legacy_loss", "rescale_prenorm_*",
                "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min",
                "time_step_scale", "time_step_limit", "embedding_fraction", "use_bfloat16",
                "moe_layer_auto_balance", "num_nextn_predict_layers", "ep_size", "z_loss_*",
            ),
        ),
        _ABOUT,
        _SAMPLING,
        NoEffect(
            "what transformers returns beside the logits",
            ("return_dict", "output_attentions", "output_hidden_states", "summary_*", "use_pooler",
             "add_pooling_layer", "task_specific_params", "prefix", "num_labels"),
        ),
        NoEffect(
            "how exactly transformers computes",
            ("*_in_fp32", "reorder_and_upcast_attn", "fused_*", "chunk_size_feed_forward"),
        ),
        NoEffect(
            "the tensors that are there say it",
            (
                "attention_bias", "mlp_bias", "attention_out_bias", "use_bias", "use_conv_bias",
                "conv_bias", "qkv_bias", "use_qkv_bias", "bias", "no_bias", "add_bias_linear",
                "add_qkv_bias", "use_qk_norm", "qk_layernorm", "qk_head_dim", "head_dim",
                "intermediate_size", "learned_pos_emb", "n_positions", "n_ctx", "multi_query",
                "num_ln_in_parallel_attn", "is_gated_act", "block_ffn_dim_multiplier",
                "block_multiple_of", "block_auto_adjust_ff_dim", "block_dim", "expand",
                "expansion_ratio", "num_key_value_heads", "rotary_dim", "d_head", "num_heads",
                "block_norm_eps", "block_use_*", "conv_dim", "conv_dim_out",
                "conv_use_xavier_init", "use_pos_enc",
            ),
        ),
        NoEffect("of parts that see or hear, which are left out",
                 (*PARTS, "image_*", "video_*", "audio_*", "vision_*", "mm_*", "multimodal_*",
                  "projector_*", "spatial_merge_size", "boi_*", "eoi_*", "boa_*", "eoa_*")),
        NoEffect("names and ids of tokens, which the tokenizer's files say",
                 ("tokenizer_class", "*_token_index", "label2id")),
        NoEffect("of sliding windows, which use_sliding_window turns on", ("max_window_layers",)),
        NoEffect("names of classes, which a model without a classifier has not", ("id2label",)),
        NoEffect("as in every such model of llama.cpp", ("is_decoder", "add_cross_attention",
                 "is_encoder_decoder", "cross_attention_hidden_size", "use_sliding_window",
                 "use_bidirectional_attention", "tie_encoder_decoder", "pruned_heads",
                 "scale_attn_by_inverse_layer_idx", "parallel_attn",
                 "apply_residual_connection_post_layernorm"), (False, None, {})),
        NoEffect("as in every such model of llama.cpp", ("scale_attn_weights", "rope_interleave",
                 "apply_residual_connection_post_layernorm", "is_encoder_decoder"), (True,)),
        NoEffect("as in every such model of llama.cpp",
                 ("norm_type", "topk_method", "attn_type", "layer_norm_epsilon", "rotary_emb_base",
                  "rms_norm_eps"),
                 ("low_precision_layernorm", "noaux_tc", "multihead_attention", 1e-5, 10000)),
        NoEffect("as in every such model of llama.cpp",
                 ("attn_uses_sequence_id", "prefix_lm", "qk_ln", "add_faux_pad_token"), (False,)),
    ),
    GENERATION: (
        _SAMPLING,
        _ABOUT,
        NoEffect("what generate() returns", ("output_attentions", "output_hidden_states",
                                             "return_legacy_cache", "prefill_chunk_size")),
        NoEffect("of a model for speech", ("lang_to_id", "task_to_id", "is_multilingual",
                 "no_timestamps_token_id", "alignment_heads", "prev_sot_token_id",
                 "max_initial_timestamp_index", "return_timestamps")),
    ),
    "tokenizer_config.json": (
        NoEffect(
            "how long and how wide a batch is in transformers",
            ("model_max_length", "padding_side", "truncation_side", "max_length", "stride",
             "pad_to_multiple_of", "pad_token_type_id", "truncation*", "padding", "max_len",
             "model_input_names"),
        ),
        NoEffect("says how or by what the files were written", (
            "name_or_path", "special_tokens_map_file", "tokenizer_file", "vocab_file",
            "merges_file", "auto_map", "backend", "is_local", "local_files_only",
            "processor_class", "use_fast", "*_version", "tokenizer_type", "from_slow",
            "device_map", "_commit_hash", "return_token_type_ids", "fix_mistral_regex")),
        NoEffect("names of tokens for pictures and sound, which are ordinary special tokens",
                 ("image_token", "boi_token", "eoi_token", "audio_token", "video_token",
                  "boa_token", "eoa_token", "vision_*_token", "*_special_token",
                  "model_specific_special_tokens", "image_token_id", "video_token_id")),
        NoEffect("for decoding text in transformers",
                 ("spaces_between_special_tokens", "response_schema", "response_template")),
    ),
    "adapter_config.json": (
        NoEffect(
            "of training alone",
            ("lora_dropout", "inference_mode", "loftq_config", "eva_config", "corda_config",
             "lora_ga_config", "runtime_config", "ensure_weight_tying", "layer_replication"),
        ),
        NoEffect(
            "the tensors that are there say it",
            ("target_modules", "exclude_modules", "layers_to_transform", "layers_pattern", "r",
             "rank_pattern", "fan_in_fan_out", "task_type", "trainable_token_indices"),
        ),
        NoEffect("says how or by what the files were written", (
            "auto_mapping", "revision", "peft_version", "megatron_config", "megatron_core",
            "qalora_group_size", "parent_library", "base_model_class")),
    ),
}  # fmt: skip
TENSORS = (
    NoEffect(
        "what transformers computes anyway",
        ("*.attention.masked_bias", "*.attention.bias", "*.attn.masked_bias", "*.attn.bias",
         "*rotary_emb.inv_freq", "*position_ids"),
    ),
    NoEffect("heads of an encoder's training, which embeddings do not use",
             ("*pooler.dense.*", "cls.predictions.*", "cls.seq_relationship.*", "vocab_*",
              "lm_head.dense.*", "lm_head.layer_norm.*", "lm_head.bias", "lm_head.decoder.*")),
    NoEffect("another copy of the embedding", ("lm_head.weight", "*.embed_tokens.weight")),
)  # fmt: skip
"""Tensors of a folder that no GGUF has. A head is compared with the embedding before."""
READ_FIELDS: dict[str, tuple[str, ...]] = {
    MODEL_CONFIG: (
        "architectures", "model_type", "text_config", "quantization_config", "quantization",
         "_name_or_path",
        "tie_word_embeddings", "vocab_size", "*_token_id",
    ),
    GENERATION: (
        "bos_token_id", "eos_token_id", "pad_token_id", "sequence", "xtc_probability",
        "xtc_threshold", "penalty_last_n", "penalty_repeat", "mirostat", "mirostat_tau",
        "mirostat_eta", "sep_token_id",
    ),
    "tokenizer_config.json": (
        "added_tokens_decoder", "bos_token", "eos_token", "unk_token", "pad_token", "sep_token",
        "cls_token", "mask_token", "add_bos_token", "add_eos_token", "chat_template",
        "extra_special_tokens", "additional_special_tokens", "tokenizer_class", "add_prefix_space",
        "legacy", "use_default_system_prompt", "clean_up_tokenization_spaces",
        "split_special_tokens", "do_lower_case", "tokenize_chinese_chars", "strip_accents",
        "never_split", "do_basic_tokenize", "sp_model_kwargs", "errors", "trim_offsets",
        "add_sep_token", "extra_ids", "src_lang", "tgt_lang", "language_codes",
    ),
    "special_tokens_map.json": (
        "bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token",
        "additional_special_tokens", "extra_special_tokens",
    ),
    "adapter_config.json": (
        "peft_type", "lora_alpha", "use_rslora", "base_model_name_or_path", "init_lora_weights",
        "modules_to_save", "use_dora", "bias", "lora_bias", "alpha_pattern", "target_parameters",
        "alora_invocation_tokens", "invocation_string", "use_qalora", "use_bdlora", "arrow_config",
    ),
}  # fmt: skip
"""Fields that a conversion reads whichever model it is; others are those that the model's row of
the table of architectures asks for."""


def is_named(name: str, patterns: Iterable[str]) -> bool:
    """Tell whether one of the patterns is that of a name, in small letters."""
    name = name.lower()
    return any(_is_match(name, pattern.lower()) for pattern in patterns)


def _is_match(name: str, pattern: str) -> bool:
    """Tell what fnmatch tells, which compiles each pattern: 25 ms for all, of a start of 300."""
    first, *parts = pattern.split("*")
    if not parts:
        return name == pattern
    last = parts.pop()
    inner = name[len(first) : len(name) - len(last)]
    if not (name.startswith(first) and name[len(first) :].endswith(last)):
        return False
    for part in parts:
        if part not in inner:
            return False
        inner = inner.partition(part)[2] if part else inner
    return True


def is_known_file(name: str) -> bool:
    """Tell whether a file, or a folder with a slash at its end, is read or has no effect."""
    groups = (*READ_FILES.values(), *(row.names for row in FILES))
    return any(is_named(name, names) for names in groups if names)


def is_known_field(file: str, name: str, value: object) -> bool:
    """Tell whether a field is read for every model, or has no effect with its value."""
    if value is None or is_named(name, READ_FIELDS.get(file, ())):
        return True
    return any(
        is_named(name, row.names) and (row.values is None or value in row.values)
        for row in FIELDS.get(file, ())
    )
