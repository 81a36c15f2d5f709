"""Another program's tokenizer library in its own process, started by ``mtkit.conversion.programs``.

Standard input has one JSON array: each text with the ids to decode. A line of JSON goes back for
the file, and one for each text as soon as it is answered, so that the text that ends the process is
known. Libraries print to standard output and error as they like: the answers go to a copy of the
descriptor.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Encode = Callable[[str], list[int]]

    Library = tuple[str, Encode, Encode | None, Callable[[list[int]], str] | None]

    """Its name, encoding without and with special tokens around a text, and decoding."""


def _transformers(path: str, _: str) -> Library:
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


def _executorch(path: str, kind: str) -> Library:
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


def _onnxruntime(path: str, _: str) -> Library:
    import os

    import onnxruntime_extensions
    from onnxruntime_extensions.pp_api import Tokenizer

    folder = os.path.dirname(path)
    plain = Tokenizer(folder, {"add_special_tokens": False, "skip_special_tokens": False})
    framed = Tokenizer(folder, {"add_special_tokens": True})
    return (
        f"onnxruntime-extensions {onnxruntime_extensions.__version__}",
        lambda text: list(map(int, plain.tokenize(text))),
        lambda text: list(map(int, framed.tokenize(text))),
        lambda ids: str(plain.detokenize(ids)[0]),
    )


def _sentencepiece(path: str, _: str) -> Library:
    import sentencepiece

    read = sentencepiece.SentencePieceProcessor(model_file=path)
    return (
        f"sentencepiece {sentencepiece.__version__}",
        lambda text: list(read.encode(text)),
        None,  # how many BOS and EOS stand around a text, its caller says
        lambda ids: str(read.decode(ids)),
    )


_OPEN: Mapping[str, Callable[[str, str], Library]] = {
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

    def reply(**fields: Any) -> None:
        answers.write(json.dumps(fields) + "\n")
        answers.flush()

    requests = json.load(sys.stdin)
    try:
        name, encode, encode_framed, decode = _OPEN[program](path, kind)
    except ImportError as error:
        reply(missing=str(error))
        return
    except Exception as error:  # noqa: BLE001  each library has errors of its own
        reply(refused=_error_text(error))
        return
    reply(name=name)
    for text, ids in requests:
        try:
            plain = encode(text)
            framed = encode_framed(text) if encode_framed is not None else None
        except Exception as error:  # noqa: BLE001  as above
            reply(error=_error_text(error))
            continue
        try:
            back = decode(ids) if decode is not None and ids else None
        except Exception as error:  # noqa: BLE001  as above
            reply(ids=plain, around=framed, undecoded=_error_text(error))
        else:
            reply(ids=plain, around=framed, text=back)


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
