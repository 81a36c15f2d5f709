"""What becomes of the fields of a request that nothing reads.

Most change no answer, or can be passed over: clients send what they know of other servers. Such a
field is taken, told of once by its name, and counted. One that asks for what cannot be given is
refused by name, and with ``--strict`` every field that is not known is.
"""

from __future__ import annotations

import msgspec

from mtkit.serve.replies import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

_NO_EFFECT = frozenset((
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "truncation", "verbosity", "stream_options", "context_management",
))  # fmt: skip
"""What clients send and what changes no answer here, taken with ``--strict``, too."""
_NOTHING_ASKED: dict[str, tuple[Any, ...]] = {
    # OpenAI's
    "audio": (), "modalities": (["text"],), "best_of": (1,), "web_search_options": (),
    "previous_response_id": (), "conversation": (), "prompt": (), "background": (False,),
    # Anthropic's
    "mcp_servers": ([],), "container": (),
    # llama-server's
    "image_data": ([],), "multimodal_data": ([],), "lora": ([],),
    # vLLM's
    "guided_json": (), "guided_regex": (), "guided_choice": (), "guided_grammar": (),
    "structured_outputs": (), "use_beam_search": (False,), "prompt_logprobs": (),
}  # fmt: skip
"""Fields that ask for what cannot be given, and the values with which they do not."""
_REFUSED = "is not supported"
_MOST_NAMES = 100
"""That are told apart; any client can make up more."""


class Unknown:
    """Sees to the fields that nothing reads, of all requests to a server."""

    def __init__(
        self, *, strict: bool, count: Callable[[str], None], say: Callable[[str], None]
    ) -> None:
        """Begin to see to them.

        Args:
            strict: Refuse what is not known.
            count: Counts a name.
            say: Tells the user something.
        """
        self._strict, self._count, self._say = strict, count, say
        self._told: set[str] = set()

    def see(self, fields: Mapping[str, Any]) -> None:
        """See to the fields of one request.

        Raises:
            Problem: One asks for what cannot be given, or is refused.
        """
        for name, value in fields.items():
            harmless = _NOTHING_ASKED.get(name)
            if harmless is not None:
                if not any(type(value) is type(one) and value == one for one in harmless):
                    known = " or ".join(msgspec.json.encode(one).decode() for one in harmless)
                    what = f"only {known} is supported" if known else _REFUSED
                    raise Problem(400, f"{name}: {what}", field=name)
            elif self._strict and name not in _NO_EFFECT:
                raise Problem(400, f"{name[:100]}: is not a known field", field=name[:100])
            name = name[:100]
            self._pass(name, f"requests have the field {name}, which has no effect")

    def leave_out(self, kind: str) -> None:
        """See to a tool of a type that only other servers have.

        Raises:
            Problem: It is refused.
        """
        if self._strict:
            raise Problem(400, f"tools: the type {kind[:100]} is not supported", field="tools")
        self._pass(f"tools: {kind[:100]}", f"tools of the type {kind[:100]} are left out")

    def _pass(self, name: str, said: str) -> None:
        if name not in self._told and len(self._told) < _MOST_NAMES:
            self._told.add(name)
            self._say(said)
        self._count(name if name in self._told else "others")
