"""What a model folder holds and what GGUF it would become; no weight is read, nothing is written.

The GGUF is there by its header: a sparse file of the true length takes no room, and whatever looks
at headers alone looks at it as at any other.
"""

from __future__ import annotations

from mtkit.architectures import packed_classes
from mtkit.architectures.config import class_of
from mtkit.base.binary import Source
from mtkit.base.record import Record, replace
from mtkit.checkpoints.folder_survey import survey
from mtkit.conversion.gguf_plan import plan_gguf
from mtkit.conversion.whole_model import prepare
from mtkit.errors import MtkitError
from mtkit.formats.contract import LOSS_CODES
from mtkit.gguf.draft import Draft
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.writer import Key
from mtkit.inspection.gguf import inspect_gguf
from mtkit.sources.remote import sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.checkpoints.folder_survey import Survey
    from mtkit.conversion.gguf_plan import GgufPlan
    from mtkit.inspection.gguf import GgufReport
    from mtkit.inspection.vocabulary import Vocabulary

SMALLER = "q8_0"
"""The type whose size is told besides that of the weights as they are."""


class FolderReport(Record):
    """A model folder.

    Attributes:
        survey: What is in it.
        plan: How it becomes a GGUF; None where it does not.
        source: The header of that GGUF, with zeros for its data.
        gguf: That GGUF.
        sizes: Type of matrices -> bytes of the GGUF, the type that the folder has first.
        refused: Why it is not converted.
        vocabulary: The tokenizer as a GGUF would say it; None where it cannot.
        without_tokenizer: Why the GGUF has no tokenizer.
        notes: What is worth knowing of the tokenizer.
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
    """Look at a folder."""
    found = survey(path, packed_classes())
    try:
        plan = plan_gguf(path)
    except MtkitError as error:
        vocabulary, without = _vocabulary(path)
        return FolderReport(
            found,
            refused=error.located(path),
            vocabulary=vocabulary,
            without_tokenizer=without,
            notes=_notes(path),
        )
    draft, failed = _draft(plan)
    source = header_source(path, draft)
    smaller = replace(plan, type=SMALLER)
    sizes = {
        plan.type: len(source.data),
        SMALLER: _size(Draft(draft.keys.values(), smaller.tensors())),
    }
    report = inspect_gguf(source)
    return FolderReport(
        found,
        plan,
        source,
        report,
        sizes,
        failed,
        vocabulary=report.vocabulary,
        without_tokenizer=failed,
        notes=_notes(path),
    )


def _draft(plan: GgufPlan) -> tuple[Draft, MtkitError | None]:
    """Return the GGUF in the making; without a tokenizer where there is none that it can hold."""
    try:
        return prepare(plan.folder.path, plan.type, allow_loss=LOSS_CODES).draft, None
    except MtkitError as error:
        architecture = Key("general.architecture", "string", plan.architecture.name)
        return Draft([architecture, *plan.keys], plan.tensors()), error


def header_source(name: str, draft: Draft) -> Source:
    """Return a GGUF in the making: its header, and zeros for its data."""
    head, offsets = draft.header()
    return Source(name, sparse(name, bytearray(head), _size_of(head, offsets, draft)))


def _size(draft: Draft) -> int:
    return _size_of(*draft.header(), draft)


def _size_of(head: bytes, offsets: list[int], draft: Draft) -> int:
    tensors = list(draft.tensors.values())
    last = tensors[-1].n_bytes if tensors else 0
    end = offsets[-1] if tensors else 0
    return len(head) + end + -(-last // DEFAULT_ALIGNMENT) * DEFAULT_ALIGNMENT


def _notes(path: str) -> tuple[str, ...]:
    from mtkit.conversion.folder_notes import notes
    from mtkit.tokenizer.load import load

    try:
        return notes(load(path))
    except MtkitError:  # which ``without_tokenizer`` has
        return ()


def _vocabulary(path: str) -> tuple[Vocabulary | None, MtkitError | None]:
    """Return the tokenizer as a GGUF without weights says it, or why there is none."""
    from mtkit.conversion.convert import write
    from mtkit.formats import gguf
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf import open_gguf
    from mtkit.inspection.vocabulary import vocabulary
    from mtkit.tokenizer.load import load

    try:
        _, _, written = write(load(path), gguf, WriteOptions(), LOSS_CODES)
    except MtkitError as error:
        return None, error
    return vocabulary(open_gguf(Source(path, written.files[".gguf"])).metadata), None
