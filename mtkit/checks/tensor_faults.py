"""What is wrong with the tensors of a model, in a folder or in a GGUF, as findings."""

from __future__ import annotations

from mtkit.base.rules import Finding
from mtkit.checks.report import MOST_OF_A_SURVEY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from mtkit.architectures.matching import Fault
    from mtkit.base.rules import Rule


def faults_found(
    faults: Iterable[Fault],
    made: Callable[[Rule, str, str], Finding],
    rules: tuple[Rule, Rule, Rule],
    texts: tuple[str, str, str],
) -> Iterator[Finding]:
    """Yield a finding for each tensor of faults, of each kind the first places and their number.

    Args:
        faults: Of one model.
        made: Makes a finding of a rule, a tensor's name and what is wrong with it.
        rules: About missing tensors, shapes, unknown tensors.
        texts: What is said of a missing tensor; who says another shape; of an unknown tensor.
    """
    counts = [0, 0, 0]
    for fault in faults:
        kind = ("missing", "shape", "unknown").index(fault.kind)
        what = texts[kind]
        if fault.kind == "shape":
            what = f"has the shape {list(fault.shape)}, but {what} {list(fault.wanted)}"
        for name in fault.names:
            counts[kind] += 1
            if counts[kind] <= MOST_OF_A_SURVEY:
                yield made(rules[kind], name, what)
    for rule, count in zip(rules, counts, strict=True):
        if count > MOST_OF_A_SURVEY:
            what = f"and {count - MOST_OF_A_SURVEY} more places like these"
            yield Finding(rule, rule.field, what)
