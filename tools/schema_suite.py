"""JSON-Schema-Test-Suite against ``--json-schema``.

    python -m tools.schema_suite FOLDER [COUNT]

FOLDER holds its JSON files (tests/draft2020-12 of json-schema-org/JSON-Schema-Test-Suite), COUNT is
how many answers are drawn for each schema, by default 200. Each schema is either refused by name,
or every answer is valid by jsonschema and no invalid instance of the suite is taken. Ends with an
error where one is neither.
"""

from __future__ import annotations

import collections
import json
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "tests", "support"))

from schema_answers import Drawer, validator  # type: ignore[import-not-found]

from mtkit.errors import MtkitError
from mtkit.llama import Grammar, LoadSettings, Model
from mtkit.sources.locate import MODEL, shipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Suite:
    """Counts what becomes of schemas."""

    def __init__(self, model: Model, count: int) -> None:
        self._model, self._count, self._drawer = model, count, Drawer(model)
        self.counts: collections.Counter[str] = collections.Counter()
        self.reasons: collections.Counter[str] = collections.Counter()
        self.faults: list[str] = []

    def add(self, name: str, schema: Any, tests: list[dict[str, Any]]) -> None:
        """Try one schema."""
        try:
            grammar = Grammar(self._model, schema=json.dumps(schema))
        except MtkitError as error:
            self.counts["refused"] += 1
            self.reasons[error.what] += 1
            if not error.field.startswith("JSON schema"):
                self.faults.append(f"{name}: {error}")
            return
        self.counts["accepted"] += 1
        judge = validator(schema)
        with grammar:
            for test in tests:
                text = json.dumps(test["data"], ensure_ascii=False)
                taken = self._drawer.takes(grammar, text)
                self.counts[f"{'valid' if test['valid'] else 'invalid'}{' taken' * taken}"] += 1
                if taken and not test["valid"]:
                    self.faults.append(f"{name}: takes {text}")
                if not taken and test["valid"] and "-v" in sys.argv:
                    sys.stdout.write(f"{name}: does not take {text[:100]}\n")
        for text in self._drawer.answers(schema, self._count):
            self.counts["answers"] += 1
            wrong = next(judge.iter_errors(json.loads(text)), None)
            if wrong is not None:
                self.faults.append(f"{name}: {text[:200]!r}: {wrong.message[:200]}")
                break
        self.counts["unfinished"] = self._drawer.unfinished


def main() -> None:
    """Try every schema of the folder, and say what became of them."""
    folder = sys.argv[1]
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 200
    began = time.perf_counter()
    with Model(shipped(MODEL), LoadSettings()) as model:
        suite = _Suite(model, count)
        for root, _, names in sorted(os.walk(folder)):
            for name in sorted(names):
                with open(os.path.join(root, name), encoding="utf-8") as file:
                    groups = json.load(file)
                for group in groups:
                    suite.add(f"{name}: {group['description']}", group["schema"], group["tests"])
    for reason, number in suite.reasons.most_common():
        sys.stdout.write(f"refused {number:4} x {reason}\n")
    told = ", ".join(f"{number} {what}" for what, number in suite.counts.items())
    sys.stdout.write(f"{told} in {time.perf_counter() - began:.0f} s\n")
    if suite.faults:
        sys.exit("\n".join(suite.faults))


if __name__ == "__main__":
    main()
