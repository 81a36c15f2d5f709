"""The libraries that are measured: how each loads a file, encodes and decodes.

Ids come in whatever form is fastest for the library: an array where it has one. A Python file
given with ``--peers`` adds its own subclasses of ``Library``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any


class Library:
    """One library. What it lacks is None and not measured.

    Attributes:
        name: Its name, of the package too.
        module: The module that is imported; "": its name.
        reads: Names of formats that it reads, in the order in which they are tried.
    """

    name = ""
    module = ""
    reads: tuple[str, ...] = ("hf",)
    decode: Callable[[Any, list[int]], object] | None = None
    offsets: Callable[[Any, str], object] | None = None

    def prepare(self) -> None:
        """Import what loading needs; starts no threads: measurements are forked."""
        from importlib import import_module

        import_module(module_of(self))

    def load(self, path: str) -> Any:
        """Return what encodes, from a file."""
        raise NotImplementedError

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        """Return the ids of a text, without special tokens around it."""
        raise NotImplementedError

    def listed(self, loaded: Any, text: str) -> list[int]:
        """Return the same as a list of Python's numbers."""
        return list(self.ids(loaded, text))

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:
        """Encode many texts; with threads where the library has none of its own: Python's."""
        if threads == 1:
            return [self.ids(loaded, text) for text in texts]
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(lambda text: self.ids(loaded, text), texts))


class _Mtkit(Library):
    name = "mtkit"
    reads = ()  # every format

    def load(self, path: str) -> Any:
        from mtkit.tokenizer.load import load

        return load(path)

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: Sequence[int] = loaded.encode_array(text, add_special_tokens=False)
        return found

    def listed(self, loaded: Any, text: str) -> list[int]:
        found: list[int] = loaded.encode_ids(text, add_special_tokens=False)
        return found

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:
        return loaded.encode_batch_arrays(texts, threads=threads, add_special_tokens=False)

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids, skip_special_tokens=False)

    def offsets(self, loaded: Any, text: str) -> object:
        return loaded.encode_offsets(text, add_special_tokens=False)[1]


class _Tokenizers(Library):
    name = "tokenizers"

    def load(self, path: str) -> Any:
        from tokenizers import Tokenizer

        loaded = Tokenizer.from_file(path)
        loaded.no_truncation()
        loaded.no_padding()
        return loaded

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: list[int] = loaded.encode(text, add_special_tokens=False).ids
        return found

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:  # noqa: ARG002  by environment
        many = loaded.encode_batch_fast(texts, add_special_tokens=False)
        return [encoding.ids for encoding in many]

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids, skip_special_tokens=False)

    def offsets(self, loaded: Any, text: str) -> object:
        return loaded.encode(text, add_special_tokens=False).offsets


class _Transformers(Library):
    """What the article calls HuggingFace: tokenizers, as people call it, through transformers."""

    name = "transformers"

    def prepare(self) -> None:
        self._class()

    @staticmethod
    def _class() -> Any:
        """Return the class, whose modules are not imported before it is asked for."""
        import transformers

        return transformers.PreTrainedTokenizerFast

    def load(self, path: str) -> Any:
        return self._class()(tokenizer_file=path)

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: list[int] = loaded.encode(text, add_special_tokens=False)
        return found

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:  # noqa: ARG002  by environment
        return loaded(texts, add_special_tokens=False).input_ids

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids, clean_up_tokenization_spaces=False)

    def offsets(self, loaded: Any, text: str) -> object:
        found = loaded(text, add_special_tokens=False, return_offsets_mapping=True)
        return found.offset_mapping


class _Gigatoken(Library):
    name = "gigatoken"

    def load(self, path: str) -> Any:
        from gigatoken import Tokenizer

        return Tokenizer(path)

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: Sequence[int] = loaded.encode(text)
        return found

    def listed(self, loaded: Any, text: str) -> list[int]:
        found: list[int] = loaded.encode(text).tolist()
        return found

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:
        return loaded.encode_batch(texts, parallel=threads > 1)

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids).decode("utf-8", "replace")


class _Snaptokens(Library):
    name = "snaptokens"

    def load(self, path: str) -> Any:
        from snaptokens import Tokenizer

        return Tokenizer.from_file(path)

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: list[int] = loaded.encode(text).ids
        return found

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:  # noqa: ARG002  by environment
        return loaded.encode_batch_flat(texts)

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids)


class _Nanotoken(Library):
    name = "nanotoken"

    def load(self, path: str) -> Any:
        from nanotoken import Tokenizer

        return Tokenizer(path)

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: Sequence[int] = loaded.encode(text, add_special_tokens=False)
        return found

    def listed(self, loaded: Any, text: str) -> list[int]:
        found: list[int] = loaded.encode(text, add_special_tokens=False).tolist()
        return found

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:
        return loaded.encode_batch(texts, add_special_tokens=False, parallel=threads > 1)

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids)


class _Tiktoken(Library):
    name = "tiktoken"
    reads = ("tiktoken",)

    def load(self, path: str) -> Any:
        import json
        import os

        from tiktoken import Encoding
        from tiktoken.load import load_tiktoken_bpe

        os.environ["TIKTOKEN_CACHE_DIR"] = ""  # the file is read, not a copy of it
        with open(os.path.join(os.path.dirname(path), "pattern.json"), encoding="utf-8") as file:
            pattern = json.load(file)["pattern"]
        return Encoding(
            "bench", pat_str=pattern, mergeable_ranks=load_tiktoken_bpe(path), special_tokens={}
        )

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: list[int] = loaded.encode_ordinary(text)
        return found

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids)


class _SentencePiece(Library):
    name = "sentencepiece"
    reads = ("spm",)

    def load(self, path: str) -> Any:
        from sentencepiece import SentencePieceProcessor

        return SentencePieceProcessor(model_file=path)

    def ids(self, loaded: Any, text: str) -> Sequence[int]:
        found: list[int] = loaded.encode(text)
        return found

    def batch(self, loaded: Any, texts: list[str], threads: int) -> object:
        return loaded.encode(texts, num_threads=threads)

    def decode(self, loaded: Any, ids: list[int]) -> object:
        return loaded.decode(ids)

    def offsets(self, loaded: Any, text: str) -> object:
        if hasattr(loaded, "encode_as_offset_mapping"):
            return loaded.encode_as_offset_mapping(text)
        pieces = loaded.encode(text, out_type="immutable_proto").pieces  # of older versions
        return [(piece.begin, piece.end) for piece in pieces]


OWN = "mtkit"
REFERENCES = {"hf": "tokenizers", "spm": "sentencepiece", "tiktoken": "tiktoken"}
"""Format -> the library whose ids are right."""
LIBRARIES: dict[str, Library] = {
    made.name: made
    for made in (_Mtkit(), _Tokenizers(), _Transformers(), _Gigatoken(), _Snaptokens(),
                 _Nanotoken(), _Tiktoken(), _SentencePiece())
}  # fmt: skip


def module_of(library: Library) -> str:
    """Return the name of the module that a library is."""
    return library.module or library.name


def from_file(path: str) -> dict[str, Library]:
    """Return the libraries that a Python file describes.

    Raises:
        UsageError: There are none.
    """
    import runpy

    found = runpy.run_path(path).values()
    classes = [x for x in found if isinstance(x, type) and issubclass(x, Library) and x.name]
    if not classes:
        from mtkit.errors import UsageError

        what = "has no subclass of benchmarks.peers.libraries.Library with a name"
        raise UsageError(what, source=path, field="--peers")
    return {made.name: made() for made in classes}


def named(name: str, path: str) -> Library:
    """Return a library of this module, or of a file."""
    return from_file(path)[name] if path else LIBRARIES[name]


def file_for(library: Library, files: Mapping[str, str], given: str) -> str | None:
    """Return the file that a library reads, None where there is none."""
    if not library.reads:
        return given
    return next((files[name] for name in library.reads if name in files), None)
