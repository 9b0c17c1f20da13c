"""What do /healthz, /pods, /runningpods, /configz, /statusz and /flagz answer?"""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import pod_path
from tests.worker.api.node_api import Answer, NodeApi, node_api
from tests.worker.poller.snapshots import snapshot, write
from worker.api.endpoints.healthz import report
from worker.api.endpoints.running_pods import running
from worker.api.responses.zpages import accepted
from worker.daemon.config import load_node_config
from worker.settings.cluster import Authentication, Authorization, Serving
from worker.settings.flags import Flags, node_parser, parse_node_flags

OPEN = Serving(authorization=Authorization(always_allow=True))
ANYBODY = Authentication(anonymous=True, webhook=False)


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[NodeApi]:
    """Serve an API without authentication."""
    async with node_api(
        tmp_path,
        serving=OPEN,
        authentication=ANYBODY,
        kubelet={"kind": "KubeletConfiguration", "maxPods": 3, "staticPodURLHeader": {"Authorization": ["Bearer x"]}},
        flags={"node-ip": "10.0.0.1", "config": "/etc/k.yaml"},
    ) as served:
        yield served


def loaded(answer: Answer) -> Any:
    """Parse a JSON response."""
    assert answer.status == 200, answer
    assert answer.kind.startswith("application/json")
    return json.loads(answer.text)


def put_pod(root: Path, uid: str, name: str) -> None:
    """Write a pod's files as the worker does."""
    write(root, replace(snapshot(uid, name=name), status={"phase": "Running"}))
    pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "uid": uid}, "spec": {"nodeName": "n1"}}
    pod_path(root, uid).write_text(json.dumps(pod))


async def test_pods_are_a_pod_list_with_the_status_that_we_see(api: NodeApi) -> None:
    """An incomplete file, or one without its pod, does not affect the others."""
    root = api.around.config.root_dir
    put_pod(root, "u1", "web")
    put_pod(root, "u2", "torn")
    put_pod(root, "u3", "bare")
    pod_path(root, "u2").write_text('{"kind": ')
    pod_path(root, "u3").unlink()
    assert loaded(await api.ask("/pods")) == {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {},
        "items": [
            {"metadata": {"name": "web", "uid": "u1"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}
        ],
    }
    assert (await api.ask("/pods/")).status == 200


async def test_a_node_without_pods_has_an_empty_list(api: NodeApi) -> None:
    """Clients iterate over `items`."""
    assert loaded(await api.ask("/pods"))["items"] == []


async def test_running_pods_of_an_absent_runtime_are_an_error_in_its_words(api: NodeApi) -> None:
    """500, as from the kubelet."""
    answer = await api.ask("/runningpods/")
    assert answer.status == 500
    assert answer.text.startswith("ListPodSandbox")


def test_running_pods_are_what_the_runtime_runs() -> None:
    """Without terminated ones and those without the kubelet's labels; a container without its sandbox counts."""
    labels = {"io.kubernetes.pod.uid": "u1", "io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "default"}
    other = labels | {"io.kubernetes.pod.uid": "u2", "io.kubernetes.pod.name": "gone"}
    sandboxes = [
        cri.PodSandbox(id="s1", labels=labels, state=cri.SANDBOX_READY),
        cri.PodSandbox(id="s2", labels=other, state=cri.SANDBOX_NOTREADY),
        cri.PodSandbox(id="s3", labels={"owner": "nerdctl"}, state=cri.SANDBOX_READY),
    ]
    main = labels | {"io.kubernetes.container.name": "main"}
    containers = [
        cri.Container(id="c1", labels=main, state=cri.CONTAINER_RUNNING, image=cri.ImageSpec(image="busybox:1")),
        cri.Container(id="c0", labels=main, state=cri.CONTAINER_EXITED),
        cri.Container(id="c2", labels=other, state=cri.CONTAINER_EXITED),
    ]
    assert running(sandboxes, containers) == [
        {
            "metadata": {"name": "web", "namespace": "default", "uid": "u1"},
            "spec": {"containers": [{"name": "main", "image": "busybox:1", "resources": {}}]},
            "status": {},
        }
    ]


async def test_configz_shows_what_is_in_force_and_no_credentials(api: NodeApi) -> None:
    """A header of the manifest URL may be a password."""
    assert loaded(await api.ask("/configz")) == {
        "kubeletconfig": {
            "kind": "KubeletConfiguration",
            "maxPods": 3,
            "staticPodURLHeader": {"Authorization": ["<masked>"]},
            "cgroupDriver": "cgroupfs",
        }
    }


def test_the_configuration_in_force_has_defaults_and_flags_in_it(tmp_path: Path) -> None:
    """Clients decode it as a KubeletConfiguration."""
    file = tmp_path / "k.yaml"
    file.write_text("kind: KubeletConfiguration\napiVersion: kubelet.config.k8s.io/v1beta1\nmaxPods: 7\n")
    flags = parse_node_flags(
        node_parser("t", ""), ["--config", str(file), "--max-pods", "9", "--root-dir", str(tmp_path)]
    )
    config = load_node_config(flags)
    kept = {key: config.kubelet[key] for key in ("kind", "apiVersion", "maxPods", "syncFrequency")}
    assert kept == {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "maxPods": 9,
        "syncFrequency": "1m0s",
    }
    assert config.flags == {"config": str(file), "max-pods": "9", "root-dir": str(tmp_path)}
    assert load_node_config(Flags(root_dir=tmp_path)).flags == {}


def test_a_flag_that_may_be_a_password_is_not_told() -> None:
    """/flagz omits it; the configuration key has it."""
    flags = parse_node_flags(node_parser("t", ""), ["--manifest-url-header", "Authorization:Bearer secret"])
    assert flags.said == {"manifest-url-header": "CLASSIFIED"}
    assert "secret" in str(flags.keys["staticPodURLHeader"])


async def test_flagz_is_text_for_people_and_an_object_for_those_who_name_it(api: NodeApi) -> None:
    """The header says that the text is not an interface."""
    page = await api.ask("/flagz")
    assert page.kind == "text/plain; charset=utf-8"
    assert page.text.startswith("\nkubelet flagz\nWarning: ")
    assert page.text.endswith("config=/etc/k.yaml\nnode-ip=10.0.0.1\n")
    named = "application/json;v=v1beta1;g=config.k8s.io;as=Flagz"
    assert loaded(await api.ask("/flagz", headers={"Accept": named})) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kubelet"},
        "flags": {"config": "/etc/k.yaml", "node-ip": "10.0.0.1"},
    }
    unnamed = await api.ask("/flagz", headers={"Accept": "application/json"})
    assert (unnamed.status, json.loads(unnamed.text)["reason"]) == (406, "NotAcceptable")


async def test_statusz_tells_version_and_paths(api: NodeApi) -> None:
    """The version is the kubelet's that is implemented."""
    named = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
    told = loaded(await api.ask("/statusz", headers={"Accept": named}))
    assert told["binaryVersion"] == "1.36.3"
    assert told["emulationVersion"] == "1.36"
    assert {"/pods", "/healthz", "/metrics", "/exec"} <= set(told["paths"])
    page = (await api.ask("/statusz")).text
    assert "\nBinary version: 1.36.3\n" in page
    assert page.startswith("\nkubelet statusz\nWarning: ")


@pytest.mark.parametrize(
    ("header", "first"),
    [
        pytest.param("", "text/plain", id="nothing-means-text"),
        pytest.param("application/json, text/plain;q=0.5", "application/json", id="the-better-wish-first"),
        pytest.param("text/plain;q=0.1,*/*", "*/*", id="no-quality-is-the-best"),
        pytest.param("text/plain;q=no, a/b", "a/b", id="a-quality-that-is-no-number-is-none"),
    ],
)
def test_accept_is_read_as_http_has_it(header: str, first: str) -> None:
    """By quality, then by position."""
    assert accepted(header)[0][0] == first


async def test_healthz_says_ok_or_what_fails(api: NodeApi) -> None:
    """Single checks have paths of their own."""
    assert (await api.ask("/healthz")).text == "ok"
    verbose = (await api.ask("/healthz?verbose&exclude=log&exclude=none")).text
    assert verbose == (
        "[+]ping ok\n[+]log excluded: ok\n[+]syncloop ok\n"
        'warn: some health checks cannot be excluded: no matches for "none"\nhealthz check passed\n'
    )
    assert (await api.ask("/healthz/ping")).text == "ok"
    assert (await api.ask("/healthz/none")).status == 404


async def test_a_failing_check_is_named_and_its_reason_withheld() -> None:
    """As everywhere in Kubernetes, because healthz may be public."""

    async def fine() -> str:
        return ""

    async def broken() -> str:
        return "a secret reason"

    said = await report({"ping": fine, "syncloop": broken})
    assert (said.status, said.text) == (500, "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n")
