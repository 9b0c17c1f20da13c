"""exec probes: a command in the container, exit code 0 is success (pkg/probe/exec/exec.go).

In the command, `$(NAME)` refers to variables that the container declares by value. Of what it writes, the first 10 KiB
are used. A command that once wrote more than 256 KiB takes turns with others of its kind from then on, so that the
worker holds one long answer at a time, however many containers write them.
"""

import asyncio
from typing import Any, Final

import grpc

from activities.clients.cri_error import CriError
from activities.clients.exec_sync import AnswerTooLong, ExecAnswer
from activities.cri_config.environment import expand
from activities.probes.outcome import MAX_OUTPUT, Outcome, ProbeNotRun, Target

_KEPT: Final = slice(MAX_OUTPUT)


class ExecCommand:
    """exec: command."""

    def __init__(self, action: dict[str, Any], target: Target, timeout: float) -> None:
        variables = {one["name"]: one.get("value") or "" for one in target.container.get("env") or ()}
        self._command = [expand(one, variables) for one in action["command"]]
        self._asked = " ".join(action["command"])
        self._target, self._timeout = target, timeout
        self._writes_much = False

    async def ask(self) -> Outcome:
        """Run the command; raises NoOutcome if the runtime could not."""
        try:
            ran = await self._run()
        except CriError as error:
            if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                output = f'command timed out: "{self._asked}" timed out after {self._timeout:g}s'
                return Outcome(success=False, output=output)
            raise ProbeNotRun(error.details) from error
        output = (ran.stdout + ran.stderr)[_KEPT].decode(errors="replace")
        return Outcome(success=ran.exit_code == 0, output=output)

    async def _run(self) -> ExecAnswer:
        """Run it, and once more if its answer is too long; raises CriError, and ProbeNotRun if its turn does not come."""
        runtime, seconds = self._target.runtime, int(self._timeout)
        if not self._writes_much:
            try:
                return await runtime.exec_sync_short(self._target.container_id, self._command, seconds, keep=_KEPT)
            except AnswerTooLong:
                self._writes_much = True
        try:
            async with asyncio.timeout(self._timeout):
                await runtime.long_answers.acquire()
        except TimeoutError:
            raise ProbeNotRun("other probes whose commands write much were not done in time") from None
        try:
            return await runtime.exec_sync(self._target.container_id, self._command, seconds, keep=_KEPT)
        finally:
            runtime.long_answers.release()

    async def close(self) -> None:
        """Nothing to close."""
