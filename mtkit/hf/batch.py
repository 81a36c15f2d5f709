"""What a tokenizer of transformers returns for texts, without an object of the library for each.

The core gives the ids of all texts in one call. What transformers does for each text on the way (an
encoding, a dictionary, lists that become tensors number by number) takes most of the time of its
calls. What is not here (overflowing parts, words, settings that the library refuses) is left to it.

Source: transformers 5 ``tokenization_utils_tokenizers.py`` (``_encode_plus``); tokenizers 0.23
(utils/truncation.rs).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, SupportsIndex

    import numpy as np
    import numpy.typing as npt

    from mtkit.hf.encoding import BatchSettings, Layout, OwnTokenizer

    Ints = npt.NDArray[np.int64]

_USED = frozenset(
    ("text", "text_pair", "add_special_tokens", "padding_strategy", "truncation_strategy",
     "max_length", "stride", "pad_to_multiple_of", "padding_side", "return_tensors",
     "return_token_type_ids", "return_attention_mask", "return_special_tokens_mask",
     "return_offsets_mapping", "return_length", "verbose", "split_special_tokens")
)  # fmt: skip
"""Options that are followed here; any other that is set is left to transformers."""
_STRATEGIES = ("truncation_strategy", "max_length", "stride", "pad_to_multiple_of", "padding_side")
_ZERO = [(0, 0)]


class LazyEncodings(Sequence["Any"]):
    """The encodings of a batch, each made when it is read."""

    def __init__(
        self, own: OwnTokenizer, entries: list[Any], settings: BatchSettings, width: int | None
    ) -> None:
        self._own, self._entries, self._settings, self._width = own, entries, settings, width

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, place: SupportsIndex | slice) -> Any:
        if isinstance(place, slice):
            return [self[at] for at in range(*place.indices(len(self)))]
        encoding = self._own.encode(self._entries[place], self._settings)
        if self._width is not None and self._settings.padding is not None:
            encoding.pad(self._width, self._settings.padding)
        return encoding

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


def encode_batch(tokenizer: Any, backend: Any, options: dict[str, Any]) -> Any:
    """Return a BatchEncoding; None where transformers has to make it."""
    kind = options.get("return_tensors")
    kind = getattr(kind, "value", kind)
    if kind not in (None, "np", "pt") or any(options[n] for n in options.keys() - _USED):
        return None
    text, pair = options.get("text"), options.get("text_pair")
    is_single = type(text) is str
    columns = _columns(text, pair)
    if columns is None or not _prepare(tokenizer, backend.inner, options):
        return None
    own = backend.current()
    settings = backend.settings(options.get("add_special_tokens", True))
    layout = own and own.layout(len(columns) == 2, settings.add_special_tokens)
    if own is None or layout is None:
        return None
    names = {"input_ids": True}
    for name in ("token_type_ids", "attention_mask"):
        wants = options.get(f"return_{name}")
        names[name] = name in tokenizer.model_input_names if wants is None else bool(wants)
    names["special_tokens_mask"] = bool(options.get("return_special_tokens_mask"))
    names["offset_mapping"] = bool(options.get("return_offsets_mapping"))
    names["length"] = bool(options.get("return_length"))
    batch = _Batch(own, layout, columns, settings, {n for n, wants in names.items() if wants})
    in_lists = kind is None or is_single
    data = batch.lists() if in_lists else batch.arrays()
    if data is None:
        return None
    if tokenizer.model_max_length < batch.longest:
        tokenizer._eventual_warn_about_too_long_sequence(  # noqa: SLF001
            range(batch.longest), options.get("max_length"), options.get("verbose", True)
        )
    if kind is not None:
        data = _tensors(data, kind)
    elif is_single:
        data = {
            n: values[0] if isinstance(values[0], list) else values for n, values in data.items()
        }
    entries = columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    encodings: Any = LazyEncodings(own, entries, settings, batch.width)
    encoding = _batch_class()(None, encodings, n_sequences=len(columns))
    encoding.data = data
    return encoding


def encode_text(
    tokenizer: Any,
    backend: Any,
    text: str,
    add_special_tokens: bool = True,
    return_tensors: Any = None,
) -> Any:
    """Return the BatchEncoding of one text, as ``encode_batch`` does; None where it has to."""
    if return_tensors not in (None, "np", "pt"):
        return None
    own, inner = backend.current(), backend.inner
    if own is None or inner.truncation is not None or inner.padding is not None:
        return None
    layout = own.layout(False, add_special_tokens)
    if not own.is_simple or layout is None or tokenizer.split_special_tokens:
        return None
    if inner.encode_special_tokens:
        inner.encode_special_tokens = False
    ids = own.tokenizer.encode_ids(text, add_special_tokens=False)
    if len(layout) > 1:
        ids = [i for of, fixed, _ in layout for i in (fixed if of is None else ids)]
    if len(ids) > tokenizer.model_max_length:
        return None
    names = tokenizer.model_input_names
    data = {"input_ids": ids}
    if "token_type_ids" in names:
        data["token_type_ids"] = [0] * len(ids)
    if "attention_mask" in names:
        data["attention_mask"] = [1] * len(ids)
    if return_tensors is not None:
        data = _tensors({name: [values] for name, values in data.items()}, return_tensors)
    encodings: Any = LazyEncodings(own, [text], backend.settings(add_special_tokens), None)
    encoding = _batch_class()(None, encodings, n_sequences=1)
    encoding.data = data
    return encoding


@lru_cache(None)
def _batch_class() -> Any:
    from transformers import BatchEncoding

    return BatchEncoding


def _columns(text: Any, pair: Any) -> list[list[str]] | None:
    """Return the texts, and the second texts of pairs; None of anything else."""
    if type(text) is str:
        if not pair:
            return [[text]]
        return [[text], [pair]] if type(pair) is str else None
    if type(text) not in (list, tuple) or not text:
        return None
    columns = [text]
    if pair is not None:
        if type(pair) not in (list, tuple) or len(pair) != len(text):
            return None
        columns = [text, pair]
    elif all(type(entry) is tuple and len(entry) == 2 for entry in text):
        columns = [[entry[at] for entry in text] for at in (0, 1)]
    if all(type(entry) is str for column in columns for entry in column):
        return [list(column) for column in columns]
    return None


def _prepare(tokenizer: Any, inner: Any, options: dict[str, Any]) -> bool:
    """Set truncation and padding as transformers does; False where it does so itself."""
    strategies = [
        getattr(options.get(name), "value", unset)
        for name, unset in (
            ("padding_strategy", "do_not_pad"), ("truncation_strategy", "do_not_truncate"),
        )
    ]  # fmt: skip
    if strategies == ["do_not_pad", "do_not_truncate"]:
        if inner.truncation is not None:
            inner.no_truncation()
        if inner.padding is not None:
            inner.no_padding()
    else:
        if not {"padding_strategy", *_STRATEGIES} <= options.keys():
            return False
        tokenizer.set_truncation_and_padding(
            options["padding_strategy"], *(options[name] for name in _STRATEGIES)
        )
    split = options.get("split_special_tokens")
    split = tokenizer.split_special_tokens if split is None else split
    if inner.encode_special_tokens != split:
        inner.encode_special_tokens = split
    return True


def _tensors(data: dict[str, Any], kind: str) -> dict[str, Any]:
    import numpy as np

    data = {name: np.asarray(values, np.int64) for name, values in data.items()}
    if kind == "np":
        return data
    import torch

    return {name: torch.from_numpy(values) for name, values in data.items()}


class _Batch:
    """The rows of one call.

    Attributes:
        width: Length of every row; None without padding.
        longest: Tokens of the longest row, as the library warns of it.
    """

    width: int | None = None
    longest = 0

    def __init__(
        self,
        own: OwnTokenizer,
        layout: Layout,
        columns: list[list[str]],
        settings: BatchSettings,
        names: set[str],
    ) -> None:
        self._own, self._layout, self._columns = own, layout, columns
        self._settings, self._names = settings, names
        self._added = sum(len(ids) for _, ids, _ in layout)
        self._parse = settings.parse_special

    def _measure(self, lengths: list[tuple[int, ...]]) -> list[tuple[slice, ...]] | None:
        """Find what truncation leaves of each row, and how long the rows are."""
        settings = self._settings
        kept = [settings.kept(row, self._added) for row in lengths]
        if any(row is None for row in kept):
            return None
        parts: list[tuple[slice, ...]] = kept  # type: ignore[assignment]
        if settings.truncation is None:
            sizes = [self._added + sum(row) for row in lengths]
        else:
            sizes = [
                self._added + sum(len(range(n)[part]) for n, part in zip(row, of, strict=True))
                for row, of in zip(lengths, parts, strict=True)
            ]
        self.longest = max(sizes)
        padding = settings.padding
        if padding is not None:
            width = padding["length"] or self.longest
            multiple = padding["pad_to_multiple_of"]
            self.width = -(-width // multiple) * multiple if multiple else width
            self.longest = max(self.longest, self.width)
        self._sizes = sizes
        return parts

    def lists(self) -> dict[str, Any] | None:
        """Return each value as a list for each row."""
        tokenizer, names, columns = self._own.tokenizer, self._names, self._columns
        plain: dict[str, Any] = {"add_special_tokens": False, "parse_special": self._parse}
        has_offsets = "offset_mapping" in names
        offsets: list[Any] = []
        if has_offsets:
            rows = [self._own.offset_rows(column, self._parse) for column in columns]
            ids, offsets = ([row[at] for row in rows] for at in (0, 1))
        elif len(columns[0]) == 1:
            ids = [[tokenizer.encode_ids(column[0], **plain)] for column in columns]
        else:
            ids = [tokenizer.encode_batch_ids(column, **plain) for column in columns]
        parts = self._measure(list(zip(*(map(len, column) for column in ids), strict=True)))
        if parts is None:
            return None
        if self._settings.truncation is not None:
            for values in (ids, offsets):
                for at, column in enumerate(values):
                    column[:] = [v[part[at]] for v, part in zip(column, parts, strict=True)]
        data: dict[str, Any] = {"input_ids": self._rows(ids, list)}
        if "token_type_ids" in names:
            data["token_type_ids"] = self._types(ids)
        if "attention_mask" in names:
            data["attention_mask"] = [[1] * size for size in self._sizes]
        if "special_tokens_mask" in names:
            inside = [[[0] * len(row) for row in column] for column in ids]
            data["special_tokens_mask"] = self._rows(inside, lambda ids: [1] * len(ids))
        if has_offsets:
            data["offset_mapping"] = self._rows(offsets, lambda ids: _ZERO * len(ids))
        if "length" in names:
            data["length"] = list(self._sizes)
        self._pad(data)
        return data

    def _rows(self, columns: list[Any], special: Callable[[list[int]], list[Any]]) -> list[Any]:
        """Put the values of texts between those of special tokens."""
        layout = [(of, special(ids)) for of, ids, _ in self._layout]
        if len(layout) == 1:
            rows: list[Any] = columns[0]
            return rows
        if len(columns) == 1:
            at = next(at for at, (of, _) in enumerate(layout) if of is not None)
            front, back = (
                [v for _, own in p for v in own] for p in (layout[:at], layout[at + 1 :])
            )
            return [[*front, *row, *back] for row in columns[0]]
        joined = []
        for row in zip(*columns, strict=True):
            values: list[Any] = []
            for of, own in layout:
                values += own if of is None else row[of]
            joined.append(values)
        return joined

    def _types(self, columns: list[Any]) -> list[list[int]]:
        if not any(kind for *_, kind in self._layout):
            return [[0] * size for size in self._sizes]
        rows = [[] for _ in self._sizes]  # type: list[list[int]]
        for of, ids, kind in self._layout:
            for at, row in enumerate(rows):
                row += [kind] * len(ids if of is None else columns[of][at])
        return rows

    def _pad(self, data: dict[str, Any]) -> None:
        padding, width = self._settings.padding, self.width
        if padding is None or width is None:
            return
        fillers = {
            "input_ids": padding["pad_id"], "token_type_ids": padding["pad_type_id"],
            "attention_mask": 0, "special_tokens_mask": 1, "offset_mapping": (0, 0),
        }  # fmt: skip
        is_left = padding["direction"] == "left"
        for name, rows in data.items():
            if name == "length":
                data[name] = [max(size, width) for size in rows]
                continue
            filler = [fillers[name]]
            data[name] = (
                [filler * (width - len(row)) + row for row in rows]
                if is_left
                else [row + filler * (width - len(row)) for row in rows]
            )

    def arrays(self) -> dict[str, Any] | None:
        """Return each value as an array of shape (rows, width); None where rows differ."""
        import numpy as np

        tokenizer, names, settings = self._own.tokenizer, self._names, self._settings
        flat = [
            tokenizer.encode_batch_arrays(
                column, add_special_tokens=False, parse_special=self._parse
            )
            for column in self._columns
        ]
        lengths = list(zip(*(np.diff(starts).tolist() for _, starts in flat), strict=True))
        parts = self._measure(lengths)
        if parts is None:
            return None
        padding = settings.padding
        width = max(self._sizes) if self.width is None else self.width
        if max(self._sizes) > width or (not padding and min(self._sizes) < width):
            return None
        shape = len(lengths), width
        is_left = padding is not None and padding["direction"] == "left"
        ids = np.full(shape, padding["pad_id"] if padding else 0, np.int64)
        mask = np.zeros(shape, np.int64)
        types = np.full(shape, padding["pad_type_id"] if padding else 0, np.int64)
        special = np.ones(shape, np.int64)
        places = np.zeros((*shape, 2), np.int64)
        starts = [column.tolist() for _, column in flat]
        has_offsets = "offset_mapping" in names
        for row, size in enumerate(self._sizes):
            at = width - size if is_left else 0
            mask[row, at : at + size] = 1
            for of, fixed, kind in self._layout:
                begin = at
                if of is None:
                    at += len(fixed)
                    ids[row, begin:at] = fixed
                else:
                    start, n = starts[of][row], lengths[row][of]
                    values = flat[of][0][start : start + n][parts[row][of]]
                    at += len(values)
                    ids[row, begin:at] = values
                    special[row, begin:at] = 0
                    if has_offsets:
                        _, own = tokenizer.encode_offsets(
                            self._columns[of][row], add_special_tokens=False,
                            parse_special=self._parse,
                        )  # fmt: skip
                        places[row, begin:at] = own[parts[row][of]]
                types[row, begin:at] = kind
        data: dict[str, Any] = {
            "input_ids": ids, "token_type_ids": types, "attention_mask": mask,
            "special_tokens_mask": special, "offset_mapping": places,
            "length": np.full(len(lengths), width, np.int64),
        }  # fmt: skip
        return {name: values for name, values in data.items() if name in names}
