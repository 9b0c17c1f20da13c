"""Reads of file systems that may hang: in threads, with a time limit, one at a time for each key.

A network volume whose server is unavailable blocks its thread; the result is then the previous one, or none. So a hanging mount costs
one thread, however often it is requested (pkg/kubelet/server/stats/volume_stat_calculator.go counts in the background for the
same reason).
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

import structlog

MOST_THREADS: Final = 8
"""Maximum number of threads, which may all hang."""
_log: Final = structlog.get_logger(__name__)
_Key = TypeVar("_Key")
_Answer = TypeVar("_Answer")


class BoundedReads(Generic[_Key, _Answer]):
    """The latest results, by key; used from one event loop."""

    def __init__(self, keep: float, wait: float) -> None:
        """Take how many seconds a result is valid, and how many a caller waits."""
        self._keep, self._wait = keep, wait
        self._answers: dict[_Key, tuple[float, _Answer]] = {}
        self._asked: dict[_Key, asyncio.Future[_Answer]] = {}

    async def all(self, questions: Mapping[_Key, Callable[[], _Answer]]) -> dict[_Key, _Answer]:
        """Return the results available in time; expired results that are not requested are dropped.

        A read that fails (OSError) has no result until the next request.
        """
        kept = self._answers.items()
        self._answers = {key: one for key, one in kept if key in questions or self._is_fresh(key)}
        waiting = [(key, ask) for key, ask in questions.items() if not self._is_fresh(key)]
        until = asyncio.get_running_loop().time() + self._wait
        while waiting or self._under_way(questions):
            while waiting and len(self._asked) < MOST_THREADS:
                key, ask = waiting.pop()
                if key not in self._asked:
                    self._begin(key, ask)
            left = until - asyncio.get_running_loop().time()
            under_way = self._asked.values() if waiting else self._under_way(questions)
            if left <= 0 or not under_way:
                break
            await asyncio.wait(under_way, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        return {key: answer for key, (_, answer) in self._answers.items() if key in questions}

    def _is_fresh(self, key: _Key) -> bool:
        return key in self._answers and time.monotonic() - self._answers[key][0] < self._keep

    def _under_way(self, questions: Mapping[_Key, Callable[[], _Answer]]) -> list[asyncio.Future[_Answer]]:
        return [one for key, one in self._asked.items() if key in questions]

    def _begin(self, key: _Key, ask: Callable[[], _Answer]) -> None:
        """Read in a new thread: one that hangs must block neither an executor nor the process's exit."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[_Answer] = loop.create_future()
        answered.add_done_callback(lambda _: self._store(key, answered))
        self._asked[key] = answered

        def work() -> None:
            fault: Exception | None
            try:
                found, fault = ask(), None
            except OSError as error:
                found, fault = None, error
            except Exception as error:  # noqa: BLE001 - a defect of ours must not occupy its key for ever
                _log.exception("unexpected error while measuring a volume", of=str(key))
                found, fault = None, error
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, answered, found, fault)

        threading.Thread(target=work, name=f"stats of {key}", daemon=True).start()

    def _store(self, key: _Key, answered: "asyncio.Future[_Answer]") -> None:
        self._asked.pop(key, None)
        if answered.cancelled() or answered.exception() is not None:
            self._answers.pop(key, None)
        else:
            self._answers[key] = (time.monotonic(), answered.result())


def _settle(answered: "asyncio.Future[_Answer]", found: _Answer | None, fault: Exception | None) -> None:
    if answered.done():
        return
    if fault is not None:
        answered.set_exception(fault)
    else:
        answered.set_result(found)  # type: ignore[arg-type]  # the answer, where there is no fault
