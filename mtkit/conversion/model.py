"""A HuggingFace folder or a llama2.c checkpoint as one GGUF that llama.cpp runs.

config.json gives the metadata, safetensors the weights; the tokenizer is converted as any other:
losses are listed or refused, and the result is compared on the built-in texts before the file
appears. Weights are streamed from the mapped files. ``plan_gguf`` reads no weight. A checkpoint
gets the tokenizer that its caller passes, written and verified in the same way.
"""

from __future__ import annotations

import os

from mtkit.architectures import describe_config, may_be_packed
from mtkit.architectures.projectors import NAME as PROJECTOR
from mtkit.architectures.resemblance import with_resemblance
from mtkit.architectures.rope import rope_notes
from mtkit.architectures.tensor_match import folder_matches
from mtkit.base.binary import Source
from mtkit.base.escape import quoted, shown
from mtkit.base.process import ProgressCount
from mtkit.base.record import Record, replace
from mtkit.checkpoints import folder_files, mistral_form, model_folder
from mtkit.checkpoints.folder_files import files_in
from mtkit.conversion import heads, model_keys, model_tensors
from mtkit.conversion.model_keys import (
    NAME_KEY,
    QUANTIZATION_VERSION,
    TEMPLATES,
    ModelVocabulary,
    model_vocabulary,
)
from mtkit.conversion.model_tensors import (
    PACKED,
    TYPES,
    check_type,
    file_types,
    new_tensors,
    refuse_computed,
    usual_type,
)
from mtkit.conversion.projector import read_encoders
from mtkit.conversion.remainder import field_notes, file_notes, implied_fields, tensor_notes
from mtkit.conversion.tokenizer import (
    Conversion,
    Model,
    check_targets,
    is_same_file,
    make_folder,
    source_itself,
    write_tokenizer,
)
from mtkit.conversion.value_losses import CODE, ValueLosses, write_in_range
from mtkit.conversion.verification import verify
from mtkit.errors import LossError, MtkitError, UnsupportedError, UsageError, wording
from mtkit.gguf.draft import Draft
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.in_place import write_ggufs
from mtkit.gguf.shards import cut_draft, shard_file_names
from mtkit.gguf.values import DTYPES, F32, encode_values
from mtkit.gguf.writer import Key, NewTensor
from mtkit.sources import hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.tensor_match import Match
    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.checkpoints.llama2c import Checkpoint
    from mtkit.checkpoints.model_folder import ModelFolder
    from mtkit.formats.contract import WriteOptions
    from mtkit.tokenizer.tokenizer import Tokenizer


class GgufPlan(Record):
    """How a folder becomes a GGUF.

    Attributes:
        type: Of its matrices: f32, f16, bf16 or q8_0.
        folder_notes: What of the folder is not used, and what was found out about it.
        narrows: Type of matrices that get another one without being asked for; empty: none do.
    """

    folder: ModelFolder
    architecture: Architecture
    config: Config
    keys: tuple[Key, ...]
    generated: tuple[NewTensor, ...]
    matches: tuple[Match, ...]
    type: str
    vocab: int
    folder_notes: tuple[str, ...] = ()
    narrows: str = ""

    def tensors(
        self,
        progress: Callable[[int], object] = lambda _: None,
        losses: ValueLosses | None = None,
    ) -> list[NewTensor]:
        """Return the tensors of the GGUF; ``progress`` gets the size of each piece written."""
        stored = self.folder.tensors
        tensors = [*new_tensors(self.matches, stored, TYPES[self.type], progress, losses)]
        if losses is not None:
            losses.tensors = len(tensors)
        return [*self.generated, *tensors]

    def notes(self, wide: Collection[str]) -> Iterator[str]:
        """Yield what to say of the folder, and of types that nobody asked for.

        Args:
            wide: Tensors that are BF16 because F16 does not hold them.
        """
        yield from self.folder_notes
        if self.narrows:
            kinds = f"{self.narrows} weights become {self.type.upper()}"
            yield f"{kinds}, as in llama.cpp's converter; --type f32 keeps them"
        for name in sorted(wide):
            yield f"tensor {quoted(name)} is BF16, as its values overflow F16"


def plan_gguf(path: str, kind: str = "auto", *, dense_modules: bool = False) -> GgufPlan:
    """Plan the conversion of a folder; no weight is read but a head that may be the embedding.

    Args:
        kind: Type of matrices: f32, f16, bf16, q8_0, or auto for the one that they have.
        dense_modules: Convert the dense layers that sentence-transformers puts behind the model.
    """
    check_type(kind)
    folder = model_folder.read(path, may_be_packed)
    is_own = mistral_form.weights_in(folder_files.files_in(path))
    source = os.path.join(path, mistral_form.PARAMS if is_own else folder_files.MODEL_CONFIG)
    try:
        architecture, config = describe_config(heads.model_document(path, folder.config), source)
    except UnsupportedError as error:
        shapes = {name: stored.weight.shape for name, stored in folder.tensors.items()}
        raise with_resemblance(error, folder.config, shapes) from None
    try:
        head = heads.compare_heads(architecture, config, folder.tensors)
        kind, narrows = _usual_kind(kind, folder.stored.values())
        types = file_types(folder.config, folder.tensors)
        keys = tuple(model_keys.architecture_keys(architecture, config, types[kind]))
        vocab = config.count("vocab_size")
        dims = architecture.sizes({key.name: key.value for key in keys}, vocab)
        matches = tuple(folder_matches(architecture, dims, head.shapes))
        # After the tensors were matched: sizes that the weights bear out cannot be absurdly large.
        generated = tuple(_generated_tensors(architecture, config, dims))
        _refuse_unread(matches, folder)
        numbers = (
            *model_tensors.layer_number_keys(architecture, dims, folder.tensors),
            *model_tensors.precision_keys(matches, folder.tensors),
        )
        _refuse_nonzero(architecture, folder)
        layers = heads.dense_layers(folder, architecture, dims, write=dense_modules)
        notes = (
            *(f"{name} is read by params.json, in Mistral's own form" for name in is_own),
            *_own_form_notes(path, is_own),
            *file_notes(folder),
            *head.notes,
            *heads.rerank_notes(config),
            *layers.notes,
            *heads.module_notes(path),
            *rope_notes(architecture, config),
            *field_notes(
                folder, config, architecture, implied_fields(architecture, dims, matches, generated)
            ),
            *tensor_notes(architecture, folder, dims, matches),
        )
        matches = (*layers.matches, *heads.answer_matches(config, matches))
        folder = replace(folder, tensors={**folder.tensors, **layers.tensors})
        keys = (*numbers, *(key for key in keys if key.type), *layers.keys)
    except MtkitError as error:
        raise error.located(source) from None
    return GgufPlan(
        folder, architecture, config, keys, generated, matches, kind, vocab, notes, narrows
    )


def plan_projector(path: str, kind: str = "auto") -> GgufPlan:
    """Plan the conversion of a folder's encoders of pictures and sound; arguments as above."""
    check_type(kind)
    encoders = read_encoders(path)
    folder, matches = encoders.folder, encoders.matches
    used = {name for match in matches for name in match.folder}
    stored = {name: tensor for name, tensor in folder.stored.items() if name in used}
    try:
        kind, narrows = _usual_kind(kind, stored.values())
        _refuse_unread(matches, folder)
        generated = tuple(
            tensor
            for (part, config), dims in zip(encoders.parts, encoders.dims, strict=True)
            for tensor in _generated_tensors(part, config, dims)
        )
    except MtkitError as error:
        raise error.located(encoders.source) from None
    keys = (
        *encoders.keys,
        Key("general.type", "string", "mmproj"),
        Key("general.file_type", "u32", file_types(folder.config, stored)[kind]),
        Key("general.quantization_version", "u32", QUANTIZATION_VERSION),
    )
    architecture, config = encoders.parts[0]
    return GgufPlan(
        folder, replace(architecture, name=PROJECTOR), config, keys, generated, matches, kind, 0,
        encoders.notes, narrows,
    )  # fmt: skip


def _usual_kind(kind: str, stored: Iterable[StoredTensor]) -> tuple[str, str]:
    """Return the type of matrices, and that of those which get another one unasked."""
    if kind != "auto":
        return kind, ""
    weights = [(tensor.weight.type, tensor.weight.shape) for tensor in stored]
    kind = usual_type(weights)
    halves = {name for name, shape in weights if len(shape) >= 2} & {"F16", "BF16"}
    if len(halves) > 1:
        return kind, "F16" if kind == "bf16" else "BF16"
    return kind, "" if halves else "F32"


def _own_form_notes(path: str, files: Collection[str]) -> Iterator[str]:
    """Yield what to say of a config.json that is not that of the weights."""
    if files and os.path.isfile(os.path.join(path, folder_files.MODEL_CONFIG)):
        yield f"{folder_files.MODEL_CONFIG} is not read: {', '.join(files)} has params.json"


def _refuse_unread(matches: Iterable[Match], folder: ModelFolder) -> None:
    for match in matches:
        known = match.row.change.takes or (*DTYPES, *PACKED)
        refuse_computed(match, folder.tensors)
        _refuse_types((folder.tensors[name] for name in match.folder), known)


def _refuse_types(tensors: Iterable[StoredTensor], known: Collection[str]) -> None:
    """Refuse number types that mtkit cannot read."""
    for stored in tensors:
        if stored.weight.type not in known:
            what = f"has the type {shown(stored.weight.type)}, which mtkit does not convert"
            hint = "use the model in BF16, F16 or F32"
            field = f"tensor {quoted(stored.weight.name)}"
            raise UnsupportedError(what, source=stored.path, field=field, hint=hint)


def _refuse_nonzero(architecture: Architecture, folder: ModelFolder) -> None:
    import numpy as np

    for name, stored in folder.tensors.items():
        if name.endswith(architecture.zeros) and np.frombuffer(stored.data, np.uint8).any():
            what = f"is not zero, and llama.cpp has no such tensor in a {architecture.name} model"
            raise UnsupportedError(what, field=f"tensor {quoted(name)}")


def _generated_tensors(
    architecture: Architecture, config: Config, dims: Dims
) -> Iterator[NewTensor]:
    for row in architecture.generated:
        values = row.values(config, dims)
        if values is not None:
            shape = tuple(reversed(dims.shape(row.axes)))
            yield NewTensor(row.name, shape, F32, encode_values(values, F32))


class PreparedGguf(Record):
    """A GGUF ready to be written."""

    plan: GgufPlan
    draft: Draft
    vocabulary: ModelVocabulary
    values: ValueLosses

    def conversion(self, paths: Sequence[str], dry_size: int | None = None) -> Conversion:
        """Return the result, once the files are written.

        Args:
            dry_size: Of files that are not, but would be.
        """
        plan, tensors = self.plan, self.draft.tensors.values()
        return Conversion(
            path=paths[0],
            paths=tuple(paths),
            format_name="gguf",
            losses=(*self.values.losses.values(), *self.vocabulary.losses),
            assumptions=self.vocabulary.assumptions,
            verified=self.vocabulary.verified,
            sizes=(("total", sum(map(os.path.getsize, paths)) if dry_size is None else dry_size),),
            model=Model.of(
                plan.architecture.name, plan.type, tensors, plan.notes(self.values.wide or ())
            ),
            is_written=dry_size is None,
        )


def prepare_gguf(
    path: str,
    kind: str = "auto",
    *,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    dense_modules: bool = False,
    mmproj: bool = False,
    about: Sequence[Key] = (),
    progress: Callable[[int, int], object] | None = None,
    wide: Collection[str] = (),
) -> PreparedGguf:
    """Do all of a conversion but the writing; arguments are those of ``convert_model``.

    Args:
        wide: Tensors that are BF16 where F16 is the usual type.
    """
    from mtkit.formats.contract import WriteOptions

    options = options or WriteOptions()
    plan = (
        plan_projector(path, kind) if mmproj else plan_gguf(path, kind, dense_modules=dense_modules)
    )
    if plan.architecture.adds_eos and options.add_eos is None:
        options = replace(options, add_eos=True)
    if mistral_form.weights_in([*plan.folder.files, mistral_form.PARAMS]):
        adds_bos = True if options.add_bos is None else options.add_bos
        options = replace(options, add_bos=adds_bos, add_eos=options.add_eos or False)

    count = ProgressCount(progress)
    losses = ValueLosses(allowed=CODE in allow_loss, wide=wide if kind == "auto" else None)
    tensors = plan.tensors(count, losses)
    count.total = sum(tensor.n_bytes for tensor in tensors)
    by_name = model_keys.general_keys(path, tensors, options.name, about)
    architecture = Key("general.architecture", "string", plan.architecture.name)
    if mmproj:
        by_name.update((key.name, key) for key in plan.keys)
        draft = Draft([architecture, *by_name.values()], tensors)
        return PreparedGguf(plan, draft, ModelVocabulary((), "", (), (), ()), losses)
    name = str(by_name[NAME_KEY].value)
    vocabulary = model_vocabulary(
        path, plan.config, plan.vocab, replace(options, name=name), allow_loss,
        plan.architecture,
    )  # fmt: skip
    # llama.cpp derives rules of some tokenizers from the name: the writer may have added to it.
    name = vocabulary.name or name
    by_name[NAME_KEY] = Key(NAME_KEY, "string", name)
    keys = [architecture, *by_name.values(), *_join_templates(plan.keys, vocabulary.keys)]
    return PreparedGguf(plan, Draft(keys, tensors), vocabulary, losses)


def _projector_name(draft: Draft, kind: str) -> str:
    """Return the name of a projector's file, as llama.cpp's converter makes it."""
    import gguf

    def part(name: str) -> str | None:
        key = draft.keys.get(f"general.{name}")
        return str(key.value) if isinstance(key, Key) else None

    name = gguf.naming_convention(
        part("name"), part("basename"), part("finetune"), part("version"), None, kind.upper()
    )
    return f"mmproj-{name}.gguf"


def _join_templates(model: Iterable[Key], vocabulary: Iterable[Key]) -> Iterator[Key]:
    """Yield the keys of a model and of its tokenizer; names of chat templates are in one list."""
    keys: dict[str, Key] = {}
    for key in (*model, *vocabulary):
        if key.name == TEMPLATES[1] and key.name in keys:
            names = dict.fromkeys([*key.value, *keys[key.name].value])
            key = Key(key.name, key.type, list(names))
        keys[key.name] = key
    yield from keys.values()


def convert_model(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None = None,
    *,
    kind: str = "auto",
    max_bytes: int | None = None,
    max_tensors: int | None = None,
    first_without_tensors: bool = False,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    dense_modules: bool = False,
    mmproj: bool = False,
    about: Sequence[Key] = (),
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert a HuggingFace model folder to a GGUF.

    Args:
        src: The folder.
        dst: File or folder to write, ``{ftype}`` in its name stands for the type; None: a file in
            ``src``.
        kind: Type of the matrices: f32, f16, bf16, q8_0, or auto to keep their type.
        max_bytes: Maximum bytes of tensors per shard; None: one file.
        allow_loss: Codes of losses to accept even if ids or values change.
        options: Options for writing the tokenizer.
        dense_modules: Convert the dense layers that sentence-transformers puts behind the model.
        mmproj: Convert what sees and hears (llama.cpp's mmproj) in place of the text model.
        max_tensors: Maximum number of tensors per shard.
        first_without_tensors: Whether the first shard has the metadata alone.
        allow_loss: Codes of tokenizer losses to accept even if ids change.
        options: Options for writing the tokenizer; ``name`` is the model's.
        about: Further keys of ``general``, in place of what the folder says.
        force: Replace existing files.
        dry_run: Do all but the writing.
        progress: Called with the bytes written and the total.

    Raises:
        UsageError: A file is missing, or an output file already exists.
        FormatError: A file is damaged, or config.json and weights contradict each other.
        UnsupportedError: mtkit cannot convert the model, or llama.cpp does not support the
            tokenizer.
        LossError: Ordinary text would get different ids, or weights become infinite, NaN or zero,
            and that is not allowed.
        AnswerNo: The converted tokenizer does not give the same ids; nothing was written.
        ResourceError: The disk is full.
    """
    path = os.fspath(src)

    def prepare(wide: Collection[str]) -> PreparedGguf:
        return prepare_gguf(
            path, kind, allow_loss=allow_loss, options=options, dense_modules=dense_modules,
            mmproj=mmproj, about=about, progress=progress, wide=wide,
        )  # fmt: skip

    def write(gguf: PreparedGguf) -> Conversion:
        name = _projector_name(gguf.draft, gguf.plan.type) if mmproj else None
        target = gguf_target(path, gguf.plan.type, dst, name)
        drafts, names = [gguf.draft], [target]
        if max_bytes is not None or max_tensors is not None:
            drafts = cut_draft(
                gguf.draft, DEFAULT_ALIGNMENT, max_bytes=max_bytes, max_tensors=max_tensors,
                first_without_tensors=first_without_tensors,
            )  # fmt: skip
            names = shard_file_names(target, len(drafts))
        files = dict(zip(names, drafts, strict=True))
        if dry_run:
            check_targets(dst, names, force=force)
            return gguf.conversion(names, sum(map(_file_size, files.values())))
        # The first file comes last: a set is opened by it, and then all others are there.
        last_first = reversed(files.items())
        with make_folder(dst, target):
            write_ggufs({name: draft.chunks() for name, draft in last_first}, force=force)
        if progress is not None:
            total = sum(draft.n_bytes for draft in gguf.draft.tensors.values())
            progress(total, total)
        return gguf.conversion(names)

    try:
        return write_in_range(prepare, write)
    except LossError as error:
        raise error.located(path) from None


def _file_size(draft: Draft) -> int:
    head, offsets = draft.header()
    last = next(reversed(draft.tensors.values()), None)
    if last is None:
        return len(head)
    return len(head) + offsets[-1] + last.n_bytes + -last.n_bytes % DEFAULT_ALIGNMENT


def fill_name(name: str, kind: str) -> str:
    """Return the name of a file with its type, as convert_hf_to_gguf fills in ``{ftype}``."""
    for field in ("ftype", "outtype"):
        name = name.replace(f"{{{field}}}", kind.lower())
        name = name.replace(f"{{{field.upper()}}}", kind.upper())
    return name


def gguf_target(
    path: str, kind: str, dst: str | os.PathLike[str] | None, name: str | None = None
) -> str:
    """Return the path of the GGUF of a folder: at ``dst``, else in the folder.

    Args:
        name: Of the file; None: it is called like the folder.
    """
    stem = os.path.basename(os.path.abspath(path))
    folder = path
    if hub.holds(path):
        stem, folder = hub.name_of(path), ""
    name = name or f"{stem}-{kind.upper()}.gguf"
    if dst is None:
        return os.path.join(folder, name)
    target = fill_name(os.fspath(dst), kind)
    if target.endswith(("/", os.sep)) or os.path.isdir(target):
        return os.path.join(target, name)
    own = (os.path.join(path, name) for name in files_in(path) if not name.endswith(".gguf"))
    if any(is_same_file(target, name) for name in own):
        hint = wording("use -o to choose another file", "choose another dst")
        raise UsageError("is a file of the model itself", source=target, hint=hint)
    return target


CHECKPOINT_ARCHITECTURE = "llama"
END_OF_TURN_KEY = "tokenizer.ggml.eot_token_id"


def convert_checkpoint(
    src: str | os.PathLike[str],
    tokenizer: Tokenizer,
    dst: str | os.PathLike[str] | None = None,
    *,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    about: Sequence[Key] = (),
    force: bool = False,
    dry_run: bool = False,
) -> Conversion:
    """Convert a llama2.c checkpoint to a GGUF of 32-bit floats.

    Args:
        src: The checkpoint.
        tokenizer: Its tokenizer, which the checkpoint does not contain.
        dst: File or folder to write, ``{ftype}`` in its name is f32; None: next to the source.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids.
        options: Options for writing the tokenizer; ``name`` is the model's.
        about: Further keys of ``general``.
        force: Replace an existing file.
        dry_run: Do all but the writing.

    Raises:
        FormatError: The checkpoint is damaged.
        UsageError: Model and tokenizer do not belong together, or a file already exists.
        LossError: Ordinary text would get different ids, and that is not allowed.
        AnswerNo: The converted tokenizer does not give the same ids; nothing was written.
    """
    from mtkit.base.record import replace
    from mtkit.checkpoints import llama2c
    from mtkit.formats import gguf
    from mtkit.formats.contract import WriteOptions

    path = os.fspath(src)
    stem = "model" if path == "-" else os.path.splitext(os.path.basename(path))[0]
    options = options or WriteOptions()
    names = [options.name, *(str(key.value) for key in about if key.name == NAME_KEY), stem]
    options = replace(options, name=next(filter(None, names)))
    try:
        model = llama2c.read(Source.open(path))
    except MtkitError as error:
        raise error.located(path) from None
    if tokenizer.spec.vocab_size != model.n_vocab:
        raise UsageError(
            f"has {model.n_vocab} ids, but the tokenizer has {tokenizer.spec.vocab_size}",
            source=path,
            hint="give the tokenizer that the model was trained with",
        )
    tokenizer, assumptions, written = write_tokenizer(tokenizer, gguf, options, allow_loss)
    verified = verify(tokenizer, gguf, written, allow_loss)
    target = _checkpoint_target(path, stem, dst)
    keys, assumed = _checkpoint_keys(model, written.files[".gguf"], tokenizer)
    draft = Draft([*keys, *(key for key in about if key.name != NAME_KEY)], model.tensors)
    if dry_run:
        check_targets(dst, [target], force=force)
    else:
        with make_folder(dst, target):
            write_ggufs({target: draft.chunks()}, force=force)
    return Conversion(
        path=target,
        paths=(target,),
        format_name=gguf.NAME,
        losses=written.losses,
        assumptions=(*assumptions, *assumed),
        verified=verified,
        sizes=(("total", _file_size(draft)),),
        is_written=not dry_run,
    )


def convert_whole(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None = None,
    *,
    about: Sequence[Key] = (),
    force: bool = False,
    dry_run: bool = False,
) -> Conversion:
    """Write the model in a llamafile, or in a format before GGUF, as a GGUF; its numbers stay.

    Args:
        src: The file.
        dst: File or folder to write; None: next to the source.
        about: Further keys of ``general``.
        force: Replace an existing file.
        dry_run: Do all but the writing.

    Raises:
        FormatError: The file is damaged.
        UnsupportedError: Its numbers are in blocks that llama.cpp does not read any more.
        UsageError: A file already exists.
    """
    from mtkit.gguf import ggml, open_gguf

    path = os.fspath(src)
    source, stem = Source.open(path), os.path.splitext(os.path.basename(path))[0]
    is_old = ggml.sniff(bytes(source.data[:4]))
    try:
        draft = ggml.read(source) if is_old else Draft.of(open_gguf(source))
    except MtkitError as error:
        raise error.located(path) from None
    if is_old:
        draft.set(Key(NAME_KEY, "string", stem))
    for key in about:
        draft.set(key)
    types = [t.type.name.lower() for t in draft.tensors.values() if len(t.shape) > 1]
    kind = max(set(types), key=types.count, default="f32")
    target = _checkpoint_target(path, stem, dst, kind)
    if dry_run:
        check_targets(dst, [target], force=force)
    else:
        with make_folder(dst, target):
            write_ggufs({target: draft.chunks()}, force=force)
    return Conversion(
        path=target, paths=(target,), format_name="gguf", losses=(),
        assumptions=ggml.ASSUMPTIONS if is_old else (), verified=(),
        sizes=(("total", _file_size(draft)),), is_written=not dry_run,
    )  # fmt: skip


def _checkpoint_target(
    path: str, stem: str, dst: str | os.PathLike[str] | None, kind: str = "f32"
) -> str:
    target = os.path.join(os.path.dirname(path), f"{stem}.gguf") if dst is None else os.fspath(dst)
    target = fill_name(target, kind) if dst is not None else target
    if target.endswith(("/", os.sep)) or os.path.isdir(target):
        target = os.path.join(target, f"{stem}.gguf")
    if os.path.exists(target) and os.path.samefile(target, path):
        raise source_itself(path)
    return target


def _checkpoint_keys(
    model: Checkpoint, vocabulary: bytes, tokenizer: Tokenizer
) -> tuple[list[Key], tuple[str, ...]]:
    from mtkit.gguf import open_gguf
    from mtkit.gguf.writer import Key

    metadata = open_gguf(Source(".gguf", vocabulary)).metadata
    if metadata["general.architecture"] != CHECKPOINT_ARCHITECTURE:
        what = f"llama.cpp runs this tokenizer with {metadata['general.architecture']} models only"
        raise UnsupportedError(what, source=tokenizer.source)
    keys = [Key(name, metadata.type_name(name), value) for name, value in metadata.items()]
    head = [key for key in keys if key.name.startswith("general.")]
    keys[len(head) : len(head)] = model.gguf_keys()
    bos = tokenizer.spec.special_ids.bos
    if bos is None or END_OF_TURN_KEY in metadata:
        return keys, ()
    # run.c stops at BOS, with which the texts of its training data begin.
    return [*keys, Key(END_OF_TURN_KEY, "u32", bos)], ("a text ends at BOS, as in llama2.c",)
