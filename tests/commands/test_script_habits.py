"""What people type who come from llama.cpp's scripts: it works, or the answer says what does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from adapters import linear_layers, write_adapter
from model_folders import write_folder
from support import Run, one_line

import mtkit as library
from mtkit.commands.habits import instead_of, near_options
from mtkit.conversion.key_types import known_type, read_metadata, role_key
from mtkit.errors import UsageError
from mtkit.gguf import open_gguf


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("habits") / "Small-Model")


@pytest.fixture(scope="module")
def model(base: Path) -> Path:
    from mtkit.conversion.model import convert_model

    return Path(convert_model(base, base.parent / "small.gguf").path)


@pytest.mark.parametrize(
    ("pattern", "outtype", "name"),
    [
        ("x-{ftype}.gguf", "f16", "x-f16.gguf"),
        ("{OUTTYPE}/y.gguf", "q8_0", "Q8_0/y.gguf"),
        ("z-{outtype}-{FTYPE}.gguf", "auto", "z-bf16-BF16.gguf"),
        ("w-{other}.gguf", "bf16", "w-{other}.gguf"),
    ],
)
def test_the_type_in_a_name(
    pattern: str, outtype: str, name: str, base: Path, tmp_path: Path, mtkit: Run
) -> None:
    (tmp_path / Path(name).parent).mkdir(exist_ok=True)
    done = mtkit("convert", base, "--outfile", tmp_path / pattern, "--outtype", outtype)
    assert done.returncode == 0, done.stderr
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [tmp_path / name]


def test_an_adapter_s_type_and_name(base: Path, tmp_path: Path, mtkit: Run) -> None:
    adapter = write_adapter(tmp_path / "lora", base, linear_layers(base, ("q_proj",)))
    done = mtkit(
        "convert", adapter, "--outfile", tmp_path / "l-{ftype}.gguf", "--outtype", "f16",
        "--model-name", "Quiet River", "--base-model-id", base,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert open_gguf(tmp_path / "l-f16.gguf").metadata["general.name"] == "Quiet River"


def test_names_and_metadata(base: Path, tmp_path: Path, mtkit: Run) -> None:
    about = tmp_path / "about.json"
    document = {
        "general.author": "A. Writer",
        "general.name": "of the file",
        "general.tags": ["a", "b"],
        "general.base_models": [{"name": "Parent", "organization": "Org"}],
    }
    about.write_text(json.dumps(document))
    out = tmp_path / "m.gguf"
    assert mtkit("convert", base, out, "--metadata", about).returncode == 0
    found = open_gguf(out).metadata
    assert (found["general.author"], found["general.name"]) == ("A. Writer", "of the file")
    assert list(found["general.tags"]) == ["a", "b"]
    assert found["general.base_model.count"] == 1
    assert found["general.base_model.0.name"] == "Parent"
    line = ("convert", base, out, "--metadata", about, "--model-name", "Typed", "--force")
    assert mtkit(*line).returncode == 0
    assert open_gguf(out).metadata["general.name"] == "Typed"


@pytest.mark.parametrize(
    ("document", "what"),
    [
        ({"general.athor": "x"}, "general.athor: is not a key of metadata"),
        ({"general.architecture": "x"}, "general.architecture: is not a key of metadata"),
        ({"llama.block_count": 1}, "llama.block_count: is not a key of metadata"),
        ({"general.author": 3}, "'3' is not of the type string"),
        ({"general.tags": "x"}, "'x' is not of the type string[]"),
        ({"general.datasets": [{"nme": "x"}]}, "general.dataset.0.nme: is not known"),
    ],
)
def test_metadata_that_is_not_taken(document: dict[str, Any], what: str, tmp_path: Path) -> None:
    path = tmp_path / "about.json"
    path.write_text(json.dumps(document))
    with pytest.raises(UsageError) as caught:
        read_metadata(str(path))
    assert what in str(caught.value)


def test_a_dry_run_says_what_and_writes_nothing(
    base: Path, model: Path, tmp_path: Path, mtkit: Run
) -> None:
    before = sorted(base.iterdir())
    out = tmp_path / "m.gguf"
    done = mtkit("convert", base, out, "--dry-run", "--json")
    document = json.loads(done.stdout)
    assert (document["written"], document["files"]) == (False, [str(out)])
    assert document["sizes"]["total"] == model.stat().st_size
    shards = mtkit("convert", base, out, "--dry-run", "--split-max-tensors", "9", "--json")
    files = json.loads(shards.stdout)["files"]
    assert len(files) > 2
    for target in ("f.json", "folder/", "n.mtok"):
        done = mtkit("convert", model, tmp_path / target, "--to", "hf", "--dry-run")
        assert b"not written (--dry-run)" in done.stdout, done.stderr
    done = mtkit("convert", model, "-o", tmp_path / "f", "--to", "hf-model", "--dry-run")
    assert b"not written (--dry-run)" in done.stdout, done.stderr
    adapter = write_adapter(base.parent / "dry", base, linear_layers(base, ("q_proj",)))
    done = mtkit("convert", adapter, "--dry-run")
    assert b"not written (--dry-run)" in done.stdout, done.stderr
    assert not list(tmp_path.iterdir())
    assert not list(adapter.glob("*.gguf"))
    assert sorted(base.iterdir()) == before


def test_a_tokenizer_alone_takes_the_names_of_a_model(
    base: Path, tmp_path: Path, mtkit: Run
) -> None:
    """With --vocab-only; a dry run says the file that is then written, and what stands against."""
    about = tmp_path / "about.json"
    about.write_text(json.dumps({"general.author": "Ann", "general.name": "Other"}))
    args = ["convert", base, tmp_path / "new-{ftype}.gguf", "--vocab-only", "--json"]
    args += ["--model-name", "Mine", "--metadata", about, "--allow-loss", "ids-possible"]
    dry = json.loads(mtkit(*args, "--dry-run").stdout)
    assert [path.name for path in tmp_path.iterdir()] == ["about.json"]
    done = json.loads(mtkit(*args).stdout)
    assert done == {**dry, "written": True}
    path = Path(done["output"])
    assert "{" not in path.name
    assert path.stat().st_size == done["sizes"]["total"]
    metadata = open_gguf(path).metadata
    assert (metadata["general.name"], metadata["general.author"]) == ("Mine", "Ann")
    again = mtkit(*args, "--dry-run")
    assert (again.returncode, b"already exists" in again.stderr) == (2, True), again.stderr
    args[2] = tmp_path / "none" / "new.gguf"
    assert b"no such folder" in mtkit(*args, "--dry-run").stderr
    args[2] = tmp_path / "new.json"
    assert b"--model-name works only with a model folder and --to gguf" in mtkit(*args).stderr


def test_shards_by_their_tensors(base: Path, tmp_path: Path, mtkit: Run) -> None:
    out = tmp_path / "m.gguf"
    line = ("convert", base, out, "--split-max-tensors", "8", "--no-tensor-first-split")
    assert mtkit(*line).returncode == 0
    counts = [len(open_gguf(path).tensors) for path in sorted(tmp_path.iterdir())]
    assert counts[0] == 0
    assert max(counts) == 8
    whole = tmp_path / "whole.gguf"
    first = min(tmp_path.iterdir())
    assert mtkit("merge", first, "--delete-splits", "-o", whole, "--dry-run").returncode == 0
    assert first.exists()
    assert mtkit("merge", first, "--delete-splits", "-o", whole).returncode == 0
    assert list(tmp_path.iterdir()) == [whole]
    line = ("convert", base, tmp_path / "x.gguf", "--no-tensor-first-split")
    assert "goes with --split-max-size" in one_line(mtkit(*line), 2)


def test_what_can_be_converted(mtkit: Run) -> None:
    rows = dict(
        line.split("\t")
        for line in mtkit("convert", "--print-supported-models").stdout.decode().splitlines()
    )
    assert rows["LlamaForCausalLM"] == "llama"
    assert len(rows) > 60


def test_options_without_effect_are_said(base: Path, tmp_path: Path, mtkit: Run) -> None:
    for option in ("--no-lazy", "--use-temp-file"):
        done = mtkit("convert", base, tmp_path / f"{option}.gguf", option)
        assert done.returncode == 0
        assert b"has no effect" in done.stderr


def test_without_a_model(tmp_path: Path, mtkit: Run) -> None:
    line = ("convert", "--outtype", "f16", "--outfile", tmp_path / "x.gguf")
    assert "no model to convert is named" in one_line(mtkit(*line), 2)
    line = ("convert", "org/name", "--download")
    assert "run: mtkit convert org/name --to gguf --download" in one_line(mtkit(*line), 2)


INSTEAD = [
    ("convert", "--bigendian", "convert-endian"),
    ("convert", "--remote", "--download"),
    ("convert", "--mistral-format", "consolidated.safetensors"),
    ("edit", "--remove", "--unset"),
    ("edit", "--special-token-by-id", "--set tokenizer.ggml.eos_token_id=2"),
    ("merge", "--merge", "leave it out"),
]


@pytest.mark.parametrize(("command", "option", "what"), INSTEAD)
def test_options_of_other_programs(command: str, option: str, what: str, mtkit: Run) -> None:
    text = one_line(mtkit(command, "x", option), 2)
    assert f"no such option: {option}; " in text
    assert what in text
    assert "is it" not in text


def test_what_is_in_the_table_is_no_option_here() -> None:
    from mtkit.cli import COMMANDS
    from mtkit.commands import load_command
    from mtkit.commands.habits import _HABITS

    for command, options in _HABITS.items():
        if command not in COMMANDS:
            continue
        known: set[str] = set()
        for parameter in load_command(COMMANDS[command][0]).parameters():
            known |= {name for name, _ in parameter.spellings()}
        assert known & options.keys() <= {"--slots"}  # llama-server's has no value
        assert all(instead_of(command, option) for option in options)


def test_guesses_help_or_are_none() -> None:
    options = [
        "--encoding",
        "--eos",
        "--rename-key",
        "--no-tables",
        "--quiet",
        "--chat-template-file",
    ]
    for typed in ("--bigendian", "--remote", "--remove", "--no-lazy", "--foo", "--nothing"):
        assert near_options(typed, options) == []
    assert near_options("--quite", options) == ["--quiet"]
    assert near_options("--eos-token", options) == ["--eos"]
    assert near_options("--template", options) == ["--chat-template-file"]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("tokenizer.ggml.fim_pre_token_id", "u32"),
        ("tokenizer.ggml.add_bos_token", "bool"),
        ("tokenizer.ggml.scores", "f32[]"),
        ("tokenizer.chat_template.tool_use", "string"),
        ("general.url", "string"),
        ("general.tags", "string[]"),
        ("general.sampling.temp", "f32"),
        ("llama.rope.freq_base", "f32"),
        ("llama.attention.head_count", "u32"),
        ("llama.attention.layer_norm_rms_epsilon", "f32"),
        ("qwen2.rope.freq_base", None),
        ("llama.zzz", None),
        ("own.key", None),
    ],
)
def test_types_of_known_keys(name: str, kind: str | None) -> None:
    assert known_type(name, "llama") == kind


def test_every_key_of_a_conversion_has_its_type(model: Path) -> None:
    """What the table says is what the converter writes."""
    metadata = open_gguf(model).metadata
    for name in metadata:
        kind = known_type(name, "llama")
        assert kind in (None, metadata.type_name(name)), name
    assert sum(known_type(name, "llama") is None for name in metadata) < 3


def test_special_tokens(model: Path, tmp_path: Path, mtkit: Run) -> None:
    tokens = list(open_gguf(model).metadata["tokenizer.ggml.tokens"])
    out = tmp_path / "e.gguf"
    line = ("edit", model, "--special-token", "eot", tokens[300], "--special-token", "PAD")
    done = mtkit(*line, tokens[0], "-o", out)
    assert done.returncode == 0, done.stderr
    found = open_gguf(out).metadata
    assert found["tokenizer.ggml.eot_token_id"] == 300
    assert found["tokenizer.ggml.padding_token_id"] == 0
    assert found.type_name("tokenizer.ggml.eot_token_id") == "u32"
    for words, what in (
        (("eot", "no such token"), "'no such token' is no token"),
        (("eot", tokens[1][:-1]), f"is it {tokens[1]}?"),
        (("zzz", tokens[300]), "'zzz' is no special token"),
    ):
        assert what in one_line(mtkit("edit", model, "--special-token", *words, "-o", "x"), 2)
    assert {role_key(role) for role in ("sep", "separator", "seperator")} == {
        "tokenizer.ggml.seperator_token_id"
    }


@pytest.mark.parametrize("how", ["--set", "--set-file", "--chat-template-file"])
def test_a_template_that_does_not_parse_is_said(
    how: str, model: Path, tmp_path: Path, mtkit: Run
) -> None:
    for text, is_broken in (
        ("{% for m in messages %}{{ m.role }", True),
        ("{{ messages }}", False),
    ):
        path = tmp_path / "t.jinja"
        path.write_text(text)
        value = {
            "--set": f"tokenizer.chat_template=string:{text}",
            "--set-file": f"tokenizer.chat_template={path}",
        }.get(how, str(path))
        done = mtkit("edit", model, how, value, "-o", tmp_path / "n.gguf", "--force")
        assert done.returncode == 0, done.stderr
        assert (b"tokenizer.chat_template does not parse: " in done.stderr) == is_broken


def test_a_known_key_needs_no_type(model: Path, tmp_path: Path, mtkit: Run) -> None:
    out = tmp_path / "e.gguf"
    line = ("edit", model, "--set", "tokenizer.ggml.fim_pre_token_id=5")
    assert mtkit(*line, "--set", "general.url=u32:x", "-o", out).returncode == 2
    assert mtkit(*line, "--set", "general.url=http://x", "-o", out).returncode == 0
    found = open_gguf(out).metadata
    assert found["tokenizer.ggml.fim_pre_token_id"] == 5
    assert found["general.url"] == "http://x"
    text = one_line(mtkit("edit", model, "--set", "own.key=5", "-o", out), 2)
    assert "its type is needed" in text


@pytest.mark.parametrize(
    ("options", "code", "what"),
    [
        (("--type", "q8_0"), 4, "would be F16: a row of 144 is no multiple of 32"),
        (("--type", "Q4_K_M"), 4, "tensors fall back to another type"),
        (("--type", "f16"), 2, "every row fits --type f16"),
        (("--type", "Q4_K_M", "--dry-run"), 2, "mtkit quantize GGUF --dry-run shows"),
        (("--vocab-only",), 2, "--no-fallback does not go with --vocab-only"),
    ],
)
def test_no_fallback_while_converting(
    options: tuple[str, ...], code: int, what: str, tmp_path: Path, mtkit: Run
) -> None:
    sizes = {"hidden_size": 144, "intermediate_size": 288, "num_attention_heads": 4,
             "num_key_value_heads": 2, "head_dim": 36}  # fmt: skip
    folder = write_folder(tmp_path / "narrow", config=sizes, optional=())
    done = mtkit("convert", folder, tmp_path / "n.gguf", "--no-fallback", *options)
    assert (done.returncode, what.encode() in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "n.gguf").exists()


def test_rows_that_fit_need_no_fallback(base: Path, tmp_path: Path, mtkit: Run) -> None:
    done = mtkit("convert", base, tmp_path / "a.gguf", "--no-fallback", "--type", "q8_0")
    assert done.returncode == 0, done.stderr


def test_weights_without_a_config(base: Path, tmp_path: Path, mtkit: Run) -> None:
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in ("model.safetensors", "tokenizer.json"):
        if (base / name).exists():
            (folder / name).write_bytes((base / name).read_bytes())
    done = mtkit("inspect", folder)
    assert done.returncode == 0
    assert b"model.embed_tokens.weight" in done.stdout
    assert b"has weights but no config.json; shown is model.safetensors" in done.stderr
    rows = mtkit("inspect", folder, base).stdout.decode().splitlines()
    assert [row.split("\t")[1] for row in rows] == ["safetensors", "folder"]
    assert library.inspect(folder)["kind"] == "safetensors"


def test_the_tokenizer_of_a_model_in_the_hub(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its name, it gets the architecture and keys as well."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    model = tmp_path / "hub" / "models--some--model"
    (model / "refs").mkdir(parents=True)
    (model / "refs" / "main").write_text("0" * 40)
    (model / "snapshots").mkdir()
    (model / "snapshots" / ("0" * 40)).symlink_to(base)
    library.convert("some/model", tmp_path / "v.gguf", vocab_only=True)
    metadata = open_gguf(tmp_path / "v.gguf").metadata
    assert metadata["llama.block_count"] == 2
