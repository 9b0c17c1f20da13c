"""Do sandbox and container reach CRI with the kubelet's labels, annotations, paths and defaults?"""

from dataclasses import replace
from typing import Any

import pytest

from activities.cri_config.container_config import ContainerInputs, SandboxInputs, container_config, sandbox_config
from activities.cri_config.security_context import NODES_USERS, SecurityInputs, container_security, sandbox_security
from activities.cri_config.stop_signals import signal_name
from proto.cri.v1 import api_pb2 as cri
from proto.kubernetes.container_hash import container_hash
from proto.kubernetes.resources.resources import ContainerResources
from proto.temporal.pod import PodKey

KEY = PodKey("prod", "web", "uid-1")
FIGURES = ContainerResources(
    cpu_shares=102, cpu_quota=5000, cpu_period=100000, memory_limit_in_bytes=64, oom_score_adj=999
)


def pod(**spec: Any) -> dict[str, Any]:
    """Return a pod with one container that publishes a port."""
    return {
        "metadata": {
            "name": "web",
            "namespace": "prod",
            "uid": "uid-1",
            "labels": {"app": "shop", "io.kubernetes.pod.name": "a lie"},
            "annotations": {"team": "blue"},
        },
        "spec": {"containers": [{"name": "main", "ports": [{"containerPort": 80, "hostPort": 8080}]}], **spec},
    }


def built_sandbox(**spec: Any) -> cri.PodSandboxConfig:
    """Build the sandbox of `pod(**spec)`, third attempt."""
    return sandbox_config(
        SandboxInputs(
            key=KEY,
            pod=pod(**spec),
            attempt=2,
            log_directory="/var/log/pods/prod_web_uid-1",
            cgroup_parent="/kubepods/besteffort/poduid-1",
            dns=cri.DNSConfig(servers=["10.0.0.10"]),
            resources=FIGURES,
            security=sandbox_security(pod(**spec), NODES_USERS),
        )
    )


def built_container(
    *, figures: ContainerResources = FIGURES, target_id: str = "", **container: Any
) -> cri.ContainerConfig:
    """Build the container `main` with the given fields, seventh attempt."""
    own, of_pod = {"name": "main", "image": "busybox", **container}, pod(terminationGracePeriodSeconds=30)
    return container_config(
        ContainerInputs(
            key=KEY,
            pod=of_pod,
            container=own,
            attempt=6,
            image_ref="sha256:abc",
            resources=figures,
            security=container_security(SecurityInputs(key=KEY, pod=of_pod, container=own, target_id=target_id)),
            environment={"WORD": "hello", "ODD": "ü\n"},
        )
    )


def test_sandbox_is_found_again_by_its_labels() -> None:
    """The pod's own labels are kept, but cannot pass for another pod's."""
    built = built_sandbox()
    assert dict(built.labels) == {
        "app": "shop",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "prod",
        "io.kubernetes.pod.uid": "uid-1",
    }
    assert dict(built.annotations) == {"team": "blue"}
    assert built.metadata == cri.PodSandboxMetadata(name="web", namespace="prod", uid="uid-1", attempt=2)


def test_sandbox_of_a_pod_with_its_own_network() -> None:
    """It has a host name, a network namespace, the pod's ports and the runtime's seccomp profile."""
    built = built_sandbox()
    security = built.linux.security_context
    assert built.hostname == "web"
    assert security.namespace_options.network == cri.NamespaceMode.POD
    assert security.seccomp.profile_type == cri.SecurityProfile.RuntimeDefault
    assert [(one.container_port, one.host_port) for one in built.port_mappings] == [(80, 8080)]
    assert built.linux.cgroup_parent == "/kubepods/besteffort/poduid-1"
    assert built.linux.resources.cpu_shares == 102


def test_an_ephemeral_container_sees_the_processes_of_its_target() -> None:
    """By the target's id; without one it has a namespace of its own, and its labels are those of any container."""
    built = built_container(target_id="c-web")
    options = built.linux.security_context.namespace_options
    assert (options.pid, options.target_id) == (cri.NamespaceMode.TARGET, "c-web")
    alone = built_container()
    assert alone.linux.security_context.namespace_options.pid == cri.NamespaceMode.CONTAINER
    assert (built.labels, built.annotations) == (alone.labels, alone.annotations)


def test_sandbox_on_the_host_network() -> None:
    """It takes the node's host name and network."""
    built = built_sandbox(hostNetwork=True)
    assert built.hostname == ""
    assert built.linux.security_context.namespace_options.network == cri.NamespaceMode.NODE


def test_container_carries_the_kubelets_annotations() -> None:
    """crictl, cAdvisor and a rebuild read them."""
    ports = [{"protocol": "TCP", "containerPort": 80, "name": "http", "hostPort": 0}]
    built = built_container(ports=ports, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File")
    assert dict(built.annotations) == {
        "io.kubernetes.container.hash": container_hash("main", "busybox"),
        "io.kubernetes.container.restartCount": "6",
        "io.kubernetes.container.terminationMessagePath": "/dev/termination-log",
        "io.kubernetes.container.terminationMessagePolicy": "File",
        "io.kubernetes.container.ports": '[{"name":"http","containerPort":80,"protocol":"TCP"}]',
        "io.kubernetes.pod.terminationGracePeriod": "30",
    }
    assert dict(built.labels) == {
        "io.kubernetes.container.name": "main",
        "io.kubernetes.pod.name": "web",
        "io.kubernetes.pod.namespace": "prod",
        "io.kubernetes.pod.uid": "uid-1",
    }
    assert built.log_path == "main/6.log"
    assert built.metadata.attempt == 6


def test_container_runs_what_the_pod_says() -> None:
    """Command and arguments are expanded, values travel as bytes, the image is the one that was pulled."""
    built = built_container(
        command=["echo", "$(WORD)"],
        args=["$$(WORD)", "$(NOT)"],
        workingDir="/srv",
        tty=True,
        stdin=True,
        stdinOnce=True,
    )
    assert list(built.command) == ["echo", "hello"]
    assert list(built.args) == ["$(WORD)", "$(NOT)"]
    assert [(one.key, one.value) for one in built.envs] == [("WORD", b"hello"), ("ODD", "ü\n".encode())]
    assert (built.image.image, built.image.user_specified_image) == ("sha256:abc", "busybox")
    assert (built.working_dir, built.tty, built.stdin, built.stdin_once) == ("/srv", True, True, True)


def test_container_resources() -> None:
    """The figures are passed on."""
    resources = built_container().linux.resources
    assert (resources.oom_score_adj, resources.memory_limit_in_bytes) == (999, 64)
    assert not resources.unified


def test_a_container_carries_all_that_the_kernel_is_to_be_told() -> None:
    """Swap and huge pages have fields of the CRI, the rest goes as files of cgroup v2."""
    figures = replace(
        FIGURES,
        memory_swap_limit_in_bytes=64,
        hugepage_limits=(("2MB", 4 << 20), ("1GB", 0)),
        unified={"memory.oom.group": "1", "memory.swap.max": "0"},
    )
    told = built_container(figures=figures).linux.resources
    assert (told.memory_swap_limit_in_bytes, dict(told.unified)) == (64, figures.unified)
    assert [(one.page_size, one.limit) for one in told.hugepage_limits] == [("2MB", 4 << 20), ("1GB", 0)]


@pytest.mark.parametrize(
    ("name", "image", "expected"),
    [
        pytest.param("test_container", "foo/image:v1", "8e45cbd0", id="the-kubelets-own-sample"),
    ],
)
def test_container_hash_is_the_kubelets(name: str, image: str, expected: str) -> None:
    """A kubelet that takes over must not see a changed container (container_hash_test.go)."""
    assert container_hash(name, image) == expected


def test_what_device_plugins_bring() -> None:
    """CDI names as they are; no annotation of the kubelet's own is replaced."""
    brought = {"vendor.example.com/x": "y", "io.kubernetes.container.restartCount": "99"}
    inputs = ContainerInputs(
        key=KEY,
        pod=pod(),
        container={"name": "main", "image": "busybox"},
        attempt=6,
        image_ref="",
        resources=FIGURES,
        security=cri.LinuxContainerSecurityContext(),
        environment={},
        annotations=brought,
        cdi_devices=("vendor.example.com/gpu=0",),
    )
    built = container_config(inputs)
    assert [one.name for one in built.CDI_devices] == ["vendor.example.com/gpu=0"]
    assert built.annotations["vendor.example.com/x"] == "y"
    assert built.annotations["io.kubernetes.container.restartCount"] == "6"


def test_inputs_do_not_show_the_environment() -> None:
    """A traceback or log that prints them tells no value."""
    inputs = ContainerInputs(
        key=KEY,
        pod=pod(),
        container={},
        attempt=0,
        image_ref="",
        resources=FIGURES,
        security=cri.LinuxContainerSecurityContext(),
        environment={"TOKEN": "s3cret"},
    )
    assert "s3cret" not in repr(inputs)


@pytest.mark.parametrize(
    ("lifecycle", "signal"),
    [
        pytest.param({"stopSignal": "SIGRTMIN+3"}, cri.SIGRTMINPLUS3, id="asked"),
        pytest.param({"preStop": {"sleep": {"seconds": 1}}}, cri.RUNTIME_DEFAULT, id="left-to-the-image"),
    ],
)
def test_the_stop_signal_reaches_the_runtime(lifecycle: dict[str, Any], signal: int) -> None:
    """As CRI names it."""
    assert built_container(lifecycle=lifecycle).stop_signal == signal


def test_a_signal_that_this_release_does_not_know_is_none() -> None:
    """A newer runtime may tell of one."""
    assert signal_name(cri.ContainerStatus.FromString(b"\x98\x01\xe7\x07").stop_signal) == ""
