"""Where an answer begins: in a reasoning or not, and what of a sign the prompt ends with."""

from __future__ import annotations

from mtkit.chat.signs import Sign, tokens

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.chat.answer_form import Form


def roles_of(header: str) -> list[Sign]:
    """Return what an answer begins with whose header was not part of the prompt."""
    parts = tokens(header)
    places = [at for at, token in enumerate(parts) if token[0] in "<[" and len(token) > 2]
    return [Sign("".join(parts[at:])) for at in places]


def begins_in_reasoning(form: Form, prompt: str) -> bool:
    """Say whether an answer to a prompt begins in a reasoning."""
    return state_of(form, prompt) == "yes"


def state_of(form: Form, prompt: str) -> str:
    """Return whether an answer begins in a reasoning: yes, no, or "unsaid"."""
    if form.leads == "always":
        return "yes"
    is_open = _opens(prompt or form.opening, form)
    if form.leads == "unsaid":
        return "yes" if is_open and prompt and not _is_plain(form) else "unsaid"
    return ("yes" if prompt else "unsaid") if is_open else "no"


def _is_plain(form: Form) -> bool:
    """Say whether texts, too, stand behind what opens a reasoning."""
    thinking = form.thinking
    return thinking is not None and any(one.text.endswith(thinking.text) for one in form.starts)


def _opens(prompt: str, form: Form) -> bool:
    """Say whether a prompt ends in a reasoning."""
    if form.thinking is None:
        return False
    core, header = form.thinking.core.rstrip(), form.header.strip()
    at = prompt.rfind(core)
    if at < 0 or not core:
        return False
    behind = prompt[at + len(core) :]
    if not behind.strip():
        return True
    is_last = bool(header) and prompt.rfind(header) < at
    return is_last and not any(sign.core in behind for sign in form.thought)


def lead_of(form: Form, prompt: str) -> str:
    """Return the end of a prompt that a sign may begin with."""
    signs = [*form.starts, *([form.thinking] if form.thinking is not None else [])]
    if form.calls is not None:
        signs.append(form.calls.opening)
    best = ""
    for sign in signs:
        for length in range(min(len(sign.core), len(prompt)), len(best), -1):
            lead = sign.core[:length]
            if not prompt.endswith(lead):
                continue
            if not (lead[0].isalnum() and prompt[: len(prompt) - length][-1:].isalnum()):
                best = lead
            break
    return best if best.strip() else ""
