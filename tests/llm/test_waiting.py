"""How threads wait is chosen by what runs on the machine."""

from __future__ import annotations

import pytest

from mtkit.llm import threads


@pytest.mark.parametrize(
    ("running", "load", "busy"),
    [
        ([0], 2.0, 0),  # what caused the load has ended
        ([0, 1, 0, 0, 3, 0, 0], 2.0, 0),
        ([1], 0.1, 1),
        ([1], 3.4, 3),
        ([4], 0.0, 4),
        ([2, 0, 3, 2, 2, 0, 2], 0.4, 2),
        ([None], 1.8, 2),  # not on Linux
    ],
)
def test_what_wants_a_core(
    monkeypatch: pytest.MonkeyPatch, running: list[int | None], load: float, busy: int
) -> None:
    looks = iter(running * 7)
    monkeypatch.setattr(threads, "_running", lambda: next(looks))
    monkeypatch.setattr(threads.os, "getloadavg", lambda: (load, 0.0, 0.0))
    assert threads._busy() == busy
