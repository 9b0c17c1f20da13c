"""`tempolet logs NAMESPACE/POD`: the output of a pod's containers, also while Temporal or the runtime is down.

The node's pod cache says which containers there are and in which state. The text comes from the log files, read by the
code that serves `kubectl logs` (`activities/logs/reader.py`).
"""

import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from activities.files.pod_paths import PodPaths
from activities.logs.log_files import ContainerLog
from activities.logs.reader import LogOptions, read_log
from activities.logs.runs import StillRunning, log_of_run, run_of, statuses_of
from proto.kubernetes.go_duration import parse_duration
from proto.pod_snapshot import FINAL_PHASES, PodSnapshot, read_snapshots
from proto.temporal.pod import PodKey
from worker.commands.access.exits import CommandFailed, Exit
from worker.commands.access.pod_selection import PodSelector
from worker.commands.access.unknown_pod import full_name, suggestion
from worker.daemon.config import NodeConfig
from worker.documents.printable import printable

BETWEEN_LOOKS: Final = timedelta(milliseconds=100)
A_TIME: Final = "2026-11-21T12:00:00Z"
_WAITS: Final = {
    "ErrImagePull": "its image cannot be pulled",
    "ImagePullBackOff": "pulling its image failed and is backed off",
}


@dataclass(frozen=True, slots=True)
class LogsRequest:
    """Which logs to print, and how."""

    options: LogOptions
    container: str = ""
    """Empty: the pod's first container."""
    every: bool = False
    previous: bool = False
    follow: bool = False


def show(config: NodeConfig, selector: PodSelector, asked: LogsRequest) -> None:
    """Print the logs; raises CommandFailed if there is no such pod, container or log."""
    if asked.every and asked.container:
        raise CommandFailed("give either --container or --all-containers", Exit.USAGE)
    pod = find_pod(config, selector)
    names = containers_of(pod)
    if not names:
        raise CommandFailed(printable(f"{selector} has no logs: {why_no_log(pod)}"))
    if asked.every:
        chosen = names
    elif asked.container:
        chosen = [asked.container]
    else:
        chosen = [one["name"] for one in pod.status.get("containerStatuses", ())][:1] or names[:1]
        if len(names) > 1:
            print(printable(f"of {chosen[0]}; there are {', '.join(names)} (-c, --all-containers)"), file=sys.stderr)
    _print_all(pod, list(_logs(config, pod, chosen, asked)), asked)


def parse_since(since: str, since_time: str) -> datetime | None:
    """Parse the time to start from; raises CommandFailed."""
    if since and since_time:
        raise CommandFailed("give either --since or --since-time", Exit.USAGE)
    try:
        if since:
            ago = parse_duration(since)
            if ago <= timedelta():
                raise CommandFailed(f"--since {since}: it must be above 0s", Exit.USAGE)
            return datetime.now(UTC) - ago
        if since_time:
            found = datetime.fromisoformat(since_time)
            if found.tzinfo is not None:
                return found
            raise CommandFailed(
                f"--since-time {since_time}: it has no time zone; write for example {A_TIME}", Exit.USAGE
            )
    except ValueError as error:
        message = f"{since_time!r} is not an RFC 3339 time such as {A_TIME}" if since_time else error
        raise CommandFailed(f"--since{'-time' if since_time else ''}: {message}", Exit.USAGE) from error
    return None


def find_pod(config: NodeConfig, selector: PodSelector) -> PodSnapshot:
    """Find the newest pod of that name on this node; raises CommandFailed."""
    found = [
        one
        for one in read_snapshots(config.root_dir)
        if (one.namespace, one.name) == (selector.namespace, selector.name)
    ]
    if selector.uid is not None:
        found = [one for one in found if one.uid.startswith(selector.uid)]
    if not found:
        full = (selector.namespace, full_name(config, selector.name))
        known = any((one.namespace, one.name) == full for one in read_snapshots(config.root_dir))
        if instead := suggestion(config, selector.namespace, selector.name, full_name_known=known):
            raise CommandFailed(printable(f"no pod {selector} is on this node: {instead}"), Exit.NOT_FOUND)
        gone = "a pod's logs are removed with it; `tempolet pods` lists the present pods, `tempolet history` shows past ones"
        raise CommandFailed(f"no pod {selector} is on this node: {gone}", Exit.NOT_FOUND)
    return max(found, key=lambda one: one.started_at)


def containers_of(pod: PodSnapshot) -> list[str]:
    """List a pod's containers, init containers first."""
    return list(statuses_of(pod.status))


def log_of(config: NodeConfig, pod: PodSnapshot, name: str, *, previous: bool) -> ContainerLog:
    """Find the log of a container's run; raises CommandFailed if it has none."""
    statuses = statuses_of(pod.status)
    if name not in statuses:
        known = ", ".join(statuses) or "none known yet"
        raise CommandFailed(
            printable(f"no container {name} in {pod.namespace}/{pod.name}: there are {known}"), Exit.NOT_FOUND
        )
    if not (run := run_of(statuses[name], previous=previous)):
        what = f"container {name} of {pod.namespace}/{pod.name}"
        if previous:
            raise CommandFailed(printable(f"{what} has not run before"), Exit.NOT_FOUND)
        raise CommandFailed(printable(f"{what} has no log: {why_no_log(pod, statuses[name])}"))
    paths = PodPaths(config.root_dir, config.pod_logs_dir, PodKey(pod.namespace, pod.name, pod.uid))
    newest = pod.containers[name]
    try:
        log = log_of_run(paths, name, newest, run)
    except OSError as error:
        raise _unreadable(ContainerLog(paths, name, newest.attempt), error) from error
    if log is None:
        folder = paths.container_logs(name)
        raise CommandFailed(f"the log of the previous run was removed with its container ({folder})", Exit.NOT_FOUND)
    return log


def why_no_log(pod: PodSnapshot, status: Mapping[str, Any] | None = None) -> str:
    """Say why a container has no log: what it waits for, or that it will not start."""
    shown = pod.status if pod.status.get("reason") else {"reason": pod.reason, "message": pod.message}
    of_pod = ": ".join(filter(None, (shown.get("reason"), shown.get("message"))))
    if pod.deleting or pod.phase in FINAL_PHASES:
        state = "is terminating" if pod.deleting else f"has {pod.phase}"
        return f"it will not start: the pod {state}" + (f": {of_pod}" if of_pod else "")
    waiting = ((status or {}).get("state") or {}).get("waiting") or {}
    reason = waiting.get("reason") or "it has not started"
    why = ": ".join(filter(None, (reason, _WAITS.get(reason), waiting.get("message"))))
    held = of_pod and pod.reason != reason and not waiting.get("message")
    return f"it is waiting to start: {why}" + (f"; the pod: {of_pod}" if held else "")


@dataclass(slots=True)
class CachedPod:
    """Waits for more output of a container, by the node's pod cache."""

    running: StillRunning

    def wait(self) -> None:
        """Sleep until the next look."""
        time.sleep(BETWEEN_LOOKS.total_seconds())


def _logs(config: NodeConfig, pod: PodSnapshot, names: list[str], asked: LogsRequest) -> Iterator[ContainerLog]:
    """Find the logs of these containers; with --all-containers, containers without a log are reported and skipped."""
    for name in names:
        try:
            yield log_of(config, pod, name, previous=asked.previous)
        except CommandFailed as error:
            if not asked.every:
                raise
            print(error, file=sys.stderr)


def _print_all(pod: PodSnapshot, logs: list[ContainerLog], asked: LogsRequest) -> None:
    """Print the logs one after the other, or concurrently with --follow; raises the first error at the end."""
    failures: list[Exception] = []
    writing = threading.Lock()

    def one(log: ContainerLog) -> None:
        try:
            for text in _texts(pod, log, asked):
                with writing:
                    sys.stdout.buffer.write(text)
                    if asked.follow:
                        sys.stdout.buffer.flush()
        except (CommandFailed, OSError) as error:
            failures.append(error)

    sys.stdout.flush()
    if asked.follow and len(logs) > 1:
        threads = [threading.Thread(target=one, args=(log,), daemon=True) for log in logs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    else:
        for log in logs:
            one(log)
    if failures:
        raise failures[0]


def _texts(pod: PodSnapshot, log: ContainerLog, asked: LogsRequest) -> Iterator[bytes]:
    """Read one log; raises CommandFailed if it cannot be read."""
    following = CachedPod(StillRunning(log, pod.containers[log.container].container_id)) if asked.follow else None
    texts = read_log(log, asked.options, None if asked.previous else following)
    while True:
        try:
            _, text = next(texts)
        except StopIteration:
            return
        except OSError as error:
            raise _unreadable(log, error) from error
        yield text


def _unreadable(log: ContainerLog, error: OSError) -> CommandFailed:
    if isinstance(error, FileNotFoundError):
        where = "it is gone, or the node has another podLogsDir (--config FILE of the node says which)"
        return CommandFailed(f"no log at {log}: {where}", Exit.NOT_FOUND)
    return CommandFailed(f"the log {log} cannot be read: {error.strerror or error}")
