"""From any specification to one that the components of tokenizer.json can say.

Each step replaces a component of another reference by the library's components that come nearest,
and lists what differs.
"""

from __future__ import annotations

from mtkit.spec.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import Loss, WriteOptions
    from mtkit.spec import TokenizerSpec


class Adapted(Record):
    """A specification of the library's components, and how it differs from the given one."""

    spec: TokenizerSpec
    losses: tuple[Loss, ...] = ()
    assumptions: tuple[str, ...] = ()


def adapt(spec: TokenizerSpec, options: WriteOptions) -> Adapted:  # noqa: ARG001
    """Adapt a specification."""
    return Adapted(spec)
