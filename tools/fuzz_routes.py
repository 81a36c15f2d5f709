"""Every route of ``mtkit serve`` with requests drawn from its own description.

    python -m tools.fuzz_routes [COUNT]

20,000 by default, half of them against the schema, by schemathesis. Ends with an error at the first
answer that /openapi.json does not describe; the server must not have said anything.
"""

from __future__ import annotations

import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(__file__), "..", "tests", "support"))

from route_cases import drive  # type: ignore[import-not-found]
from serving_http import server  # type: ignore[import-not-found]

from mtkit.sources.locate import MODEL, shipped


def main() -> None:
    """Send the requests, and say what was answered."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    began = time.perf_counter()
    with server(shipped(MODEL), "-np", "4", "-c", "256") as started:
        statuses = drive(started.url, count)
        said = [line for line in started.said if "mtkit: serve:" in line]
    seconds = time.perf_counter() - began
    told = ", ".join(f"{number} x {status}" for status, number in sorted(statuses.items()))
    sys.stdout.write(f"{sum(statuses.values())} requests in {seconds:.0f} s: {told}\n")
    if said:
        sys.exit("".join(said))


if __name__ == "__main__":
    main()
