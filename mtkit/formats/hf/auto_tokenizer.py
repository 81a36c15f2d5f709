"""A folder with a tokenizer.json as ``AutoTokenizer`` of transformers 5 reads it.

tokenizer_config.json names a class, config.json may name another, and the model's type stands for a
third; ``auto_class`` is transformers' choice. Some classes build their own normalizer,
pre-tokenizer, decoder and model around the vocabulary of tokenizer.json (``class_pipelines``); the
others run the file as it is. Added tokens are those of all files.

Source: huggingface/transformers 5.24, tokenization_utils_base.py (``_from_pretrained``),
tokenization_utils_tokenizers.py (``convert_to_native_format``, ``__init__``),
models/auto/tokenization_auto.py (``AutoTokenizer``, ``TOKENIZER_MAPPING_NAMES``,
``MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.formats.contract import Reading
from mtkit.formats.hf.class_pipelines import CLASSES, Ends
from mtkit.formats.hf.config import SideFiles
from mtkit.formats.hf.model_reader import parse_document, read_model
from mtkit.formats.hf.numbers import read_float
from mtkit.formats.hf.reader import count_tokens, ids_in, list_tokens, listed_tokens, specification
from mtkit.formats.json_fields import Fields, parse_json
from mtkit.formats.tokenizer_config import CONFIG, Settings, number_tokens
from mtkit.spec import AddedTokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.base.binary import Source
    from mtkit.formats.hf.class_pipelines import ClassPipeline
    from mtkit.formats.hf.model_reader import NativeVocabulary
    from mtkit.spec import AddedToken


GENERIC_CLASS = "TokenizersBackend"
"""The class that runs tokenizer.json as it is."""
_MISTRAL = "MistralCommonBackend"
_UNCHANGED_CLASSES = {GENERIC_CLASS, "PythonBackend", "PreTrainedTokenizerFast", _MISTRAL}
_TYPES = {
    "AlbertTokenizer": "albert yoso",
    "BartTokenizer": "florence2",
    "BarthezTokenizer": "barthez",
    "BartphoTokenizer": "bartpho",
    "BertGenerationTokenizer": "bert-generation",
    "BertJapaneseTokenizer": "bert-japanese",
    "BertTokenizer": (
        "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
        "grounding-dino layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert "
        "realm retribert squeezebert tvp vilt visual_bert"
    ),
    "BertweetTokenizer": "bertweet",
    "BigBirdTokenizer": "big_bird",
    "BioGptTokenizer": "biogpt",
    "BlenderbotSmallTokenizer": "blenderbot-small",
    "BlenderbotTokenizer": "blenderbot",
    "ByT5Tokenizer": "byt5",
    "CLIPTokenizer": (
        "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip"
    ),
    "CTRLTokenizer": "ctrl",
    "CamembertTokenizer": "camembert",
    "CanineTokenizer": "canine",
    "ClvpTokenizer": "clvp",
    "CodeLlamaTokenizer": "code_llama",
    "CohereTokenizer": "aya_vision cohere cohere2",
    "CpmAntTokenizer": "cpmant",
    "CpmTokenizer": "cpm",
    "DPRQuestionEncoderTokenizer": "dpr",
    "DebertaTokenizer": "deberta",
    "DebertaV2Tokenizer": "deberta-v2",
    "DiaTokenizer": "dia",
    "EsmTokenizer": "esm",
    "EsmcTokenizer": "esmc esmfold2",
    "FNetTokenizer": "fnet",
    "FSMTTokenizer": "fsmt",
    "FlaubertTokenizer": "flaubert",
    "FunnelTokenizer": "funnel",
    "GPT2Tokenizer": (
        "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip "
        "instructblipvideo jais2 opt phi starcoder2"
    ),
    "GPTNeoXJapaneseTokenizer": "gpt_neox_japanese",
    "GPTNeoXTokenizer": "falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm",
    "GPTSw3Tokenizer": "gpt-sw3",
    "GemmaTokenizer": (
        "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
        "shieldgemma2 t5gemma zaya"
    ),
    "HerbertTokenizer": "herbert",
    "LEDTokenizer": "led",
    "LasrTokenizer": "lasr_ctc lasr_encoder",
    "LayoutLMv2Tokenizer": "layoutlmv2",
    "LayoutLMv3Tokenizer": "layoutlmv3",
    "LayoutXLMTokenizer": "layoutxlm",
    "LlamaTokenizer": "idefics idefics2",
    "LukeTokenizer": "luke",
    "LxmertTokenizer": "lxmert",
    "M2M100Tokenizer": "m2m_100",
    "MBart50Tokenizer": "mbart50",
    "MBartTokenizer": "mbart",
    "MLukeTokenizer": "mluke",
    "MPNetTokenizer": "mpnet",
    "MarianTokenizer": "marian",
    "MarkupLMTokenizer": "markuplm",
    "MgpstrTokenizer": "mgp-str",
    "MistralCommonBackend": (
        "ministral ministral3 mistral mistral3 mistral_large4 mixtral pixtral voxtral "
        "voxtral_realtime"
    ),
    "MobileBertTokenizer": "mobilebert",
    "MvpTokenizer": "mvp",
    "MyT5Tokenizer": "myt5",
    "NllbTokenizer": "nllb nllb-moe",
    "NougatTokenizer": "nougat pp_formulanet",
    "OpenAIGPTTokenizer": "openai-gpt",
    "PLBartTokenizer": "plbart",
    "ParakeetTokenizer": (
        "granite_speech5_ctc nemotron3_5_asr nemotron_asr_streaming omniasr_ctc parakeet_ctc "
        "parakeet_rnnt parakeet_tdt"
    ),
    "PegasusTokenizer": "pegasus",
    "PerceiverTokenizer": "perceiver",
    "PhobertTokenizer": "phobert",
    "ProphetNetTokenizer": "prophetnet",
    "Qwen2Tokenizer": (
        "audioflamingo3 colqwen2 cosmos3_omni dots3_note fun_asr_nano hunyuan_vl internvl "
        "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio "
        "qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl "
        "qwen3_vl_moe"
    ),
    "Qwen2TokenizerFast": "lighton_ocr vibevoice",
    "Qwen3_5Tokenizer": "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp",
    "RagTokenizer": "rag",
    "ReformerTokenizer": "reformer",
    "RemBertTokenizer": "rembert",
    "RoCBertTokenizer": "roc_bert",
    "RoFormerTokenizer": "roformer",
    "RobertaTokenizer": (
        "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta roberta "
        "roberta-prelayernorm"
    ),
    "SeamlessM4TTokenizer": "seamless_m4t seamless_m4t_v2",
    "Siglip2Tokenizer": "siglip2",
    "SiglipTokenizer": "siglip",
    "Speech2TextTokenizer": "speech_to_text",
    "SpeechT5Tokenizer": "speecht5",
    "SplinterTokenizer": "splinter",
    "T5Tokenizer": "mt5 musicgen musicgen_melody switch_transformers t5",
    "TapasTokenizer": "tapas",
    "Tipsv2Tokenizer": "tipsv2",
    "TokenizersBackend": (
        "EvollaModel aria beam bigbird_pegasus canary flex_olmo glm glm4 glm4_moe "
        "glm4_moe_lite glm4v glm4v_moe glm_image glmasr got_ocr2 gpt_bigcode "
        "gradium_phonon_tts granite granitemoe granitemoehybrid granitemoeshared kimi_k25 "
        "kimi_linear kosmos-2 mimo_v2_flash minicpm_ocr minicpmv4_6 minicpmv4_7 nemo_speechlm "
        "nystromformer olmo2 olmo3 olmo_hybrid omniasr pegasus_x persimmon pix2struct "
        "pocket_tts stablelm umt5 xlm-roberta-xl"
    ),
    "UdopTokenizer": "udop",
    "VideoPrismTokenizer": "videoprism",
    "VitsTokenizer": "vits",
    "Wav2Vec2CTCTokenizer": (
        "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert wav2vec2-conformer"
    ),
    "Wav2Vec2PhonemeCTCTokenizer": "wav2vec2_phoneme",
    "WhisperTokenizer": "whisper",
    "XGLMTokenizer": "xglm",
    "XLMRobertaTokenizer": "gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod",
    "XLMTokenizer": "xlm",
    "XLNetTokenizer": "xlnet",
}
"""Class -> types of models that have it; all other types have ``GENERIC_CLASS``."""
_WRONG_NAMES = (
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat "
    "hyperclovax hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder "
    "jamba llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder "
    "molmo molmo2 nemotron nvfp4 opencua openvla paddleocr_vl phi3 phi3_v phimoe qwen2 "
    "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava"
)
WRONG_TYPES = frozenset(_WRONG_NAMES.split())
"""Types of models whose folders name a wrong class in tokenizer_config.json."""
_ALIASES = {
    "RobertaTokenizer": "BartTokenizer LEDTokenizer LongformerTokenizer MvpTokenizer",
    "BertTokenizer": (
        "DistilBertTokenizer ElectraTokenizer LayoutLMTokenizer LxmertTokenizer "
        "MobileBertTokenizer SqueezeBertTokenizer"
    ),
    GENERIC_CLASS: ("BloomTokenizer ParakeetTokenizer PreTrainedTokenizer PreTrainedTokenizerFast"),
}
"""Class -> other names for it."""
_OTHER_NAMES = (
    "BasicTokenizer CharacterTokenizer ConvBertTokenizer FNetTokenizer CodeGenTokenizer "
    "DPRContextEncoderTokenizer "
    "DPRReaderTokenizer FastSpeech2ConformerTokenizer MecabTokenizer Pop2PianoTokenizer "
    "WordpieceTokenizer"
)
_NO_MODEL = (
    "barthez bartpho bert-japanese bertweet byt5 code_llama cpm herbert mbart50 mega mluke myt5 "
    "nezha nllb phobert qdqbert realm retribert wav2vec2_phoneme"
)
TYPES_WITHOUT_MODEL = frozenset(_NO_MODEL.split())
"""Types without a model in transformers, which do not stand for a class."""
OTHER_CLASSES = frozenset(_OTHER_NAMES.split())
"""Further classes of transformers, each with a tokenizer of its own."""
CLASS_OF_TYPE = {kind: name for name, types in _TYPES.items() for kind in types.split()}
_CLASS_OF_ALIAS = {alias: name for name, names in _ALIASES.items() for alias in names.split()}


def auto_class(
    config: Mapping[str, Any], model: Mapping[str, Any], *, is_byte_level: bool, has_tekken: bool
) -> str:
    """Return the class of a folder's tokenizer, by its canonical name."""
    kind = _text_field(model, "model_type")
    folder_class = _text_field(config, "tokenizer_class") or _text_field(model, "tokenizer_class")
    type_class = _class_of_type(kind)
    auto = config.get("auto_map")
    has_code = bool(auto.get("AutoTokenizer") if isinstance(auto, dict) else auto)
    if has_code and kind not in WRONG_TYPES and not (folder_class and is_known_class(folder_class)):
        what = "names a class that is in the folder"
        raise UnsupportedError(what, field="tokenizer_config.json: auto_map")
    if folder_class is None:
        _check_tekken(type_class, has_tekken)
        if type_class in (None, _MISTRAL) or kind in TYPES_WITHOUT_MODEL:
            return GENERIC_CLASS
        return canonical_class(type_class or "")
    if has_code:
        return canonical_class(folder_class)
    is_wrong = kind in WRONG_TYPES or _text_field(model, "model_name") in WRONG_TYPES
    plain = folder_class.removesuffix("Fast")
    # A Llama tokenizer with byte-level stages is another one under that name.
    if plain == "LlamaTokenizer" and is_byte_level and not is_wrong and type_class != _MISTRAL:
        return GENERIC_CLASS
    if type_class in (None, plain):
        return canonical_class(folder_class)
    if type_class not in _UNCHANGED_CLASSES:
        name = canonical_class((type_class if is_wrong else folder_class) or "")
        if name != GENERIC_CLASS:
            return name
    _check_tekken(type_class, has_tekken)
    return GENERIC_CLASS


def _text_field(document: Mapping[str, Any], key: str) -> str | None:
    value = document.get(key)
    return value if isinstance(value, str) and value else None


def _class_of_type(kind: str | None) -> str | None:
    """Return the class of a type of models, without ``Fast``; None where it has none."""
    default = GENERIC_CLASS if kind in WRONG_TYPES else None
    name = CLASS_OF_TYPE.get(kind or "", default)
    return name.removesuffix("Fast") if name else None


def _check_tekken(type_class: str | None, has_tekken: bool) -> None:
    if type_class == _MISTRAL and has_tekken:
        what = "is read instead of tokenizer.json where mistral-common is installed"
        raise UnsupportedError(what, field="tekken.json", hint="name the file to read it")


def is_known_class(name: str) -> bool:
    """Tell whether transformers has a class of this name."""
    plain = name.removesuffix("Fast")
    return plain in _CLASS_OF_ALIAS or plain in _TYPES or plain in OTHER_CLASSES


def canonical_class(name: str) -> str:
    """Return the class that builds the same tokenizer; ``GENERIC_CLASS`` for an unknown name."""
    plain = name.removesuffix("Fast")
    return _CLASS_OF_ALIAS.get(plain, plain if is_known_class(plain) else GENERIC_CLASS)


MODEL_CONFIG = "config.json"
_STAGES = ("normalizer", "pre_tokenizer", "decoder")


def read_as_transformers(source: Source) -> Reading:
    """Read a tokenizer.json and the files beside it."""
    document, dictionary = parse_document(source.data)
    settings = Settings(source, listed_tokens(Fields(document, "")))
    name = _folder_class(source, settings, document)
    if name == GENERIC_CLASS:
        return _read_unchanged(source, settings, document, dictionary)
    if name not in CLASSES:
        raise UnsupportedError(f"what a {name} makes of it is not known", field=CONFIG)
    pipeline = CLASSES[name](settings, _find_charsmap(document.get("normalizer")))
    is_list = type(document["model"].get("vocab")) is list
    if is_list and (pipeline.kind == "BPE" or isinstance(pipeline.unk, str)):
        document, dictionary = parse_json(source.data, parse_float=read_float), None
    document = _rebuild(document, pipeline, settings, dictionary)
    root = Fields(document, "")
    vocabulary, model = read_model(root, dictionary)
    role_tokens = settings.role_tokens(pipeline.roles, pipeline.marks)
    tokens = settings.tokens(role_tokens, again=pipeline.again, extra=pipeline.extra)
    ids = ids_in(root, [token.content for token in tokens], vocabulary, dictionary)
    by_id, numbers = number_tokens(tokens, ids, count_tokens(vocabulary))
    document["post_processor"] = _post_processor(document, pipeline, role_tokens, numbers, name)
    added = AddedTokens(
        tuple(by_id[number] for number in sorted(by_id)),
        parse_special=not settings.flag("split_special_tokens", False),
    )
    document = list_tokens(document, added)
    spec = specification(document, SideFiles(source), vocabulary, model, added)
    return Reading(spec, (f"builds a {name} instead",))


def _folder_class(source: Source, settings: Settings, document: dict[str, Any]) -> str:
    data = source.beside(MODEL_CONFIG)
    model = {} if data is None else parse_json(data, MODEL_CONFIG)
    return auto_class(
        settings.config.values,
        model if isinstance(model, dict) else {},
        is_byte_level=any(
            _has_byte_level(document.get(stage)) for stage in ("pre_tokenizer", "decoder")
        ),
        has_tekken=source.beside("tekken.json") is not None,
    )


def _has_byte_level(form: Any) -> bool:
    if not isinstance(form, dict):
        return False
    steps = [step for key in ("pretokenizers", "decoders") for step in form.get(key) or ()]
    return form.get("type") == "ByteLevel" or any(map(_has_byte_level, steps))


def _read_unchanged(
    source: Source,
    settings: Settings,
    document: dict[str, Any],
    dictionary: NativeVocabulary | None,
) -> Reading:
    root = Fields(document, "")
    vocabulary, model = read_model(root, dictionary)
    listed = listed_tokens(root)
    tokens = [*listed, *settings.tokens(settings.role_tokens({}), present=listed)]
    ids = ids_in(root, [token.content for token in tokens], vocabulary, dictionary)
    added = AddedTokens(
        tuple(number_tokens(tokens, ids, count_tokens(vocabulary))[0].values()),
        parse_special=not settings.flag("split_special_tokens", False),
    )
    document = list_tokens(document, added)
    return Reading(specification(document, SideFiles(source), vocabulary, model, added))


def _rebuild(
    document: dict[str, Any],
    pipeline: ClassPipeline,
    settings: Settings,
    dictionary: NativeVocabulary | None,
) -> dict[str, Any]:
    """Return a document with the stages and the model of a class."""
    old_model = document["model"]
    vocab = old_model.get("vocab")
    if (pipeline.kind == "Unigram") != isinstance(vocab, list) and pipeline.kind != "BPE":
        what = f"a class with a {pipeline.kind} model does not take this vocabulary"
        raise UnsupportedError(what, field="model.vocab")
    unk = settings.role_tokens(pipeline.roles)["unk"]
    text = None if unk is None else unk.content.decode("utf-8")
    model = {"type": pipeline.kind, "vocab": vocab, **_DEFAULTS[pipeline.kind], **pipeline.model}
    if pipeline.kind == "BPE":
        if isinstance(vocab, list):  # ids are places; there are no merges
            model["vocab"] = {piece: number for number, (piece, _) in enumerate(vocab)}
        model["merges"] = old_model.get("merges") or []
        if model["unk_token"] == "named":
            model["unk_token"] = text
    elif pipeline.kind == "WordPiece":
        model["unk_token"] = text
    else:
        model["unk_id"] = unk_id = _unknown_place(pipeline, text, vocab)
        if type(unk_id) is not int or not 0 <= unk_id < len(dictionary or vocab):
            what = f"the class looks for its unknown token at {unk_id}"
            raise UnsupportedError(what, field="model.vocab")
    stages = {stage: getattr(pipeline, stage) for stage in _STAGES}
    return {**document, **stages, "model": model, "added_tokens": []}


_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "BPE": {
        "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
        "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
        "ignore_merges": False,
    },
    "WordPiece": {},
    "Unigram": {"byte_fallback": False},
}  # fmt: skip


def _unknown_place(pipeline: ClassPipeline, text: str | None, vocab: list[Any]) -> int | str:
    """Return the place of a Unigram's unknown token."""
    places = (place for place, row in enumerate(vocab) if row[0] == text)
    if pipeline.unk == "named":
        return next(places, 0)
    if pipeline.unk == "zero":
        return next((place for place in places if vocab[place][1] == 0.0), pipeline.or_else)
    return pipeline.unk


def _post_processor(
    document: dict[str, Any],
    pipeline: ClassPipeline,
    role_tokens: Mapping[str, AddedToken | None],
    numbers: Mapping[bytes, int],
    name: str,
) -> dict[str, Any] | None:
    old: dict[str, Any] | None = document.get("post_processor")
    if pipeline.around is None or (pipeline.prefers and old is not None):
        if old is None and pipeline.needs:
            what = f"{name} makes one of its own, which is not known"
            raise UnsupportedError(what, field="post_processor")
        return old
    texts = {role: token.content.decode("utf-8") for role, token in role_tokens.items() if token}
    ids = {role: numbers.get(token.content) for role, token in role_tokens.items() if token}
    try:
        return pipeline.around(Ends(texts, ids, numbers))
    except KeyError as error:
        what = f"{name} needs a {error.args[0]}_token"
        raise UnsupportedError(what, field=CONFIG) from None


def _find_charsmap(form: Any) -> str | None:
    """Return the first table of characters among the steps of a normalizer."""
    if not isinstance(form, dict):
        return None
    steps = form.get("normalizers") if form.get("type") == "Sequence" else [form]
    for step in steps if isinstance(steps, list) else ():
        if isinstance(step, dict) and step.get("type") == "Precompiled":
            table = step.get("precompiled_charsmap")
            return table if isinstance(table, str) else None
    return None
