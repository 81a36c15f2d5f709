"""Requests that schemathesis draws from /openapi.json, right and wrong ones, sent to a server."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from support import reference

if TYPE_CHECKING:
    from collections.abc import Mapping

_WRONG = {404, 405, 415}
"""Refusals that stand outside the description: schemathesis tries other methods and paths, too."""


def drive(url: str, count: int, headers: Mapping[str, str] | None = None) -> Counter[int]:
    """Send requests to every route; returns how often each status was answered.

    Args:
        url: Of a running server.
        count: Requests, in all; routes that take a body get nine tenths of them.
        headers: Sent with each.

    Raises:
        AssertionError: An answer is not described, or is an error without words.
    """
    schemathesis, hypothesis = reference("schemathesis"), reference("hypothesis")
    requests = reference("requests")
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json", headers=dict(headers or {}))
    operations = [found.ok() for found in schema.get_all_operations()]
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    statuses: Counter[int] = Counter()
    with requests.Session() as session:
        session.headers.update(headers or {})
        posts = [one for one in operations if "requestBody" in one.definition.raw]
        for operation in operations:
            share = count * 9 // 10 // len(posts)
            if operation not in posts:
                share = count // 10 // (len(operations) - len(posts))
            for mode in modes if operation in posts else modes[:1]:
                examples = share // 2 if operation in posts else share

                @hypothesis.settings(
                    max_examples=max(examples, 1), deadline=None, database=None,
                    derandomize=True, suppress_health_check=list(hypothesis.HealthCheck),
                    phases=[hypothesis.Phase.generate],
                )  # fmt: skip
                @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
                def send(case: Any) -> None:
                    answer = case.call(base_url=url, session=session, timeout=120)
                    statuses[answer.status_code] += 1
                    _check(case, answer)

                send()
    return statuses


def _check(case: Any, answer: Any) -> None:
    known = {int(status) for status in case.operation.definition.raw["responses"]} | _WRONG
    said = (case.method, case.path, case.body, answer.status_code, answer.text[:500])
    assert answer.status_code in known, said
    if answer.status_code >= 400 and case.method.upper() != "HEAD":  # which has no body
        error = answer.json()["error"]
        # Ollama's errors are a text, those of the other APIs an object.
        assert error if case.path.startswith("/api/") else error["message"], said
