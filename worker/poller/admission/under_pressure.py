"""Which pods this node refuses because it is under pressure, by what its worker has judged.

Asked once for each new pod, before anything else is asked. The rules are pure (`workflows/decide/eviction/admission.py`).
"""

from pathlib import Path

from proto.node_pressure import read_node_pressure
from proto.temporal.pod import PodJson
from proto.temporal.pod_inputs import Rejected
from workflows.decide.eviction.admission import why_refused
from workflows.decide.eviction.candidates import candidate


class UnderPressure:
    """Judges by the conditions that the worker has written last."""

    def __init__(self, root_dir: Path, *, alone: bool) -> None:
        """Take --root-dir, and whether the node has no cluster: then a static pod is no critical one."""
        self._root_dir, self._alone = root_dir, alone

    def why_refused(self, pod: PodJson) -> Rejected | None:
        """Return why the pod is refused; None while there is no pressure that matters to it."""
        conditions = read_node_pressure(self._root_dir)
        if not conditions:
            return None
        tolerations = pod["spec"].get("tolerations") or ()
        return why_refused(candidate(pod, alone=self._alone), tolerations, conditions)
