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


def test_without_a_tokenizer_it_is_the_model_of_template(mtkit: Run, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    file.write_text(json.dumps(CHATS[0]), encoding="utf-8")
    given = ("--messages", file)
    found = mtkit("encode", *given).stdout
    assert found
    assert found == mtkit("template", *given, "--ids").stdout


def test_a_chat_that_is_none_is_refused(mtkit: Run, tmp_path: Path) -> None:
    file = tmp_path / "chat.json"
    half = r'[{"role": "user", "content": "\ud800"}]'
    for content, what in (("[", b"chat.json"), ("{}", b"not a list of messages"),
                          ("[]", b"no messages"), (half, b"not valid UTF-8")):  # fmt: skip
        file.write_text(content)
        done = mtkit("encode", "-t", FOLDER, "--messages", file)
        assert done.returncode in (2, 3)
        assert what in done.stderr
    file.write_text(json.dumps(CHATS[0]))
    assert mtkit("encode", "x", "-t", FOLDER, "--messages", file).returncode == 2
    assert mtkit("encode", "--lines", "-t", FOLDER, "--messages", file).returncode == 2
    spm = FIXTURES / "spm-bpe" / "tokenizer.model"
    done = mtkit("encode", "-t", spm, "--messages", file)
    assert done.returncode == 4
    assert b"tokenizer.model" in done.stderr
