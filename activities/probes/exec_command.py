"""exec probes: a command in the container, exit code 0 is success (pkg/probe/exec/exec.go).

In the command, `$(NAME)` refers to variables that the container declares by value.
"""

from typing import Any

import grpc

from activities.clients.cri_error import CriError
from activities.cri_config.environment import expand
from activities.probes.outcome import MAX_OUTPUT, Outcome, ProbeNotRun, Target


class ExecCommand:
    """exec: command."""

    def __init__(self, action: dict[str, Any], target: Target, timeout: float) -> None:
        variables = {one["name"]: one.get("value") or "" for one in target.container.get("env") or ()}
        self._command = [expand(one, variables) for one in action["command"]]
        self._asked = " ".join(action["command"])
        self._target, self._timeout = target, timeout

    async def ask(self) -> Outcome:
        """Run the command; raises NoOutcome if the runtime could not."""
        try:
            ran = await self._target.runtime.exec_sync(self._target.container_id, self._command, int(self._timeout))
        except CriError as error:
            if error.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                output = f'command timed out: "{self._asked}" timed out after {self._timeout:g}s'
                return Outcome(success=False, output=output)
            raise ProbeNotRun(error.details) from error
        output = (ran.stdout + ran.stderr)[:MAX_OUTPUT].decode(errors="replace")
        return Outcome(success=ran.exit_code == 0, output=output)

    async def close(self) -> None:
        """Nothing to close."""
