"""What users of other libraries type: each line works, or its error says what to type."""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support import FIXTURES, Run, reference

import mtkit as package
from mtkit import chat
from mtkit.base import notebook
from mtkit.base.idioms import ARGUMENTS, INSTEAD, SETTINGS
from mtkit.errors import MtkitError

TEXT = "Hello, <b>world</b>! 你好"

# Expressions of readers of tokenizers, transformers, tiktoken, sentencepiece, gguf-py, safetensors
# and llama-cpp-python; ``tok`` is a tokenizer, ``g`` a GGUF, ``m`` a model.
LINES = """
tok.decode(tok.encode(TEXT)) == TEXT
tok.decode(tok.encode_ids(TEXT)) == TEXT
tok.decode(tok.encode_array(TEXT)) == TEXT
tok.decode(np.array(tok.encode_ids(TEXT))) == TEXT
tok.decode(tuple(tok.encode_ids(TEXT))) == TEXT
tok.decode(i for i in tok.encode_ids(TEXT)) == TEXT
list(tok.encode("Hello")) == tok.encode("Hello").ids == tok.encode_ids("Hello")
len(tok.encode("Hello")) == mtkit.count("Hello", tok)
mtkit.count("Hello") == mtkit.count("Hello", mtkit.load())
mtkit.count(b"Hello", tok.source) > 0
tok.encode("Hello").tokens[0] in tok
tok.encode("a", "b").type_ids is not None
tok.encode_batch(["a", "b"])[1].ids == tok.encode_ids("b")
tok.decode_batch(tok.encode_batch(["a", "b"])) == ["a", "b"]
tok.decode_batch(tok.encode_batch_ids(["a", "b"])) == ["a", "b"]
len(tok) == tok.vocab_size >= len(tok.vocab)
"Hello" in tok and b"Hello" in tok and "no such token" not in tok and 5 not in tok
tok.vocab["Hello"] == tok.token_to_id("Hello")
tok.vocab.get("no such token") is None
"Hello" in tok.vocab and "no such token" not in tok.vocab
dict(tok.vocab)["Hello"] == tok.vocab["Hello"]
list(tok)[:3] == [tok.id_to_token(i) for i in range(3)]
sorted(tok.vocab.values())[:3] == [0, 1, 2]
tok.eos_token == tok.id_to_token(tok.eos_id)
tok.bos_token is None or tok.bos_id is not None
tok.unk_token is None or tok.unk_id is not None
tok.pad_token == tok.special_tokens.get("pad_token")
tok.special_tokens["eos_token"] == tok.eos_token
tok.id_to_token(tok.token_to_id("Hello")) == "Hello"
tok.id_to_piece(5) is not None and tok.token_bytes(5) is not None
tok.save(folder / "a.json", to="hf").path == str(folder / "a.json")
mtkit.load(tok.save(folder / "b.mtok").path).encode_ids(TEXT) == tok.encode_ids(TEXT)
mtkit.load(tok.source).encode_ids(TEXT) == tok.encode_ids(TEXT)
tok.encode_offsets("Hello you")[1].shape[1] == 2
tok.apply_chat_template([{"role": "user", "content": "Hi"}]).count("Hi") == 1
len(tok.apply_chat_template([{"role": "user", "content": "Hi"}], tokenize=True)) > 1
repr(tok).startswith("<Tokenizer")
g["general.architecture"] == g.metadata["general.architecture"]
"general.architecture" in g and "general.nothing" not in g
list(g)[0] == list(g.metadata)[0]
g.metadata.get("general.nothing") is None
g.tensors["token_embd.weight"].numpy().shape == g.tensors["token_embd.weight"].shape[::-1]
g.tensors["token_embd.weight"].numpy().dtype == np.float32
g.tensors[0].numpy().size == g.tensors[0].n_elements
bytes(g.tensors[0].raw) == bytes(g.tensor_data(g.tensors[0]))
"token_embd.weight" in g.tensors and "nothing" not in g.tensors
len(g.tensors) == len([t.name for t in g.tensors])
sum(t.n_bytes for t in g.tensors) > 0
list(g["tokenizer.ggml.tokens"])[0] is not None
len(g["tokenizer.ggml.tokens"]) > 100
mtkit.open_gguf(g.name).version == 3
mtkit.inspect(g.name)["architecture"] == g["general.architecture"]
mtkit.check(g.name).exit_code in (0, 1)
mtkit.compare(tok, tok).equal
mtkit.diff(g.name, g.name).equal
m.generate("Hello", n_predict=4).text == "".join(m.stream("Hello", n_predict=4))
len(m.generate("Hello", n_predict=4).ids) == 4
m.generate("Hello", n_predict=4).end == "length"
m.generate("Hello", max_tokens=4)
m.generate("Hello", tokens=4).ids == m.generate("Hello", n_predict=4).ids
m.generate("Hello", temp=0.7, seed=1, n_predict=4).ids == m.generate("Hello", temperature=0.7, seed=1, n_predict=4).ids
m.chat("Hi", n_predict=4).message["role"] == "assistant"
m.chat([{"role": "user", "content": "Hi"}], n_predict=4).content == m.chat("Hi", n_predict=4).content
m.embed("Hello").shape == m.embed(["Hello"])[0].shape
m.logits("Hello").shape[1] == m.tokenizer.vocab_size
m.tokenizer.decode(m.generate("Hello", n_predict=4).ids) == m.generate("Hello", n_predict=4).text
m.plan.host > 0 and "message" in m.template
tok.encode("Hello").attention_mask == [1] * len(tok.encode("Hello"))
tok.encode("Hello you").offsets[0][0] == 0
tok.encode("Hello", add_special_tokens=False).ids == tok.encode_ids("Hello", add_special_tokens=False)
len(tok.encode("Hello").special_tokens_mask) == len(tok.encode("Hello"))
len(tok.encode("Hello world again", truncation=3)) == 3
tok.decode([5], skip_special_tokens=False) == tok.decode([5])
isinstance(tok.decode_stream().push(5), str)
mtkit.explain("Hello").ids == tok.encode_ids("Hello")
"tokens" in str(mtkit.explain("Hello", tok)) and mtkit.explain("Hello").svg.startswith("<svg")
tt.decode(tt.encode("Hello")) == "Hello"
tt.encode("Hello") == tt.encode_ordinary("Hello")
tt.n_vocab == len(tok)
b"".join(tt.decode_tokens_bytes(tt.encode("Hello"))) == b"Hello"
tt.encode_batch(["a", "b"])[0] == tt.encode("a")
tt.encode("<|im_end|>", allowed_special={"<|im_end|>"}) == tt.encode("<|im_end|>", allowed_special="all")
"<|im_end|>" in tt.special_tokens_set
mtkit.tiktoken.__version__.endswith("+mtkit." + mtkit.__version__)
"cl100k_base" in mtkit.tiktoken.list_encoding_names()
np.array(g.tensors["token_embd.weight"]).shape == g.tensors["token_embd.weight"].numpy().shape
g.tensors[0].type.name and g.tensors[0].shape and g.alignment == 32 and g.data_offset > 0
dict(g.metadata.items())["general.architecture"] in g.metadata.values()
m.generate("Hello", stop=["e"], n_predict=9).text.count("e") == 0
m.generate("Hello", top_k=5, top_p=0.9, min_p=0.1, repeat_penalty=1.1, temperature=1, seed=1, n_predict=4).ids
m.generate("Hello", grammar='root ::= "ab"', n_predict=4).text == "ab"
int(m.generate("Hello", json_schema='{"enum": [7]}', n_predict=9).text) == 7
m.generate(m.tokenizer.encode_ids("Hello"), n_predict=4).ids == m.generate("Hello", n_predict=4).ids
m.generate("Hello", n_predict=4).timings.prompt_tokens > 0
next(iter(m.stream("Hello", n_predict=4))) is not None
"".join(m.stream_chat("Hi", n_predict=4)) == m.chat("Hi", n_predict=4).content
m.chat([{"role": "user", "content": [{"type": "text", "text": "Hi"}]}], n_predict=4).content == m.chat("Hi", n_predict=4).content
m.perplexity("Hello world " * 200).perplexity > 1
mtkit.generate("Hello", n_predict=4).ids == m.generate("Hello", n_predict=4).ids
mtkit.edit(m.path, folder / "named.gguf", keys={"general.name": "x"})["general.name"] == "x"
mtkit.Model("nothing.gguf")
m.chat([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x.png"}}]}])
m.generate(["a", "b"])
tok.encode("Hello", max_length=3)
mtkit.count(["a", "b"])
mtkit.convert(m.path, folder / "a.safetensors")
mtkit.convert(m.path, folder / "x.gguf", kind="q8_0")
mtkit.load("nothing.json")
mtkit.load("https://example.com/tokenizer.json")
g["general.architectur"]
g.tensors["token_embd.weigh"]
tok.vocab["no such token"]
tok.decode([10**9])
tok.decode(5) == tok.decode([5]) == tok.decode(np.int64(5))
tok.decode(5.5)
tok.decode(10**9)
mtkit.GgufFile(g.name)
m.chat("Hi", n_predict=1)["choices"][0]["message"]["content"]
m.chat("Hi", n_predict=1)["content"]
m.generate("Hi", n_predict=1)["text"]
m.generate("Hi", n_predict=1)["choices"][0]["text"]
m.generate("Hi", n_predict=1)[0]
mtkit.hf.AutoTokenizer.from_pretrained("gpt2")
chat("Hi")
m.generate("Hi", tools=[])
mtkit.load(g).encode_ids("Hello") == m.tokenizer.encode_ids("Hello") == mtkit.load(m).encode_ids("Hello")
mtkit.diff(g, m).equal and mtkit.check(tok).exit_code == 0 and mtkit.inspect(g)["kind"] == "gguf"
mtkit.Model(g, n_ctx=64, trial=False).close() is None
m.chat("Hi", n_predict=2).message["content"] == m.chat("Hi", n_predict=2).content
repr(m.stream("a")).startswith("<Stream")
tok._repr_html_() and g._ipython_key_completions_()[0] in g
g.tensors._ipython_key_completions_()[0] in g.tensors
mtkit.Model(model=g.name)
m.chat({"role": "user", "content": "Hi"})
m.chat([("user", "Hi")])
m.chat(["Hi"])
g["token_embd.weight"]
g.tensors[0][0]
g.tensors[0][0:2]
tok.encode("Hello")[0]
""".strip().splitlines()  # noqa: E501
ADVICE = {
    'm.generate("Hello", max_tokens=4)': "here: n_predict",
    'm.chat([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x.png"}}]}])': r"messages\[0\].content\[0\]: is image_url, but",  # noqa: E501
    'm.generate(["a", "b"])': "call it for each text",
    'tok.encode("Hello", max_length=3)': "known: add_special_tokens, .*truncation",
    'mtkit.count(["a", "b"])': "encode_batch_ids",
    'mtkit.convert(m.path, folder / "a.safetensors")': "hf-model for safetensors",
    'mtkit.convert(m.path, folder / "x.gguf", kind="q8_0")': "mtkit.quantize",
    'mtkit.Model("nothing.gguf")': "name a .gguf file",
    'mtkit.load("nothing.json")': "no such file",
    'mtkit.load("https://example.com/tokenizer.json")': "download|URL|no such file",
    'g["general.architectur"]': "did you mean general.architecture",
    'g.tensors["token_embd.weigh"]': "did you mean token_embd.weight",
    'tok.vocab["no such token"]': "no such token",
    "tok.decode([10**9])": "the vocabulary has ids 0 to",
    "tok.decode(5.5)": "float",
    "tok.decode(10**9)": "the vocabulary has ids 0 to",
    "mtkit.GgufFile(g.name)": r"here: mtkit.open_gguf\(PATH\)",
    'm.chat("Hi", n_predict=1)["choices"][0]["message"]["content"]': "here: content",
    'm.chat("Hi", n_predict=1)["content"]': "here: .content",
    'm.generate("Hi", n_predict=1)["text"]': "here: .text",
    'm.generate("Hi", n_predict=1)["choices"][0]["text"]': "here: text",
    'm.generate("Hi", n_predict=1)[0]': "not subscriptable$",
    'mtkit.hf.AutoTokenizer.from_pretrained("gpt2")': "here: mtkit.hf.from_pretrained",
    'chat("Hi")': "here: with mtkit.Model",
    'm.generate("Hi", tools=[])': "here: tools of chat",
    "mtkit.Model(model=g.name)": "here: the first argument",
    'm.chat({"role": "user", "content": "Hi"})': "is not a list of messages",
    'm.chat([("user", "Hi")])': r"messages\[0\]: is not an object with role",
    'm.chat(["Hi"])': r"messages\[0\]: is not an object with role",
    'g["token_embd.weight"]': "here: tensors",
    "g.tensors[0][0]": "here: numpy",
    "g.tensors[0][0:2]": "here: numpy",
    'tok.encode("Hello")[0]': "here: ids",
}


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> Any:
    reference("llama_cpp")
    with package.Model(n_ctx=256) as model, package.open_gguf(model.path) as file:
        yield {
            "mtkit": package, "np": np, "TEXT": TEXT, "tok": package.load(),
            "tt": package.tiktoken.from_file(package.load().source), "g": file, "m": model,
            "folder": tmp_path_factory.mktemp("idioms"), "chat": chat,
        }  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_line(line: str, names: Any) -> None:
    if line not in ADVICE:
        assert eval(line, names)
        return
    with pytest.raises((MtkitError, AttributeError, KeyError, TypeError)) as error:
        eval(line, names)
    assert re.search(ADVICE[line], str(error.value)), error.value


def test_names_of_other_libraries_say_what_is_typed_here(names: Any) -> None:
    m, tok = names["m"], names["tok"]
    stream = m.stream("Hello", n_predict=1)
    owners = [
        package, package.hf, tok, tok.encode("a"), names["g"], names["g"].tensors[0], m, stream,
        m.generate("Hello", n_predict=1), m.chat("Hello", n_predict=1), package.explain("a"),
    ]  # fmt: skip
    by_name = {getattr(o, "__name__", type(o).__name__): o for o in owners}
    assert by_name.keys() == INSTEAD.keys()
    for owner, missing in INSTEAD.items():
        for name, instead in missing.items():
            if name not in ("chat", "()", "[]"):  # mtkit.chat is a package, once it is imported
                with pytest.raises(AttributeError, match="; here: " + re.escape(instead)):
                    getattr(by_name[owner], name)
    with pytest.raises(AttributeError, match=r"type object 'Tokenizer'.*here: mtkit.load"):
        package.Tokenizer.from_file("a")  # type: ignore[attr-defined]
    assert not hasattr(tok, "nothing")
    for name, missing in ARGUMENTS.items():
        owner = m if name == "Model.embed" else package
        for argument, instead in missing.items():
            if argument.isidentifier():
                with pytest.raises(TypeError, match="; here: " + re.escape(instead)):
                    getattr(owner, name.rpartition(".")[2])("a", **{argument: 1})
    for mode in ("r", "r+"):
        with pytest.raises(TypeError, match=r"; here: .*mtkit\.edit"):
            package.open_gguf(m.path, mode)  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"nothing'$"):
        package.edit("a", nothing=1)  # type: ignore[call-arg]
    for called in (tok, m):
        with pytest.raises(TypeError, match="not callable; here: "):
            called("Hello")  # type: ignore[operator]
    for name, instead in SETTINGS.items():
        with pytest.raises(MtkitError, match="here: " + re.escape(instead)):
            m.generate("Hello", **{name: 1})


def test_there_are_enough() -> None:
    assert len(LINES) >= 100
    assert set(LINES) >= ADVICE.keys()


def test_advice_fits_the_place(mtkit: Run, tmp_path: Path) -> None:
    """Python names arguments, a shell options."""
    path, made = FIXTURES / "spm-bpe" / "tokenizer.model", tmp_path / "made.mtok"
    package.convert(path, made)
    pairs: list[tuple[Callable[[], object], tuple[object, ...], str, str]] = [
        (lambda: package.convert(path, made), ("convert", path, made), "--force", "force=True"),
        (lambda: package.convert(made, made), ("convert", made, made), "use -o", "another dst"),
        (lambda: package.load("nothing"), ("encode", "a", "-t", "nothing"), "or -", "or a folder;"),
        (lambda: package.Model(kv_type="q9"), ("generate", "a", "--kv-type", "q9"),  # type: ignore[arg-type]
         "--kv-type", "kv_type"),
        (lambda: package.generate("word " * 9, n_ctx=8), ("generate", "word " * 9, "--ctx", 8),
         "--ctx 1", "n_ctx=1"),
        (lambda: package.quantize("a", "b", "Q9"), ("quantize", "a", "b", "Q9"), "--type", "kind"),
    ]  # fmt: skip
    for call, words, shell, python in pairs:
        with pytest.raises(MtkitError) as error:
            call()
        text = mtkit(*words).stderr.decode()
        assert python in str(error.value), error.value
        assert shell not in str(error.value)
        assert shell in text, text
        assert python not in text


def test_the_notebook() -> None:
    """Its cells run, and what each ends with is a picture; without Jupyter, which takes seconds."""
    path = Path(__file__).parents[2] / "examples" / "notebook.ipynb"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    pictures = 0
    for cell in cells:
        if cell["cell_type"] == "code":
            assert not cell["outputs"]
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, "cell", "exec"), names)
            if isinstance(last, ast.Expr):
                value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
                pictures += hasattr(value, "_repr_html_")
    assert pictures >= 11


def test_a_notebook_shows_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    handle = SimpleNamespace(update=shown.append)

    def display(picture: str, *, display_id: bool) -> object:
        assert display_id
        shown.append(picture)
        return handle

    kernel = SimpleNamespace(kernel=1)
    ipython: Any = SimpleNamespace(
        get_ipython=lambda: kernel, display=SimpleNamespace(HTML=str, display=display)
    )
    clock = iter([0.0, 0.5, 1.5, 1.6, 2.0, 3.0, 10.0, 10.1])
    monkeypatch.setattr(notebook.time, "monotonic", lambda: next(clock))
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    progress = notebook.Progress("convert")
    for count in (1, 2, 3, 4, 10):
        progress.count(count, 10)
    assert ["20%" in shown[0], "40%" in shown[1], "100%" in shown[2]] == [True] * 3
    assert len(shown) == 3  # not before a second, nor twice at once
    notebook.Progress("quick")(1)
    kernel.__dict__.clear()  # IPython in a terminal
    assert len(shown) == 3


def test_a_closed_file(names: Any) -> None:
    with package.open_gguf(names["g"].name) as file:
        tensor = file.tensors[0]
        rows = tensor.numpy()
    assert rows.size == tensor.n_elements
    with pytest.raises(MtkitError, match="is closed"):
        tensor.numpy()


def test_pictures_are_small_escaped_and_without_scripts(names: Any, tmp_path: Path) -> None:
    tok, g, m = names["tok"], names["g"], names["m"]
    hostile = "<script>alert(1)</script>\x1b[31m\"'&"
    pictures = {
        "tokenizer": tok, "encoding": tok.encode(hostile), "gguf": g, "tensors": g.tensors,
        "check": package.check(g.name), "compare": package.compare(tok, m.tokenizer, [hostile]),
        "diff": package.diff(g.name, g.name),
        "explain": package.explain(hostile, tok), "convert": tok.save(tmp_path / "a.mtok"),
        "generation": m.generate(hostile, n_predict=8, logprobs=True),
        "reply": m.chat(hostile, n_predict=8),
    }  # fmt: skip
    for name, value in pictures.items():
        html = value._repr_html_()
        assert html.startswith("<div"), name
        assert "<script" not in html, name
        assert "\x1b" not in html, name
        assert len(html) < 100_000, name
        assert html.count("<div") == html.count("</div>"), name
    assert "probability" in pictures["generation"]._repr_html_()
    assert "&lt;" in pictures["encoding"]._repr_html_()
    many = tok.encode("word " * 5000)._repr_html_()
    assert "more" in many
    assert len(many) < 600_000
