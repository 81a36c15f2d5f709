"""One tokenizer beside what a program makes of another: ``compare --as``."""

from __future__ import annotations

from mtkit.checks.programs.reading import read_by
from mtkit.errors import FormatError, UnsupportedError
from mtkit.programs.asking import said_by
from mtkit.tokenizer.compare import Comparison, Difference, first_difference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.programs import Program
    from mtkit.programs.asking import Said
    from mtkit.tokenizer.tokenizer import Tokenizer


def compare_as(
    program: Program,
    left: Tokenizer,
    right: Tokenizer,
    texts: Iterable[str | bytes],
    *,
    most: int = 10,
    add_special_tokens: bool = True,
) -> Comparison:
    """Compare ids with those that a program gives; a difference's ``stage`` says what read it.

    Args:
        program: What reads the file of the right one.
        left: Whose ids are compared.
        right: The tokenizer whose file the program reads.
        texts: All of them go to the program at once.
        most: How many differences to describe.
        add_special_tokens: Compare what stands around a text, too.

    Raises:
        UnsupportedError: The program's library is missing, or nothing that it reads can hold this.
        FormatError: The program refuses the file.
        ResourceError: It takes too long.
    """
    asked = [text if isinstance(text, str) else text.decode("utf-8", "replace") for text in texts]
    try:
        reading = read_by(program, right, asked)
    except (FormatError, UnsupportedError) as error:
        raise type(error)(
            f"{program.name}: {error.what}", source=right.source, field=error.field, hint=error.hint
        ) from None
    here = reading.here if left is right and not reading.converted else said_by(left, asked)
    stage = reading.name + f", which does not follow {right.source}" * bool(reading.own_class)
    found: list[Difference] = []
    tokens, different = [0, 0], 0
    for number, (text, one, other) in enumerate(zip(asked, here, reading.there, strict=False), 1):
        if one.ids is None:
            continue
        ids = [_ids(said, around=add_special_tokens) for said in (one, other)]
        tokens = [total + len(more) for total, more in zip(tokens, ids, strict=True)]
        if ids[0] == ids[1] and other.ids is not None:
            continue
        different += 1
        if len(found) < most:
            shown = [
                (numbers, [side.id_to_token(i) or "" for i in numbers])
                for side, numbers in zip((left, right), ids, strict=True)
            ]
            first = first_difference(*ids)
            why = f"{reading.name}: {other.error}" if other.error else stage
            found.append(Difference(number, text, first, why, shown[0], shown[1]))
    sides = left.source, right.source
    return Comparison(len(asked), different, (tokens[0], tokens[1]), tuple(found), sides)


def _ids(said: Said, *, around: bool) -> list[int]:
    """Return the ids of a text; of a program that adds nothing around it, those alone."""
    return list((said.around if around and said.around is not None else said.ids) or ())
