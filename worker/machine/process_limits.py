"""What the kernel grants this process: how willing it is to kill it, and how many files it may open.

Called when worker, poller and node process start. As in the kubelet, what is refused is logged, and the process goes on: to
lower oom_score_adj, or to raise a hard limit, it must be root with CAP_SYS_RESOURCE.
"""

import resource
from pathlib import Path
from typing import Final

import structlog

_OOM_SCORE: Final = Path("/proc/self/oom_score_adj")
_log: Final = structlog.get_logger(__name__)


def set_process_limits(oom_score_adj: int, max_open_files: int, oom_score: Path = _OOM_SCORE) -> None:
    """Set both for this process."""
    try:
        oom_score.write_text(str(oom_score_adj))
    except OSError as error:
        _log.info("oomScoreAdj could not be set", oomScoreAdj=oom_score_adj, error=error.strerror)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max_open_files, max_open_files))
    except (OSError, ValueError) as error:
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(max_open_files, most), most))
        _log.info("maxOpenFiles could not be set; as many as are allowed it is", maxOpenFiles=most, error=str(error))
