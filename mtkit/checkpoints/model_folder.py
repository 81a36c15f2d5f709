"""A HuggingFace model folder that can be converted: config.json and the weights beside it.

Only headers are read; weights stay in their mapped files until they are asked for. What is not
weights in safetensors is refused by name: pickles, and checkpoints that another program quantized.
"""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.checkpoints import folder_survey, safetensors_index
from mtkit.checkpoints.folder_files import CONFIG, INDEX, files_in, is_weights
from mtkit.errors import FormatError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from mtkit.base.rules import Rule
    from mtkit.checkpoints.folder_files import Stored
    from mtkit.errors import MtkitError

REFUSED: dict[Rule, type[MtkitError]] = {
    folder_survey.NO_WEIGHTS: UsageError,
    folder_survey.PICKLE: UnsupportedError,
    folder_survey.QUANTIZED: UnsupportedError,
    folder_survey.SHARD: UsageError,
    safetensors_index.FILE: UsageError,
    safetensors_index.UNLISTED: FormatError,
}
"""Broken rule that conversion cannot live with -> what is raised; of errors that are not here it is
a FormatError."""


class ModelFolder(Record):
    """A model as published.

    Attributes:
        path: The folder.
        config: config.json.
        tensors: Name -> tensor, in the order of the files and of the data in them.
    """

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]


def sniff(path: str) -> bool:
    """Tell by a config.json with weights beside it."""
    if not os.path.isfile(os.path.join(path, CONFIG)):
        return False
    return any(name == INDEX or is_weights(name) for name in files_in(path))


def read(path: str, packed: Collection[str] = ()) -> ModelFolder:
    """Read a folder.

    Args:
        path: The folder.
        packed: Classes of models that may have weights of 4 bits (MXFP4).

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or the index lies.
        UnsupportedError: The weights are pickles, or quantized in another way.
    """
    if not os.path.isfile(os.path.join(path, CONFIG)):
        raise UsageError(f"has no {CONFIG}", source=path, hint="a model folder has one")
    found = folder_survey.survey(path, packed)
    for finding in found.findings:
        kind = REFUSED.get(finding.rule, FormatError if finding.is_error else None)
        if kind is not None:
            raise kind(
                finding.what,
                source=finding.source or path,
                field=finding.field if finding.field != CONFIG else "",  # its path says it
                offset=finding.offset,
                hint=finding.advice or finding.rule.advice,
            )
    return ModelFolder(path, found.config, found.tensors)
