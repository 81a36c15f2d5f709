"""What people type first: each line works, or its error names the right one.

The lines are those of ttok, tiktoken's README, llama.cpp's tools, gguf-dump, gguf-parser, the hub's
client and ollama, with ``mtkit`` in the place of the program.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from shlex import split

import pytest
from support import FIXTURES, Run, llama_cpp_for

from mtkit.cli import COMMANDS, main
from mtkit.commands.help import _ELSEWHERE, _WORDS, TOPICS, unknown_command
from mtkit.formats.contract import LOSS_CODES
from mtkit.sources.locate import MODEL, shipped

WORKS = """
encode "Hello world"
encode "Hello world" -t tokenizer.json --tokens
encode "<|endoftext|>" --allow-special
encode -m vocab.gguf -p hi --ids
encode -m vocab.gguf -p hi --show-count
encode -m vocab.gguf -f text.txt --no-bos
encode --input text.txt --truncate 2
count text.txt
count text.txt tokenizer.json -t vocab.gguf
count . -t vocab.gguf
corpus count . -o counts.json
decode 71 72 -m vocab.gguf
decode [71,72]
inspect vocab.gguf
inspect model.gguf --plan --ctx-size 8k
dump metadata vocab.gguf --json
dump tensors model.gguf
dump metadata models
convert tokenizer.json --to all -o formats
edit model.gguf --chat-template text.txt -o edited.gguf
quantize model.gguf q4.gguf Q4_0 --allow-requantize
quantize model.gguf Q4_0 -o q4.gguf --allow-requantize
template -m vocab.gguf hi
template vocab.gguf -p hi
generate -m models hi -n 4 -q
generate -m model.gguf -p "To list files, use" -n 9 -c 1k -s 1 --temp 0.5 -ngl 0 -t 1 -q
chat -m model.gguf -p hi -n 4 -q
chat -m model.gguf -f text.txt -n 4 -q
perplexity -m model.gguf -f text.txt --ctx-size 32 --chunks 1
help
help losses
help special tokens
help encode
--version
""".strip().splitlines()
NAMES = """
tokenize hi                     : mtkit encode hi
tokenize -m vocab.gguf -p hi    : mtkit encode -m vocab.gguf -p hi
detokenize 71 72                : mtkit decode 71 72
Hello world                     : mtkit encode 'Hello world'
"Hello, world!"                 : mtkit encode 'Hello, world!'
--encode hi                     : mtkit encode hi
--decode 71                     : mtkit decode 71
get_encoding cl100k_base        : mtkit encode
encoding_for_model gpt-4        : mtkit encode -t cl100k_base
encode hi -t 4                  : --truncate
model.gguf                      : mtkit inspect model.gguf
model.gguf hi                   : mtkit generate hi -m model.gguf
text.txt                        : mtkit count text.txt
-m x.gguf -p hi -n 32           : mtkit generate -m x.gguf -p hi -n 32
--model x.gguf                  : mtkit chat --model x.gguf
-hf org/name -p hi              : mtkit generate -m org/name -p hi
show model.gguf                 : mtkit inspect model.gguf
info model.gguf                 : mtkit inspect model.gguf
gguf-dump model.gguf            : mtkit inspect model.gguf
dump model.gguf                 : mtkit dump metadata model.gguf
metadata model.gguf             : mtkit dump metadata model.gguf
tensors model.gguf              : mtkit dump tensors model.gguf
vocab model.gguf                : mtkit dump vocab model.gguf
parse --path model.gguf         : mtkit inspect model.gguf
generate hi -t tokenizer.json   : -t is the number of threads here
generate hi -c 8x               : '8x' is neither a whole number nor a size like 8k
estimate model.gguf             : mtkit inspect --plan model.gguf
run model.gguf hi               : mtkit chat hi -m model.gguf
run model.gguf                  : mtkit chat -m model.gguf
run models                      : mtkit chat -m models
generate model.gguf             : mtkit generate -m model.gguf
generate model.gguf -p hi       : mtkit generate -m model.gguf -p hi
generate models                 : mtkit generate -m models
generate text.txt               : mtkit generate -f text.txt
generate x.gguf -n 4            : mtkit generate -m x.gguf
chat model.gguf                 : mtkit chat -m model.gguf
chat text.txt                   : mtkit chat -f text.txt
logits model.gguf               : mtkit logits -m model.gguf
perplexity model.gguf text.txt  : mtkit perplexity text.txt -m model.gguf
imatrix model.gguf -o x.gguf    : -m model.gguf
count model.gguf                : -t model.gguf
dump vocab.gguf                 : mtkit dump metadata vocab.gguf
dump tokenizer.json             : mtkit dump vocab tokenizer.json
dump tokenizer.json vocab       : mtkit dump vocab tokenizer.json
dump hf                         : mtkit inspect hf
dump metadata hf                : mtkit inspect hf
dump tensors hf/model.safetensors : mtkit inspect --tensors hf/model.safetensors
convert tokenizer.json          : mtkit convert tokenizer.json --to gguf
convert_hf_to_gguf.py tokenizer.json : mtkit convert tokenizer.json --to gguf
quantize model.gguf             : mtkit quantize model.gguf --type Q4_K_M -o model-Q4_K_M.gguf
quantize model.gguf Q8_0        : -o model-Q8_0.gguf
edit model.gguf --set general.name=@text.txt -o x.gguf : --set-file general.name=text.txt
pull llama3                     : hf download
download gpt2                   : hf download
list                            : mtkit inspect FOLDER
ps                              : mtkit serve -m MODEL.gguf
scan-cache                      : mtkit inspect FOLDER
login                           : hf
inspect model.gguf --ctx-size 8k : --plan
server                          : mtkit serve -m MODEL.gguf
llama-server -m model.gguf      : mtkit serve -m model.gguf
llama-quantize model.gguf       : mtkit quantize model.gguf --type Q4_K_M
llama-quantize model.gguf n.gguf Q8_0 : mtkit quantize model.gguf n.gguf Q8_0
llama-imatrix                   : mtkit imatrix FILE -m MODEL.gguf
llama-imatrix -m model.gguf     : mtkit imatrix -m model.gguf
shrink                          : mtkit trim MODEL.gguf
diff tokenizer.json vocab.gguf  : mtkit compare tokenizer.json vocab.gguf
export tokenizer.json           : mtkit convert tokenizer.json
chat-template model.gguf        : mtkit template model.gguf
ppl text.txt                    : mtkit perplexity text.txt
version                         : mtkit --version
ollama run model.gguf           : mtkit chat -m model.gguf
ollama show model.gguf --modelfile : mtkit inspect model.gguf
run qwen3                       : mtkit chat -m qwen3
hf download org/name            : hf download org/name
ollama pull hf.co/org/name:Q4_K_M : mtkit chat -m org/name:Q4_K_M --download
lms                             : mtkit --help
gui                             : mtkit serve -m MODEL.gguf has a chat page
preset                          : no Modelfiles or presets
rpc-server                      : on this machine alone
llama-bench -m x.gguf -r 3      : mtkit bench -m x.gguf --rounds 3
llama-speculative -m model.gguf -p hi : mtkit generate -m model.gguf -p hi
llama-embedding -m model.gguf   : /v1/embeddings
spm_encode --model=vocab.gguf hi : mtkit encode --model=vocab.gguf hi
spm_train --input=text.txt      : does not train
AutoTokenizer.from_pretrained hf : mtkit inspect hf
llmexport --path hf             : --vocab-only --to mtok
create mine -f Modelfile        : no Modelfiles
gguf_dump --no-tensors model.gguf : run: mtkit inspect model.gguf
gguf-set-metadata model.gguf general.name x : mtkit edit model.gguf --set general.name=x --in-place
gguf-new-metadata --general-name x model.gguf n.gguf : --set general.name=NAME -o n.gguf
gguf-split --split --split-max-size 1M model.gguf part : 1M model.gguf -o part
gguf-split --merge p-00001-of-00002.gguf n.gguf : mtkit merge p-00001-of-00002.gguf n.gguf
split --split-max-size 1M model.gguf part : mtkit split --split-max-size 1M model.gguf -o part
serve model.gguf                : mtkit serve -m model.gguf
generate model.gguf hi -n 4     : mtkit generate hi -n 4 -m model.gguf
encode tokenizer.json 你好       : mtkit encode '你好' -t tokenizer.json
token tokenizer.json 71         : mtkit token 71 -t tokenizer.json
template tokenizer.json hi there : unexpected argument: hi there
template tokenizer.json hi      : mtkit template tokenizer.json --user hi
hf/config.json                  : mtkit inspect hf/config.json
ecnode hi                       : encode
help tokenise                   : mtkit encode
help nothing                    : mtkit help topics
""".strip().splitlines()


@pytest.fixture(autouse=True)
def a_users_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("tokenizer.json", "vocab.gguf"):
        shutil.copy(FIXTURES / "bbpe-8k" / name, tmp_path)
    os.symlink(shipped(MODEL), tmp_path / "model.gguf")
    (tmp_path / "models").mkdir()
    os.symlink(tmp_path / "vocab.gguf", tmp_path / "models" / "a.gguf")  # no weights: no model
    os.symlink(tmp_path / "model.gguf", tmp_path / "models" / "b.gguf")
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / "config.json").write_text("{}", encoding="utf-8")
    (tmp_path / "hf" / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
    (tmp_path / "text.txt").write_text("Some text of several words.\n" * 20, encoding="utf-8")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", WORKS)
def test_works_as_it_is_typed(mtkit: Run, line: str) -> None:
    llama_cpp_for(line)
    done = mtkit(*split(line))
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.parametrize("line", NAMES)
def test_is_told_what_to_type(capsys: pytest.CaptureFixture[str], line: str) -> None:
    typed, _, right = (part.strip() for part in line.partition(" : "))
    assert main(split(typed)) == 2
    printed, said = capsys.readouterr()
    assert not printed
    assert right in said
    assert said.count("\n") == 1


SUGGESTED = re.compile(r"run: mtkit (.*?)(?=; |\n|$)")
PLACEHOLDER = re.compile(
    r"\b(FILE|MODEL|TEXT|ID|FOLDER|KEY|CODE|x\.gguf|org/name|get_encoding|serve|hf|qwen3|p-00001)\b"
    r"|--plan|--path|-hf|--in-place|((quantize|imatrix) (-m )?model.gguf|perplexity)"
)
"""What is not there to be run, or waits, or wants more than was typed."""


@pytest.mark.parametrize("line", NAMES)
def test_the_line_that_is_told_works(
    mtkit: Run, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    typed = split(line.partition(" : ")[0])
    main(typed)
    told = SUGGESTED.search(capsys.readouterr().err)
    if told is None or PLACEHOLDER.search(told[1]):
        return
    done = mtkit(*split(told[1]), stdin=b"71 72")
    assert done.returncode != 2, done.stderr


def test_what_is_named_exists() -> None:
    for right in _WORDS:
        assert right.startswith("--") or right.split()[0] in COMMANDS, right
    words = " ".join([*_WORDS.values(), *_ELSEWHERE]).split()
    assert len(words) == len(set(words))
    assert not set(words) & set(COMMANDS)


def test_a_line_of_options_alone_is_a_usage_error() -> None:
    assert unknown_command("--nothing", (), [*COMMANDS]).exit_code == 2


@pytest.mark.parametrize("name", TOPICS)
def test_a_topic_is_short_and_found_by_its_name(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    for words in ([name], name.split("-"), [name.upper()]):
        assert main(["help", *words]) == 0
        assert capsys.readouterr().out.endswith(TOPICS[name][1])
    lines = TOPICS[name][1].splitlines()
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 100


def test_the_topic_of_losses_has_every_code() -> None:
    assert all(f"`{code}`" in TOPICS["losses"][1] for code in LOSS_CODES)
