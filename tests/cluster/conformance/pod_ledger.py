"""The pods that lived on a node, as the API server showed them: an account that knows nothing of Temporal."""

import subprocess
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

FIELDS: Final = (
    "{{.metadata.namespace}}/{{.metadata.name}}|{{.metadata.uid}}|{{with .status.startTime}}{{.}}{{end}}|"
    "{{range .status.initContainerStatuses}}{{.name}}={{.restartCount}}={{with .containerID}}{{.}}{{end}} {{end}}"
    "{{range .status.containerStatuses}}{{.name}}={{.restartCount}}={{with .containerID}}{{.}}{{end}} {{end}}"
    '{{"\\n"}}'
)
"""A line for each change of a pod, as a template of kubectl's."""
ENDS_WITHIN: Final = 20.0


@dataclass(slots=True)
class SeenPod:
    """A pod that the node had taken."""

    name: str
    """With its namespace."""
    uid: str
    starts: dict[str, int] = field(default_factory=dict)
    """By container how many instances it has had at least."""


class PodLedger:
    """Writes what the API server shows of a node's pods into a file while the block runs."""

    def __init__(self, kubectl: Path, kubeconfig: Path, node: str, file: Path) -> None:
        selected = ["--all-namespaces", "--field-selector", f"spec.nodeName={node}"]
        self._command: list[str | Path] = [kubectl, "--kubeconfig", kubeconfig, "get", "pods", *selected]
        self._command += ["--watch", "-o", f"go-template={FIELDS}"]
        self._file = file
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._process: subprocess.Popen[bytes] | None = None
        self._starting = threading.Lock()

    def __enter__(self) -> Self:
        for file in (self._file, self._file.with_suffix(".err")):
            file.unlink(missing_ok=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._starting:
            self._ends.set()
            if self._process:
                self._process.terminate()
        self._thread.join(ENDS_WITHIN)

    def seen(self) -> list[SeenPod]:
        """Return the pods that lived."""
        return pods_in(self._file.read_text().splitlines() if self._file.exists() else ())

    def _watch(self) -> None:
        """Watch again when the API server ends a watch; the list at its begin has what is there."""
        while not self._ends.wait(0.5):
            with self._file.open("ab") as file, self._file.with_suffix(".err").open("ab") as errors:
                with self._starting:
                    if self._ends.is_set():
                        return
                    self._process = subprocess.Popen(self._command, stdout=file, stderr=errors)
                self._process.wait()


def pods_in(lines: Iterable[str]) -> list[SeenPod]:
    """Read the ledger: a pod without a start time was never taken by the node."""
    found: dict[str, SeenPod] = {}
    for line in lines:
        name, uid, started, containers = (line.split("|") + [""] * 3)[:4]
        if not (uid and started):
            continue
        pod = found.setdefault(uid, SeenPod(name, uid))
        for one in containers.split():
            container, restarts, container_id = one.split("=", 2)
            if container_id and restarts.isdigit():
                pod.starts[container] = max(pod.starts.get(container, 0), int(restarts) + 1)
    return list(found.values())
