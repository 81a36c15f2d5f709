"""Projectors that hear: Whisper's encoder, and what makes tokens of its output.

Source: llama.cpp, conversion/ultravox.py, conversion/qwenvl.py (``Qwen25AudioModel``).
"""

from __future__ import annotations

from mtkit.architectures.changes import Change, Reshaped
from mtkit.architectures.metadata import always, computed
from mtkit.architectures.projectors import qwen
from mtkit.architectures.projectors.rows import (
    AUDIO,
    AUDIO_KEYS,
    MODEL,
    VISION,
    Projector,
    counted,
    encoder,
    epsilon,
    kind,
    layers,
    size_of,
)
from mtkit.architectures.table import (
    Generated,
    Rows,
    exact,
    half,
    join_rows,
    plain,
    row,
)
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow

_TOWER, _PROJECTOR = "audio_tower.", "multi_modal_projector."
_KEYS = (*AUDIO_KEYS, counted("num_mel_bins"), epsilon(1e-5))
_SIZES = {
    "mel": lambda dims: dims.key("num_mel_bins"),
    "position": size_of("a.position_embd.weight", f"{_TOWER}embed_positions.weight"),
    "mm": size_of("mm.a.mlp.1.weight", f"{_PROJECTOR}linear_1.weight"),
    "stack": size_of("mm.a.norm_pre.weight", f"{_PROJECTOR}ln_pre.weight"),
    "half": size_of("mm.a.norm_mid.weight", f"{_PROJECTOR}ln_mid.weight"),
}


_BLOCKS = layers(
    f"{_TOWER}layers.{{i}}.", "a.", ln1="self_attn_layer_norm", ln2="final_layer_norm",
    attn_q="self_attn.q_proj", attn_k="self_attn.k_proj", attn_v="self_attn.v_proj",
    attn_out="self_attn.out_proj", ffn_up="fc1", ffn_down="fc2",
)  # fmt: skip


def _whisper(convolution: Callable[..., Rows] = half, norm: str = "layer_norm") -> Rows:
    """Return the rows of the encoder; a bias of a convolution is a column in the GGUF."""
    weights = (
        plain(f"{_TOWER}conv{n}.weight", f"a.conv1d.{n}.weight", f"embd {width} 3")
        for n, width in ((1, "mel"), (2, "embd"))
    )
    biases = (
        plain(f"{_TOWER}conv{n}.bias", f"a.conv1d.{n}.bias", "embd 1", Reshaped("embd"))
        for n in (1, 2)
    )
    return join_rows(
        convolution(*weights),
        *biases,
        row(f"{_TOWER}{norm}", "a.post_ln", "embd"),
        _BLOCKS,
    )


_POSITIONS = plain(f"{_TOWER}embed_positions.weight", "a.position_embd.weight", "position embd")
_LINEAR = row(f"{_PROJECTOR}linear", "mm.a.fc", "out embd")
_TWO = join_rows(
    row(f"{_PROJECTOR}linear_1", "mm.a.mlp.1", "mm long"),
    row(f"{_PROJECTOR}linear_2", "mm.a.mlp.2", "out mm"),
)
_ULTRAVOX = join_rows(
    row(f"{_PROJECTOR}ln_pre", "mm.a.norm_pre", "stack", bias=False),
    row(f"{_PROJECTOR}ln_mid", "mm.a.norm_mid", "half", bias=False),
    row(f"{_PROJECTOR}linear_1", "mm.a.mlp.1", "mm stack", bias=False),
    row(f"{_PROJECTOR}linear_2", "mm.a.mlp.2", "out half", bias=False),
)


def _stacked(value: Callable[[Config], Any]) -> KeyRow:
    return computed("projector.stack_factor", "u32", value)


def _long(dims: Dims) -> int:
    return dims["embd"] * dims.key("projector.stack_factor", 1)


def _whisper_part(
    name: str, key: str, rows: Rows, *keys: KeyRow, convolution: Callable[..., Rows] = half
) -> Architecture:
    return encoder(
        AUDIO, name, (*_KEYS, kind(key), *keys), join_rows(_whisper(convolution), _POSITIONS, rows),
        (_TOWER, _PROJECTOR), sizes={**_SIZES, "long": _long},
        defaults={"num_mel_bins": 80 if key == "ultravox" else 128},
    )  # fmt: skip


_ADAPTER = "speech_audio_adapter."
_MERALION = encoder(
    AUDIO, "MERaLiON2ForConditionalGeneration",
    (*_KEYS, kind("meralion"),
     _stacked(lambda config: config.table(MODEL).whole("speech_mlp_scale_factor") or 15)),
    join_rows(
        _whisper(), _POSITIONS,
        row("ln_speech", "mm.a.norm_pre", "embd"),
        row(f"{_ADAPTER}mlp_adapter.0", "mm.a.mlp.0", "mm long"),
        row(f"{_ADAPTER}gate_proj", "mm.a.mlp.1", "mm mm"),
        row(f"{_ADAPTER}pool_proj", "mm.a.mlp.2", "mm mm"),
        row(f"{_ADAPTER}out_proj", "mm.a.mlp.3", "out mm"),
    ),
    (_TOWER, _ADAPTER, "ln_speech."),
    sizes={**_SIZES, "long": _long,
           "mm": size_of("mm.a.mlp.0.weight", f"{_ADAPTER}mlp_adapter.0.weight")},
    defaults={"num_mel_bins": 80},
    renamed=lambda name: name.replace("speech_encoder.", _TOWER),
)  # fmt: skip


class _BothRows(Change):
    """Two rows of one tensor, a tensor each in the GGUF."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of both."""
        return [(2, *shapes[0])]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take them apart."""
        return list(arrays[0])


_GLM = "audio_encoder."


def _glm_name(name: str) -> str:
    parts = (("whisper.", _TOWER), ("layer_norm.", f"{_PROJECTOR}ln_pre."),
             ("adapting.0.", f"{_PROJECTOR}linear_1."), ("adapting.2.", f"{_PROJECTOR}linear_2."),
             ("audio_bos_eos_token.", "audio_bos_eos_token."))  # fmt: skip
    for old, new in parts:
        if name.startswith(_GLM + old):
            return new + name.removeprefix(_GLM + old)
    return name


_GLMASR = encoder(
    AUDIO, "GlmasrModel",
    (*_KEYS, kind("glma"), _stacked(lambda config: config.table(MODEL).count("merge_factor"))),
    join_rows(
        tuple(replace(part, optional="post_ln" in part.gguf[0]) for part in _whisper()
              if not part.optional),
        tuple(part for part in _whisper() if part.optional),
        _POSITIONS,
        row(f"{_PROJECTOR}ln_pre", "mm.a.norm_pre", "embd"),
        _TWO,
        plain("audio_bos_eos_token.weight", "v.boi v.eoi", "out, out", _BothRows()),
    ),
    (_TOWER, _PROJECTOR, "audio_bos_eos_token."), sizes={**_SIZES, "long": _long},
    defaults={"num_mel_bins": 128}, renamed=_glm_name,
)  # fmt: skip


def _sinusoids(config: Config, dims: Dims) -> Any:
    """Return the positions of Qwen2.5-Omni, which no folder has."""
    import numpy as np

    half_width = dims["embd"] // 2
    step = np.log(10000) / (half_width - 1)
    steps = np.exp(-step * np.arange(half_width, dtype=np.float32)).astype(np.float32)
    turns = np.arange(1500)[:, None] * steps[None, :]
    return np.concatenate([np.sin(turns), np.cos(turns)], 1).astype(np.float32)


_SINUSOIDS = (Generated("a.position_embd.weight", "1500 embd", _sinusoids),)


def _spoken(name: str) -> str:
    return name.removeprefix("thinker.")


_OMNI_SEES = encoder(
    VISION, "Qwen2_5OmniModel", (*qwen.QWEN25_KEYS, kind("qwen2.5o")), qwen.QWEN25_ROWS,
    ("visual.",), sizes=qwen.QWEN25_SIZES, defaults=qwen.QWEN25_DEFAULTS, renamed=_spoken,
)  # fmt: skip
_OMNI_HEARS = replace(
    encoder(
        AUDIO, "Qwen2_5OmniModel", (*_KEYS, kind("qwen2.5o")),
        join_rows(_whisper(norm="ln_post"), row(f"{_TOWER}proj", "mm.a.fc", "out embd")),
        (_TOWER,), sizes=_SIZES, defaults={"num_mel_bins": 128}, renamed=_spoken,
        without=("audio_bos_eos_token",),
    ),
    generated=_SINUSOIDS,
)  # fmt: skip


def _qwen3(classes: str) -> Architecture:
    """Return the encoder of Qwen3-ASR and Qwen3-Omni: convolutions over both axes, no mean."""
    convolutions = join_rows(*(
        (*half(plain(f"{_TOWER}conv2d{number}.weight", f"a.conv2d.{number}.weight",
                     f"down {width} 3 3")),
         *plain(f"{_TOWER}conv2d{number}.bias", f"a.conv2d.{number}.bias", "down 1 1",
                Reshaped("down")))
        for number, width in ((1, "1"), (2, "down"), (3, "down"))
    ))  # fmt: skip
    part = encoder(
        AUDIO, classes, (*_KEYS, always("projector_type", "string", "qwen3a")),
        join_rows(
            convolutions,
            half(row(f"{_TOWER}conv_out", "a.conv_out", "embd flat")),
            row(f"{_TOWER}ln_post", "a.post_ln", "embd"),
            _BLOCKS,
            row(f"{_TOWER}proj1", "mm.a.mlp.1", "mm embd"),
            row(f"{_TOWER}proj2", "mm.a.mlp.2", "out mm"),
        ),
        (_TOWER,),
        sizes={**_SIZES, "mm": size_of("mm.a.mlp.1.weight", f"{_TOWER}proj1.weight"),
               "down": size_of("a.conv2d.1.weight", f"{_TOWER}conv2d1.weight"),
               "flat": size_of("a.conv_out.weight", f"{_TOWER}conv_out.weight", axis=1)},
        defaults={"num_mel_bins": 128}, renamed=_spoken,
    )  # fmt: skip
    return replace(part, generated=_SINUSOIDS)


_OMNI3 = "Qwen3OmniMoeForConditionalGeneration"
_ASR = _qwen3("Qwen3ASRForConditionalGeneration")

PROJECTORS = (
    *(
        Projector(part.classes, (part,))
        for part in (
            _whisper_part("Qwen2AudioForConditionalGeneration", "qwen2a", _LINEAR),
            _whisper_part(
                "UltravoxModel", "ultravox", _ULTRAVOX,
                _stacked(lambda config: config.table(MODEL).count("stack_factor")),
            ),
            _whisper_part(
                "VoxtralForConditionalGeneration", "voxtral", _TWO, _stacked(lambda _: 4)
            ),
            _MERALION,
            _GLMASR,
            _whisper_part(
                "AudioFlamingo3ForConditionalGeneration", "musicflamingo", _TWO, convolution=exact
            ),
        )
    ),
    Projector(("Qwen2_5OmniModel",), (_OMNI_SEES, _OMNI_HEARS), "thinker_config"),
    Projector(_ASR.classes, (_ASR,), "thinker_config"),
    Projector((_OMNI3,), (qwen.omni(_OMNI3), _qwen3(_OMNI3)), "thinker_config"),
)  # fmt: skip
