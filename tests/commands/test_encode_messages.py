"""``encode --messages``: a whole chat through the template, as transformers counts it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from support import FIXTURES, reference

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Run

FOLDER = FIXTURES / "bbpe-8k"
CHATS = (
    [{"role": "user", "content": "Hello!"}],
    [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "中文 <|im_end|> 🙂"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b" * 500},
     {"role": "user", "content": "x\ny"}],
)  # fmt: skip


def test_a_chat_has_the_ids_and_the_length_that_transformers_gives(
    mtkit: Run, tmp_path: Path
) -> None:
    transformers = reference("transformers")
    theirs = transformers.AutoTokenizer.from_pretrained(FOLDER)
    for chat in CHATS:
        file = tmp_path / "chat.json"
        file.write_text(json.dumps(chat), encoding="utf-8")
        expected = theirs.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
        given = ("encode", "-t", FOLDER, "--messages", file)
        assert [int(x) for x in mtkit(*given).stdout.split()] == expected
        assert int(mtkit(*given, "--count").stdout) == len(expected)
        assert [int(x) for x in mtkit("template", FOLDER, *given[3:], "--ids").stdout.split()] == (
            expected
        )
        cut = mtkit(*given, "--truncate", 7)
        assert [int(x) for x in cut.stdout.split()] == expected[:7]
    piped = mtkit("encode", "-t", FOLDER, "--messages", "-", "--count", "--json",
                  stdin=json.dumps({"messages": CHATS[-1]}).encode())  # fmt: skip
    assert json.loads(piped.stdout)["count"] == len(expected)
