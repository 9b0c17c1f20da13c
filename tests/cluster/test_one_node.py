"""Does `make cluster` start a whole cluster, find it again, and remove all of it?"""

import io
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from rich.console import Console

from tests.cluster.cis_section_4 import failed_arguments, failed_files
from tests.cluster.cluster_node import condition, pods_path
from tests.cluster.one_node import NODE, OneNode
from tests.node.tempolet_node import ROOT, pod_manifest
from tests.node.upgrades.releases import release, release_of, upgrade
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


def test_cis_section_4_fails_nowhere(one_node: OneNode) -> None:
    """Arguments and configuration of each process of the running node, and the files that they name."""
    settings = one_node.settings
    configuration = settings.configuration / "kubelet.yaml"
    certificates = settings.root_dir / "pki"
    private = [configuration, *settings.configuration.iterdir(), Path(settings.kubeconfig), *certificates.glob("*.pem")]
    assert list(failed_files(private, [one_node.plane.pki / "ca.crt"])) == []
    running = [process.running() for process in (settings.node, settings.worker, settings.poller)]
    lines = [Path(f"/proc/{one.pid}/cmdline").read_text().split("\0") for one in running if one]
    assert len(lines) == 3
    assert [said for argv in lines for said in failed_arguments(argv, configuration)] == []


@pytest.mark.parametrize(
    ("argv", "keys", "failed"),
    [
        pytest.param([], {}, ["4.2.1", "4.2.2", "4.2.3"], id="what-must-be-said"),
        pytest.param(
            ["--anonymous-auth=true"], {"anonymous": {"enabled": False}}, ["4.2.1"], id="a-flag-over-the-file"
        ),
        pytest.param([], {"anonymous": {"enabled": False}}, [], id="said-in-the-file"),
    ],
)
def test_cis_rows_find_what_is_wrong(
    tmp_path: Path, argv: list[str], keys: dict[str, object], failed: list[str]
) -> None:
    """As kube-bench does."""
    file = tmp_path / "kubelet.yaml"
    said = {"authentication": {"x509": {"clientCAFile": "/ca"}, **keys}, "authorization": {"mode": "Webhook"}}
    file.write_text(json.dumps(said if keys else {}))
    assert [words.split()[0] for words in failed_arguments(argv, file)] == failed
    file.chmod(0o640)
    assert len(list(failed_files([file]))) == 1


async def test_a_node_that_is_not_in_the_cluster_is_told_of(one_node: OneNode) -> None:
    """`tempolet up` asks with the node's own rights, and shows the API server's answer."""
    stranger = replace(one_node.settings, hostname_override="node-2")
    with pytest.raises(NotJoined, match=r"https://127.0.0.1:\d+ after 0 s: .*node-2"):
        await until_joined(stranger, timedelta())


def test_an_upgrade_changes_nothing_in_the_cluster(one_node: OneNode, tmp_path_factory: pytest.TempPathFactory) -> None:
    """All three processes are of the other release, in order; the pod's object is not even written, and the node stays Ready.

    The last test here: the node goes on with the other release.
    """
    api, other = one_node.plane.api, release(tmp_path_factory.mktemp("other-release"))
    pod = pod_manifest("upgraded")
    pod["spec"] |= {"nodeName": NODE, "automountServiceAccountToken": False}
    pod["spec"]["containers"][0]["readinessProbe"] = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    one_node.plane.make_namespace("upgrades")
    api.create(pods_path("upgrades"), pod)
    before = api.until(
        pods_path("upgrades", "upgraded"), lambda one: condition(one, "Ready") == "True", "the pod Ready"
    )
    ready = [one for one in api.get(f"/api/v1/nodes/{NODE}")["status"]["conditions"] if one["type"] == "Ready"]
    code, said = upgrade(one_node.settings, other)
    assert code == 0, said
    assert (
        said.index("worker pid") < said.index("poller pid") < said.index("node pid") < said.index("containers run on")
    )
    settings = one_node.settings
    running = [process.running() for process in (settings.node, settings.worker, settings.poller)]
    assert [release_of(one.pid) for one in running if one] == [str(other)] * 3
    after = api.get(pods_path("upgrades", "upgraded"))
    assert after["status"] == before["status"]
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    now = [one for one in api.get(f"/api/v1/nodes/{NODE}")["status"]["conditions"] if one["type"] == "Ready"]
    assert [(one["status"], one["lastTransitionTime"]) for one in now] == [("True", ready[0]["lastTransitionTime"])]
    api.delete(pods_path("upgrades", "upgraded"))
    api.until(pods_path("upgrades", "upgraded"), lambda _: False, "the pod gone", gone=True)
