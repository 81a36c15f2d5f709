"""A draft model of another vocabulary, translated to the ids of the target.

Two ids mean the same if they stand for the same bytes of text, or are control tokens spelled alike.
A draft that proposes such ids only is like one with a smaller vocabulary: q is 0 for all others, so
decoding stays lossless. The text enters the draft as its own tokenizer splits it.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.speculative.verification import Distribution, Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.speculative.drafts import Draft
    from mtkit.speculative.verification import Outcome
    from mtkit.tokenizer.tokenizer import Tokenizer


_TEXT_KINDS = ("normal", "user_defined", "added", "byte")


class Overlap(Record):
    """What two vocabularies have in common.

    Attributes:
        shared: How many of the draft's ids mean the same as one of the target's.
        same_id: How many of those have the same id in both.
        first: Lowest id with another meaning in the draft; None if there is none.
    """

    target_ids: int
    draft_ids: int
    shared: int
    same_id: int
    first: int | None


class Translation:
    """Translates texts into a draft's ids, and its proposals back.

    Attributes:
        shared: The draft's id -> the target's id that means the same.
    """

    def __init__(self, target: Tokenizer, draft: Tokenizer, front: Sequence[int] = ()) -> None:
        """Match the vocabularies; ``front`` is what every text of the draft begins with."""
        self._target, self._draft, self._front = target, draft, list(front)
        target_ids = meanings(target)
        self.shared = {
            token_id: target_ids[meaning]
            for meaning, token_id in meanings(draft).items()
            if meaning in target_ids
        }
        for ours, theirs in ((target.eos_id, draft.eos_id), (target.bos_id, draft.bos_id)):
            if ours is not None and theirs is not None and ours not in self.shared.values():
                self.shared.setdefault(theirs, ours)
        self._controls = {ours: theirs for theirs, ours in self.shared.items()}
        self._is_control = {
            i for i in range(target.vocab_size) if target.token_kind(i) not in _TEXT_KINDS
        }

    @property
    def overlap(self) -> Overlap:
        """Return what the two have in common."""
        target, draft = self._target, self._draft
        both = range(min(target.vocab_size, draft.vocab_size))
        first = next((i for i in both if meaning_of(target, i) != meaning_of(draft, i)), None)
        same = sum(ours == theirs for theirs, ours in self.shared.items())
        return Overlap(target.vocab_size, draft.vocab_size, len(self.shared), same, first)

    def entering(self, ids: Sequence[int]) -> list[int] | None:
        """Return the draft's ids of a text; None where the text ends inside a character."""
        draft_ids = list(self._front)
        segments = self._segments(ids)
        for segment in segments:
            if isinstance(segment, int):
                control = self._controls.get(segment)
                if control is not None and [control] != draft_ids:  # not a second BOS
                    draft_ids.append(control)
                continue
            text = self._target.decode_bytes(segment, skip_special_tokens=False)
            if segment is segments[-1] and whole_characters(text) < len(text):
                return None
            draft_ids += self._draft_ids(text)
        return draft_ids or None

    def _draft_ids(self, text: bytes) -> list[int]:
        return self._draft.encode_ids(
            text.decode("utf-8", "replace"), add_special_tokens=False, parse_special=False
        )

    def _segments(self, ids: Sequence[int]) -> list[int | list[int]]:
        """Return control tokens, and the lists of ids between them."""
        segments: list[int | list[int]] = []
        for token_id in ids:
            if token_id in self._is_control:
                segments.append(token_id)
            elif segments and isinstance(segments[-1], list):
                segments[-1].append(token_id)
            else:
                segments.append([token_id])
        return segments


def meaning_of(tokenizer: Tokenizer, token_id: int) -> tuple[bool, bytes] | None:
    """Return whether an id is a control token, and its bytes; None for an unused id."""
    kind = tokenizer.token_kind(token_id)
    if kind in _TEXT_KINDS:
        return False, tokenizer.token_bytes(token_id)
    return (True, tokenizer.id_to_piece(token_id) or b"") if kind == "control" else None


def meanings(tokenizer: Tokenizer) -> dict[tuple[bool, bytes], int]:
    """Return meaning -> id; of several ids the first, byte tokens last."""
    ids = range(tokenizer.vocab_size)
    id_of: dict[tuple[bool, bytes], int] = {}
    for token_id in sorted(ids, key=lambda i: tokenizer.token_kind(i) == "byte"):
        meaning = meaning_of(tokenizer, token_id)
        if meaning is not None and meaning[1]:
            id_of.setdefault(meaning, token_id)
    return id_of


def whole_characters(text: bytes) -> int:
    """Return how many bytes a text has without an incomplete character at its end."""
    for back in range(1, min(4, len(text) + 1)):
        byte = text[-back]
        if byte >= 0xC0:
            size = 2 + (byte >= 0xE0) + (byte >= 0xF0)
            return len(text) - back if back < size else len(text)
        if byte < 0x80:
            break
    return len(text)


class TranslatedDraft:
    """Proposes in the target's ids what a draft of another vocabulary proposes."""

    free, overlap = False, 0
    learning = None

    def __init__(self, draft: Draft, translation: Translation) -> None:
        """Take a draft that proposes shared ids only; it is closed with this one."""
        import numpy as np

        self._draft, self._translation = draft, translation
        shared = translation.shared
        self._ours = np.full(max(shared, default=0) + 1, -1, np.int64)
        self._ours[list(shared)] = list(shared.values())
        self._entered: tuple[list[int], list[int] | None] = [], None

    def begin(self, ids: Sequence[int]) -> None:
        """Wait: the text is translated when something is proposed."""

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return how many of its tokens the draft has to read."""
        entering = self._entering(ids)
        if entering is None:
            return None
        self._draft.begin(entering)  # another split can change the last tokens
        return self._draft.behind(entering)

    def _entering(self, ids: Sequence[int]) -> list[int] | None:
        if self._entered[0] != ids:
            self._entered = list(ids), self._translation.entering(ids)
        return self._entered[1]

    def read(self, ids: Sequence[int], most: int) -> None:
        """Let the draft read."""
        entering = self._entering(ids)
        if entering is not None:
            self._draft.begin(entering)
            self._draft.read(entering, most)

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Return what the draft proposes, in the target's ids."""
        entering = self._entering(ids)
        if entering is None:
            return Proposal([])
        self._draft.begin(entering)
        proposal = self._draft.propose(entering, most)
        ours = [int(self._ours[token_id]) for token_id in proposal.ids]
        if proposal.distributions is None:
            return Proposal(ours)
        distributions = [Distribution(self._ours[q.ids], q.chances) for q in proposal.distributions]
        return Proposal(ours, distributions)

    def saw(self, outcome: Outcome) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Let the draft forget."""
        self._draft.reset()

    def close(self) -> None:
        """Close the draft."""
        self._draft.close()
