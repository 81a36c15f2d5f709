"""Make ``docs/python.md`` of the docstrings of what ``mtkit`` exports."""

from __future__ import annotations

import inspect
import re
import textwrap

import mtkit
import mtkit.hf
import mtkit.tiktoken
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

_HEAD = """\
# Python reference

The names that `import mtkit` provides, all of them typed. Each is imported on first use.

Count tokens, and go from text to ids and back:

```python
import mtkit

tokenizer = mtkit.load("tokenizer.json")
print(mtkit.count("Hello, world!", tokenizer))
ids = tokenizer.encode_ids("Hello")
assert tokenizer.decode(ids) == tokenizer.decode(tokenizer.encode("Hello")) == "Hello"
batch = tokenizer.encode_batch_ids(["one text", "another"])
assert tokenizer.decode_batch(batch) == ["one text", "another"]
print(tokenizer.eos_token, tokenizer.vocab.get("Hello"), "Hello" in tokenizer)
```

Keep a model open, and talk with it:

```python
import mtkit

with mtkit.Model("model.gguf", n_ctx=256) as model:
    print(model.generate("Once upon a time", n_predict=10).text)
    for text in model.stream("Once", n_predict=10, temperature=0.8, seed=1):
        print(text, end="", flush=True)

with mtkit.Model() as model:  # the small model that ships with mtkit
    messages = []
    for question in ("Hello!", "And then?"):
        messages.append({"role": "user", "content": question})
        reply = model.chat(messages, n_predict=20)
        messages.append(reply.message)
        print(reply.content)
```

Embed and search:

```python
import mtkit

texts = ["The cat sleeps.", "Water boils at 100 degrees.", "Paris is a city."]
with mtkit.Model("model.gguf") as model:
    scores = model.embed(texts) @ model.embed("Where is Paris?")
print(texts[scores.argmax()])
```

Convert a model, and look at a tensor:

```python
import mtkit

done = mtkit.convert("model.gguf", "model-back", to="hf-model", allow_loss=["ids"])
print(done.path, [loss.effect for loss in done.losses])
with mtkit.open_gguf("model.gguf") as file:
    print(file["general.architecture"])
    print(file.tensors["token_embd.weight"].numpy().mean())
```

Which call encodes how:

| call | returns | for a text of 1,000 tokens |
|---|---|---|
| `encode_ids` | a list of ids | the fastest for one text |
| `encode_array` | ids as an int32 buffer | without a Python object per id |
| `encode_offsets` | ids and places, numpy arrays | hardly more than ids |
| `encode` | an `Encoding`: ids, tokens, offsets, masks | about thirty times the time of ids |
| `encode_batch_ids` | a list of lists | several texts, also in threads |
| `encode_batch_arrays` | one array of ids, and where each starts | the fastest for many texts |
| `encode_batch` | a list of `Encoding`, padded if asked for | as `encode`, for each |

In a notebook, tokenizers, encodings, files, reports, conversions and generations show themselves
as pictures and tables. A `GgufFile`, a `Tokenizer` or a `Model` can stand for a path; its file is
read.

The commands as functions, which return what the commands print:

```python
import mtkit

what = mtkit.inspect("model.gguf")
print(what["architecture"], what["parameters"])
for finding in mtkit.check("model.gguf").findings:
    print(finding)

done = mtkit.convert("tokenizer.json", "made.mtok")
print(done.path, [loss.effect for loss in done.losses])
same = mtkit.compare("tokenizer.json", "made.mtok")
assert same.equal, same.differences

mtkit.edit("model.gguf", "renamed.gguf", keys={"general.name": "renamed"})
changes = mtkit.diff("model.gguf", "renamed.gguf").keys
assert [change.key for change in changes] == ["general.name"]

folder = mtkit.convert("model.gguf", "model-folder", to="hf-model", allow_loss=["ids"])
mtkit.convert("model-folder", "again.gguf", kind="f16", allow_loss=["ids-possible"])
mtkit.quantize("again.gguf", "again-q8.gguf", "Q8_0")
```

Errors are exceptions of the classes at the end of this page, all of them `mtkit.MtkitError`; their
text is the line that the command prints.
"""
_WIDTH = 88
_MOST = 12


def reference() -> str:
    """Return ``docs/python.md``."""
    exported = [(name, getattr(mtkit, name)) for name in mtkit.__all__]
    functions = [(name, found) for name, found in exported if inspect.isfunction(found)]
    classes = [(name, found) for name, found in exported if inspect.isclass(found)]
    out = [_HEAD, "## Functions\n"]
    for name, function in functions:
        out += [f"### mtkit.{name}\n", *_described(function, f"mtkit.{name}")]
    for module in (mtkit.hf, mtkit.tiktoken):
        out += [f"## `{module.__name__}`\n", *_documentation(module)]
        for name in module.__all__:
            found = getattr(module, name)
            if inspect.isfunction(found):
                full = f"{module.__name__}.{name}"
                out += [f"### {full}\n", *_described(found, full)]
    out.append("## Classes\n")
    for name, kind in classes:
        if issubclass(kind, MtkitError):
            continue
        out += [f"### mtkit.{name}\n", *_documentation(kind)]
        for member, found in _members(kind):
            out += [f"#### {name}.{member}\n", *_described(found, member)]
    out += ["## Errors\n", "| error | exit code of the command | when |", "|---|---|---|"]
    for name, kind in sorted(classes, key=lambda entry: len(entry[1].mro())):
        if issubclass(kind, MtkitError):
            meaning = _marked(inspect.cleandoc(kind.__doc__ or "").partition("\n\n")[0])
            out.append(f"| `{name}` | {kind.exit_code} | {' '.join(meaning.split())} |")
    return "\n".join([*out, ""])


def _members(kind: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties that a class itself has, in the order of the source."""
    for name, found in vars(kind).items():
        plain = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
        if not name.startswith("_") and (inspect.isfunction(plain) or isinstance(plain, property)):
            yield name, plain


def _described(found: Any, name: str) -> Iterator[str]:
    if isinstance(found, property):
        shown = f"{name}: {found.fget.__annotations__['return']}"
    else:
        shown = _signature(found, name)
    yield f"```py\n{shown}\n```\n"
    yield from _documentation(found)


def _signature(function: Callable[..., Any], name: str) -> str:
    """Return a signature as source has it; one parameter a line where it is long.

    Left out are ``self`` and the keywords that the docstring leaves to another document.
    """
    signature = inspect.signature(function)
    explained = re.findall(r"^ +(\w+):", function.__doc__ or "", re.M)
    parameters = [one for one in signature.parameters.values() if one.name != "self"]
    if len(parameters) > _MOST:
        code = getattr(function, "__code__", None)
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
        named = [one for one in parameters if one.name in (*explained, *own)]
        settings = inspect.Parameter("settings", inspect.Parameter.VAR_KEYWORD)
        parameters = named if named == parameters else [*named, settings]
    plain = _unquoted(str(signature.replace(parameters=parameters)))
    if len(name) + len(plain) <= _WIDTH:
        return name + plain
    lines, starred = [], False
    for one in parameters:
        if one.kind is one.KEYWORD_ONLY and not starred:
            lines.append("*,")
            starred = True
        lines.append(_unquoted(f"{one},"))
    returned = _unquoted(f" -> {signature.return_annotation}")
    return f"{name}(\n{textwrap.indent(chr(10).join(lines), '    ')}\n){returned}"


def _unquoted(text: str) -> str:
    """Take the quotes from annotations, which are strings here; defaults keep theirs."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", text).replace("'", '"')


def _documentation(found: object) -> Iterator[str]:
    """Yield a docstring's paragraphs; entries of Args, Attributes and Raises become a list."""
    for block in inspect.cleandoc(found.__doc__ or "").split("\n\n"):
        heading, _, rest = block.partition("\n")
        if heading not in {"Args:", "Attributes:", "Raises:", "Returns:"}:
            yield _marked(block) + "\n"
            continue
        entries = re.split(r"\n(?=\S)", textwrap.dedent(rest))
        if heading != "Args:":
            yield f"{heading}\n"
        if heading == "Returns:":
            yield _marked(" ".join(rest.split())) + "\n"
            continue
        for entry in entries:
            name, _, meaning = entry.partition(":")
            yield f"- `{name}`: {_marked(' '.join(meaning.split()))}"
        yield ""


def _marked(text: str) -> str:
    return text.replace("``", "`")
