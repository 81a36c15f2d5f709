"""What ``mtkit sx tune`` found for a target: settings of drafting, and what is known of costs.

A file of schema ``mtkit.draft-profile/1``. ``--draft-profile FILE`` takes its settings where no
option says otherwise. Paths in it are those of files beside it, or absolute.
"""

from __future__ import annotations

import json
import os

from mtkit.base.binary import map_file
from mtkit.base.record import replace
from mtkit.base.whole_files import write_files
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.llm.speculative.known import Known
    from mtkit.settings import DraftSettings

SCHEMA = "mtkit.draft-profile/1"
_FILES = ("draft", "sx_static_vocab")
_SETTINGS = (
    *_FILES, "draft_lookup", "draft_max", "draft_width", "sx_seed_prompt", "sx_learn", "exact",
)  # fmt: skip


def write(path: str, drafting: DraftSettings, known: Known, about: dict[str, object]) -> None:
    """Write a profile.

    Args:
        path: Where to, replaced if it is there.
        drafting: What it is to say.
        known: Of costs and acceptance with these settings.
        about: What else is worth saying, for people.
    """
    folder = os.path.dirname(os.path.abspath(path))
    settings = {
        name: getattr(drafting, name)
        for name in _SETTINGS
        if getattr(drafting, name) != drafting.declared[name].default
    }
    for name in _FILES:
        if name in settings:
            near = os.path.dirname(os.path.abspath(settings[name])) == folder
            whole = os.path.abspath(settings[name])
            settings[name] = os.path.basename(whole) if near else whole
    document = {"schema": SCHEMA, **about, "settings": settings, "known": known.document()}
    write_files({path: (json.dumps(document, indent=1) + "\n").encode()}, force=True)


def read(path: str) -> dict[str, Any]:
    """Return the document of a profile.

    Raises:
        UsageError: It cannot be read.
        FormatError: It is none.
    """
    try:
        found = json.loads(bytes(map_file(path)))
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise FormatError("is not a profile", source=path, hint="mtkit sx tune writes them")
    return found


def applied(drafting: DraftSettings) -> DraftSettings:
    """Return settings with those of their profile, where they say nothing themselves.

    Raises:
        UsageError: The profile cannot be read.
        FormatError: It is none, or a setting of it makes no sense.
    """
    path = drafting.draft_profile
    if path is None:
        return drafting
    settings, given = read(path).get("settings"), {}
    if not isinstance(settings, dict) or not settings.keys() <= set(_SETTINGS):
        raise FormatError("has settings that are not known", source=path, field="settings")
    for name, value in settings.items():
        declared = drafting.declared[name]
        if not declared.options or getattr(drafting, name) != declared.default:
            continue
        if not isinstance(value, type(declared.default) if declared.default is not None else str):
            raise FormatError(f"is {value!r}", source=path, field=f"settings.{name}")
        if name in _FILES:
            value = os.path.join(os.path.dirname(os.path.abspath(path)), value)
        given[name] = value
    if drafting.declared["exact"].default is False:  # of a server: it means another thing
        given.pop("exact", None)
    return replace(drafting, **given)
