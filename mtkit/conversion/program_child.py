"""Another program's tokenizer library, in a process of its own: ``mtkit.conversion.programs``.

From standard input comes one JSON object: the texts, and of each the ids to decode. A line of JSON
goes back for the file, and one for each text as soon as it is answered, so that what ends the
process is known. Libraries write what they like to standard output and error: neither is used.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Encode = Callable[[str], list[int]]

    Opened = tuple[str, Encode, Encode | None, Callable[[list[int]], str] | None]

    """What it is, ids alone, ids with what stands around a text, and decoding."""


def _transformers(path: str, _: str) -> Opened:
    import os

    import transformers

    library: Any = transformers
    folder, name = os.path.split(path)
    if name in ("tokenizer.json", "vocab.json", "vocab.txt"):
        read = library.AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    else:
        read = library.PreTrainedTokenizerFast(tokenizer_file=path)
    return (
        f"transformers {library.__version__}, {type(read).__name__}",
        lambda text: list(read(text, add_special_tokens=False, verbose=False)["input_ids"]),
        lambda text: list(read(text, verbose=False)["input_ids"]),
        lambda ids: str(read.decode(ids, skip_special_tokens=False)),
    )


def _executorch(path: str, kind: str) -> Opened:
    import pytorch_tokenizers as library

    names = {"hf": "CppHFTokenizer", "spm": "CppSPTokenizer", "llama2c": "CppLlama2cTokenizer"}
    read = getattr(library, names[kind])()
    read.load(path)
    whole = getattr(read, "decode_batch", None)
    return (
        f"pytorch-tokenizers {library.__version__}",
        lambda text: list(read.encode(text, 0, 0)),
        None,  # how many BOS and EOS stand around a text, its caller says
        None if whole is None else lambda ids: str(whole(ids)),
    )


def _onnxruntime(path: str, _: str) -> Opened:
    import os

    import onnxruntime_extensions
    from onnxruntime_extensions.pp_api import Tokenizer

    folder = os.path.dirname(path)
    alone = Tokenizer(folder, {"add_special_tokens": False, "skip_special_tokens": False})
    around = Tokenizer(folder, {"add_special_tokens": True})
    return (
        f"onnxruntime-extensions {onnxruntime_extensions.__version__}",
        lambda text: list(map(int, alone.tokenize(text))),
        lambda text: list(map(int, around.tokenize(text))),
        lambda ids: str(alone.detokenize(ids)[0]),
    )


def _sentencepiece(path: str, _: str) -> Opened:
    import sentencepiece

    read = sentencepiece.SentencePieceProcessor(model_file=path)
    return (
        f"sentencepiece {sentencepiece.__version__}",
        lambda text: list(read.encode(text)),
        None,  # how many BOS and EOS stand around a text, its caller says
        lambda ids: str(read.decode(ids)),
    )


_OPEN: Mapping[str, Callable[[str, str], Opened]] = {
    "transformers": _transformers,
    "executorch": _executorch,
    "onnxruntime": _onnxruntime,
    "sentencepiece": _sentencepiece,
}


def main(program: str, kind: str, path: str) -> None:
    """Answer for one file; ``kind`` is the name of its format."""
    import json
    import os
    import sys

    answers = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what libraries print must not stand between the answers

    def tell(**what: Any) -> None:
        answers.write(json.dumps(what) + "\n")
        answers.flush()

    asked = json.load(sys.stdin)
    try:
        name, alone, around, decode = _OPEN[program](path, kind)
    except ImportError as error:
        tell(missing=str(error))
        return
    except Exception as error:  # noqa: BLE001  each library has errors of its own
        tell(refused=_error_text(error))
        return
    tell(name=name)
    for text, ids in asked:
        try:
            found = alone(text)
            more = around(text) if around is not None else None
        except Exception as error:  # noqa: BLE001  as above
            tell(error=_error_text(error))
            continue
        try:
            back = decode(ids) if decode is not None and ids else None
        except Exception as error:  # noqa: BLE001  as above
            tell(ids=found, around=more, undecoded=_error_text(error))
        else:
            tell(ids=found, around=more, text=back)


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
