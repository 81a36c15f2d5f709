"""When a call to the event loop wakes it."""

from __future__ import annotations

import asyncio
from typing import Any

from mtkit.serve.model import Mailbox


def test_what_nobody_waits_for_comes_with_what_somebody_does() -> None:
    async def run() -> None:
        mailbox, values = Mailbox(), []
        mailbox.attach()
        loop = asyncio.get_running_loop()
        wakes, waking = [], loop.call_soon_threadsafe

        def count(call: Any, *rest: Any) -> Any:
            wakes.append(call)
            return waking(call, *rest)

        loop.call_soon_threadsafe = count  # type: ignore[method-assign]

        def add(*new: int, urgent: bool = False, awaited: bool = True) -> None:
            for value in new:
                mailbox.add(values.append, value, urgent=urgent, awaited=awaited)
            mailbox.deliver()

        add(1, 2, awaited=False)
        await asyncio.sleep(0.05)
        assert (values, len(wakes)) == ([], 0)
        add(3, urgent=True)
        await asyncio.sleep(0.05)
        assert (values, len(wakes)) == ([1, 2, 3], 1)
        add(4)
        add(5)  # the loop may fetch it by itself
        add(6, awaited=False)
        await asyncio.sleep(0.05)
        assert values == [1, 2, 3, 4, 5, 6]
        add(7, awaited=False)
        await asyncio.sleep(0.05)
        assert values[-1] == 6
        add(8)
        await asyncio.sleep(0.05)
        assert values[-2:] == [7, 8]

    asyncio.run(run())
