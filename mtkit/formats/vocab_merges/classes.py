"""The classes of transformers that build a tokenizer from vocab.json and merges.txt.

Source: huggingface/transformers 5, models/gpt2, models/roberta, models/qwen2 (``__init__``),
tokenization_utils_tokenizers.py (``update_post_processor``).
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.formats import split_patterns
from mtkit.spec import normalizers, post_processors, pre_tokenizers
from mtkit.spec.text import Regex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.formats.tokenizer_class import Again
    from mtkit.spec import SpecialIds


class Family(Record):
    """What a class puts around vocabulary and merges.

    Attributes:
        roles: Role -> text of the special tokens that it names itself.
        split: Split pattern in front of the byte alphabet; empty for GPT-2's own.
        nfc: Whether text is put into NFC first.
        surrounds: Whether the class puts cls and sep around a text, whatever the settings say.
        again: How it adds its special tokens a second time.
    """

    class_name: str
    roles: Mapping[str, str]
    split: str = ""
    nfc: bool = False
    surrounds: bool = False
    again: Again = None

    def letters(self, prefix: bool) -> pre_tokenizers.PreTokenizer:
        """Return the pre-tokenizer."""
        letters = pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=not self.split)
        if not self.split:
            return letters
        return pre_tokenizers.Sequence((pre_tokenizers.Split(Regex(self.split)), letters))

    @property
    def normalizer(self) -> normalizers.UnicodeForm | None:
        """The normalizer."""
        return normalizers.UnicodeForm("NFC") if self.nfc else None


_END = "<|endoftext|>"
GPT2 = Family("GPT2Tokenizer", {"bos": _END, "eos": _END, "unk": _END})
ROBERTA = Family(
    "RobertaTokenizer",
    {"bos": "<s>", "eos": "</s>", "unk": "<unk>", "sep": "</s>", "pad": "<pad>", "cls": "<s>",
     "mask": "<mask>"},
    surrounds=True,
)  # fmt: skip
QWEN2 = Family(
    "Qwen2Tokenizer",
    {"eos": _END, "unk": _END, "pad": _END},
    split=split_patterns.QWEN2,
    nfc=True,
    again="plain",
)
FAMILIES = {family.class_name: family for family in (GPT2, ROBERTA, QWEN2)}
CLASSES = {name: name for name in FAMILIES} | dict.fromkeys(
    ("BartTokenizer", "LEDTokenizer", "LongformerTokenizer", "MvpTokenizer"), ROBERTA.class_name
)
"""Class -> the one whose tokenizer it builds."""


def template(
    roles: SpecialIds, texts: Mapping[str, str], *, bos: bool, eos: bool
) -> post_processors.Template | None:
    """Return what puts BOS and EOS around each text; None for neither."""

    def around(text: int) -> tuple[post_processors.Slot, ...]:
        first = _slot(roles.bos, texts.get("bos"), text) if bos else ()
        last = _slot(roles.eos, texts.get("eos"), text) if eos else ()
        return (*first, post_processors.Slot(text, type_id=text), *last)

    if len(around(0)) == 1:
        return None
    return post_processors.Template(around(0), around(0) + around(1))


def _slot(number: int | None, name: str | None, part: int) -> tuple[post_processors.Slot, ...]:
    if number is None or name is None:
        return ()
    return (post_processors.Slot(None, (number,), part, name),)
