"""Does `make cluster` start a whole cluster, find it again, and remove all of it?"""

import io
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from tests.cluster.one_node import NODE, OneNode
from tests.node.tempolet_node import ROOT
from worker.standalone.joining import NotJoined, until_joined
from worker.standalone.progress import Progress


def told(cluster: OneNode) -> str:
    """Start the cluster, or find it running; returns the output for the operator."""
    shown = io.StringIO()
    cluster.start(Progress(Console(file=shown, width=200)))
    return shown.getvalue()


def test_a_second_start_changes_nothing(one_node: OneNode) -> None:
    """Another object with the same folder finds every process by its pid file."""
    before = one_node.plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["uid"]
    again = OneNode(one_node.home, one_node.number)
    said = told(again)
    for name in ("plane", "worker", "poller", "node"):
        assert any(name in line and "runs already" in line for line in said.splitlines()), said
    assert again.plane.api.get(f"/api/v1/nodes/{NODE}")["metadata"]["uid"] == before
    assert f"node {NODE} of {one_node.plane.server} is Ready" in said


def test_the_command_says_what_it_can(tmp_path: Path) -> None:
    """`python -m tests.cluster --help` needs no Kubernetes program."""
    command = [sys.executable, "-m", "tests.cluster", "--help"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, env={"HOME": str(tmp_path)})
    assert "conformance" in said.stdout


async def test_a_node_that_is_not_in_the_cluster_is_told_of(one_node: OneNode) -> None:
    """`tempolet up` asks with the node's own rights, and shows the API server's answer."""
    stranger = replace(one_node.settings, hostname_override="node-2")
    with pytest.raises(NotJoined, match=r"https://127.0.0.1:\d+ after 0 s: .*node-2"):
        await until_joined(stranger, timedelta())
