"""What is counted while a draft is used."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llm.speculative.learning import Learning


class Statistics:
    """Counts of rounds.

    Attributes:
        rounds: Batches that were verified, those without a draft included.
        plain: Of them, those without a draft.
        declined: Texts in which nothing was drafted at all.
        reason: Why it was not; empty where there are none.
        drafted: Tokens that were proposed.
        accepted: Of them, those that the target accepted.
        emitted: Tokens that the rounds gave.
        tried: Place in a proposal -> how often the tokens in front of it were all accepted.
        kept: Place in a proposal -> how often the token there was accepted, too.
        draft_seconds: Time spent on proposals.
        verify_seconds: Time spent on verifying them, and on rounds without a draft.
        load_seconds: Time spent on loading what drafts.
        measure_seconds: Time spent on measuring batches and comparing their bits.
        learning: What of it changed the draft's vocabulary; None for nothing.
    """

    def __init__(self, learning: Learning | None = None) -> None:
        self.learning = learning
        self.load_seconds = self.measure_seconds = 0.0
        self.declined, self.reason = 0, ""
        self.rounds = self.plain = self.drafted = self.accepted = self.emitted = 0
        self.tried: list[int] = []
        self.kept: list[int] = []
        self.draft_seconds = self.verify_seconds = 0.0

    def text(self, declined: str) -> None:
        """Count a text: why nothing is drafted in it, empty where something may be."""
        self.declined += bool(declined)
        self.reason = declined or self.reason

    def stopped(self, reason: str) -> None:
        """Count that nothing more is drafted in the text."""
        self.declined, self.reason = self.declined + 1, reason

    def round(self, drafted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Count a batch."""
        self.rounds += 1
        self.plain += not drafted
        self.drafted += drafted
        self.draft_seconds += draft_seconds
        self.verify_seconds += verify_seconds

    def plain_rounds(self, count: int, seconds: float) -> None:
        """Count batches of one token."""
        self.rounds += count
        self.plain += count
        self.emitted += count
        self.verify_seconds += seconds

    def outcome(self, drafted: int, accepted: int, emitted: int) -> None:
        """Count what became of it."""
        self.accepted += accepted
        self.emitted += emitted
        missing = drafted - len(self.tried)
        self.tried += [0] * missing
        self.kept += [0] * missing
        for place in range(min(accepted + 1, drafted)):
            self.tried[place] += 1
            self.kept[place] += place < accepted

    @property
    def acceptance(self) -> float:
        """Part of the proposed tokens that was accepted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def per_round(self) -> float:
        """Tokens that a round gave on average."""
        return self.emitted / self.rounds if self.rounds else 0.0

    def document(self) -> dict[str, object]:
        """Return them for JSON."""
        learning = {"dynamic_vocabulary": self.learning.document()} if self.learning else {}
        return {
            "rounds": self.rounds,
            "plain_rounds": self.plain,
            "declined_texts": self.declined,
            **({"declined": self.reason} if self.reason else {}),
            "drafted": self.drafted,
            "accepted": self.accepted,
            "emitted": self.emitted,
            "acceptance": self.acceptance,
            "acceptance_by_place": [
                kept / tried if tried else 0.0
                for kept, tried in zip(self.kept, self.tried, strict=True)
            ],
            "tried_by_place": self.tried,
            "accepted_by_place": self.kept,
            "tokens_per_round": self.per_round,
            "draft_seconds": self.draft_seconds,
            "verify_seconds": self.verify_seconds,
            "load_seconds": self.load_seconds,
            "measure_seconds": self.measure_seconds,
            **learning,
        }
