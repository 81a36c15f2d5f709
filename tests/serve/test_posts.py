"""When what is told wakes the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from mtkit.serve.model import Mailbox


def test_what_nobody_waits_for_comes_with_what_somebody_does() -> None:
    async def run() -> None:
        posts, told = Mailbox(), []
        posts.attach()
        loop = asyncio.get_running_loop()
        wakes, waking = [], loop.call_soon_threadsafe

        def counted(call: Any, *given: Any) -> Any:
            wakes.append(call)
            return waking(call, *given)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]

        def tell(*values: int, urgent: bool = False, awaited: bool = True) -> None:
            for value in values:
                posts.add(told.append, value, urgent=urgent, awaited=awaited)
            posts.deliver()

        tell(1, 2, awaited=False)
        await asyncio.sleep(0.05)
        assert (told, len(wakes)) == ([], 0)
        tell(3, urgent=True)
        await asyncio.sleep(0.05)
        assert (told, len(wakes)) == ([1, 2, 3], 1)
        tell(4)
        tell(5)  # the loop may fetch it by itself
        tell(6, awaited=False)
        await asyncio.sleep(0.05)
        assert told == [1, 2, 3, 4, 5, 6]
        tell(7, awaited=False)
        await asyncio.sleep(0.05)
        assert told[-1] == 6
        tell(8)
        await asyncio.sleep(0.05)
        assert told[-2:] == [7, 8]

    asyncio.run(run())
