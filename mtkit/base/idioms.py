"""What users of other libraries type, and what does it here: for errors about missing names.

Source: the reference documents of tokenizers, transformers, tiktoken, gguf-py, safetensors, llm and
llama-cpp-python.
"""

from __future__ import annotations

_LOAD = "mtkit.load(PATH)"
_WITH_MODEL = "with mtkit.Model(PATH) as model: model."
_PARTS = "tokenizer.spec has what the file says; a specification is not changed in place"
_ADDED = "add tokens with transformers and read the folder that it saves"
INSTEAD: dict[str, dict[str, str]] = {
    "mtkit": {
        **dict.fromkeys(("encode", "tokenize"), f"{_LOAD}.encode_ids(text)"),
        "decode": f"{_LOAD}.decode(ids)",
        **dict.fromkeys(("get_encoding", "encoding_for_model"), "mtkit.tiktoken has it"),
        **dict.fromkeys(("AutoTokenizer", "PreTrainedTokenizerFast"),
                        "mtkit.hf.from_pretrained(NAME)"),
        **dict.fromkeys(("Llama", "get_model", "AutoModel", "LLM"), "mtkit.Model(PATH)"),
        **{name: f"{_WITH_MODEL}{name}(…)" for name in ("chat", "embed", "perplexity", "stream")},
        **dict.fromkeys(("open", "read", "load_file", "safe_open", "GGUFReader"),
                        "mtkit.open_gguf(PATH), or mtkit.inspect(PATH) for any file"),
        "GGUFWriter": "mtkit.edit(PATH, NEW, keys={…})",
        **dict.fromkeys(("convert_model", "convert_to_folder", "convert_checkpoint", "save_file"),
                        "mtkit.convert(SOURCE, TARGET)"),
    },
    "mtkit.hf": {
        **dict.fromkeys(("AutoTokenizer", "PreTrainedTokenizerFast", "Tokenizer", "load"),
                        "mtkit.hf.from_pretrained(NAME), or from_file(PATH)"),
    },
    "Tokenizer": {
        "()": "encode(text), encode_ids(text), or mtkit.hf for transformers' calls",
        **dict.fromkeys(("from_file", "from_pretrained", "from_str", "from_buffer"), _LOAD),
        "get_vocab": "tokenizer.vocab",
        **dict.fromkeys(("get_vocab_size", "n_vocab", "max_token_value"), "len(tokenizer)"),
        **dict.fromkeys(("enable_padding", "no_padding"), 'encode_batch(texts, padding="file")'),
        **dict.fromkeys(("enable_truncation", "no_truncation"),
                        'encode(text, truncation="file")'),
        **dict.fromkeys(("add_tokens", "add_special_tokens"), _ADDED),
        **dict.fromkeys(("train", "train_from_iterator"), "mtkit trains no tokenizers"),
        **dict.fromkeys(("model", "normalizer", "pre_tokenizer", "post_processor", "decoder"),
                        _PARTS),
        **dict.fromkeys(("tokenize", "EncodeAsPieces"), "encode(text).tokens"),
        **dict.fromkeys(("encode_ordinary", "EncodeAsIds"), "encode_ids(text)"),
        **dict.fromkeys(("decode_single_token_bytes", "decode_tokens_bytes"), "token_bytes(id)"),
        **dict.fromkeys(("batch_decode", "DecodeIds"), "decode_batch(batch)"),
        "convert_ids_to_tokens": "id_to_token(id)",
        "convert_tokens_to_ids": "token_to_id(token)",
        **{f"{name}_token_id": f"{name}_id" for name in ("eos", "bos", "unk", "pad")},
        **dict.fromkeys(("eot_token", "all_special_tokens", "all_special_ids"),
                        "special_tokens"),
        **dict.fromkeys(("save_pretrained", "to_str"), 'save(FOLDER, to="hf")'),
        "name": "source is the path of the file, spec.name the name in it",
    },
    "Encoding": {
        "word_ids": "offsets, or mtkit.explain(text).tokens[…].word",
        "input_ids": "ids",
        "token_type_ids": "type_ids",
        "overflowing": "encode a text in parts",
    },
    "GgufFile": {
        **dict.fromkeys(("fields", "keys", "items", "values", "kv_data"), "metadata, a mapping"),
        "get_field": "file[NAME]",
        "get_tensor": "tensors[NAME].numpy()",
        "architecture": 'file["general.architecture"]',
        "parameters": "sum(tensor.n_elements for tensor in file.tensors)",
        "tokenizer": "mtkit.load(file.name)",
        "template": 'file["tokenizer.chat_template"]',
    },
    "Tensor": {
        "data": "raw for its bytes, numpy() for its values",
        **dict.fromkeys(("tensor_type", "dtype", "ggml_type"), "type"),
        "field": "its file's metadata",
    },
    "Model": {
        "()": "generate(prompt)",
        **dict.fromkeys(("create_completion", "prompt", "complete"), "generate(prompt)"),
        **dict.fromkeys(("create_chat_completion", "conversation"), "chat(messages)"),
        **dict.fromkeys(("create_embedding", "embed_multi", "encode"), "embed(texts)"),
        **dict.fromkeys(("tokenize", "detokenize", "token_eos", "token_bos", "n_vocab"),
                        "tokenizer, which has encode_ids, decode, eos_id and a length"),
        **dict.fromkeys(("eval", "sample"), "logits(text)"),
        "reset": "nothing, each call has its own prompt",
        **dict.fromkeys(("metadata", "header"), "mtkit.open_gguf(model.path).metadata"),
        **dict.fromkeys(("n_ctx", "context_params"), "plan, which has the sizes"),
        **dict.fromkeys(("save_state", "load_state"), "save_session(FILE) and load_session(FILE)"),
        "from_pretrained": "mtkit.Model(NAME) of the local cache; hf download NAME fetches it",
    },
    "Generation": {
        "finish_reason": "end",
        "usage": "timings, and len(ids)",
        "choices": "text",
        "content": "text",
    },
    "Reply": {
        **dict.fromkeys(("text", "choices"), "content"),
        **dict.fromkeys(("finish_reason", "usage"), "generation.end and generation.timings"),
        **dict.fromkeys(("reasoning_content", "thinking"), "reasoning"),
    },
    "Stream": {"text": "result, after the end", "content": "result, after the end"},
}  # fmt: skip
"""Class or module -> missing name -> what to type."""
SETTINGS = {
    **dict.fromkeys(("max_tokens", "max_new_tokens", "max_length", "num_predict"), "n_predict"),
    **dict.fromkeys(("n_threads", "num_threads"), "threads"),
    **dict.fromkeys(("max_seq_len", "max_model_len", "num_ctx"), "n_ctx"),
    "model_path": "the first argument",
    "repetition_penalty": "repeat_penalty",
    "do_sample": "temperature; above 0 it samples, and without it an answer is greedy",
    "stream": "the method stream or stream_chat",
    "echo": "nothing, prompt + generation.text",
    "verbose": "nothing, mtkit prints nothing",
    "embedding": "nothing, model.embed works without it",
    "chat_format": "template",
    "chat_template": "template",
    "response_format": "schema of chat, or json_schema",
    "system": 'a message {"role": "system", "content": …}',
    **{name: f"{name} of chat" for name in ("tools", "tool_choice")},
    **dict.fromkeys(("image", "images", "mmproj", "clip_model_path"), "nothing, texts only"),
}
"""Setting of another library -> what to set here."""


def missing(owner: str, name: str, shown: str = "") -> AttributeError:
    """Return the error for a name that is missing, with what is typed in its place."""
    instead = INSTEAD.get(owner, {}).get(name)
    what = f"{shown or f'{owner!r} object'} has no attribute {name!r}"
    return AttributeError(f"{what}; here: {instead}" if instead else what, name=name)
