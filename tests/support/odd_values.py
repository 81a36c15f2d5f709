"""Values of GGUF metadata that no sound model has, and keys that llama.cpp asks for."""

ODD_NUMBERS = (
    0, 1, 2, 3, 5, 7, 16, 31, 33, 64, 100, 127, 255, 256, 512, 513, 4096, 65535, 1 << 20,
    (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 48, (1 << 63) - 1, (1 << 64) - 1, -1, -2,
)  # fmt: skip
ODD_FLOATS = (0.0, -0.0, 1.0, -1.0, 1e-30, 1e38, -1e38, float("inf"), float("-inf"), float("nan"))
ODD_TEXTS = (
    b"", b" ", b"\xe2\x96\x81", b"\0", b"a\0b", b"\xff", b"\xf4\x90\x80\x80", b"<0x00>", b"<0xZZ>",
    b"<0x", b"<0x41>", b"<s>", b"</s>", b"<unk>", b"<|im_end|>", b"x" * 5000, b"\xc4\xa0" * 40,
    "\U0001f600".encode(), b"llama", b"gpt2", b"bert", b"t5", b"rwkv", b"none", b"plamo2",
    b"gemma4", b"no_vocab", b"default", b"llama-bpe", b"yarn", b"linear", b"longrope",
)  # fmt: skip
ADDED_KEYS = (
    ("{arch}.rope.dimension_count", "u32"), ("{arch}.rope.freq_base", "f32"),
    ("{arch}.rope.scaling.type", "string"), ("{arch}.rope.scaling.factor", "f32"),
    ("{arch}.rope.scaling.original_context_length", "u32"),
    ("{arch}.rope.dimension_sections", "i32[]"), ("{arch}.vocab_size", "u32"),
    ("{arch}.attention.head_count_kv", "u32[]"), ("{arch}.attention.head_count", "u32[]"),
    ("{arch}.feed_forward_length", "u32[]"), ("{arch}.attention.key_length", "u32"),
    ("{arch}.attention.value_length", "u32"), ("{arch}.attention.sliding_window", "u32"),
    ("{arch}.attention.sliding_window_pattern", "bool[]"), ("{arch}.attention.causal", "bool"),
    ("{arch}.attention.layer_norm_epsilon", "f32"), ("{arch}.attention.clamp_kqv", "f32"),
    ("{arch}.attention.scale", "f32"), ("{arch}.attention.group_norm_groups", "u32"),
    ("{arch}.attention.group_norm_epsilon", "f32"), ("{arch}.attn_logit_softcapping", "f32"),
    ("{arch}.final_logit_softcapping", "f32"), ("{arch}.logit_scale", "f32"),
    ("{arch}.embedding_scale", "f32"), ("{arch}.residual_scale", "f32"),
    ("{arch}.expert_count", "u32"), ("{arch}.expert_used_count", "u32"),
    ("{arch}.expert_gating_func", "u32"), ("{arch}.expert_weights_scale", "f32"),
    ("{arch}.leading_dense_block_count", "u32"), ("{arch}.nextn_predict_layers", "u32"),
    ("{arch}.pooling_type", "u32"), ("{arch}.token_shift_count", "u32"),
    ("{arch}.ssm.conv_kernel", "u32"), ("{arch}.ssm.state_size", "u32"),
    ("{arch}.ssm.inner_size", "u32"), ("{arch}.ssm.time_step_rank", "u32"),
    ("{arch}.ssm.dt_b_c_rms", "bool"), ("{arch}.decoder_start_token_id", "u32"),
    ("{arch}.decoder_block_count", "u32"), ("{arch}.attention.relative_buckets_count", "u32"),
    ("{arch}.use_parallel_residual", "bool"), ("{arch}.tensor_data_layout", "string"),
    ("general.alignment", "u32"), ("general.file_type", "u32"), ("general.type", "string"),
    ("general.quantization_version", "u32"), ("split.count", "u16"), ("split.no", "u16"),
    ("split.tensors.count", "i32"), ("tokenizer.ggml.pre", "string"),
    ("tokenizer.ggml.precompiled_charsmap", "u8[]"), ("tokenizer.ggml.merges", "string[]"),
    ("tokenizer.ggml.scores", "f32[]"), ("tokenizer.ggml.token_type", "i32[]"),
    ("tokenizer.ggml.token_type_count", "u32"), ("tokenizer.ggml.add_bos_token", "bool"),
    ("tokenizer.ggml.add_eos_token", "bool"), ("tokenizer.ggml.add_sep_token", "bool"),
    ("tokenizer.ggml.add_space_prefix", "bool"), ("tokenizer.ggml.bos_token_id", "u32"),
    ("tokenizer.ggml.eot_token_id", "u32"), ("tokenizer.ggml.fim_pre_token_id", "u32"),
    ("tokenizer.ggml.seperator_token_id", "u32"), ("tokenizer.ggml.mask_token_id", "u32"),
    ("tokenizer.ggml.remove_extra_whitespaces", "bool"),
    ("tokenizer.ggml.suppress_tokens", "i32[]"), ("tokenizer.chat_template", "string"),
    ("adapter.type", "string"),
)  # fmt: skip
CHAT = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
TEMPLATES = (
    "{% for m in messages %}{{ m.content }}{% endfor %}", "{{ messages", "{% for %}",
    "{{ 'x' * 100000000 }}", "{% for i in range(1000000000) %}x{% endfor %}",
    "{{ raise_exception('no') }}", "{{ messages[99].content }}", "{{ ''.__class__.__mro__ }}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "{{ 1 / 0 }}", "",
)  # fmt: skip
ADDED_TENSORS = (
    "rope_freqs.weight", "output.weight", "blk.0.attn_qkv.weight", "output.bias",
    "blk.0.ffn_gate_inp.weight", "blk.0.attn_sinks.weight", "token_types.weight",
    "position_embd.weight", "blk.0.attn_q_norm.weight", "blk.0.attn_k.scale",
    "rope_factors_long.weight", "blk.0.ffn_up_exps.weight", "cls.weight",
)  # fmt: skip
