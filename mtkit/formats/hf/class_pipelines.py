"""The pipelines that classes of transformers 5 build around the vocabulary of a tokenizer.json.

A class with its own constructor takes vocabulary, merges, post-processor, a character map,
truncation and padding from the file; normalizer, pre-tokenizer, decoder and the settings of the
model are its own. They are given here in the form of tokenizer.json.

Source: huggingface/transformers 5.24, models/*/tokenization_*.py (``__init__``),
tokenization_utils_tokenizers.py (``convert_to_native_format``).
"""

from __future__ import annotations

from mtkit.base.record import Record, replace
from mtkit.errors import UnsupportedError
from mtkit.formats.tokenizer_config import CONFIG, QWEN2_SPLIT, QWEN3_5_SPLIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.formats.tokenizer_config import Again, Settings

    Form = dict[str, Any]
    Around = Callable[["Ends"], Form | None]


class ClassPipeline(Record):
    """The pipeline of a class.

    Attributes:
        roles: Role -> text of its special tokens by default.
        around: Makes its post-processor; None: that of the file.
        prefers: Whether the file's post-processor comes first, where it has one.
        needs: Whether it makes one that mtkit does not know, where the file has none.
        unk: Unknown token of a Unigram: its id, or "named": that of the role, or "zero": that of
            the role if its score is zero, else ``or_else``.
        extra: Special tokens without a role, where the files name none.
        marks: Role -> flags of its token, where the files give its text alone.
        again: How it adds its special tokens a second time.
    """

    kind: str
    roles: Mapping[str, str]
    pre_tokenizer: Form | None
    decoder: Form
    normalizer: Form | None = None
    model: Mapping[str, Any] = {}
    around: Around | None = None
    prefers: bool = False
    needs: bool = False
    unk: int | str = 0
    or_else: int = 100
    extra: tuple[str, ...] = ()
    marks: Mapping[str, Mapping[str, bool]] = {}
    again: Again = None


class Ends(Record):
    """The special tokens around a text: role -> text and id; and the ids of all tokens."""

    texts: Mapping[str, str]
    ids: Mapping[str, int | None]
    numbers: Mapping[bytes, int]

    def slot(self, role: str, part: int = 0) -> Form:
        """Return the token of a role as a template has it."""
        return {"SpecialToken": {"id": self.texts[role], "type_id": part}}

    def template(self, single: list[Form], pair: list[Form], *roles: str) -> Form:
        """Return a template, with the roles that it uses."""
        used = {
            self.texts[role]: {
                "id": self.texts[role],
                "ids": [self.ids[role]],
                "tokens": [self.texts[role]],
            }
            for role in roles
        }
        return {
            "type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": used,
        }  # fmt: skip


def _text(which: str, part: int = 0) -> Form:
    return {"Sequence": {"id": which, "type_id": part}}


def _bert(ends: Ends) -> Form:
    first = [ends.slot("cls"), _text("A"), ends.slot("sep")]
    return ends.template(first, [*first, _text("B", 1), ends.slot("sep", 1)], "cls", "sep")


def _xlm_roberta(ends: Ends) -> Form:
    bos, eos = ends.slot("bos"), ends.slot("eos")
    pair = [bos, _text("A"), eos, eos, _text("B"), eos]
    return ends.template([bos, _text("A"), eos], pair, "bos", "eos")


def _deberta(ends: Ends) -> Form:
    cls, sep = ends.slot("cls"), ends.slot("sep")
    pair = [cls, _text("A"), sep, sep, _text("B"), sep]
    return ends.template([cls, _text("A"), sep], pair, "cls", "sep")


def _t5(ends: Ends) -> Form:
    ends = Ends({"eos": "</s>"}, ends.ids, ends.numbers)  # under this name, whatever its text is
    first = [_text("A"), ends.slot("eos")]
    return ends.template(first, [*first, _text("B"), ends.slot("eos")], "eos")


def _xlnet(ends: Ends) -> Form:
    first, cls = [_text("A"), ends.slot("sep")], ends.slot("cls", 2)
    pair = [*first, _text("B", 1), ends.slot("sep", 1), cls]
    return ends.template([*first, cls], pair, "sep", "cls")


def _no_ends(ends: Ends) -> None:
    """Return no post-processor: by default the class adds neither BOS nor EOS."""


def _bos(ends: Ends) -> Form | None:
    if "bos" not in ends.texts:
        return None
    first = [ends.slot("bos"), _text("A")]
    return ends.template(first, [*first, ends.slot("bos", 1), _text("B", 1)], "bos")


def _whisper(ends: Ends) -> Form:
    texts = {text: text for text in (_START, _PLAIN)}
    ids = {text: ends.numbers[text.encode()] for text in texts}
    ends = Ends({**ends.texts, **texts}, {**ends.ids, **ids}, ends.numbers)
    first = [ends.slot(_START), ends.slot(_PLAIN), _text("A")]
    pair = [*first, _text("B", 1), ends.slot("eos", 1)]
    return ends.template([*first, ends.slot("eos")], pair, _START, _PLAIN, "eos")


def _roberta(*, trim: bool, prefix: bool, first: str = "cls", last: str = "sep") -> Around:
    def around(ends: Ends) -> Form:
        return {
            "type": "RobertaProcessing",
            "sep": [ends.texts[last], ends.ids[last]],
            "cls": [ends.texts[first], ends.ids[first]],
            "trim_offsets": trim,
            "add_prefix_space": prefix,
        }

    return around


def _letters(prefix: bool = False, *, regex: bool = True, trim: bool = True) -> Form:
    return {
        "type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim, "use_regex": regex,
    }  # fmt: skip


def _mark(scheme: str, *, split: bool = True) -> Form:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}


def _cuts(*steps: Form) -> Form:
    return {"type": "Sequence", "pretokenizers": list(steps)}


def _words(scheme: str) -> Form:
    return _cuts({"type": "WhitespaceSplit"}, _mark(scheme))


def _changes(*steps: Form) -> Form:
    return {"type": "Sequence", "normalizers": list(steps)}


def _replacement(what: Form, by: str) -> Form:
    return {"type": "Replace", "pattern": what, "content": by}


def _split(pattern: str) -> Form:
    split = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
    return {**split, "invert": False}


def _bytes_back(*, strip: bool) -> Form:
    blank = [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] if strip else []
    steps = [_replacement({"String": "▁"}, " "), {"type": "ByteFallback"}, {"type": "Fuse"}, *blank]
    return {"type": "Sequence", "decoders": steps}


def _charsmap(table: str | None) -> list[Form]:
    return [] if table is None else [{"type": "Precompiled", "precompiled_charsmap": table}]


_END = "<|endoftext|>"
_START, _PLAIN = "<|startoftranscript|>", "<|notimestamps|>"
_THREE = {"bos": _END, "eos": _END, "unk": _END}
_FAIRSEQ = {
    "bos": "<s>",
    "eos": "</s>",
    "sep": "</s>",
    "cls": "<s>",
    "unk": "<unk>",
    "pad": "<pad>",
}
_BRACKETS = {"sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_BYTES = {"fuse_unk": True, "byte_fallback": True}
_LEFT = {"lstrip": True, "normalized": True}
_QUOTES = (_replacement({"String": "``"}, '"'), _replacement({"String": "''"}, '"'))
CLIP = (
    r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
)
_BARE = ({"type": "NFKD"}, {"type": "StripAccents"})


def _gpt2(settings: Settings, table: str | None) -> ClassPipeline:
    letters = _letters(settings.flag("add_prefix_space", False))
    return ClassPipeline("BPE", _THREE, letters, _letters())


def _codegen(settings: Settings, table: str | None) -> ClassPipeline:
    letters = _letters(settings.flag("add_prefix_space", False))
    after = _letters(True, trim=False)
    return ClassPipeline("BPE", _THREE, letters, _letters(), around=lambda _: after, prefers=True)


def _gpt_neox(settings: Settings, table: str | None) -> ClassPipeline:
    trim = settings.flag("trim_offsets", True)
    letters = _letters(settings.flag("add_prefix_space", False), trim=trim)
    roles = {**_THREE, "pad": "<|padding|>"}
    return ClassPipeline("BPE", roles, letters, _letters(), {"type": "NFC"}, around=_no_ends)


def _clip(settings: Settings, table: str | None) -> ClassPipeline:
    change = _changes({"type": "NFC"}, _replacement({"Regex": r"\s+"}, " "), {"type": "Lowercase"})
    words = {"type": "Split", "pattern": {"Regex": CLIP}, "behavior": "Removed", "invert": True}
    steps = [
        _letters(),
        _replacement({"String": "</w>"}, " "),
        _replacement({"Regex": r"\A[\s\x1c-\x1f]+|[\s\x1c-\x1f]+\z"}, ""),  # as str.strip
    ]
    back = {"type": "Sequence", "decoders": steps}
    model = {"unk_token": "named", "end_of_word_suffix": "</w>"}
    roles = {"bos": "<|startoftext|>", "eos": _END, "unk": _END, "pad": _END}
    around = _roberta(trim=False, prefix=False, first="bos", last="eos")
    return ClassPipeline("BPE", roles, _cuts(words, _letters()), back, change, model, around=around)


def _whisper_class(settings: Settings, table: str | None) -> ClassPipeline:
    if any(settings.config.get(key, None) for key in ("language", "task", "predict_timestamps")):
        what = "a language, a task or timestamps of Whisper are not known"
        raise UnsupportedError(what, field=CONFIG)
    letters = _letters(settings.flag("add_prefix_space", False))
    return ClassPipeline("BPE", _THREE, letters, _letters(), around=_whisper)


def _roberta_class(settings: Settings, table: str | None) -> ClassPipeline:
    prefix, trim = settings.flag("add_prefix_space", False), settings.flag("trim_offsets", True)
    roles = {**_FAIRSEQ, "mask": "<mask>"}
    around = _roberta(trim=trim, prefix=prefix)
    return ClassPipeline("BPE", roles, _letters(prefix), _letters(), around=around)


def _blenderbot(settings: Settings, table: str | None) -> ClassPipeline:
    letters = _letters(settings.flag("add_prefix_space", True))
    roles = {**_FAIRSEQ, "mask": "<mask>"}
    return ClassPipeline("BPE", roles, letters, _letters(), marks={"mask": {"lstrip": True}})


def _deberta_class(settings: Settings, table: str | None) -> ClassPipeline:
    letters = _letters(settings.flag("add_prefix_space", False))
    roles = {**_BRACKETS, "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    return ClassPipeline("BPE", roles, letters, _letters(), around=_deberta)


def _qwen(pattern: str, *, again: Again) -> Callable[[Settings, str | None], ClassPipeline]:
    def built(settings: Settings, table: str | None) -> ClassPipeline:
        letters = _letters(settings.flag("add_prefix_space", False), regex=False)
        cuts = _cuts(_split(pattern), letters)
        roles = {"eos": _END, "unk": _END, "pad": _END}
        return ClassPipeline("BPE", roles, cuts, _letters(), {"type": "NFC"}, again=again)

    return built


def _cohere(settings: Settings, table: str | None) -> ClassPipeline:
    prefix = settings.flag("add_prefix_space", False)
    cuts = _cuts({"type": "Digits", "individual_digits": True}, _letters(prefix))
    roles = {
        "bos": "<BOS_TOKEN>", "eos": "<|END_OF_TURN_TOKEN|>", "unk": "<UNK>", "sep": "<SEP>",
        "pad": "<PAD>", "cls": "<CLS>", "mask": "<MASK_TOKEN>",
    }  # fmt: skip
    return ClassPipeline("BPE", roles, cuts, _letters(prefix), {"type": "NFC"}, again="kept")


def _llama(settings: Settings, table: str | None) -> ClassPipeline:
    prefix = settings.flag("add_prefix_space", True)
    first = "always" if settings.flag("legacy", False) else "first"
    mark = _mark(first if prefix else "never", split=False)
    roles = {"bos": "<s>", "eos": "</s>", "unk": "<unk>"}
    return ClassPipeline("BPE", roles, mark, _bytes_back(strip=prefix), model=_BYTES)


def _code_llama(settings: Settings, table: str | None) -> ClassPipeline:
    mark = _mark("first" if settings.flag("add_prefix_space", True) else "never", split=False)
    roles = {
        "bos": "<s>", "eos": "</s>", "unk": "<unk>", "prefix": "▁<PRE>", "middle": "▁<MID>",
        "suffix": "▁<SUF>", "eot": "▁<EOT>", "fill": "<FILL_ME>",
    }  # fmt: skip
    model = {**_BYTES, "unk_token": "named"}
    return ClassPipeline("BPE", roles, mark, _bytes_back(strip=True), model=model, around=_bos)


def _gemma(settings: Settings, table: str | None) -> ClassPipeline:
    split = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious"}
    roles = {"bos": "<bos>", "eos": "<eos>", "unk": "<unk>", "pad": "<pad>", "mask": "<mask>"}
    return ClassPipeline(
        "BPE",
        roles,
        {**split, "invert": False},
        _bytes_back(strip=False),
        _replacement({"String": " "}, "▁"),
        {**_BYTES, "unk_token": "named"},
    )


def _bert_class(settings: Settings, table: str | None) -> ClassPipeline:
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": settings.flag("tokenize_chinese_chars", True),
        "strip_accents": settings.config.optional_boolean("strip_accents"),
        "lowercase": settings.flag("do_lower_case", True),
    }
    decoder = {"type": "WordPiece", "prefix": "##", "cleanup": True}
    roles = {**_BRACKETS, "unk": "[UNK]"}
    cut = {"type": "BertPreTokenizer"}
    model = {"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
    return ClassPipeline("WordPiece", roles, cut, decoder, normalizer, model, around=_bert)


def _mpnet(settings: Settings, table: str | None) -> ClassPipeline:
    roles = {**_FAIRSEQ, "unk": "[UNK]", "mask": "<mask>"}
    around, marks = _roberta(trim=True, prefix=False), {"mask": {"lstrip": True}}
    return replace(_bert_class(settings, table), roles=roles, around=around, marks=marks)


def _deberta_v2(settings: Settings, table: str | None) -> ClassPipeline:
    lower = ({"type": "Lowercase"},) if settings.flag("do_lower_case", False) else ()
    white = _replacement({"Regex": r"\s{2,}|[\n\r\t]"}, " ")
    strip = {"type": "Strip", "strip_left": False, "strip_right": True}
    change = _changes(*lower, white, {"type": "NFC"}, strip)
    punctuation = {"type": "Punctuation", "behavior": "Isolated"}
    mark = _mark("always" if settings.flag("add_prefix_space", True) else "first")
    cut = _cuts(*[punctuation] * settings.flag("split_by_punct", False), mark)
    roles = {**_BRACKETS, "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    unk_id = settings.config.get("unk_id", 1)
    unk: dict[str, Any] = {"unk": "zero", "or_else": unk_id if type(unk_id) is int else 1}
    return ClassPipeline("Unigram", roles, cut, mark, change, around=_bert, **unk)


def _xlm_roberta_class(settings: Settings, table: str | None) -> ClassPipeline:
    scheme = "always" if settings.flag("add_prefix_space", True) else "never"
    change = _charsmap(table)[0] if table is not None else None
    roles = {**_FAIRSEQ, "mask": "<mask>"}
    decoder = _mark(scheme)
    return ClassPipeline(
        "Unigram", roles, _words(scheme), decoder, change, around=_xlm_roberta, unk=3
    )


def _camembert(settings: Settings, table: str | None) -> ClassPipeline:
    base = _xlm_roberta_class(settings, table)
    extra = ("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED")
    marks = {"mask": {"lstrip": True}}
    return replace(base, unk="named", extra=extra, marks=marks)


def _t5_class(settings: Settings, table: str | None) -> ClassPipeline:
    count = settings.config.get("extra_ids") if "extra_ids" in settings.config else 100
    extra = tuple(f"<extra_id_{number}>" for number in range(count if type(count) is int else 0))
    roles = {"eos": "</s>", "unk": "<unk>", "pad": "<pad>"}
    change = _charsmap(table)[0] if table is not None else None
    cut, back = _words("always"), _mark("always")
    return ClassPipeline("Unigram", roles, cut, back, change, around=_t5, unk=2, extra=extra)


def _albert(settings: Settings, table: str | None) -> ClassPipeline:
    bare = () if settings.flag("keep_accents", False) else _BARE
    lower = ({"type": "Lowercase"},) if settings.flag("do_lower_case", True) else ()
    scheme = "always" if settings.flag("add_prefix_space", True) else "never"
    roles = {**_BRACKETS, "bos": "[CLS]", "eos": "[SEP]", "unk": "<unk>", "pad": "<pad>"}
    change = _changes(*_QUOTES, *bare, *lower, *_charsmap(table))
    decoder = _mark(scheme)
    return ClassPipeline("Unigram", roles, _words(scheme), decoder, change, needs=True, unk=1)


def _xlnet_class(settings: Settings, table: str | None) -> ClassPipeline:
    lower = ({"type": "Lowercase"},) if settings.flag("do_lower_case", False) else ()
    roles = {
        "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "<sep>", "pad": "<pad>", "cls": "<cls>",
        "mask": "<mask>",
    }  # fmt: skip
    change = _changes(*_QUOTES, *_BARE, *lower, *_charsmap(table))
    unk = settings.config.get("unk_id") if "unk_id" in settings.config else 0
    more: dict[str, Any] = {"extra": ("<eop>", "<eod>"), "marks": {"mask": _LEFT}, "unk": unk}
    cut, back = _words("always"), _mark("always")
    return ClassPipeline("Unigram", roles, cut, back, change, around=_xlnet, **more)


def _big_bird(settings: Settings, table: str | None) -> ClassPipeline:
    scheme = "always" if settings.flag("add_prefix_space", True) else "never"
    strip = {"type": "Strip", "strip_left": False, "strip_right": False}
    change = _changes(strip, _replacement({"Regex": " {2,}"}, "▁"))
    roles = {
        "bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "[SEP]", "pad": "<pad>", "cls": "[CLS]",
        "mask": "[MASK]",
    }  # fmt: skip
    marks = {role: _LEFT if role == "mask" else {"normalized": True} for role in roles}
    unk: dict[str, Any] = {"unk": "zero", "marks": marks}
    return ClassPipeline(
        "Unigram", roles, _mark(scheme), _mark(scheme), change, around=_bert, **unk
    )


CLASSES: Mapping[str, Callable[[Settings, str | None], ClassPipeline]] = {
    "AlbertTokenizer": _albert,
    "BertTokenizer": _bert_class,
    "BigBirdTokenizer": _big_bird,
    "BlenderbotTokenizer": _blenderbot,
    "CLIPTokenizer": _clip,
    "CamembertTokenizer": _camembert,
    "CodeGenTokenizer": _codegen,
    "CodeLlamaTokenizer": _code_llama,
    "CohereTokenizer": _cohere,
    "DebertaTokenizer": _deberta_class,
    "DebertaV2Tokenizer": _deberta_v2,
    "GPT2Tokenizer": _gpt2,
    "GPTNeoXTokenizer": _gpt_neox,
    "GemmaTokenizer": _gemma,
    "LlamaTokenizer": _llama,
    "MPNetTokenizer": _mpnet,
    "Qwen2Tokenizer": _qwen(QWEN2_SPLIT, again="plain"),
    "Qwen3_5Tokenizer": _qwen(QWEN3_5_SPLIT, again=None),
    "RobertaTokenizer": _roberta_class,
    "T5Tokenizer": _t5_class,
    "WhisperTokenizer": _whisper_class,
    "XLMRobertaTokenizer": _xlm_roberta_class,
    "XLNetTokenizer": _xlnet_class,
}
"""Class -> its pipeline, of its settings and the character map of the file."""
