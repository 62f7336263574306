# SPDX-License-Identifier: Apache-2.0
"""Cells that await: one event loop for the session."""

import asyncio
import inspect


def run(runner, parts, names):
    """Runs the code of a cell that awaits. Tasks that it leaves behind go on when a later cell awaits."""
    if runner.loop is None or runner.loop.is_closed():
        runner.loop = asyncio.new_event_loop()
    asyncio.set_event_loop(runner.loop)
    task = runner.loop.create_task(_parts(parts, names))
    try:
        return runner.loop.run_until_complete(task)
    except (KeyboardInterrupt, SystemExit) as error:
        if not task.done():
            task.cancel()
            place = _settle(runner.loop, task)
            if place is not None:
                # Where the cell was waiting says more than where the loop was.
                raise error.with_traceback(place.__traceback__) from None
        raise


async def _parts(parts, names):
    """The parts without an await run inside the loop too, so that they can create tasks."""
    for part in parts:
        if part.co_flags & inspect.CO_COROUTINE:
            await eval(part, names)
        else:
            exec(part, names)


def _settle(loop, task):
    """Lets a cancelled task run its finally blocks. Returns how it ended, when it was by an exception."""
    try:
        loop.run_until_complete(task)
    except BaseException as error:
        return error
    return None
