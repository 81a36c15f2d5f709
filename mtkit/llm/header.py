"""A model file before it is loaded: its header, its LoRA adapters, and whether it can run and fits.

Damage, missing shards, a file that is only a vocabulary and too little memory show in the metadata
and the tensor tables alone. Everything else is for llama.cpp to refuse (``trial``).
"""

from __future__ import annotations

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.adapters import read_adapters
from mtkit.gguf.byte_order import refuse_big_endian
from mtkit.gguf.draft import refuse_forks
from mtkit.gguf.shards import all_files
from mtkit.inspection.kinds import NO_MODEL, find_content
from mtkit.memory_plan.plan import Plan, PlanSettings, check_fits, make_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.base.binary import Source
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor
    from mtkit.llm.media import ProjectorHeader


_INSTEAD: dict[str, str] = {
    "vocabulary": "use it with mtkit encode -t",
    "lora": "--lora adds it to its model",
    "imatrix": "mtkit convert --imatrix quantizes a model with it",
    "mmproj": "name the model: its projector is found beside it",
}


class ModelHeader:
    """The head of a model file that can be loaded.

    Attributes:
        projector: That of the model's pictures and sounds; None where there is none.
    """

    projector: ProjectorHeader | None = None

    def __init__(self, model: str | Source, lora: Sequence[str] = ()) -> None:
        """Read the head of a model's file and of its LoRA adapters."""
        self.file = open_gguf(model)
        self.path = path = self.file.name
        self.files = all_files(self.file)
        self.tensors = tuple(tensor for file in self.files for tensor in file.tensors)
        _check_model(self.file, self.tensors, path)
        refuse_forks(self.tensors, path)
        refuse_big_endian(self.file)
        architecture = self.file.metadata["general.architecture"]
        self.adapters = read_adapters(lora, architecture, self.tensors)

    @property
    def multiplied(self) -> tuple[Tensor, ...]:
        """All tensors that a batch is multiplied with: the model's and its adapters'."""
        return (*self.tensors, *(t for adapter in self.adapters for t in adapter.file.tensors))

    @property
    def n_ctx_train(self) -> int:
        """Tokens of context that it was trained with; 0 if unknown."""
        architecture = self.file.metadata["general.architecture"]
        value = self.file.metadata.get(f"{architecture}.context_length")
        return value if type(value) is int and value > 0 else 0

    def plan(self, settings: PlanSettings) -> Plan:
        """Return what running it takes."""
        plan = make_plan(self.file.metadata, self.tensors, settings)
        projector = self.projector.n_bytes if self.projector is not None else 0
        return replace(plan, projector=projector)

    def check(self, settings: PlanSettings) -> Plan:
        """Return what running it takes; raise if that does not fit the memory."""
        plan = self.plan(settings)
        check_fits(plan, self.path)
        return plan


def _check_model(file: GgufFile, tensors: tuple[Tensor, ...], path: str) -> None:
    kind = find_content(file.metadata, tensors).kind
    if kind not in NO_MODEL:
        architecture = file.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise UnsupportedError("has no architecture, so it is not a model", source=path)
        if tensors:
            return
        kind = "vocabulary"
    raise UnsupportedError(NO_MODEL[kind], source=path, hint=_INSTEAD.get(kind, ""))
