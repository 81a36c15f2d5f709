"""What users of other libraries type, and what does it here: for errors about missing names.

Source: the reference documents of tokenizers, transformers, tiktoken, gguf-py, safetensors, llm and
llama-cpp-python.
"""

from __future__ import annotations

from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

_LOAD = "mtkit.load(PATH)"
_WITH_MODEL = "with mtkit.Model(PATH) as model: model."
_PARTS = "tokenizer.spec has what the file says; a specification is not changed in place"
_LIBRARY = "mtkit.hf.from_pretrained(NAME).backend_tokenizer, the library's own object"
_PLACES = "offsets, the start and end of each token"
_ADDED = "add tokens with transformers and read the folder that it saves"
INSTEAD: dict[str, dict[str, str]] = {
    "mtkit": {
        **dict.fromkeys(("encode", "tokenize"), f"{_LOAD}.encode_ids(text)"),
        "encode_batch": f"{_LOAD}.encode_batch_ids(texts)",
        "decode": f"{_LOAD}.decode(ids)",
        **dict.fromkeys(("num_tokens", "count_tokens", "token_count"), "mtkit.count(text)"),
        **dict.fromkeys(("models", "normalizers", "pre_tokenizers", "post_processors", "decoders",
                         "processors", "trainers", "AddedToken"), _LIBRARY),
        **dict.fromkeys(("LlamaTokenizer", "SentencePieceProcessor"), _LOAD),
        "LlamaGrammar": "model.generate(prompt, grammar=…)",
        "get_embedding_model": "mtkit.Model(PATH).embed(texts)",
        "Conversation": f"{_WITH_MODEL}chat(messages)",
        **dict.fromkeys(("Response", "Completion"), "what model.generate and model.chat return"),
        "Template": 'mtkit.Model(PATH, template="…")',
        "dequantize": "mtkit.open_gguf(PATH).tensors[NAME].numpy()",
        "GGMLQuantizationType": "tensor.type.name, a text",
        "safetensors": "mtkit.inspect(PATH); values come from the library itself",
        "load_model": "mtkit.Model(PATH)",
        "version": "mtkit.__version__",
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
        "encode_batch_fast": "encode_batch_ids(texts)",
        "num_special_tokens_to_add": 'len(encode_ids(""))',
        **dict.fromkeys(("get_added_tokens_decoder", "added_tokens_decoder"),
                        "spec.added_tokens.tokens"),
        "post_process": "encode(text, pair)",
        **dict.fromkeys(("padding", "truncation"), "spec.padding and spec.truncation"),
        "encode_special_tokens": "encode(text, parse_special=False)",
        "save_model": "save(FILE)",
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
        "[]": "ids[…], tokens[…]",
        **dict.fromkeys(("word_to_tokens", "word_to_chars", "char_to_word", "token_to_word",
                         "words"), "offsets, or mtkit.explain(text).tokens[…].word"),
        **dict.fromkeys(("token_to_chars", "char_to_token"), _PLACES),
        **dict.fromkeys(("sequence_ids", "token_to_sequence", "n_sequences"), "sequence"),
        **dict.fromkeys(("pad", "truncate"),
                        'encode_batch(texts, padding="file", truncation="file")'),
        "word_ids": "offsets, or mtkit.explain(text).tokens[…].word",
        "input_ids": "ids",
        "token_type_ids": "type_ids",
        "overflowing": "encode a text in parts",
    },
    "GgufFile": {
        **dict.fromkeys(("fields", "keys", "items", "values", "kv_data"), "metadata, a mapping"),
        "get_field": "file[NAME]",
        **dict.fromkeys(("get_tensor", "get_slice"), "tensors[NAME].numpy()"),
        "get": "metadata.get(NAME)",
        **dict.fromkeys(("endianess", "endianness"), "byte_order"),
        "offset_keys": "tensors, in the order of the file",
        **dict.fromkeys(("add_string", "add_uint32", "add_key_value", "add_tensor"),
                        "mtkit.edit(PATH, NEW, keys={NAME: VALUE})"),
        "architecture": 'file["general.architecture"]',
        "parameters": "sum(tensor.n_elements for tensor in file.tensors)",
        "tokenizer": "mtkit.load(file.name)",
        "template": 'file["tokenizer.chat_template"]',
    },
    "Tensor": {
        "[]": "numpy()[…]",
        "data": "raw for its bytes, numpy() for its values",
        **dict.fromkeys(("dequantize", "to_numpy", "tolist", "torch"), "numpy()"),
        "nbytes": "n_bytes",
        "size": "n_elements",
        "ndim": "len(tensor.shape)",
        "data_offset": "file.data_offset + tensor.offset",
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
        "set_cache": "nothing, what a prompt shares with the one before is kept",
        "set_seed": "generate(prompt, seed=…)",
        "n_embd": "embed(text).shape[-1]",
        **dict.fromkeys(("scores", "eval_logits"), "logits(text)"),
        "model_path": "path",
        "apply_chat_template": "tokenizer.apply_chat_template(messages)",
        "create_chat_completion_openai_v1": "chat(messages)",
        **dict.fromkeys(("metadata", "header"), "mtkit.open_gguf(model.path).metadata"),
        **dict.fromkeys(("n_ctx", "context_params"), "plan, which has the sizes"),
        **dict.fromkeys(("save_state", "load_state"), "save_session(FILE) and load_session(FILE)"),
        "from_pretrained": "mtkit.Model(NAME) of the local cache; hf download NAME fetches it",
    },
    "Generation": {
        "finish_reason": "end",
        "usage": "timings, and len(ids)",
        **dict.fromkeys(("choices", "content", "response"), "text"),
    },
    "Reply": {
        **dict.fromkeys(("text", "choices"), "content"),
        **dict.fromkeys(("finish_reason", "usage"), "generation.end and generation.timings"),
        **dict.fromkeys(("reasoning_content", "thinking"), "reasoning"),
    },
    "Explanation": {"show": "str(…), html or svg"},
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
    "clip_model_path": "mmproj=FILE",
}
"""Setting of another library -> what to set here."""


ARGUMENTS: dict[str, dict[str, str]] = {
    "open_gguf": dict.fromkeys(
        ("mode", "r", "r+", "rb", "w"), "nothing, a file is read; mtkit.edit changes it"
    ),
    "edit": {
        **dict.fromkeys(("name", "description", "author"), 'keys={"general.name": …}'),
        **dict.fromkeys(("metadata", "set", "kv", "override"), "keys"),
        **dict.fromkeys(("remove", "delete"), "unset"),
        **dict.fromkeys(("output", "outfile", "out"), "dst"),
    },
    "convert": {
        **dict.fromkeys(("outtype", "dtype", "type", "ftype"), "kind"),
        **dict.fromkeys(("output", "outfile", "out"), "dst"),
        **dict.fromkeys(("format", "target"), "to"),
        "name": "options=mtkit.WriteOptions(name=…)",
        **dict.fromkeys(("overwrite", "exist_ok"), "force"),
        "pretty": "nothing, JSON is written as the library writes it",
    },
    "quantize": {
        **dict.fromkeys(("type", "ftype", "outtype", "dtype", "quantization"), "kind"),
        **dict.fromkeys(("nthread", "n_threads"), "threads"),
        **dict.fromkeys(("output", "outfile", "out"), "dst"),
    },
    "count": {
        **dict.fromkeys(("model", "encoding", "encoding_name"),
                        "tokenizer, a file, or mtkit.tiktoken.encoding_for_model(NAME)"),
    },
    "Model.embed": {"normalize": "normalized"},
}  # fmt: skip
"""Function -> argument of another library -> what to give here."""


def explained(function: F) -> F:
    """Let a function say what to give for an argument that it does not have."""
    known = ARGUMENTS[function.__qualname__]

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # not about the call
            for name in (*options, *args):
                if isinstance(name, str) and name in known:
                    raise TypeError(f"{error}; here: {known[name]}") from None
            raise

    return call  # type: ignore[return-value]


def missing(owner: str, name: str, shown: str = "") -> AttributeError:
    """Return the error for a name that is missing, with what is typed in its place."""
    instead = INSTEAD.get(owner, {}).get(name)
    what = f"{shown or f'{owner!r} object'} has no attribute {name!r}"
    return AttributeError(f"{what}; here: {instead}" if instead else what, name=name)
