"""What each code of a finding means and what to do: ``mtkit check --explain CODE``."""

from __future__ import annotations

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.base.rules import Rule

_AGAIN = "Download or convert the file again."
_SPEC = "Convert the file again from its source."

EXPLANATIONS = {
    # gguf.rules
    "edit-unfinished": "An edit in place was interrupted, so the header may be half old and half "
    "new. FILE.journal holds the rest; mtkit edit FILE --in-place finishes the edit.",
    "magic": "The file does not begin with the bytes GGUF: it is another kind of file.",
    "version": "The GGUF version is not 1, 2 or 3. A newer mtkit may read it.",
    "truncated": f"A value runs past the end of the file. {_AGAIN}",
    "count": f"A count needs more bytes than the file has left. {_AGAIN}",
    "string-length": f"A key, name or value is longer than 1 GiB. {_AGAIN}",
    "value-type": f"A metadata value has an unknown type, outside 0 to 12. {_AGAIN}",
    "element-type": f"The elements of an array have an unknown type, outside 0 to 12. {_AGAIN}",
    "array-strings": "An array has more than 2^24 strings; mtkit does not read it, because that "
    "would take seconds.",
    "array-depth": "Arrays are nested more than 100 levels deep; mtkit does not read them.",
    "array-nested": "An array contains more than 2^16 arrays; mtkit does not read them.",
    "tensor-axes": f"A tensor has more than four axes. {_AGAIN}",
    "key-count": f"The header announces more keys than the file can hold. {_AGAIN}",
    "tensor-count": f"The header announces more tensors than the file can hold. {_AGAIN}",
    "key-limit": "The file has more than 2^18 keys, mtkit's limit; the largest models have a few "
    "hundred.",
    "tensor-limit": "The file has more than 2^18 tensors, mtkit's limit; the largest models have a "
    "few thousand.",
    "key-empty": "A key is the empty string. llama.cpp aborts on it.",
    "key-twice": "A key occurs twice. Readers disagree about which of the two counts.",
    "key-nul": "A key contains a NUL byte: C programs cut it off there.",
    "key-text": "A key is not valid UTF-8. Python readers refuse the file.",
    "key-letters": "A key contains characters other than lower-case letters, digits, underscore, "
    "dot and hyphen.",
    "key-length": "A key is longer than 65535 bytes.",
    "string-text": "A string is not valid UTF-8. Python readers refuse the file or replace the "
    "bytes.",
    "bool": "A bool is neither 0 nor 1. mtkit reads it as true; other programs may read it as "
    "false.",
    "bool-array": "An array of bool has elements other than 0 and 1.",
    "alignment-type": "general.alignment is not a whole number.",
    "alignment": "general.alignment is neither a power of two nor a multiple of 8.",
    "alignment-width": "general.alignment is not a u32; llama.cpp refuses any other type.",
    "alignment-power": "general.alignment is not a power of two; llama.cpp refuses the file.",
    "alignment-multiple": "general.alignment is not a multiple of 8, as the format requires.",
    "split-type": "A split key has the wrong type: llama.cpp wants split.no and split.count as "
    "u16, and split.tensors.count as i32.",
    "tensor-name-empty": "A tensor has no name; programs find tensors by name.",
    "tensor-name-text": "The name of a tensor is not valid UTF-8.",
    "tensor-name-nul": "The name of a tensor contains a NUL byte: C programs cut it off there.",
    "tensor-name-length": "The name of a tensor is longer than 64 bytes.",
    "tensor-twice": f"Two tensors have the same name; llama.cpp refuses the file. {_AGAIN}",
    "tensor-elements": f"A tensor has 2^63 elements or more. {_AGAIN}",
    "tensor-no-elements": "A tensor has no axes, or an axis of length 0.",
    "tensor-type-removed": "A tensor has a type that ggml no longer supports. Quantize the "
    "original model again.",
    "tensor-type": "A tensor has an unknown type: the file is damaged or made by a newer ggml.",
    "tensor-blocks": f"A row of a quantized tensor is not a whole number of blocks. {_AGAIN}",
    "tensor-alignment": "The data of a tensor does not start at a multiple of the alignment.",
    "tensor-data": f"The data of a tensor runs past the end of the file. {_AGAIN}",
    "tensor-shared": "Two tensors share bytes; llama.cpp refuses the file.",
    "padding": "Padding contains bytes other than zero. Something may be hidden there.",
    "trailing-bytes": "The file has bytes after the last tensor. Something may be hidden there.",
    # gguf.shards
    "split-number": "split.no is not below split.count; shards are numbered from 0.",
    "split-name": "A shard has been renamed; its name should be like NAME-00001-of-00003.gguf.",
    "split-file": f"A shard cannot be read. {_AGAIN}",
    "split-said": "split.no and split.count do not agree with the file name.",
    "split-tensor": "A tensor is in more than one shard: shards of two models are mixed.",
    "split-tensor-count": "The shards do not have as many tensors as the first one announces.",
    # loader
    "loader-empty": "The file has neither weights nor a tokenizer, only a header.",
    "loader-version": "The GGUF version is not one that llama.cpp reads (2 or 3). Convert the "
    "original model again.",
    "loader-byte-order": "The byte order is not this machine's, so llama.cpp cannot load the file. "
    "mtkit convert-endian changes it.",
    "loader-nested-array": "The metadata has an array of arrays, which llama.cpp does not support.",
    "loader-name-length": "A tensor's name has 64 bytes: the format allows it, but llama.cpp keeps "
    "63 and a NUL.",
    "loader-offsets": "The tensor data is not in the order of the tensor table, or has gaps; "
    "llama.cpp refuses the file.",
    "loader-first-shard": "This is not the first shard. Give llama.cpp the first one.",
    "loader-shards": "Shards are missing in this folder; download the rest.",
    "loader-architecture": "The architecture is unknown to this version of llama.cpp; a newer one "
    "may support it.",
    "loader-tokenizer": "The file has weights but no tokenizer; llama.cpp does not load it.",
    "loader-sizes": "Context length, embedding length or block count is missing, so no program can "
    "load the model.",
    "loader-blocks": "The tensors blk.0, blk.1 and so on do not match block_count.",
    "loader-key-type": "A hyperparameter has the wrong type; llama.cpp accepts only the type named "
    "in the finding.",
    "loader-experts": "expert_used_count is not between 1 and expert_count.",
    "loader-rope-scaling": "The RoPE scaling type is unknown; llama.cpp aborts.",
    "loader-per-layer": "An array with one number per layer does not have block_count numbers; "
    "llama.cpp refuses the file.",
    "loader-heads": "The head count does not divide the embedding length, is not a multiple of the "
    "key/value heads, or is missing or 0 although the model has attention tensors.",
    "loader-feed-forward": "feed_forward_length is not the number of rows of ffn_up.",
    "loader-rotation": "rope.dimension_count differs from the head size, which llama.cpp refuses "
    "for this architecture.",
    "loader-embedding": "token_embd.weight does not have one row of embedding_length per token.",
    # model_tensors
    "model-tensor-missing": "A tensor that every model of this architecture has is missing; "
    f"llama.cpp refuses the file. {_AGAIN}",
    "model-tensor-shape": "The shape of a tensor does not match the metadata; llama.cpp refuses "
    "the file. Either the metadata was edited or the tensor is from another model.",
    "model-tensor-type": "A tensor has a type that llama.cpp cannot compute with: norms, biases "
    "and convolutions have to be F32, and matrices cannot be integers, F64 or Q8_1. llama.cpp "
    "aborts. Convert the model again.",
    "model-tensor-surplus": "The file has a tensor that this architecture does not use; llama.cpp "
    "refuses the file. Remove it, or convert the original model again.",
    "model-tensor-unknown": "The file has a tensor that llama.cpp accepts but mtkit cannot "
    "convert.",
    # gguf_keys
    "gguf-architecture": "general.architecture is missing or not a string; the tokenizer's rules "
    "depend on it.",
    "gguf-name": "general.name is not a string.",
    "gguf-tokenizer-model": "tokenizer.ggml.model is missing or not one of llama.cpp's tokenizer "
    "types.",
    "gguf-pre-tokenizer": "tokenizer.ggml.pre is not one of llama.cpp's pre-tokenizers. A newer "
    "llama.cpp may know it, or the converter made up a name.",
    "gguf-tokens": "tokenizer.ggml.tokens is not an array of strings, or is empty.",
    "gguf-token-types": "tokenizer.ggml.token_type does not have an i32 for every token.",
    "gguf-scores": "tokenizer.ggml.scores does not have an f32 for every token.",
    "gguf-special-ids": "The id of a special token, such as tokenizer.ggml.bos_token_id, is not a "
    "u32.",
    "gguf-added-ends": "A flag such as tokenizer.ggml.add_bos_token is not a bool.",
    "gguf-chat-template": "tokenizer.chat_template is not a string; llama.cpp ignores it.",
    "gguf-vocabulary": "The parts of the vocabulary do not fit together; llama.cpp refuses the "
    "file or aborts.",
    "gguf-token-nul": "A token contains a NUL byte: llama.cpp cuts it off there.",
    "gguf-token-text": "A token is not valid UTF-8. Bytes have to be spelled in the byte-level "
    "alphabet or as <0xHH>.",
    "gguf-scores-count": "There are more scores than tokens; llama.cpp ignores the extra ones.",
    "gguf-types-count": "There are more token types than tokens; llama.cpp ignores the extra ones.",
    "gguf-scores-type": "The scores are i32, not f32; older versions of llama.cpp misread them.",
    "gguf-types-known": "A token type is not in 0 to 6; llama.cpp treats it as undefined.",
    "gguf-id-range": "The id of a special token is not in the vocabulary; llama.cpp silently drops "
    "it.",
    "gguf-merge-form": "A merge is not two parts separated by a space; llama.cpp drops it.",
    "gguf-charsmap": "The normalization table (precompiled_charsmap) is damaged: its trie points "
    "outside itself.",
    "gguf-pre-missing": "A BPE vocabulary does not name its pre-tokenizer. With the wrong one, ids "
    "differ from those the model was trained on: convert the model again.",
    # spec.rules
    "text": f"A text in the tokenizer cannot be encoded as UTF-8. {_SPEC}",
    "vocabulary-holes": f"The ids of the vocabulary have gaps that are too wide. {_SPEC}",
    "prefix-id": f"An id that is added before every text is not a valid token id. {_SPEC}",
    "vocabulary-types": f"The number of token types is not the number of tokens. {_SPEC}",
    "vocabulary-scores": f"The number of scores is not the number of tokens. {_SPEC}",
    "vocabulary-hidden": "The field hidden, a list of ids that encoding never uses, is not "
    f"ascending or has an id outside the vocabulary. {_SPEC}",
    "vocabulary-also": "The field also, a list of second spellings of tokens, has the same "
    f"spelling twice or an id outside the vocabulary. {_SPEC}",
    "added-token-id": f"The id of an added token is negative or does not fit in an int32. {_SPEC}",
    "special-id": f"The id of a special token is negative or does not fit in an int32. {_SPEC}",
    "stop-id": f"A stop token is not a valid token id. {_SPEC}",
    "truncation-size": "The length to truncate to is negative or too large.",
    "truncation-stride": "The stride of truncation is negative or too large.",
    "padding-id": "The padding token is not a valid token id.",
    "padding-segment": "The type id of padding is negative or too large.",
    "padding-length": "The length to pad to is negative or too large.",
    "padding-multiple": "The multiple to pad to is negative or too large.",
    "unknown-id": f"The unknown token is not in the vocabulary. {_SPEC}",
    "unknown-word-id": "The id of the unknown token is negative or does not fit in an int32. "
    + _SPEC,
    "word-length": "The maximum word length is negative or too large.",
    "merges": f"A merge uses a token that is not in the vocabulary. {_SPEC}",
    "dropout": "The dropout is not between 0 and 1.",
    "loose-pairs": f"The list of pairs does not have exactly two ids for each rank. {_SPEC}",
    "loose-ranks": f"The ranks of the merges are not ascending. {_SPEC}",
    "lowest-score": "The lowest score is not a number (NaN), so it cannot be compared.",
    "byte-symbols": "Characters outside the vocabulary are to become byte tokens before merging "
    "(missing: before), although merging cannot produce byte tokens (mergeable: listed). " + _SPEC,
    "section-begin": "The token that opens a section, as in hybriddna vocabularies, has no "
    f"text. {_SPEC}",
    "section-end": "The token that closes a section, as in hybriddna vocabularies, has no "
    f"text. {_SPEC}",
    "section-unknown-id": f"The id of a section's unknown token is not a valid token id. {_SPEC}",
    "table-code-points": f"A character table is not ascending or goes beyond U+10FFFF. {_SPEC}",
    "table-values": f"A character table does not have a value for every character. {_SPEC}",
    "metaspace-replacement": "The replacement of a Metaspace is not a single character.",
    "delimiter": "The delimiter of a CharDelimiterSplit is not a single character.",
    "piece-length": "The length of a FixedLength is negative or too large.",
    "slot-text": "A post-processor template uses a sequence other than A and B.",
    "slot-id": f"A post-processor template adds something that is not a valid token id. {_SPEC}",
    "slot-segment": "A type id in a post-processor template is negative or too large.",
    "surrounding-id": f"The post-processor adds something that is not a valid token id. {_SPEC}",
    "stripped-front": "The number of characters to strip at the start is negative or too large.",
    "stripped-back": "The number of characters to strip at the end is negative or too large.",
    "bytewise-steps": f"A byte decoder contains steps that do not work on bytes. {_SPEC}",
    # checking
    "tokenizer": "The format's own library refuses the file or cannot read all of it.",
    "tokenizer-support": "The tokenizer has a component that mtkit does not support, so nothing "
    "else was checked.",
    "engine-tables": "The engine tables, which are precomputed, do not match the tokenizer's "
    "specification, so a text may get different ids. Convert the file again, or do not use it.",
    # vocabulary
    "tokenizer-runs": "A pattern or a normalization table of the tokenizer cannot be compiled.",
    "token-twice": "Two ids have the same text, so encoding finds only one of them. llama.cpp "
    "before 2026 aborts on such a vocabulary.",
    "token-spellings": "Two token texts have the same id, and encoding uses both. mtkit decodes "
    "the id to the first; the choice of the tokenizers library varies from run to run.",
    "token-empty": "A token has no text, so encoding never finds it; llama.cpp names it "
    "after its id, such as [EMPTY_7].",
    "byte-token-form": "A byte token is not written as <0xHH>; llama.cpp refuses the file.",
    "byte-tokens": "The tokenizer falls back to bytes, but some of the 256 byte tokens are "
    "missing. Characters that need them cannot be encoded; llama.cpp aborts on them.",
    "byte-letters": "A byte-level vocabulary lacks tokens for bytes that occur in UTF-8. Text with "
    "these bytes loses them or is refused.",
    "merge-product": "The result of a merge is not a token; the tokenizers library refuses the "
    "file.",
    "merge-twice": "A merge occurs twice; the first rank counts.",
    "token-unreachable": "No merge produces the token, so it is never encoded, only decoded. This "
    "is common for unused and multimodal tokens.",
    "score-number": "A score is not a number (NaN), so tokens cannot be ordered by it.",
    "special-range": "The id of a special token is not in the vocabulary.",
    "special-type": "BOS or EOS is not a control token, so a user can type it.",
    "added-token-twice": "Two added tokens have the same text, so only one of them is ever found.",
    "added-id-range": "A token that is added to every text has no row in the embedding.",
    # templates
    "template-syntax": "The chat template is not valid Jinja, so no chat can be rendered.",
    "template-limits": "The chat template takes too much time or memory for a short question.",
    "template-refuses": "The chat template does not accept a conversation with one question.",
    "template-answer": "add_generation_prompt changes nothing: it should open the answer, and "
    "without that the model may continue the question instead.",
    "template-bos-twice": "BOS is added twice, by the template and by encoding. Encode the "
    "rendered template without special tokens.",
    "template-tokens": "The template writes a control token that is not in the vocabulary, so the "
    "model sees it as plain characters. The template is probably from another model.",
    "template-against": "The chat template differs from the one it was compared with.",
    "tokenizer-class": "transformers 5 builds a different tokenizer here than tokenizer.json says: "
    "it uses the built-in rules of the class that tokenizer_config.json or config.json names. If "
    "tokenizer.json is right, set tokenizer_class to TokenizersBackend.",
    "tokenizer-class-unknown": "The tokenizer class is unknown to mtkit, so transformers 5 may "
    "build a different tokenizer from this folder.",
    # programs
    "runs-unknown": "The program could not be run because its library is missing, so nothing is "
    "known about its results. Install it and check again.",
    "runs-model": "llama.cpp could not load the model or compute a token. Its message names the "
    "tensor or key; mtkit generate stops with the same message.",
    "runs-refused": "The program refuses the file, or its conversion. Use another format, or "
    "remove the part of the tokenizer that the program does not support.",
    "runs-text": "The program refuses texts that the file's own library encodes.",
    "runs-ids": "Ordinary texts get different ids in the program, so a model trained with this "
    "file predicts worse there. Use the file's own library, or convert the file and accept the "
    "loss.",
    "runs-special-ids": "Texts that spell out special tokens, such as chat prompts and user texts "
    "that quote a special token, get different ids in the program.",
    "runs-around": "The program adds different tokens around a text, such as BOS and EOS. Add them "
    "yourself, or set add_bos_token and similar keys.",
    "runs-decoding": "The program decodes ids to different text, often only different spaces.",
    "runs-lacks": "The conversion for the program does not keep this field; none of the test texts "
    "was affected.",
    # safetensors
    "safetensors-length": f"The header is longer than 100,000,000 bytes. {_AGAIN}",
    "safetensors-json": f"The header is not a JSON object. {_AGAIN}",
    "safetensors-name-twice": "A name occurs twice. Readers disagree about which of the two "
    "counts.",
    "safetensors-metadata": "__metadata__ is not an object of strings; the safetensors library "
    "refuses the file.",
    "safetensors-entry": "A tensor lacks dtype or shape, or its data_offsets are not two "
    "ascending numbers; the safetensors library refuses the file.",
    "safetensors-type": "A tensor has an unknown dtype; the safetensors library may be too old for "
    "it.",
    "safetensors-size": "The data of a tensor is not as long as its dtype and shape say. " + _AGAIN,
    "safetensors-overlap": "Tensors share bytes. Something may be hidden there.",
    "safetensors-hole": "There is unused space between tensors. Something may be hidden there.",
    "safetensors-end": f"The tensors do not end where the file ends. {_AGAIN}",
    "safetensors-alignment": "The header is not padded to a multiple of 8 bytes, so tensors have "
    "to be copied before use.",
    "index-json": "The index is not a JSON object with weight_map, which maps each tensor to its "
    "file.",
    "index-path": "The index names a file in another folder; shards belong next to the index.",
    "index-file": "A file named in the index is missing. Download it.",
    "index-tensor": "A tensor is not in the file that the index names: files of two models are "
    "mixed.",
    "index-unlisted": "A tensor is not in the index, so it is never loaded.",
    "index-total": "total_size differs from the size of all tensors; some writers count shared "
    "tensors twice.",
    # checkpoints.folder_survey
    "folder-config": "config.json is missing or cannot be read, so the kind of model is unknown. "
    "Download the folder again.",
    "folder-weights": "The folder has no weights: you can encode with its tokenizer, but not run "
    "or convert the model.",
    "folder-pickle": "The weights are not safetensors but a pickle, which can run any code when "
    "loaded; mtkit never loads one. Use save_pretrained of transformers to write "
    "model.safetensors.",
    "folder-quantized": "The weights cannot be converted because another tool quantized them "
    "(GPTQ, AWQ, bitsandbytes, FP8). Convert the original model.",
    "folder-shard": "A shard is missing; the names of the others say how many there are. Download "
    "what is missing.",
    "folder-tensor-twice": "Two files of weights have the same tensor: files of two models are "
    "mixed.",
    "folder-unused": "transformers does not load this file of weights.",
    # folder
    "folder-architecture": "config.json names no architecture, or one that mtkit cannot convert. "
    "llama.cpp's convert_hf_to_gguf.py may support it.",
    "folder-field": "A field of config.json is missing, has the wrong type, or contradicts the "
    "weights.",
    "folder-support": "config.json asks for something that llama.cpp does not support for this "
    "architecture.",
    "folder-type": "The weights have a dtype that mtkit cannot convert.",
    "folder-tensor-missing": "A tensor that the architecture needs is missing. transformers would "
    "fill it with random numbers.",
    "folder-tensor-shape": "The shape of a tensor does not match config.json: the two are from "
    "different models, or the vocabulary was resized in only one of them.",
    "folder-tensor-unknown": "A tensor does not belong to the architecture: transformers ignores "
    "it, but mtkit refuses to convert the folder.",
    "folder-vocabulary": "The tokenizer has more ids than the embedding has rows, so the model "
    "cannot look some of them up. Tokenizer and weights are from different models, or tokens were "
    "added without resizing the embedding.",
    "folder-tokenizer": "The tokenizer is missing, or llama.cpp has no equivalent, so mtkit "
    "convert refuses the folder.",
    # tensors
    "data-unfinished": "From some point on, the tensor data is nothing but zeros: the download did "
    "not finish. Download the file again.",
    "data-nan": "Weights are NaN, which spreads into every logit. Quantize the model again.",
    "data-infinite": "Weights are infinite. Quantize the model again from a type with a wider "
    "range.",
    "data-zero": "A tensor has nothing but zeros: the download did not finish, or the tensor was "
    "never trained.",
}
"""Code -> what was found, who minds, what to do."""


def rules() -> Iterator[Rule]:
    """Yield every rule that a check can find broken."""
    from mtkit.checks.checker import RULES
    from mtkit.checks.tensors import DATA_RULES
    from mtkit.gguf import rules as gguf_rules
    from mtkit.gguf import shards
    from mtkit.spec.rules import RULES as SPEC_RULES

    yield from (*gguf_rules.RULES, *shards.SHARD_RULES, *RULES, *SPEC_RULES, *DATA_RULES)


def explain(code: str) -> list[tuple[str, str]]:
    """Return what is known about a code: severity, who demands it, what it means."""
    known = {rule.code: rule for rule in rules()}
    if code not in known:
        from difflib import get_close_matches

        from mtkit.base.escape import either

        near = get_close_matches(code, known, n=3)
        hint = f"is it {either(near)}?" if near else "docs/rules.md lists the codes"
        raise UsageError(f"unknown code {code!r}", hint=hint)
    rule = known[code]
    return [
        ("severity", rule.severity),
        ("required by", rule.source),
        ("field", rule.field or "any"),
        ("meaning", EXPLANATIONS[code]),
    ]
