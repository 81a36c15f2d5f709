"""The limits of control groups are found where the kernel has them, in both versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from mtkit.errors import ResourceError
from mtkit.llm.threads import cores
from mtkit.memory_plan import plan as limits
from mtkit.memory_plan.plan import Plan, check_fits, memory_limits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(limits, "CGROUP_ROOT", str(tmp_path))
    monkeypatch.setattr(limits, "CGROUP_MEMBERSHIP", str(tmp_path / "membership"))
    return tmp_path


def group(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def test_no_groups_no_limits(root: Path) -> None:
    assert limits.free_in_groups(5) == []
    assert limits.allowed_cores() == float("inf")
    group(root, memory__max="max", cpu__max="max 100000", membership="0::/\n")
    assert limits.free_in_groups(5) == []
    assert limits.allowed_cores() == float("inf")


def test_second_version(root: Path) -> None:
    group(root, membership="0::/user.slice/own.scope")
    group(root / "user.slice", memory__max="9000", memory__current="5000",
          memory__stat="anon 1000\nfile 3500\nfile_mapped 7", cpu__max="250000 100000")  # fmt: skip
    group(root / "user.slice" / "own.scope", memory__max="max", cpu__max="max 100000")
    assert limits.free_in_groups(1) == [9000 - 1500]
    assert limits.allowed_cores() == 2.5
    group(root / "user.slice" / "own.scope", memory__max="700", cpu__max="50000 100000")
    assert limits.free_in_groups(100) == [600, 7500]
    assert limits.allowed_cores() == 0.5
    assert cores() == 1


def test_a_container_has_its_group_at_the_root(root: Path) -> None:
    group(root, membership="0::/../../elsewhere", memory__max="4000")
    assert limits.free_in_groups(1500) == [2500]


def test_first_version(root: Path) -> None:
    group(root, membership="5:cpu,cpuacct:/a\n4:memory:/a/b\n2:pids:/x\n0::/")
    group(root / "memory", memory__limit_in_bytes=str((1 << 63) - 4096))
    group(root / "memory" / "a" / "b", memory__limit_in_bytes="8000", memory__usage_in_bytes="6000",
          memory__stat="cache 1\ntotal_cache 5000")  # fmt: skip
    group(root / "cpu" / "a", cpu__cfs_quota_us="300000", cpu__cfs_period_us="100000")
    assert limits.free_in_groups(1) == [7000]
    assert limits.allowed_cores() == 3.0
    group(root / "cpu" / "a", cpu__cfs_quota_us="-1")
    assert limits.allowed_cores() == float("inf")


@pytest.mark.parametrize("text", ["", "x", "-5", "\xff", "1e9", "0" * 50 + "x"])
def test_damaged_files_are_no_limits(root: Path, text: str) -> None:
    (root / "membership").write_text(text)
    (root / "memory.max").write_text(text)
    (root / "cpu.max").write_text(text)
    assert limits.free_in_groups(0) == []
    assert limits.allowed_cores() == float("inf")


def test_a_model_beyond_the_groups_limit_is_refused(root: Path) -> None:
    group(root, membership="0::/a")
    group(root / "a", memory__max=str(100 << 20), memory__current="0", memory__stat="file 0")
    assert ("the control group", 100 << 20) in [(one.name, one.free) for one in memory_limits()]
    check_fits(Plan(256, 50 << 20, 0, (), 0, process=16 << 20), "m")
    with pytest.raises(ResourceError, match="the control group has 105 MB left"):
        check_fits(Plan(256, 90 << 20, 0, (), 0, process=16 << 20), "m")
