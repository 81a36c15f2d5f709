"""What can be known to fail before a model is loaded, and is then said in our words.

Read from the file's metadata and tensor table alone: damage, missing shards, a file that is only a
vocabulary, more memory than there is. Everything else is for llama.cpp to refuse (``trial``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.gguf import open_gguf
from mtkit.gguf.shards import all_files
from mtkit.inspection.kinds import NO_MODEL, content
from mtkit.llm.adapters import adapters_of
from mtkit.memory_plan.plan import Plan, PlanSettings, check_fits, make_plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.base.binary import Source
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor

_INSTEAD: dict[str, str] = {
    "vocabulary": "use it with mtkit encode -t",
    "lora": "--lora adds it to its model",
    "imatrix": "mtkit convert --imatrix quantizes a model with it",
}


class ModelHeader:
    """A model file that can be loaded, as far as its head tells.

    Attributes:
        path: The file.
        file: Its header, metadata and tensor table.
        files: All its shards, or the file alone.
        tensors: Of all its shards.
        adapters: What is added to its weights.
    """

    def __init__(self, model: str | Source, lora: Sequence[str] = ()) -> None:
        """Read the head of a model's file, and those of the LoRA adapters that run with it.

        Args:
            model: The file: its path, or where it is open.
            lora: Each FILE or FILE:SCALE.

        Raises:
            FormatError: It is damaged, or shards are missing.
            UnsupportedError: It holds no model that can run, or an adapter is none of it.
            UsageError: It is a later file of a set, or there is no such adapter.
        """
        self.file = open_gguf(model)
        self.path = path = self.file.name
        self.files = all_files(self.file)
        self.tensors = tuple(tensor for file in self.files for tensor in file.tensors)
        _check_model(self.file, self.tensors, path)
        architecture = self.file.metadata["general.architecture"]
        self.adapters = adapters_of(lora, architecture, self.tensors)

    @property
    def multiplied(self) -> tuple[Tensor, ...]:
        """All that a batch is multiplied with, adapters among them."""
        return (*self.tensors, *(one for added in self.adapters for one in added.file.tensors))

    @property
    def n_ctx_train(self) -> int:
        """Tokens of context that it was trained with; 0 where it does not say."""
        architecture = self.file.metadata["general.architecture"]
        value = self.file.metadata.get(f"{architecture}.context_length")
        return value if type(value) is int and value > 0 else 0

    def plan(self, settings: PlanSettings) -> Plan:
        """Say what running it takes."""
        return make_plan(self.file.metadata, self.tensors, settings)

    def check(self, settings: PlanSettings) -> Plan:
        """Say what running it takes.

        Raises:
            ResourceError: It does not fit the memory.
        """
        plan = self.plan(settings)
        check_fits(plan, self.path)
        return plan


def _check_model(file: GgufFile, tensors: tuple[Tensor, ...], path: str) -> None:
    kind = content(file.metadata, tensors).kind
    if kind not in NO_MODEL:
        architecture = file.metadata.get("general.architecture")
        if not isinstance(architecture, str) or not architecture:
            raise UnsupportedError("has no architecture, so it is not a model", source=path)
        if tensors:
            return
        kind = "vocabulary"
    raise UnsupportedError(NO_MODEL[kind], source=path, hint=_INSTEAD.get(kind, ""))
