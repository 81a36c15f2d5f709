"""A HuggingFace model folder as one GGUF that llama.cpp runs.

config.json gives the metadata, safetensors the weights, the tokenizer goes the way of every
conversion: what would be lost is named or refused, and what was written is compared on the built-in
texts before the file appears. Weights are streamed from the mapped files.
"""

from __future__ import annotations

import os

from mtkit.base.counted import Counted
from mtkit.base.record import Record, replace
from mtkit.checkpoints.folder_files import files_in
from mtkit.conversion import model_keys
from mtkit.conversion.convert import Conversion, Model
from mtkit.conversion.gguf_plan import plan_gguf
from mtkit.conversion.model_vocabulary import model_vocabulary
from mtkit.conversion.targets import make_folder, same_file
from mtkit.errors import UsageError
from mtkit.gguf.draft import Draft
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.in_place import write_ggufs
from mtkit.gguf.shard_files import cut, numbered
from mtkit.gguf.writer import Key
from mtkit.sources import hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from mtkit.conversion.gguf_plan import GgufPlan
    from mtkit.conversion.model_vocabulary import ModelVocabulary
    from mtkit.formats.contract import WriteOptions

NAME = "general.name"


class Prepared(Record):
    """A GGUF that is to be written.

    Attributes:
        plan: How the folder becomes it.
        draft: What it holds; tensors are made as they are written.
        vocabulary: Its tokenizer, which is proved.
    """

    plan: GgufPlan
    draft: Draft
    vocabulary: ModelVocabulary

    def conversion(self, paths: Sequence[str]) -> Conversion:
        """Return what was done, once the files are there."""
        plan, tensors = self.plan, self.draft.tensors.values()
        return Conversion(
            path=paths[0],
            paths=tuple(paths),
            format_name="gguf",
            losses=self.vocabulary.losses,
            assumptions=self.vocabulary.assumptions,
            verified=self.vocabulary.verified,
            sizes=(("total", sum(map(os.path.getsize, paths))),),
            model=Model.of(plan.architecture.name, plan.type, tensors),
        )


def prepare(
    path: str,
    kind: str = "auto",
    *,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Prepared:
    """Do all of a conversion but the writing; arguments are those of ``convert_model``.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or config.json and weights contradict each other.
        UnsupportedError: mtkit cannot convert the model, or llama.cpp does not support the
            tokenizer.
        LossError: Ordinary text would get different ids, and that is not allowed.
        AnswerNo: The tokenizer written does not give the same ids.
    """
    from mtkit.formats.contract import WriteOptions

    plan, options = plan_gguf(path, kind), options or WriteOptions()
    if plan.architecture.adds_eos and options.add_eos is None:
        options = replace(options, add_eos=True)

    done = Counted(progress)
    tensors = plan.tensors(done)
    done.total = sum(one.n_bytes for one in tensors)
    about = model_keys.about(path, tensors, options.name or None)
    name = next(str(key.value) for key in about if key.name == NAME)
    vocabulary = model_vocabulary(
        path, plan.config, plan.vocab, replace(options, name=name), allow_loss
    )
    # llama.cpp takes rules of some tokenizers from the name: the writer may have added to it.
    name = vocabulary.name or name
    named = [Key(NAME, "string", name) if key.name == NAME else key for key in about]
    architecture = Key("general.architecture", "string", plan.architecture.name)
    keys = [architecture, *named, *plan.keys, *vocabulary.keys]
    return Prepared(plan, Draft(keys, tensors), vocabulary)


def convert_model(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None = None,
    *,
    kind: str = "auto",
    max_bytes: int | None = None,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert a HuggingFace model folder to a GGUF.

    Args:
        src: The folder.
        dst: File or folder to write; None: a file in ``src``.
        kind: Type of the matrices: f32, f16, bf16, q8_0, or auto to keep their type.
        max_bytes: Maximum bytes of tensors per shard; None: one file.
        allow_loss: Codes of tokenizer losses to accept even if ids change.
        options: Options for writing the tokenizer.
        force: Replace existing files.
        progress: Called with the bytes written and the total.

    Raises:
        UsageError: A file is missing, or an output file already exists.
        FormatError: A file is damaged, or config.json and weights contradict each other.
        UnsupportedError: mtkit cannot convert the model, or llama.cpp does not support the
            tokenizer.
        LossError: Ordinary text would get different ids, and that is not allowed.
        AnswerNo: The converted tokenizer does not give the same ids; nothing was written.
        ResourceError: The disk is full.
    """
    path = os.fspath(src)
    made = prepare(path, kind, allow_loss=allow_loss, options=options, progress=progress)
    target = target_of(path, made.plan.type, dst)
    drafts, names = [made.draft], [target]
    if max_bytes is not None:
        drafts = cut(made.draft, DEFAULT_ALIGNMENT, max_bytes=max_bytes)
        names = numbered(target, len(drafts))
    make_folder(dst, target)
    # A set is looked for by its first file.
    files = {name: one.chunks() for name, one in reversed([*zip(names, drafts, strict=True)])}
    write_ggufs(files, force=force)
    if progress is not None:
        total = sum(one.n_bytes for one in made.draft.tensors.values())
        progress(total, total)
    return made.conversion(names)


def target_of(path: str, kind: str, dst: str | os.PathLike[str] | None) -> str:
    """Return the path of the GGUF of a folder: as ``dst`` says, else named like it, in it.

    Raises:
        UsageError: It is a file of the model itself, which would be lost.
    """
    stem = os.path.basename(os.path.abspath(path))
    folder = path
    if hub.holds(path):
        stem, folder = hub.name_of(path), ""
    name = f"{stem}-{kind.upper()}.gguf"
    if dst is None:
        return os.path.join(folder, name)
    target = os.fspath(dst)
    if target.endswith(("/", os.sep)) or os.path.isdir(target):
        return os.path.join(target, name)
    own = (os.path.join(path, name) for name in files_in(path) if not name.endswith(".gguf"))
    if any(same_file(target, name) for name in own):
        hint = "use -o to choose another file"
        raise UsageError("is a file of the model itself", source=target, hint=hint)
    return target
