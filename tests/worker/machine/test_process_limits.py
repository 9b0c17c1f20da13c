"""Are oomScoreAdj and maxOpenFiles those of this process, and a refusal no end of it?"""

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from worker.standalone.containerd import CAP_SYS_RESOURCE, has_capability

HARD = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
SET = """
import json, resource, sys
from pathlib import Path
from worker.machine.process_limits import set_process_limits
given = json.loads(sys.argv[1])
set_process_limits(*given)
print(json.dumps([int(Path("/proc/self/oom_score_adj").read_text()), *resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""
"""Sets them in a process of its own."""


def limits_set(*given: Any) -> tuple[list[int], str]:
    """Return what a process has then, and its log."""
    done = subprocess.run([sys.executable, "-c", SET, json.dumps(given)], capture_output=True, text=True, check=True)
    *log, last = done.stdout.splitlines()
    return json.loads(last), "\n".join(log)


def test_what_is_allowed_is_set() -> None:
    """The hard limit, too, as in the kubelet."""
    assert limits_set(500, 512) == ([500, 512, 512], "")


@pytest.mark.skipif(has_capability(CAP_SYS_RESOURCE), reason="root with this capability may do everything")
def test_what_is_refused_is_told_and_no_end() -> None:
    """As many files as are allowed."""
    lowest = int(Path("/proc/self/oom_score_adj").read_text())
    found, log = limits_set(lowest - 1, HARD + 1)
    assert found == [lowest, HARD, HARD]
    assert "oomScoreAdj could not be set" in log
    assert "maxOpenFiles could not be set" in log
