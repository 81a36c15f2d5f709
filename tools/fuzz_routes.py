"""Every route of ``mtkit serve`` with requests drawn from its own description, and hostile ones.

    python -m tools.fuzz_routes [COUNT]
    python -m tools.fuzz_routes --hostile --seed 1 [COUNT]

20,000 by default, half of them against the schema, by schemathesis. Ends with an error at the first
answer that /openapi.json does not describe; the server must not have said anything.

Hostile ones are sound bodies (tests/support/route_cases) of which parts were changed, as JSON or as
bytes, with odd paths and heads, in this process. An error of the server's, an answer without words
and one that takes longer than 10 seconds are printed; exit status 1.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

import route_cases  # type: ignore[import-not-found]
from mutants import byte_level, json_level  # type: ignore[import-not-found]
from serving_http import application, client, server  # type: ignore[import-not-found]

from mtkit.sources.locate import MODEL, shipped

SECONDS = 10.0
STATUSES = (200, 400, 401, 403, 404, 405, 413, 415, 501)
NO_HEADS: dict[str, str] = {}
HEADS = (*(NO_HEADS,) * 20, {"content-type": "text/plain"}, {"content-length": "9" * 5000},
         {"authorization": "Bearer \xff"}, {"host": "x" * 300}, {"origin": "null"}, {"host": ""},
         {"accept-encoding": "\x00"}, {"content-encoding": "gzip"})  # fmt: skip
PATHS = ("/slots/{}?action=erase", "/slots/0?action={}", "/v1/models/{}", "/v1/responses/{}", "/{}",
         "/api/blobs/{}", "/props?model={}")  # fmt: skip
WORDS = ("9" * 5000, "-1", "%00", "%ff", "..%2f..%2f", "\u00b2", "x" * 3000, "a/b/c", "", "%2e%2e")


def main() -> None:
    """Send the requests, and say what was answered."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("count", nargs="?", type=int, default=20_000)
    parser.add_argument("--hostile", action="store_true", help="changed bodies, paths and heads")
    parser.add_argument("--seed", type=int, default=1, help="of hostile ones")
    asked = parser.parse_args()
    if asked.hostile:
        with application(Path(shipped(MODEL)), n_ctx=512, slot_save_path="/tmp") as (app, _):
            sys.exit(asyncio.run(send(app, asked.count, asked.seed)))
    began = time.perf_counter()
    with server(shipped(MODEL), "-np", "4", "-c", "256") as started:
        statuses = route_cases.drive(started.url, asked.count)
        said = [line for line in started.said if "mtkit: serve:" in line]
    print_counts(statuses, began)
    if said:
        sys.exit("".join(said))


def print_counts(statuses: Counter[int], began: float) -> None:
    """Print how often each status was answered."""
    told = ", ".join(f"{number} x {status}" for status, number in sorted(statuses.items()))
    seconds = time.perf_counter() - began
    sys.stdout.write(f"{sum(statuses.values())} requests in {seconds:.0f} s: {told}\n")


def draw(rng: Random) -> tuple[str, str, bytes | None, dict[str, str]]:
    """Draw a request: method, path, body and heads."""
    heads = dict(rng.choice(HEADS))
    if rng.random() < 0.1:
        path = rng.choice(PATHS).format(rng.choice(WORDS))
        return rng.choice(("GET", "POST", "DELETE")), path, rng.choice((None, b"{}", b"")), heads
    bodies = {**route_cases.BODIES, **route_cases.OTHER_BODIES}
    path = rng.choice(list(bodies))
    body = bodies[path]
    for _ in range(rng.choice((1, 1, 2, 3))):
        change: Any = rng.choice(
            (route_cases.changed, lambda value, by: json_level.mutated(by, value))
        )
        body = change(body, rng)
    if isinstance(body, dict) and rng.random() < 0.4:
        body = {**body, rng.choice(route_cases.SAMPLER): rng.choice(route_cases.VALUES)}
    data: bytes = json_level.dumps(rng, body)
    if rng.random() < 0.1:
        data = byte_level.mutate(rng, data)
    return "POST", path, data, heads


async def send(app: Any, count: int, seed: int) -> int:
    """Send hostile requests; 1 where one is answered as it must not be."""
    statuses, wrong, began = Counter[int](), 0, time.perf_counter()
    async with client(app) as http:
        for number in range(count):
            method, path, data, heads = draw(Random(f"{seed} {number}"))
            start, what = time.process_time(), ""
            try:
                url = path.encode("ascii", "backslashreplace").decode()
                raw = [(name, value.encode("latin-1")) for name, value in heads.items()]
                answer = await http.request(method, url, content=data, headers=raw)
            except Exception as error:  # noqa: BLE001  that is what is looked for
                what = f"{type(error).__name__}: {error}"
            else:
                statuses[answer.status_code] += 1
                if answer.status_code not in STATUSES:
                    what = f"{answer.status_code} {answer.text[:200]}"
                elif answer.status_code >= 400 and not answer.json().get("error"):
                    what = f"{answer.status_code} without words: {answer.text[:200]}"
            if time.process_time() - start > SECONDS:
                what += f" took {time.process_time() - start:.1f} s"
            if what:
                wrong += 1
                sys.stdout.write(
                    f"--seed {seed}, {number}: {method} {path[:60]} {data!r:.300}: {what}\n"
                )
                sys.stdout.flush()
    print_counts(statuses, began)
    return int(wrong > 0)


if __name__ == "__main__":
    main()
