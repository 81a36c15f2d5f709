"""Which class transformers 5 takes for the tokenizer of a folder that has a tokenizer.json.

tokenizer_config.json names one, config.json another, and the model's type stands for a third. Those
of ``WRONG`` are models whose folders name a class that is not theirs.

Source: huggingface/transformers 5.24, models/auto/tokenization_auto.py (``AutoTokenizer``,
``TOKENIZER_MAPPING_NAMES``, ``MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

GENERIC = "TokenizersBackend"
"""The class that runs tokenizer.json as it is."""
_MISTRAL = "MistralCommonBackend"
_AS_THEY_ARE = {GENERIC, "PythonBackend", "PreTrainedTokenizerFast", _MISTRAL}
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
"""Class -> types of models that have it; types that are not here have ``GENERIC``."""
_WRONG = (
    "arctic camembertv2-base chatlm cohere_asr ernie4_5 ernie4_5_moe fuyu h2ovl_chat "
    "hyperclovax hyperclovax_vision_v2 hyperclovax_vlm internlm2 internlm3 iquestcoder "
    "jamba llava llava_next minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder "
    "molmo molmo2 nemotron nvfp4 opencua openvla paddleocr_vl phi3 phi3_v phimoe qwen2 "
    "qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl vipllava"
)
WRONG = frozenset(_WRONG.split())
"""Types of models whose class in tokenizer_config.json does not count."""
_ALIASES = {
    "RobertaTokenizer": "BartTokenizer LEDTokenizer LongformerTokenizer MvpTokenizer",
    "BertTokenizer": (
        "DistilBertTokenizer ElectraTokenizer LayoutLMTokenizer LxmertTokenizer "
        "MobileBertTokenizer SqueezeBertTokenizer"
    ),
    GENERIC: ("BloomTokenizer ParakeetTokenizer PreTrainedTokenizer PreTrainedTokenizerFast"),
}
"""Class -> names of others that build the same."""
_OTHERS = (
    "BasicTokenizer CharacterTokenizer ConvBertTokenizer FNetTokenizer CodeGenTokenizer "
    "DPRContextEncoderTokenizer "
    "DPRReaderTokenizer FastSpeech2ConformerTokenizer MecabTokenizer Pop2PianoTokenizer "
    "WordpieceTokenizer"
)
_NO_MODEL = (
    "barthez bartpho bert-japanese bertweet byt5 code_llama cpm herbert mbart50 mega mluke myt5 "
    "nezha nllb phobert qdqbert realm retribert wav2vec2_phoneme"
)
"""Of the types, those that transformers has no model of: they do not stand for a class."""
OTHERS = frozenset(_OTHERS.split())
"""Further classes of transformers, each with a tokenizer of its own."""
_BY_TYPE = {one: name for name, types in _TYPES.items() for one in types.split()}
_SAME = {one: name for name, names in _ALIASES.items() for one in names.split()}


def class_of(
    config: Mapping[str, Any], model: Mapping[str, Any], *, is_byte_level: bool, has_tekken: bool
) -> str:
    """Return the class by the name under which what it builds is known.

    Args:
        config: tokenizer_config.json.
        model: config.json; empty where there is none.
        is_byte_level: tokenizer.json has a byte-level pre-tokenizer or decoder.
        has_tekken: A tekken.json lies beside it.

    Raises:
        UnsupportedError: The folder brings a class of its own.
    """
    said, kind, name = (
        value if isinstance(value, str) and value else None
        for value in (
            config.get("tokenizer_class"),
            model.get("model_type"),
            model.get("model_name"),
        )
    )
    named = said or model.get("tokenizer_class")
    named = named if isinstance(named, str) and named else None
    registered = (_BY_TYPE.get(kind, GENERIC if kind in WRONG else None) or None) if kind else None
    plain = registered.removesuffix("Fast") if registered else None
    auto = config.get("auto_map")
    own = auto.get("AutoTokenizer") if isinstance(auto, dict) else auto
    if own and kind not in WRONG and not (named and _known(named)):
        what = "names a class that is in the folder"
        raise UnsupportedError(what, field="tokenizer_config.json: auto_map")
    is_wrong = kind in WRONG or name in WRONG
    if (
        not own
        and named is not None
        and named.removesuffix("Fast") == "LlamaTokenizer"
        and plain != _MISTRAL
        and not is_wrong
        and is_byte_level
    ):
        return GENERIC
    if not own and named and plain and plain != named.removesuffix("Fast"):
        if plain not in _AS_THEY_ARE:
            found = _canonical(plain if is_wrong else named)
            if found != GENERIC:
                return found
        _check_tekken(plain, has_tekken)
        return GENERIC
    if named is not None:
        return _canonical(named.removesuffix("Fast"))
    _check_tekken(plain, has_tekken)
    if plain is None or plain == _MISTRAL or kind in _NO_MODEL.split():
        return GENERIC
    return _canonical(plain)


def _check_tekken(plain: str | None, has_tekken: bool) -> None:
    if plain == _MISTRAL and has_tekken:
        raise UnsupportedError(
            "is read instead of tokenizer.json where mistral-common is installed",
            field="tekken.json",
            hint="name the file to read it",
        )


def _known(name: str) -> bool:
    plain = name.removesuffix("Fast")
    return plain in _SAME or plain in _TYPES or plain in OTHERS or name == GENERIC


def _canonical(name: str) -> str:
    """Return the name of the class that builds the same; a name that nobody has is ``GENERIC``."""
    plain = name.removesuffix("Fast")
    return _SAME.get(plain, plain if _known(plain) else GENERIC)
