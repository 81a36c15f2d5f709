"""What commands print, line by line: the files of ``transcripts/`` are what people would see."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import transcripts
from support import FIXTURES, Run, llama_cpp_for

from mtkit.sources.locate import MODEL, shipped

FILES = {
    "tokenizer.json": "bbpe-8k/tokenizer.json", "vocab.gguf": "bbpe-8k/vocab.gguf",
    "tokenizer.model": "spm-bpe/tokenizer.model",
    **{f"{folder}/{name}": f"{source}/{name}"
       for folder, source in (("bbpe", "bbpe-8k"), ("wordpiece", "wordpiece"))
       for name in ("tokenizer.json", "tokenizer_config.json")},
}  # fmt: skip
SECTIONS = transcripts.transcripts(Path(__file__).with_name("transcripts"))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda one: f"{one.path.stem}: {one.title}")
def test_transcripts(section: transcripts.Transcript, mtkit: Run, tmp_path: Path) -> None:
    for line in section.text.splitlines():
        if line.startswith("$ mtkit "):
            llama_cpp_for(line.removeprefix("$ mtkit "))
    for name, source in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(FIXTURES / source, tmp_path / name)
    shutil.copyfile(shipped(MODEL), tmp_path / "model.gguf")
    transcripts.check(section, tmp_path, mtkit)
