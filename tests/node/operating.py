"""What an operator of a node under test types, and what is answered."""

import os
import subprocess
import sys

from proto.pod_snapshot import PodSnapshot
from tests.node.tempolet_node import ROOT, TempoletNode


def tempolet(node: TempoletNode, command: str, *words: str) -> tuple[int, str]:
    """Run a command as an operator of this node does; gives exit code and all that it said."""
    options = ["--tempolet-config", str(node.directory / "tempolet.json"), "--root-dir", str(node.root_dir)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TEMPORAL_")} | {"TZ": "UTC"}
    line = [sys.executable, "-m", "worker.cli", command, *options, "--hostname-override", node.name, *words]
    done = subprocess.run(line, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    return done.returncode, done.stdout + done.stderr


def history(node: TempoletNode, snapshot: PodSnapshot) -> str:
    """Read what `tempolet history` tells of a pod."""
    code, said = tempolet(node, "history", f"{snapshot.namespace}/{snapshot.name}")
    assert code == 0, said
    return said
