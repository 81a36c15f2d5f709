"""Whether llama.cpp runs a model: ``check --runs-on llama.cpp`` loads it, as ``generate`` does.

In a child process, which a file that contradicts itself may end; what passed is remembered.
"""

from __future__ import annotations

from mtkit.base.rules import Finding, Rule
from mtkit.errors import FormatError, MissingExtra, MtkitError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.base.binary import Source

MODEL = Rule("runs-model", "warning", "llama.cpp", "file")
PROGRAM = "llama.cpp"
PART = "a test run of the model in llama.cpp"


def tried(source: Source) -> Finding | tuple[str, str] | None:
    """Return why llama.cpp does not run a model, or why that was not tried; None where it runs."""
    import os

    from mtkit.llm.preflight import ModelHeader
    from mtkit.llm.trial import try_out
    from mtkit.settings import LoadSettings

    if not os.path.isfile(source.name):
        return PART, "models run from files"
    if os.environ.get("MTKIT_TRIAL") == "0":
        return PART, "MTKIT_TRIAL is 0"
    try:
        try_out(ModelHeader(source), LoadSettings())
    except MtkitError as error:
        is_answer = isinstance(error, (FormatError, UnsupportedError))
        if is_answer and not isinstance(error, MissingExtra):
            what = error.what.removeprefix(f"{source.name}: ")
            what = f"{error.field}: {what}" if error.field else what
            return Finding(MODEL, MODEL.field, what, advice=error.hint)
        return PART, error.what
    return None
