"""Batches as one array: what a tokenizer of transformers returns for ``padding`` and tensors.

The core gives the ids of all texts in one array. Lists of each text, which transformers copies into
a tensor number by number, take most of the time of such a call.

Source: transformers 5 ``tokenization_utils_tokenizers.py`` (``_encode_plus``).
"""

from __future__ import annotations

from collections.abc import Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, SupportsIndex

_USED = frozenset(
    ("text", "add_special_tokens", "padding_strategy", "truncation_strategy", "max_length",
     "stride", "pad_to_multiple_of", "padding_side", "return_tensors", "return_token_type_ids",
     "return_attention_mask", "verbose", "split_special_tokens")
)  # fmt: skip
"""Options that arrays follow; any other that is set is left to transformers."""


class LazyEncodings(Sequence["Any"]):
    """The encodings of a batch, each made when it is read.

    Args:
        own: The ``OwnTokenizer`` of the backend.
        settings: Its ``BatchSettings``.
    """

    def __init__(self, own: Any, texts: list[str], settings: Any, width: int | None) -> None:
        self._own, self._texts, self._settings, self._width = own, texts, settings, width

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        encoding = self._own.encode(self._texts[place], self._settings)
        if self._width is not None and self._settings.padding is not None:
            encoding.pad(self._width, self._settings.padding)
        return encoding

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def encode_arrays(tokenizer: Any, backend: Any, options: dict[str, Any]) -> Any:
    """Return a BatchEncoding of rows of one length; None where transformers has to make it."""
    kind = getattr(options.get("return_tensors"), "value", options.get("return_tensors"))
    texts = options.get("text")
    is_padded = getattr(options.get("padding_strategy"), "value", "do_not_pad") != "do_not_pad"
    if (
        kind not in (("np", "pt", None) if is_padded else ("np", "pt"))
        or not isinstance(texts, (list, tuple))
        or not texts
        or not all(type(entry) is str for entry in texts)
        or any(options[name] for name in options.keys() - _USED)
    ):
        return None
    names = ("truncation_strategy", "max_length", "stride", "pad_to_multiple_of", "padding_side")
    if not {"padding_strategy", *names} <= options.keys():
        return None
    tokenizer.set_truncation_and_padding(
        options["padding_strategy"], *(options[name] for name in names)
    )
    split = options.get("split_special_tokens")
    split = tokenizer.split_special_tokens if split is None else split
    if backend.inner.encode_special_tokens != split:
        backend.inner.encode_special_tokens = split
    settings = backend.settings(options.get("add_special_tokens", True))
    own = backend.current()
    rows = None if own is None else _rows(own, list(texts), settings)
    if own is None or rows is None:
        return None
    ids, mask, longest = rows
    tokenizer._eventual_warn_about_too_long_sequence(  # noqa: SLF001
        range(longest), options["max_length"], options.get("verbose", True)
    )
    data = {"input_ids": ids}
    if _wants(tokenizer, options, "token_type_ids"):
        pad_type = settings.padding["pad_type_id"] if settings.padding is not None else 0
        data["token_type_ids"] = (1 - mask) * pad_type
    if _wants(tokenizer, options, "attention_mask"):
        data["attention_mask"] = mask
    if kind is None:
        data = {name: rows.tolist() for name, rows in data.items()}
    elif kind == "pt":
        import torch

        data = {name: torch.from_numpy(rows) for name, rows in data.items()}
    from transformers import BatchEncoding

    encodings = LazyEncodings(own, list(texts), settings, ids.shape[1])
    return BatchEncoding(data, encodings, n_sequences=1)


def _wants(tokenizer: Any, options: dict[str, Any], name: str) -> bool:
    is_set = options.get(f"return_{name}")
    return name in tokenizer.model_input_names if is_set is None else bool(is_set)


def _rows(own: Any, texts: list[str], settings: Any) -> tuple[Any, Any, int] | None:
    """Return ids and mask of shape (texts, width), and the longest text's number of ids."""
    import numpy as np

    if not own.is_simple:
        return None
    flat, starts = own.tokenizer.encode_batch_arrays(
        texts, add_special_tokens=False, parse_special=settings.parse_special
    )
    front, back = own.around if settings.add_special_tokens else ([], [])
    first, lengths = starts[:-1], np.diff(starts)
    padding = settings.padding
    kept = settings.kept(int(lengths.max()), len(front) + len(back))
    if kept is None:
        return None
    if kept.start is not None:
        first = np.maximum(first, starts[1:] - (lengths.max() - kept.start))
        lengths = starts[1:] - first
    elif kept.stop is not None:
        lengths = np.minimum(lengths, kept.stop)
    whole = lengths + len(front) + len(back)
    width = longest = int(whole.max())
    if padding is not None:
        width = padding["length"] or width
        multiple = padding["pad_to_multiple_of"]
        width = -(-width // multiple) * multiple if multiple else width
    if longest > width or (padding is None and (whole < width).any()):
        return None
    fill = padding["pad_id"] if padding is not None else 0
    ids = np.full((len(texts), width), fill, np.int64)
    mask = np.zeros((len(texts), width), np.int64)
    is_left = padding is not None and padding["direction"] == "left"
    begin = width - whole if is_left else np.zeros_like(whole)
    places = zip(begin.tolist(), whole.tolist(), first.tolist(), lengths.tolist(), strict=True)
    for row, (at, size, start, length) in enumerate(places):
        mask[row, at : at + size] = 1
        middle = at + len(front)
        ids[row, at:middle] = front
        ids[row, middle : middle + length] = flat[start : start + length]
        ids[row, middle + length : at + size] = back
    return ids, mask, longest
