"""What a model folder holds and what GGUF it would become; no weight is read, nothing is written.

The GGUF exists as its header in a sparse file of the true length, so that whatever reads headers
reads it as any other. ``folder_document`` makes the JSON of it, ``folder_side`` a side of a
comparison: there a tensor's data is converted as in a conversion, to whichever type the other side
has, so that a converted file is equal to the byte.
"""

from __future__ import annotations

import os
from math import prod

from mtkit.architectures import may_be_packed
from mtkit.architectures.config import class_of
from mtkit.base.binary import Source
from mtkit.base.escape import printable
from mtkit.base.record import Record, replace
from mtkit.checkpoints.folder_files import ComputedTensor
from mtkit.checkpoints.model_folder import survey_folder
from mtkit.conversion.model import plan_gguf, prepare_gguf
from mtkit.conversion.model_tensors import PACKED, TYPES, Values, make_data
from mtkit.errors import MtkitError
from mtkit.formats.contract import LOSS_CODES
from mtkit.gguf import open_gguf
from mtkit.gguf.draft import Draft
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.values import F32
from mtkit.gguf.writer import Key
from mtkit.inspection.difference import STEP, Side
from mtkit.inspection.document import gguf_document, vocabulary_document
from mtkit.inspection.gguf import inspect_gguf
from mtkit.inspection.safetensors import SUMS, WeightRow
from mtkit.sources.remote import sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.tensor_match import Match
    from mtkit.base.binary import Buffer
    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.checkpoints.model_folder import Survey
    from mtkit.conversion.model import GgufPlan
    from mtkit.gguf.writer import NewTensor
    from mtkit.inspection.gguf import GgufReport, Vocabulary


SMALLER = "q8_0"
"""The type whose size is reported besides that of the weights as they are."""


class FolderReport(Record):
    """A model folder.

    Attributes:
        plan: How it becomes a GGUF; None where it does not.
        sizes: Type of matrices -> bytes of the GGUF, the type that the folder has first.
        vocabulary: The tokenizer as in a GGUF; None where a GGUF cannot hold it.
    """

    survey: Survey
    plan: GgufPlan | None = None
    source: Source | None = None
    gguf: GgufReport | None = None
    sizes: Mapping[str, int] = {}
    refused: MtkitError | None = None
    vocabulary: Vocabulary | None = None
    without_tokenizer: MtkitError | None = None
    notes: tuple[str, ...] = ()

    @property
    def class_name(self) -> str:
        """The class of transformers that config.json names; empty where it names none."""
        return class_of(self.survey.config)

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Tensor of the folder -> tensors of the GGUF that it becomes, or a part of which."""
        matches = self.plan.matches if self.plan else ()
        return {name: match.gguf for match in matches for name in match.folder}


def folder_report(path: str) -> FolderReport:
    """Survey a folder and plan its conversion."""
    survey = survey_folder(path, may_be_packed)
    try:
        plan = plan_gguf(path)
    except MtkitError as error:
        vocabulary, without = _read_vocabulary(path)
        return FolderReport(
            survey,
            refused=error.located(path),
            vocabulary=vocabulary,
            without_tokenizer=without,
            notes=_folder_notes(path),
        )
    draft, failed = _draft_gguf(plan)
    source = header_source(path, draft)
    smaller = replace(plan, type=SMALLER)
    sizes = {
        plan.type: len(source.data),
        SMALLER: _file_size(Draft(draft.keys.values(), smaller.tensors())),
    }
    report = inspect_gguf(source)
    return FolderReport(
        survey,
        plan,
        source,
        report,
        sizes,
        failed,
        vocabulary=report.vocabulary,
        without_tokenizer=failed,
        notes=(*_folder_notes(path), *plan.notes(())),
    )


def _draft_gguf(plan: GgufPlan) -> tuple[Draft, MtkitError | None]:
    """Draft the GGUF; without a tokenizer, and with the error, where it cannot hold one."""
    try:
        return prepare_gguf(plan.folder.path, plan.type, allow_loss=LOSS_CODES).draft, None
    except MtkitError as error:
        architecture = Key("general.architecture", "string", plan.architecture.name)
        return Draft([architecture, *plan.keys], plan.tensors()), error


def header_source(name: str, draft: Draft) -> Source:
    """Return a draft as a source: its header, and zeros for its data."""
    head, offsets = draft.header()
    return Source(name, sparse(name, bytearray(head), _size_with_head(head, offsets, draft)))


def _file_size(draft: Draft) -> int:
    return _size_with_head(*draft.header(), draft)


def _size_with_head(head: bytes, offsets: list[int], draft: Draft) -> int:
    tensors = list(draft.tensors.values())
    last = tensors[-1].n_bytes if tensors else 0
    end = offsets[-1] if tensors else 0
    return len(head) + end + -(-last // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT


def _folder_notes(path: str) -> tuple[str, ...]:
    from mtkit.conversion.folder_notes import folder_notes
    from mtkit.tokenizer.load import load

    try:
        return folder_notes(load(path))
    except MtkitError:  # ``without_tokenizer`` has it
        return ()


def _read_vocabulary(path: str) -> tuple[Vocabulary | None, MtkitError | None]:
    """Return the tokenizer as a GGUF without weights has it, or why there is none."""
    from mtkit.conversion.tokenizer import write_tokenizer
    from mtkit.formats import gguf
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf import open_gguf
    from mtkit.inspection.gguf import read_vocabulary
    from mtkit.tokenizer.load import in_its_folder, load

    try:
        _, _, written = write_tokenizer(in_its_folder(load(path)), gguf, WriteOptions(), LOSS_CODES)
    except MtkitError as error:
        return None, error
    return read_vocabulary(open_gguf(Source(path, written.files[".gguf"])).metadata), None


def weight_rows(report: FolderReport) -> Iterator[WeightRow]:
    """Yield the tensors of a folder as they are shown."""
    names, targets = report.names, dict[int, tuple[str, ...]]()
    for name, stored in report.survey.tensors.items():
        parts = stored.parts if isinstance(stored, ComputedTensor) else ()
        targets.update({id(part): names.get(name, ()) for part in (stored, *parts)})
    for stored in report.survey.stored.values():
        target = targets.get(id(stored), ())
        yield WeightRow(stored.weight, os.path.basename(stored.path), target)


def folder_document(report: FolderReport, rows: Sequence[WeightRow]) -> dict[str, object]:
    """Describe a folder with these tensors as a JSON document, schema ``mtkit.inspect/1``."""
    survey, refused = report.survey, report.refused
    model = gguf_document(report.gguf, (), ()) if report.gguf else {}
    of_model = ("name", "architecture", "hyperparameters", "memory")
    return {
        "schema": "mtkit.inspect/1",
        "kind": "folder",
        "path": printable(survey.path),
        "class": report.class_name,
        "bytes": survey.n_bytes,
        "parameters": survey.parameters,
        "files": {printable(name): size for name, size in survey.files.items()},
        "missing": [printable(name) for name, size in survey.files.items() if size is None],
        "types": {kind: dict(zip(SUMS, sums, strict=True)) for kind, sums in survey.types.items()},
        "gguf": dict(report.sizes),
        "refused": refused and {"what": printable(str(refused)), "exit_code": refused.exit_code},
        **{name: model.get(name) for name in of_model},
        "tokenizer": vocabulary_document(report.vocabulary),
        "notes": list(report.notes),
        "warnings": [
            {"code": finding.rule.code, "severity": finding.rule.severity,
             "field": printable(finding.field), "what": printable(finding.what),
             "file": printable(finding.source)}
            for finding in survey.findings
        ],
        "tensors": [
            {"name": weight.name, "type": weight.type, "shape": list(weight.shape),
             "offset": weight.offset, "bytes": weight.n_bytes, "file": printable(row.file),
             "gguf": [*(row.gguf or ())]}
            for row in rows for weight in (row.weight,)
        ],
    }  # fmt: skip


_BY_NAME = {kind.name: kind for kind in TYPES.values()}


class GeneratedTensor:
    """A tensor of the GGUF that is computed from config.json."""

    def __init__(self, tensor: NewTensor) -> None:
        self._tensor = tensor
        self.name, self.shape, self.n_bytes = tensor.name, tensor.shape, tensor.n_bytes
        self.type = tensor.type.name

    def data_as(self, kind: str) -> Iterator[Buffer] | None:
        """Return its data, in its own type alone."""
        return self._tensor.pieces() if kind == self.type else None

    def values(self) -> Iterator[Any] | None:
        """Give its elements as float32."""
        return _float_pieces(self._tensor.pieces())


class FolderTensor:
    """A tensor of the GGUF that tensors of a folder become."""

    def __init__(self, match: Match, number: int, tensors: Mapping[str, StoredTensor]) -> None:
        self._match, self._number = match, number
        stored = [tensors[name] for name in match.folder]
        self._sources = [*map(Values.of, stored)]
        self.name = match.gguf[number]
        self.shape = tuple(reversed(match.gguf_shapes[number]))
        self._stores = match.row.change.stores
        self.type = self._stores or stored[0].weight.type
        self._kept = PACKED.get(self.type)
        shapes = match.gguf_shapes if self._stores else [t.weight.shape for t in stored]
        many = max(sum(map(prod, shapes)), 1)
        self.n_bytes = sum(t.weight.n_bytes for t in stored) * prod(self.shape) // many

    def data_as(self, kind: str) -> Iterator[Buffer] | None:
        """Give its data in a type that conversion writes."""
        tensor_type = self._kept if kind == self.type and self._kept else _BY_NAME.get(kind)
        if tensor_type is None or (self.shape and self.shape[0] % tensor_type.block):
            return None
        match = self._match
        data = make_data(self._sources, match.row.change, match.forward, self._number, tensor_type)
        return data()

    def values(self) -> Iterator[Any] | None:
        """Give its elements as float32."""
        data = self.data_as(F32.name)
        return None if data is None else _float_pieces(data)


def _float_pieces(parts: Iterable[Buffer]) -> Iterator[Any]:
    import numpy as np

    from mtkit.base.binary import pieces

    for part in parts:
        for piece in pieces(memoryview(part).cast("B"), STEP * F32.block_bytes):
            yield np.frombuffer(piece, "<f4")


def folder_side(path: str) -> Side:
    """Return a folder as a side."""
    gguf = prepare_gguf(path, allow_loss=LOSS_CODES)
    metadata = open_gguf(header_source(path, gguf.draft)).metadata
    plan = gguf.plan
    rows: list[GeneratedTensor | FolderTensor] = [*map(GeneratedTensor, plan.generated)]
    for match in plan.matches:
        numbers = range(len(match.gguf))
        rows += (FolderTensor(match, number, plan.folder.tensors) for number in numbers)
    return Side(path, metadata, {row.name: row for row in rows}, is_file=False)
