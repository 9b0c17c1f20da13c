"""All sessions of a run, some side by side, then the failed tests that may run once more, each alone.

Asked by `python -m tests.suite`. Prints a line for each file that has ended, failures at once and in full, and at the end what the run
comes to: skips with their reasons, what failed, `flaky:` lines, and a last line as pytest's.
"""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.suite.plan import Kind, Planned, next_session
from tests.suite.results import MOST_FLAKY, SessionResult, Verdict, file_of, judge, summary, to_run_again
from tests.suite.session import Session

INTERRUPTED: Final = 2
PROCESSORS: Final = os.cpu_count() or 1
_TAIL: Final = 4000
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(slots=True)
class Run:
    """One run over a checkout; each session's own output goes to a file in `logs`."""

    root: Path
    logs: Path
    processors: int = PROCESSORS
    """How many the sessions are planned for."""
    results: list[SessionResult] = field(default_factory=list)
    _sessions: list[Session] = field(default_factory=list)
    _interrupted: bool = False
    _started: float = field(default_factory=time.monotonic)
    _files: int = 0
    _ended: int = 0

    async def all(self, planned: Sequence[Planned]) -> int:
        """Run the sessions; answers the exit code."""
        for one in _SIGNALS:
            asyncio.get_running_loop().add_signal_handler(one, self.interrupt)
        self.logs.mkdir(parents=True, exist_ok=True)
        self._files = sum(len(one.files) for one in planned)
        waiting = list(planned)
        running: dict[asyncio.Task[None], Kind] = {}
        while waiting or running:
            while chosen := next_session(waiting, list(running.values()), self.processors):
                waiting.remove(chosen)
                running[asyncio.create_task(self._session(chosen))] = chosen.kind
            done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for ended in done:
                del running[ended]
                ended.result()
            waiting = [] if self._interrupted else waiting
        again = {} if self._interrupted else await self._again(to_run_again(self.results))
        verdict = judge(self.results, again)
        self._close(verdict)
        return INTERRUPTED if self._interrupted else verdict.code

    def interrupt(self) -> None:
        """Let every session end, and begin no other."""
        if not self._interrupted:
            self._interrupted = True
            print("interrupted: ending all sessions", flush=True)
            for one in self._sessions:
                one.interrupt()

    async def _session(self, planned: Planned) -> None:
        if self._interrupted:
            return
        result = SessionResult(planned.files)
        name = f"{len(self._sessions)}-{planned.kind.name}"
        self._say(f"{name} begins: {len(planned.files)} files, about {planned.seconds:.0f} s")
        self.results.append(result)
        session = Session(self.root, planned.files, self.logs / f"{name}.log", yields=planned.kind.yields)
        await self._listened(result, session, quiet=False)
        self._say(f"{name} has ended: {summary(result.counts, sum(result.seconds.values()))}, CPU {result.cpu:.0f} s")

    async def _again(self, tests: Sequence[str]) -> dict[str, SessionResult]:
        """Run tests once more, one after the other."""
        again = {}
        for test in tests:
            if self._interrupted:
                break
            self._say(f"once more: {test}")
            again[test] = SessionResult((file_of(test),))
            session = Session(self.root, [test], self.logs / f"{len(self._sessions)}-once-more.log")
            await self._listened(again[test], session, quiet=True)
        return again

    async def _listened(self, result: SessionResult, session: Session, *, quiet: bool) -> None:
        self._sessions.append(session)

        def hear(told: Mapping[str, Any]) -> None:
            result.hear(told)
            self._show(result, told, quiet=quiet)

        code = await session.run(hear)
        if session.left:
            self._say(f"ended what {session.log.stem} has left behind: {', '.join(session.left)}")
        if self._interrupted:
            return
        if lost := result.lose(code):
            print("\n".join(f"LOST {one}" for one in lost))
            print(f"--- the end of {session.log}\n{session.log.read_text(errors='replace')[-_TAIL:]}", flush=True)

    def _show(self, result: SessionResult, told: Mapping[str, Any], *, quiet: bool) -> None:
        event = told["event"]
        if event == "broken" or (event == "phase" and told["outcome"] in {"failed", "error"}):
            name = told.get("test") or told["file"]
            print(f"\nFAILED {name} ({told.get('when', 'collection')})\n{told['text']}\n", flush=True)
        if event in {"broken", "left_out"} and not quiet:
            self._ended += 1
            self._file(told["file"], result)
        if event == "finished" and not quiet and not result.unfinished.get(file_of(told["test"])):
            self._ended += 1
            self._file(file_of(told["test"]), result)

    def _file(self, file: str, result: SessionResult) -> None:
        counts = summary(result.file_counts(file), result.seconds.get(file, 0.0))
        self._say(f"{self._ended}/{self._files} {file}: {counts}")

    def _say(self, text: str) -> None:
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        print(f"{minutes:3}:{seconds:02} {text}", flush=True)

    def _close(self, verdict: Verdict) -> None:
        skips: Counter[str] = sum((one.skips for one in self.results), Counter())
        for reason, number in skips.most_common():
            print(f"skipped {number}: {reason}")
        reasons = {name: why for one in self.results for name, why in one.failures.items()}
        for name in verdict.failed:
            print(f"FAILED {name} - {reasons[name]}")
        if len(verdict.flaky) > MOST_FLAKY:
            print(f"{len(verdict.flaky)} tests are flaky, more than {MOST_FLAKY} fail the run")
        if self._interrupted:
            print("interrupted: not every test has run")
        print(f"CPU seconds of the sessions and what they have awaited: {sum(one.cpu for one in self.results):.0f}")
        for name in verdict.flaky:
            print(f"flaky: {name}")
        print(summary(verdict.counts, time.monotonic() - self._started), flush=True)
