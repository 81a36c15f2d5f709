"""What each code of a finding means and what to do: ``mtkit check --explain CODE``."""

from __future__ import annotations

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.base.rules import Rule

_AGAIN = "Download or convert the file again."
_SPEC = "The file contradicts itself; write it again from its source."

EXPLANATIONS = {
    # gguf.rules
    "edit-unfinished": "FILE.journal, beside the file, has what mtkit edit had still to write. "
    "Without it the header may be half the old one and half the new one.",
    "magic": "A GGUF begins with the bytes GGUF; this is another kind of file.",
    "version": "Versions 1, 2 and 3 of GGUF are known, version 3 in both byte orders.",
    "truncated": f"A value ends behind the end of the file. {_AGAIN}",
    "count": f"A count needs more bytes than the file has left. {_AGAIN}",
    "string-length": f"A key, name or value is longer than 1 GiB. {_AGAIN}",
    "value-type": f"A value of the metadata has one of the types 0 to 12. {_AGAIN}",
    "element-type": f"The elements of an array have one of the types 0 to 12. {_AGAIN}",
    "array-strings": "An array of more than 2^24 strings is not read: it would take seconds.",
    "array-depth": "Arrays nested more than 100 levels deep are not read.",
    "array-nested": "More than 2^16 arrays inside one array are not read.",
    "tensor-axes": f"A tensor has at most four axes. {_AGAIN}",
    "key-count": f"The header announces more keys than the file can hold. {_AGAIN}",
    "tensor-count": f"The header announces more tensors than the file can hold. {_AGAIN}",
    "key-limit": "More than 2^18 keys are not read; the largest models have some hundred.",
    "tensor-limit": "More than 2^18 tensors are not read; the largest models have 2^16.",
    "key-empty": "A key has a name. llama.cpp ends on an empty one.",
    "key-twice": "A key stands once. Readers differ in which of two they take.",
    "key-nul": "A key has no NUL byte: C programs see it end there.",
    "key-text": "A key is valid UTF-8. Python readers refuse the file.",
    "key-letters": "Keys have lower-case letters, digits, underscore, dot and hyphen.",
    "key-length": "A key has at most 65535 bytes.",
    "string-text": "A string is valid UTF-8. Python readers refuse the file or replace the bytes.",
    "bool": "A bool is the byte 0 or 1; another one is true here and may be false elsewhere.",
    "bool-array": "The elements of an array of bool are the bytes 0 and 1.",
    "alignment-type": "general.alignment is a whole number.",
    "alignment": "general.alignment is a power of two or a multiple of 8.",
    "alignment-width": "general.alignment is a u32; llama.cpp refuses any other type.",
    "alignment-power": "llama.cpp refuses an alignment that is not a power of two.",
    "alignment-multiple": "The format wants an alignment that is a multiple of 8.",
    "split-type": "llama.cpp wants split.no and split.count as u16, split.tensors.count as i32.",
    "tensor-name-empty": "A tensor has a name: models are loaded by names.",
    "tensor-name-text": "The name of a tensor is valid UTF-8.",
    "tensor-name-nul": "The name of a tensor has no NUL byte: C programs see it end there.",
    "tensor-name-length": "The name of a tensor has at most 64 bytes.",
    "tensor-twice": f"Two tensors have one name; llama.cpp refuses the file. {_AGAIN}",
    "tensor-elements": f"A tensor has less than 2^63 elements. {_AGAIN}",
    "tensor-no-elements": "A tensor has an axis, and none of length 0.",
    "tensor-type-removed": "ggml no longer has this type. Quantise the original model again.",
    "tensor-type": "The number of the type is not known: damage, or a newer ggml.",
    "tensor-blocks": f"A row of a quantised tensor is a whole number of blocks. {_AGAIN}",
    "tensor-alignment": "The data of a tensor begins at a multiple of the alignment.",
    "tensor-data": f"The data of a tensor lies inside the file. {_AGAIN}",
    "tensor-shared": "Two tensors share bytes; llama.cpp refuses the file.",
    "padding": "Padding is zero. Something else may be hidden there.",
    "trailing-bytes": "Nothing stands behind the data of the last tensor.",
    # gguf.shards
    "split-number": "split.no counts from 0 and stays below split.count.",
    "split-name": "Files of a set are called NAME-00001-of-00003.gguf; rename them back.",
    "split-file": f"Every file of a set can be read. {_AGAIN}",
    "split-said": "split.no and split.count agree with the name of the file.",
    "split-tensor": "A tensor is in one file of a set: files of two sets are mixed.",
    "split-tensor-count": "The files of a set have as many tensors as the first one says.",
    # loader
    "loader-empty": "A file holds weights or a tokenizer; only its header is left here.",
    "loader-version": "llama.cpp reads versions 2 and 3. Convert the original model again.",
    "loader-byte-order": "llama.cpp loads files in the byte order of the host.",
    "loader-nested-array": "llama.cpp knows no arrays of arrays.",
    "loader-name-length": "The format allows names of 64 bytes, llama.cpp keeps 63 and a NUL.",
    "loader-offsets": "llama.cpp wants the data in the order of the table without gaps.",
    "loader-first-shard": "llama.cpp opens a set by its first file; name that one.",
    "loader-shards": "All files of a set lie in one folder; download what is missing.",
    "loader-architecture": "llama.cpp does not know this architecture; a newer one may.",
    "loader-tokenizer": "llama.cpp loads no model without a tokenizer in the file.",
    "loader-sizes": "No model is loaded without context length, embedding length and block count.",
    "loader-blocks": "The tensors blk.0 to blk.N-1 belong to a block_count of N.",
    "loader-key-type": "llama.cpp takes a hyperparameter of one type: u32, f32, bool or string.",
    "loader-experts": "Of the experts of a model some, and not more than there are, are used.",
    "loader-rope-scaling": "llama.cpp ends where it does not know how positions are scaled.",
    "loader-per-layer": "An array of numbers of the layers has one for each of block_count layers; "
    "llama.cpp refuses another length.",
    "loader-heads": "Heads share the width of a row evenly, and key/value heads the heads.",
    "loader-feed-forward": "feed_forward_length is the number of rows of ffn_up.",
    "loader-rotation": "These models rotate whole heads; another rope.dimension_count is refused.",
    "loader-embedding": "token_embd.weight has a row for each token, embedding_length long.",
    # model_tensors
    "model-tensor-missing": "The file lacks a tensor that every model of its architecture has; "
    f"llama.cpp refuses it. {_AGAIN}",
    "model-tensor-shape": "A tensor has another shape than the metadata say; llama.cpp refuses "
    "the file. Either the metadata were edited or the tensor is of another model.",
    "model-tensor-type": "llama.cpp computes with norms, biases and convolutions of F32 alone, and "
    "has no product for whole numbers, F64 or Q8_1; another type ends it. Convert the model again.",
    "model-tensor-surplus": "A tensor is there that llama.cpp has no use for in this architecture; "
    "it refuses the file. Remove it, or convert the original model again.",
    "model-tensor-unknown": "llama.cpp takes this tensor, mtkit does not convert it.",
    # gguf_keys
    "gguf-architecture": "general.architecture is a string; the tokenizer's rules depend on it.",
    "gguf-name": "general.name is a string.",
    "gguf-tokenizer-model": "tokenizer.ggml.model names one of llama.cpp's kinds of vocabulary.",
    "gguf-pre-tokenizer": "tokenizer.ggml.pre names one of llama.cpp's split patterns. "
    "A newer llama.cpp may know it; or the converter took a name of its own.",
    "gguf-tokens": "tokenizer.ggml.tokens is an array of strings with at least one element.",
    "gguf-token-types": "tokenizer.ggml.token_type has an i32 for every token.",
    "gguf-scores": "tokenizer.ggml.scores has an f32 for every token.",
    "gguf-special-ids": "Ids with a role, like tokenizer.ggml.bos_token_id, are u32.",
    "gguf-added-ends": "Flags like tokenizer.ggml.add_bos_token are bool.",
    "gguf-chat-template": "tokenizer.chat_template is a string; llama.cpp takes another for none.",
    "gguf-vocabulary": "The parts of a vocabulary fit together; llama.cpp refuses this or ends.",
    "gguf-token-nul": "A token has no NUL byte: llama.cpp takes what stands in front of it.",
    "gguf-token-text": "A token is valid UTF-8; bytes are spelled in an alphabet or as <0xHH>.",
    "gguf-scores-count": "There are more scores than tokens; llama.cpp leaves the last ones out.",
    "gguf-types-count": "There are more types than tokens; llama.cpp leaves the last ones out.",
    "gguf-scores-type": "Scores are f32.",
    "gguf-types-known": "Types of tokens are 0 to 6; others are taken for undefined.",
    "gguf-id-range": "An id with a role is the id of a token; llama.cpp drops others silently.",
    "gguf-merge-form": "A merge is two parts with one space between; llama.cpp drops others.",
    "gguf-charsmap": "The character map of a Unigram vocabulary stays inside its trie.",
    "gguf-pre-missing": "A byte-pair vocabulary names its split pattern. Without the right one "
    "ids differ from those that the model was trained with: convert the model again.",
    # spec.rules
    "text": f"Every text can be written as bytes. {_SPEC}",
    "vocabulary-holes": f"Ids are numbered without wide holes. {_SPEC}",
    "prefix-id": f"What is put in front of every text is an id. {_SPEC}",
    "vocabulary-types": f"There is a type for every token. {_SPEC}",
    "vocabulary-scores": f"There is a score for every token. {_SPEC}",
    "vocabulary-also": f"Further spellings are of ids of the vocabulary, each once. {_SPEC}",
    "vocabulary-hidden": f"Hidden ids are ids of the vocabulary, in ascending order. {_SPEC}",
    "added-token-id": f"An added token has an id of 31 bits. {_SPEC}",
    "special-id": f"An id with a role has 31 bits. {_SPEC}",
    "stop-id": f"What ends a generation is an id. {_SPEC}",
    "truncation-size": "A length to truncate to is a number that is not negative.",
    "truncation-stride": "A stride is a number that is not negative.",
    "padding-id": "What texts are padded with is an id.",
    "padding-segment": "The segment of padding is a number that is not negative.",
    "padding-length": "A length to pad to is a number that is not negative.",
    "padding-multiple": "A multiple to pad to is a number that is not negative.",
    "unknown-id": f"The unknown token is a token of the vocabulary. {_SPEC}",
    "unknown-word-id": f"The unknown token is an id. {_SPEC}",
    "word-length": "The longest word is a number that is not negative.",
    "merges": f"Merges join tokens of the vocabulary. {_SPEC}",
    "dropout": "A dropout lies between 0 and 1.",
    "loose-pairs": f"There are two ids for each rank. {_SPEC}",
    "loose-ranks": f"Ranks ascend. {_SPEC}",
    "lowest-score": "A score can be compared: it is a number.",
    "byte-symbols": f"Byte tokens are symbols only where any token can be merged. {_SPEC}",
    "section-begin": f"A section begins with a token that has a text. {_SPEC}",
    "section-end": f"A section ends with a token that has a text. {_SPEC}",
    "section-unknown-id": f"What is unknown in a section is an id. {_SPEC}",
    "table-code-points": f"A table of characters ascends up to U+10FFFF. {_SPEC}",
    "table-values": f"A table has a value for each of its characters. {_SPEC}",
    "metaspace-replacement": "The replacement of a Metaspace is one character.",
    "delimiter": "The delimiter of a CharDelimiterSplit is one character.",
    "piece-length": "The length of a FixedLength is a number that is not negative.",
    "slot-text": "A template has the texts 0 and 1.",
    "slot-id": f"What a template adds is an id. {_SPEC}",
    "slot-segment": "The segment of a part of a template is a number that is not negative.",
    "surrounding-id": f"What a post-processor puts around a text is an id. {_SPEC}",
    "stripped-front": "What is stripped in front is a number that is not negative.",
    "stripped-back": "What is stripped behind is a number that is not negative.",
    "bytewise-steps": f"Decoding by bytes has steps that are meant for bytes. {_SPEC}",
    # checking
    "tokenizer": "The format's own reference refuses the file or cannot read it to its end.",
    "tokenizer-support": "The file has a part that mtkit does not know; nothing else was checked.",
    # vocabulary
    "tokenizer-runs": "The parts of the tokenizer can be compiled: patterns, character maps.",
    "token-spellings": "Two texts have one id. Both are found when encoding; mtkit decodes the id "
    "as the first of them, tokenizers as either, another one each time.",
    "token-twice": "Two ids have one text. Only one of them is ever found when encoding; "
    "llama.cpp before 2026 ends when it loads such a vocabulary.",
    "token-empty": "A token has no text and is never found; llama.cpp calls it [EMPTY_id].",
    "byte-token-form": "A byte token is spelled <0xHH>; llama.cpp refuses any other spelling.",
    "byte-tokens": "A tokenizer that falls back to bytes has all 256 byte tokens. "
    "Characters with the missing ones cannot be encoded; llama.cpp ends on them.",
    "byte-letters": "A byte-level vocabulary has a token for each byte that UTF-8 can have. "
    "Text with the missing ones loses them or is refused.",
    "merge-product": "What a merge makes is a token; tokenizers refuses the file otherwise.",
    "merge-twice": "A merge stands once; the first rank counts.",
    "token-unreachable": "No merge makes the token, so no text is encoded with it; it only "
    "decodes. Tokens for other purposes (unused, multimodal) often are like this.",
    "score-number": "A score is a number; what is compared with NaN is in no order.",
    "special-range": "An id with a role is the id of a token.",
    "special-type": "BOS and EOS are control tokens; one that counts as text can be typed.",
    "added-token-twice": "Two added tokens have one text; only one of them is ever found.",
    "added-id-range": "What is added around a text has a row in the embedding.",
    # templates
    "template-syntax": "The chat template is not valid Jinja, so no chat can be rendered.",
    "template-limits": "The chat template takes too much time or memory for a short question.",
    "template-refuses": "The chat template does not take a conversation of one question.",
    "template-answer": "add_generation_prompt opens the answer; here it changes nothing, and the "
    "model may go on with the question instead.",
    "template-bos-twice": "BOS comes from the template and from encoding: the model sees it "
    "twice. Encode what the template gives without adding special tokens.",
    "template-tokens": "The template writes a control token that the vocabulary lacks: the model "
    "sees its letters. The template is probably that of another model.",
    "template-against": "The chat template differs from the one that it was compared with.",
    "tokenizer-class": "transformers 5 builds what the class that tokenizer_config.json or "
    "config.json names has built in, and adds the tokens that stand there. Where tokenizer.json is "
    "right, let tokenizer_class be TokenizersBackend.",
    "tokenizer-class-unknown": "Of a class that mtkit does not know it is not known whether "
    "transformers 5 makes another tokenizer of the folder.",
    # programs
    "runs-unknown": "What the program does could not be asked: install its library. It is not said "
    "to do the same.",
    "runs-model": "llama.cpp was asked to load the model and to compute a token, and could not: "
    "mtkit generate ends with the same message. What it says names tensor or key.",
    "runs-refused": "The program refuses the file, or what is converted for it. Give it another "
    "format, or the tokenizer without what it does not know.",
    "runs-text": "The program refuses texts that the file's own library encodes.",
    "runs-ids": "Ordinary texts get other ids: a model that was trained with this file predicts "
    "worse there. Run it with its own library, or convert the file and say what may be lost.",
    "runs-special-ids": "Texts that spell out special tokens get other ids, as prompts of a chat "
    "and texts of users that quote one.",
    "runs-around": "Other tokens stand around a text, as BOS and EOS. Add them by hand, or set "
    "add_bos_token and the like.",
    "runs-decoding": "Ids are decoded to other text, often only to other spaces.",
    "runs-lacks": "What is converted for the program does not keep it; no text shows it.",
    # safetensors
    "safetensors-length": f"The header is at most 100,000,000 bytes long. {_AGAIN}",
    "safetensors-json": f"The header is a JSON object. {_AGAIN}",
    "safetensors-name-twice": "A name stands once. Readers differ in which of two they take.",
    "safetensors-metadata": "__metadata__ is an object of texts; the library refuses the file.",
    "safetensors-entry": "A tensor has dtype, shape and two data_offsets, the second not before "
    "the first; the library refuses the file.",
    "safetensors-type": "The type of a tensor is one that the library knows; an older library "
    "refuses the file.",
    "safetensors-size": "The data of a tensor is as long as its type and shape say. " + _AGAIN,
    "safetensors-overlap": "Tensors share no bytes. Something may be hidden there.",
    "safetensors-hole": "The data has no holes. Something may be hidden there.",
    "safetensors-end": f"The data of the tensors fills the rest of the file. {_AGAIN}",
    "safetensors-alignment": "The header is filled up with spaces to a multiple of 8, so that "
    "tensors can be used where they lie.",
    "index-json": "An index is a JSON object with weight_map, the file of each tensor.",
    "index-path": "The files of an index lie beside it, so it names no folders.",
    "index-file": "Every file that an index names is there; download what is missing.",
    "index-tensor": "A tensor is in the file that the index names: files of two models are mixed.",
    "index-unlisted": "A tensor of a file is in the index; else it is never loaded.",
    "index-total": "total_size is the number of bytes of all tensors; some writers count those "
    "that share memory twice.",
    # checkpoints.folder_survey
    "folder-config": "config.json is missing or cannot be read, so nothing says what the model is. "
    "Download the folder again.",
    "folder-weights": "The folder has no weights: encoding with its tokenizer works, running or "
    "converting the model does not.",
    "folder-pickle": "The weights are in a pickle, which can run any code when it is loaded; "
    "mtkit never loads one. save_pretrained of transformers writes model.safetensors.",
    "folder-quantized": "Another program has quantized the weights (GPTQ, AWQ, bitsandbytes, FP8). "
    "Convert the model that was quantized.",
    "folder-shard": "A file of weights is missing; its neighbors' names say how many there are. "
    "Download what is missing.",
    "folder-tensor-twice": "Two files of weights have the same tensor: files of two models are "
    "mixed.",
    "folder-unused": "A file of weights is not among those that transformers loads.",
    # folder
    "folder-architecture": "config.json names an architecture that mtkit does not convert, or none "
    "at all. llama.cpp's convert_hf_to_gguf.py may know it.",
    "folder-field": "A field of config.json is missing, is of the wrong type, or contradicts the "
    "weights.",
    "folder-support": "config.json asks for something that llama.cpp does not do for this "
    "architecture.",
    "folder-type": "The weights are of a type that mtkit does not convert.",
    "folder-tensor-missing": "A tensor that the architecture needs is in no file of weights. "
    "transformers would fill it with random numbers.",
    "folder-tensor-shape": "A tensor has another shape than config.json says: config.json and "
    "weights are of two models, or the vocabulary was resized and only one of them says so.",
    "folder-tensor-unknown": "A tensor is in the files that the architecture does not have: "
    "transformers ignores it, mtkit does not convert the folder.",
    "folder-vocabulary": "The tokenizer has more ids than the embedding has rows, so some texts "
    "have ids that the model cannot look up. Tokenizer and weights are of two models, or tokens "
    "were added without resizing the embedding.",
    "folder-tokenizer": "There is no tokenizer beside the weights, or llama.cpp has nothing that "
    "does the same: mtkit convert refuses the folder.",
    # tensors
    "data-unfinished": "Tensors are zero from one on to the end of the file: its place on the disk "
    "was kept, and the download did not end. Download it again.",
    "data-nan": "Weights are numbers. A NaN spreads into every logit: quantise again.",
    "data-infinite": "Weights are finite: quantise again from a type with a wider range.",
    "data-zero": "All data of a tensor is zero: an unfinished download, or never trained.",
}
"""Code -> what holds for a sound file, what otherwise happens, what to do."""


def rules() -> Iterator[Rule]:
    """Yield every rule that a check can find broken."""
    from mtkit.check.checking import RULES
    from mtkit.check.tensors import DATA
    from mtkit.gguf import rules as gguf_rules
    from mtkit.gguf import shards
    from mtkit.spec.rules import RULES as SPEC_RULES

    yield from (*gguf_rules.RULES, *shards.RULES, *RULES, *SPEC_RULES, *DATA)


def explain(code: str) -> list[tuple[str, str]]:
    """Return what is known about a code: severity, who demands it, what it means.

    Raises:
        UsageError: There is no such code.
    """
    known = {rule.code: rule for rule in rules()}
    if code not in known:
        from difflib import get_close_matches

        near = get_close_matches(code, known, n=3)
        hint = f"is it {' or '.join(near)}?" if near else "docs/rules.md lists them"
        raise UsageError(f"no rule has the code {code!r}", hint=hint)
    rule = known[code]
    return [
        ("severity", rule.severity),
        ("demanded by", rule.source),
        ("field", rule.field or "any"),
        ("meaning", EXPLANATIONS[code]),
    ]
