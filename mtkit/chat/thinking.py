"""The switch of a chat template that lets a model think before it answers, or keeps it from that.

Templates call it by many names. It is found by what it does: the end of the generation prompt is
another with it than without.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.chat.probes import Probes

    Switch = tuple[tuple[str, Any, Any], ...]

_NAMES: Switch = (
    ("enable_thinking", True, False),
    ("thinking", True, False),
    ("thinking_mode", "enabled", "disabled"),
    ("thinking_option", "on", "off"),
    ("skip_thinking", False, True),
    ("reasoning", True, False),
    ("reasoning_mode", "/think", "/no_think"),
    ("thinking_budget", -1, 0),
    ("reasoning_effort", "high", "none"),
    ("reasoning_effort", "high", "no_think"),
    ("reasoning_effort", "high", "low"),
    ("thinking_effort", "high", "none"),
)
"""Names of variables, and their values for thinking and for none."""


def switch_of(probes: Probes, template: str) -> Switch:
    """Return the variables that switch, each with its values for thinking and for none.

    Args:
        probes: Renders the template.
        template: The template.
    """
    made: dict[str, tuple[str, Any, Any]] = {}
    for name, on, off in _NAMES:
        if name in made or name not in template:
            continue
        with_it, without = probes.opening(**{name: on}), probes.opening(**{name: off})
        if with_it is not None and without is not None and with_it != without:
            made[name] = (name, on, off)
    if "enable_thinking" in made or "thinking" in made:
        made.pop("reasoning_effort", None)  # it says how much
    return tuple(made.values())
