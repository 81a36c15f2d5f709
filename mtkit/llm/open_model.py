"""Open a model: find its file, see that it can run and fits, and load it."""

from __future__ import annotations

from mtkit.llm.preflight import ModelHeader
from mtkit.llm.runner import Runner, plan_settings
from mtkit.llm.threads import choose_waiting
from mtkit.llm.trial import try_out
from mtkit.sources.locate import MODEL, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.settings import ModelSettings


def open_model(
    settings: ModelSettings,
    on_progress: Callable[[float], None] | None = None,
    *,
    n_ctx: int = 1,
    header: ModelHeader | None = None,
) -> Runner:
    """Load a model whose context can then be opened; close it, or use it in ``with``.

    Args:
        settings: Which model, and how.
        on_progress: Called with the part that is loaded, 0 to 1.
        n_ctx: Tokens of context that have to fit where the settings name none; of a model that
            was trained with fewer, those.
        header: Of the model's file, if it has been read.

    Raises:
        MissingExtra: llama-cpp-python is not installed.
        UsageError: There is no such file, or a device is not there.
        FormatError: The file is damaged.
        UnsupportedError: It holds no model that can run.
        ResourceError: It does not fit the memory.
    """
    header = header or ModelHeader(locate(settings.model, MODEL).path, settings.lora)
    n_ctx = settings.context.n_ctx or min(n_ctx, header.n_ctx_train or n_ctx)
    header.check(plan_settings(settings, n_ctx))
    waiting = choose_waiting(settings.load.wait)
    try_out(header, settings.load)
    return Runner(header, settings, n_ctx=n_ctx, waiting=waiting, on_progress=on_progress)
