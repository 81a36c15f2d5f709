"""A job on two nodes of a Ray cluster gives the bytes of a local one, even when a node is lost."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from mtkit.corpus.documents import Reading, units_of
from mtkit.corpus.job import Job
from mtkit.corpus.run import JobSettings, count, encode

TOKENIZER = Path(__file__).parents[1] / "fixtures" / "bbpe-8k" / "tokenizer.json"


@pytest.mark.filterwarnings("ignore")
def test_a_node_is_lost(tmp_path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed (extra ray)")
    import ray
    from ray.cluster_utils import Cluster

    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(40):
        lines = (json.dumps({"text": f"{number} Hello {i} 中文 " * 40}) for i in range(200))
        (folder / f"{number:02}.jsonl").write_text("\n".join(lines))
    reading = Reading()
    units, _ = units_of([str(folder)], reading)
    job = Job(str(TOKENIZER), reading=reading, width=2)
    encode(job, units, str(tmp_path / "local.npy"), JobSettings(), lambda done, total: None)

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    lost = cluster.add_node(num_cpus=1)
    ray.init(address=cluster.address, log_to_driver=False)
    killed_at: list[int] = []

    def lose(parts: Path) -> None:
        while True:
            done = len(list(parts.glob("*.json")))
            if done >= 3:
                cluster.remove_node(lost, allow_graceful=False)
                killed_at.append(done)
                return
            time.sleep(0.01)

    try:
        killer = threading.Thread(target=lose, args=(tmp_path / "ray.npy.parts",))
        killer.start()
        on_ray = JobSettings(ray=True)
        encode(job, units, str(tmp_path / "ray.npy"), on_ray, lambda done, total: None)
        killer.join()
        counting = Job(str(TOKENIZER), reading=reading)
        count(counting, units, str(tmp_path / "ray.json"), on_ray, lambda done, total: None)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert killed_at[0] < len(units)
    assert (tmp_path / "ray.npy").read_bytes() == (tmp_path / "local.npy").read_bytes()
    count(counting, units, str(tmp_path / "local.json"), JobSettings(), lambda done, total: None)
    assert (tmp_path / "ray.json").read_bytes() == (tmp_path / "local.json").read_bytes()
