"""The projector of a model folder: its encoders' keys and tensors, for a GGUF of its own.

The text model stays out, and so does its tokenizer. What the preprocessor's files say goes into the
keys, as llama.cpp prepares pictures and sound itself.

Source: llama.cpp, conversion/base.py (``MmprojModel``).
"""

from __future__ import annotations

import os

from mtkit.architectures import may_be_packed
from mtkit.architectures.metadata import keys_of
from mtkit.architectures.projectors import class_of_projector, describe_encoders, projector_of
from mtkit.architectures.projectors.rows import (
    BREAK,
    FOLDER_LAYERS,
    LINE_END,
    MODEL,
    PREPROCESSOR,
    VISION,
    WIDTH,
)
from mtkit.architectures.tensor_match import folder_matches
from mtkit.base.escape import shown
from mtkit.base.record import Record
from mtkit.checkpoints import folder_files, mistral_form, model_folder
from mtkit.checkpoints.folder_files import optional_json
from mtkit.checkpoints.without_effect import is_known_field
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.tensor_match import Match
    from mtkit.checkpoints.model_folder import ModelFolder
    from mtkit.gguf.writer import Key

_OWN_PART = "vision_encoder"
_TEXT_PARTS = ("text_config", "llm_config", "lm_config", "language_config", "lfm")
_WIDTHS = dict.fromkeys(("llama", "mistral", "qwen2"), 4096)
"""model_type of a text part -> its ``hidden_size`` where config.json says none."""
_OTHER_SHAPES = ("clip_vision_model",)
"""model_type of encoders of LLaVA that llama.cpp's converter does not take."""
_WITH_LINE_END = ("LlavaForConditionalGeneration", "Mistral3ForConditionalGeneration")
_LINE_END = "[IMG_BREAK]"
_BESIDE = (MODEL, PREPROCESSOR, WIDTH, BREAK)
_IMPLIED = (
    "in_channels", "in_chans", "num_channels", "out_hidden_size", "temporal_patch_size",
    "spatial_patch_size", "tokens_per_second", "window_size", "mlp_ratio", "projection_dim",
    "merge_kernel_size", "vision_output_dim", "projector_input_dim", "projector_output_dim",
    "vision_use_head", "num_patches", "num_position_embeddings", "max_source_positions",
    "max_position_embeddings", "qkv_bias", "qk_normalization", "norm_type", "attention_bias",
    "mlp_bias", "head_dim", "use_qk_norm", "out_channels", "num_key_value_heads",
    "max_image_size", "image_token_id", "image_end_token_id", "adapter_bias",
    "add_pre_mm_projector_layer_norm", "decoder_layers", "decoder_ffn_dim",
    "decoder_attention_heads", "vocab_size", "output_dim", "n_window", "hidden_act",
    "activation_function", "scale_embedding", "encoder_layers", "encoder_layerdrop", "layerdrop",
    "depth", "num_image_tokens", "insert_layer_id", "window_kernel_size", "init_pos_emb_height",
    "init_pos_emb_width", "_vision_feature_layer", "multi_modal_projector_bias",
    "rope_theta", "rope_parameters", "position_embedding_size", "standardize",
    "use_clipped_linears", "output_proj_dims", "subsampling_conv_channels", "conv_kernel_size",
    "text_hidden_size", "img_max_token_num", "max_vit_seq_len", "attention_head_dim", "embed_dim",
    "add_patchemb_bias", "init_merger_std", "ls_init_value", "patch_temporal", "pos_emb_width",
    "vt_num_attention_heads", "num_positions", "n_window_infer", "conv_chunksize",
    "downsample_hidden_size", "model_patch_size", "dim_head", "conv_expansion_factor", "feat_out",
    "ff_expansion_factor", "pos_emb_max_len", "subsampling_factor",
)  # fmt: skip
"""Fields of an encoder that its tensors show, or that clip.cpp has fixed for its kind."""
_USUAL: Mapping[str, object] = {
    "rms_norm_eps": 1e-6, "pooling_kernel_size": 3, "hidden_activation": "gelu_pytorch_tanh",
    "attention_chunk_size": 12, "attention_context_left": 13, "attention_context_right": 0,
    "attention_invalid_logits_value": -1e9, "attention_logit_cap": 50.0,
    "disable_merger_proj": True, "deepstack_visual_indexes": [], "gradient_clipping": 1e10,
    "residual_weight": 0.5, "layer_norm_eps": 1e-6, "use_cls_token": False,
    "use_abs_posemb": True, "use_ln_pre": True, "use_ln_post": False, "use_rope2d": True,
    "post_norm": True, "is_causal": False, "pos_emb_type": "divided_fixed",
    "merge_type": "sd2_tpool", "max_n_token": 384, "max_wh_ratio": 8, "remove_prenorm": True,
    "interpolate_mode": "bilinear", "learnable_mlp_pooling_size": 0, "cat_extra_token": 1,
    "anyres_pooling_size": 2, "position_embedding_type": "rope", "rope_mode": "3d",
    "apply_vit_abs_pos_embed": True, "num_soft_tokens": 280, "subsampling": "dw_striding",
    "causal_downsampling": False, "self_attention_model": "rel_pos", "att_context_size": [-1, -1],
    "xscaling": False, "untie_biases": True, "conv_norm_type": "batch_norm",
}  # fmt: skip
"""Fields without effect where they have the value that clip.cpp has."""


class Encoders(Record):
    """The encoders of a folder, and the tensors of the folder that they become.

    Attributes:
        dims: Sizes of each encoder, in the order of ``parts``.
    """

    folder: ModelFolder
    source: str
    parts: tuple[tuple[Architecture, Config], ...]
    keys: tuple[Key, ...]
    matches: tuple[Match, ...]
    dims: tuple[Dims, ...]
    notes: tuple[str, ...]


def read_encoders(path: str) -> Encoders:
    """Read the encoders of a model folder; no weight is read.

    Raises:
        UnsupportedError: The class has no projector that mtkit knows.
        FormatError: A file is damaged, or config.json and weights contradict each other.
    """
    folder = model_folder.read(path, may_be_packed, whole=True)
    is_own = bool(mistral_form.weights_in(folder_files.files_in(path)))
    source = os.path.join(path, mistral_form.PARAMS if is_own else folder_files.MODEL_CONFIG)
    document = folder.config
    if is_own and not isinstance(document.get(_OWN_PART), dict):
        raise UsageError("has no vision_encoder: the model sees nothing", source=source)
    name = mistral_form.PROJECTOR if is_own else class_of_projector(document)
    _refuse_old_llava(name, document, source)
    beside = {
        MODEL: document, PREPROCESSOR: _preprocessor(path), WIDTH: _width(document, own=is_own),
    }  # fmt: skip
    if is_own or name in _WITH_LINE_END:
        beside[BREAK] = _line_end(path, document[_OWN_PART] if is_own else {})
    try:
        projector = projector_of(name)
        return _encoders(folder, source, describe_encoders(projector, document, beside, source))
    except MtkitError as error:
        raise error.located(source) from None


def _encoders(
    folder: ModelFolder, source: str, parts: Sequence[tuple[Architecture, Config]]
) -> Encoders:
    keys: dict[str, Key] = {}
    matches: list[Match] = []
    sizes: list[Dims] = []
    for part, config in parts:
        own = {key.name: key for key in keys_of(part.name, part.keys, config)}
        keys.update((key.name, key) for key in own.values() if key.type)
        values = {name: key.value for name, key in own.items()}
        count = values.get(f"{part.name}.{FOLDER_LAYERS}")
        more = {f"{part.name}.block_count": count} if count else {}
        dims = part.sizes(values | more, 0)
        skips = part.skips
        shapes = {
            tensor: stored.weight.shape
            for tensor, stored in folder.tensors.items()
            if skips is None or not skips(tensor, config)
        }
        if not shapes:
            what = f"has no tensors for {'pictures' if part.name == VISION else 'sound'}"
            raise UsageError(
                what, source=folder.path, hint="take the whole model, not its text part"
            )
        matches += folder_matches(part, dims, shapes)
        sizes.append(dims)
    notes = ["the text model stays out; mtkit convert FOLDER --to gguf writes it"]
    notes += [note for _, config in parts for note in _field_notes(config)]
    if any(row.gguf == (LINE_END,) for part, _ in parts for row in part.rows) and not any(
        LINE_END in match.gguf for match in matches
    ):
        notes.append(
            f"{LINE_END} is left out, as the folder has no embedding of {_LINE_END}: llama.cpp "
            "does not load the projector without it; take the whole model"
        )
    return Encoders(
        folder, source, tuple(parts), tuple(keys.values()), tuple(matches), tuple(sizes),
        tuple(notes),
    )  # fmt: skip


def _field_notes(config: Config) -> Iterator[str]:
    left = [
        shown(name)
        for name, value in config.fields.items()
        if value is not None
        and name not in (*config.read, *_BESIDE, *_IMPLIED)
        and _USUAL.get(name) != value
        and not is_known_field(folder_files.MODEL_CONFIG, name, value)
    ]
    if left:
        yield f"the encoder's config: not used, effect unknown: {', '.join(left)}"


def _refuse_old_llava(name: str, document: Mapping[str, Any], source: str) -> None:
    part = document.get("vision_config")
    kind = part.get("model_type") if isinstance(part, dict) else None
    if name == "LlavaForConditionalGeneration" and kind in _OTHER_SHAPES:
        raise UnsupportedError(
            "is an encoder of LLaVA that llama.cpp's converter does not take",
            source=source,
            field="vision_config.model_type",
            hint="llama.cpp converts it with tools/mtmd/legacy-models/llava_surgery_v2.py",
        )


def _preprocessor(path: str) -> dict[str, Any]:
    """Return what the files of the preprocessor say; those of processor_config.json count more."""
    merged: dict[str, Any] = {}
    for file, inner in (
        ("preprocessor_config.json", "media_proc_cfg"), ("processor_config.json", "image_processor")
    ):  # fmt: skip
        fields = optional_json(path, file)
        own = fields.get(inner)
        merged.update({**fields, **(own if isinstance(own, dict) else {})})
    return merged


def _width(document: Mapping[str, Any], *, own: bool) -> Any:
    """Return the width of the text model, which the projector's tokens have."""
    thinker = document.get("thinker_config")
    places = (*(document.get(name) for name in _TEXT_PARTS),
              thinker.get("text_config") if isinstance(thinker, dict) else None)  # fmt: skip
    text = next((place for place in places if isinstance(place, dict)), {})
    fields = {**document, **text}
    names = ("dim",) if own else ("hidden_size", "n_embd")
    widths = (fields[name] for name in names if fields.get(name) is not None)
    return next(widths, None if own else _WIDTHS.get(str(text.get("model_type"))))


def _line_end(path: str, part: Mapping[str, Any]) -> Any:
    """Return the id of the token behind a line of patches; -1 in params.json asks the tokenizer."""
    number = part.get(BREAK, -1)
    if type(number) is not int or number >= 0:
        return number
    table = optional_json(path, "tokenizer_config.json").get("added_tokens_decoder")
    for key, entry in table.items() if isinstance(table, dict) else ():
        if isinstance(entry, dict) and entry.get("content") == _LINE_END and key.isdecimal():
            return int(key)
    tokens = (
        (optional_json(path, "tekken.json").get("special_tokens"), "token_str", "rank"),
        (optional_json(path, "tokenizer.json").get("added_tokens"), "content", "id"),
    )
    for entries, text, place in tokens:
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and entry.get(text) == _LINE_END:
                return entry.get(place)
    raise FormatError(f"has no {_LINE_END}", source=path, field="tokenizer")
