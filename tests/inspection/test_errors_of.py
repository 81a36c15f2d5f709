"""Errors between two tensors are those of the whole arrays, however they come in pieces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.inspection import difference

if TYPE_CHECKING:
    from collections.abc import Iterator


class Given:
    """A tensor that comes in pieces of given sizes."""

    name, type, n_bytes = "t", "F32", 0

    def __init__(self, array: Any, sizes: list[int]) -> None:
        self.shape = tuple(reversed(array.shape))
        self._flat, self._sizes = array.reshape(-1), sizes

    def data_as(self, kind: str) -> None:
        raise AssertionError(kind)

    def values(self) -> Iterator[Any]:
        at = 0
        while at < len(self._flat):
            size = self._sizes[at % len(self._sizes)]
            yield self._flat[at : at + size]
            at += size


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=5)


@given(st.integers(1, 9), st.integers(1, 30), st.integers(1, 25), SIZES, SIZES, st.integers(0, 99))
def test_errors_are_those_of_the_whole(
    rows: int, width: int, step: int, mine: list[int], theirs: list[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    before = rng.normal(size=(rows, width), loc=0.5).astype(np.float32)
    after = (before + rng.normal(size=before.shape, scale=0.1)).astype(np.float32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(difference, "STEP", step)
        found = difference.measure_errors(Given(before, mine), Given(after, theirs))
    assert found is not None
    x, y = before.astype(np.float64), after.astype(np.float64)
    apart = ((x - y) ** 2).mean(1)
    assert found.count == rows * width
    assert found.largest == pytest.approx(np.abs(x - y).max())
    assert found.rmse == pytest.approx(np.sqrt(((x - y) ** 2).mean()))
    assert found.deviation == pytest.approx(x.std(), abs=1e-7)
    assert found.worst_row == apart.argmax()
    assert found.worst_rmse == pytest.approx(np.sqrt(apart.max()))
    wanted = float((x * y).sum() / np.sqrt((x * x).sum() * (y * y).sum()))
    assert found.cosine == pytest.approx(wanted)
    assert found.relative == difference.quotient(found.rmse, found.deviation)


def test_equal_tensors_have_no_error() -> None:
    array = np.ones((3, 4), np.float32)
    found = difference.measure_errors(Given(array, [5]), Given(array, [7]))
    assert found is not None
    assert (found.rmse, found.relative, found.worst_row, found.largest) == (0, 0, -1, 0)
    constant = difference.measure_errors(Given(array, [5]), Given(array + 1, [7]))
    assert constant is not None
    assert constant.relative == float("inf")
