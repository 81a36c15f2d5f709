"""One interleaved run: libraries in turn, round after round, on every text."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack

from benchmarks.peers.inputs import files_of
from benchmarks.peers.libraries import LIBRARIES, OWN, REFERENCES, file_for, module_of
from benchmarks.peers.process import Process
from benchmarks.peers.scenarios import HARD, SCENARIOS, hard_text
from mtkit.base.record import Record
from mtkit.errors import UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from benchmarks.peers.libraries import Library
    from mtkit.tokenizer.tokenizer import Tokenizer

SCHEMA = "benchmarks.peers/1"
_ENOUGH_SECONDS = 2.0
"""What a library may use in one scenario before it is left out of the rounds behind the second; a
failure counts as this much."""
_OWN_FORM = "load .mtok"
"""Loading mtkit's own form of the file, beside the others' loading of theirs."""


class Plan(Record):
    """What is to be measured.

    Attributes:
        texts: By name.
        peers: Names of libraries, or paths of Python files with some; None: all that are there.
        rounds: How often.
        scenarios: Which.
        counts: Whether instructions are counted.
    """

    texts: Mapping[str, str]
    peers: Sequence[str] | None = None
    rounds: int = 5
    scenarios: Sequence[str] = tuple(SCENARIOS)
    counts: bool = False


def run(
    tokenizers: Sequence[Tokenizer], plan: Plan, on_progress: Callable[[float], object]
) -> dict[str, Any]:
    """Measure; returns the document of ``mtkit bench --json``.

    Raises:
        UsageError: A peer is not known.
        UnsupportedError: Processes cannot be forked here, or valgrind is missing.
    """
    from benchmarks.peers.machine import machine
    from mtkit._version import __version__

    if not hasattr(os, "fork"):
        raise UnsupportedError("measuring needs a system that can fork processes")
    if plan.counts:
        from benchmarks.peers import instructions

        instructions.require()
    libraries = chosen(plan.peers)
    found = []
    for at, tokenizer in enumerate(tokenizers):

        def show(part: float, at: int = at) -> None:
            on_progress(min((at + part) / len(tokenizers), 0.999))

        with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
            found.append(_Run(tokenizer, plan, libraries, folder, stack).document(show))
    on_progress(1)
    return {
        "schema": SCHEMA,
        "mtkit": __version__,
        "machine": machine(),
        "settings": {"rounds": plan.rounds, "scenarios": list(plan.scenarios)},
        "texts": [{"name": n, "bytes": len(text.encode())} for n, text in plan.texts.items()],
        "tokenizers": found,
    }


def chosen(peers: Sequence[str] | None) -> dict[str, tuple[Library, str]]:
    """Return name -> library and the file that describes it, mtkit first.

    Raises:
        UsageError: One is not known, or not installed although it was asked for.
    """
    from importlib.util import find_spec

    found = {OWN: (LIBRARIES[OWN], "")}
    for name in LIBRARIES if peers is None else peers:
        if name.endswith(".py"):
            made = _described(name)
            found |= {key: (library, os.path.abspath(name)) for key, library in made.items()}
            continue
        if name not in LIBRARIES:
            known = ", ".join(key for key in LIBRARIES if key != OWN)
            hint = f"there are {known}, none, or a Python file that describes one"
            raise UsageError(f"there is no {name!r}", field="--peers", hint=hint)
        if find_spec(module_of(LIBRARIES[name])) is not None:
            found[name] = (LIBRARIES[name], "")
        elif peers is not None:
            what, hint = f"{name} is not installed", f"pip install {name}"
            raise UsageError(what, field="--peers", hint=hint)
    return found


def _described(path: str) -> dict[str, Library]:
    """Return the libraries that a user's Python file describes."""
    from benchmarks.peers.libraries import from_file

    try:
        return from_file(path)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:  # noqa: BLE001  it is the user's code
        what = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError) and error.filename == path:
            what = error.strerror or what
        raise UsageError(what, source=path, field="--peers") from None


class _Run:
    """The measuring of one tokenizer."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        plan: Plan,
        libraries: Mapping[str, tuple[Library, str]],
        folder: str,
        stack: ExitStack,
    ) -> None:
        self.tokenizer = tokenizer
        self.plan = plan
        self.folder = folder
        self.files = files_of(tokenizer, folder)
        self.own_form = self.files.get("mtok") if tokenizer.format_name != "mtok" else None
        self.libraries = libraries
        self.states: dict[str, dict[str, Any]] = {}
        self.processes: dict[str, Process] = {}
        for name, (library, module) in libraries.items():
            path = file_for(library, self.files, tokenizer.source)
            if path is None:
                continue
            process = Process(name, module, path)
            stack.callback(process.close)
            error = process.load()
            self.states[name] = {"version": process.version, "file": os.path.basename(path)}
            if error:
                self.states[name]["error"] = error
            else:
                self.processes[name] = process
        if OWN not in self.processes:
            raise UnsupportedError(self.states[OWN]["error"], source=tokenizer.source)
        self.figures: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.spent: dict[tuple[str, str, str], float] = {}

    def document(self, on_progress: Callable[[float], None]) -> dict[str, Any]:
        """Compare ids, measure, count."""
        hard = {f"hard {name}": hard_text(name) for name in HARD}
        texts = dict(self.plan.texts) | (hard if "hard" in self.plan.scenarios else {})
        reference = self._verify(texts)
        steps = list(self._steps(texts))
        for number in range(self.plan.rounds):
            for at, (scenario, text) in enumerate(steps):
                on_progress((number + at / len(steps)) / self.plan.rounds)
                self._measure(number, scenario, text)
        for name, process in self.processes.items():
            self._add("load memory", "", "", "bytes", name, float(process.memory))
        if self.plan.counts:
            self._count()
        return {
            "name": _name_of(self.tokenizer),
            "format": self.tokenizer.format_name,
            "reference": reference,
            "libraries": self.states,
            "figures": list(self.figures.values()),
        }

    def _verify(self, texts: Mapping[str, str]) -> str | None:
        """Compare the ids of every library; returns the name of the one whose ids are right."""
        digests = {}
        for name, process in list(self.processes.items()):
            process.ask("take", texts=texts)
            found = process.ask("digests", names=list(texts))
            if "error" in found:
                self.states[name]["error"] = found["error"]
                del self.processes[name]
            digests[name] = found
        reference = REFERENCES.get(self.tokenizer.format_name)
        judge = reference if reference in self.processes else OWN
        for name, process in self.processes.items():
            self.states[name]["wrong"] = [
                self._difference(process, self.processes[judge], text)
                for text in texts
                if digests[name][text] != digests[judge][text]
            ]
        return None if judge == OWN else judge

    @staticmethod
    def _difference(process: Process, judge: Process, text: str) -> dict[str, Any]:
        """Say where the ids of two libraries part."""
        theirs, right = (each.ask("ids", name=text).get("ids", []) for each in (process, judge))
        pairs = enumerate(zip(theirs, right, strict=False))
        at = next((at for at, (a, b) in pairs if a != b), min(len(theirs), len(right)))
        return {"text": text, "at": at, "ids": theirs[at : at + 4], "right": right[at : at + 4]}

    def _steps(self, texts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        for name in self.plan.scenarios:
            about = SCENARIOS[name].about
            if about == "file":
                yield name, ""
            elif about == "hard":
                yield from ((name, text) for text in texts if text not in self.plan.texts)
            else:
                yield from ((name, text) for text in self.plan.texts)

    def _measure(self, number: int, scenario: str, text: str) -> None:
        """Measure every library once, one behind the other."""
        entry = SCENARIOS[scenario]
        for name, process in self.processes.items():
            if getattr(self.libraries[name][0], entry.needs) is None:
                continue
            key = name, scenario, text
            if number > 1 and self.spent.get(key, 0) > _ENOUGH_SECONDS:
                continue
            paths = [("", scenario)]
            if name == OWN and scenario == "load" and self.own_form is not None:
                paths.append((self.own_form, _OWN_FORM))
            for path, shown in paths:
                found = self._asked(process, scenario, text, path)
                self.spent[key] = self.spent.get(key, 0) + found.get("seconds", _ENOUGH_SECONDS)
                for part, cost in found.get("costs", {}).items():
                    self._add(shown, text, part, entry.unit, name, cost)
                    if scenario == "load" and name != OWN and self.own_form is not None:
                        self._add(_OWN_FORM, text, part, entry.unit, name, cost)

    def _asked(self, process: Process, scenario: str, text: str, path: str) -> dict[str, Any]:
        found = process.ask("measure", scenario=scenario, text=text, path=path)
        if "error" in found:
            failed = self.states[process.name].setdefault("failed", {})
            failed[f"{scenario} {text}".strip()] = found["error"]
        return found

    def _add(self, scenario: str, text: str, part: str, unit: str, name: str, cost: float) -> None:
        figure = self.figures.setdefault(
            (scenario, text, part),
            {"scenario": scenario, "text": text, "part": part, "unit": unit, "costs": {}},
        )
        figure["costs"].setdefault(name, []).append(cost)

    def _count(self) -> None:
        """Count instructions; mtkit's of its own form of the file, whose loading is short."""
        from benchmarks.peers.instructions import instructions

        for text, content in self.plan.texts.items():
            path = os.path.join(self.folder, "text")
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(content)
            for name in self.processes:
                library, module = self.libraries[name]
                given = file_for(library, self.files, self.tokenizer.source) or ""
                own = self.own_form or given if name == OWN else given
                size = len(content.encode())
                try:
                    for part, cost in instructions(name, module, own, path, size):
                        self._add("instructions", text, part, "instr/byte", name, cost)
                except UnsupportedError as error:
                    self.states[name].setdefault("failed", {})["instructions"] = str(error)


def _name_of(tokenizer: Tokenizer) -> str:
    """Return a file's name with its folder's: gpt2/tokenizer.json."""
    folder, name = os.path.split(os.path.abspath(tokenizer.source))
    return f"{os.path.basename(folder)}/{name}"
