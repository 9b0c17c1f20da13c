"""Does an activity receive what it needs, and nothing more?"""

import pytest

from proto.temporal.hooks import Hook
from tests.workflows.decide.situations import container, pod
from workflows.decide.slices import container_slice, hook_container_slice, hook_slice, sandbox_slice, volumes_slice

SECRET = "must-not-leave-its-container"
SOURCE = pod(
    hostNetwork=True,
    securityContext={"runAsUser": 1000},
    volumes=[],
    schedulerName="default",
    containers=[
        container("web", env=[{"name": "A", "value": SECRET}], command=[SECRET], ports=[{"hostPort": 80}]),
        container("side", resources={"requests": {"cpu": "1"}}),
    ],
    initContainers=[container("first", args=[SECRET]), container("beside", restartPolicy="Always")],
)


def test_a_sandbox_sees_no_command_and_no_environment() -> None:
    """Of each container its name, ports, resources and whether it is a sidecar; of the pod only the sandbox's fields."""
    cut = sandbox_slice(SOURCE)
    assert SECRET not in repr(cut)
    assert cut["spec"]["containers"] == [
        {"name": "web", "ports": [{"hostPort": 80}]},
        {"name": "side", "resources": {"requests": {"cpu": "1"}}},
    ]
    assert cut["spec"]["initContainers"] == [{"name": "first"}, {"name": "beside", "restartPolicy": "Always"}]
    assert cut["spec"]["hostNetwork"] is True
    assert set(cut["spec"]) <= {
        "hostNetwork",
        "securityContext",
        "restartPolicy",
        "terminationGracePeriodSeconds",
        "containers",
        "initContainers",
    }
    assert cut["metadata"] == SOURCE["metadata"]


def test_a_sandbox_is_told_of_privileged_containers() -> None:
    """Only the privileged flag, and nothing else of their security context."""
    looking_in = [container("looks", securityContext={"privileged": True}), container("sees", securityContext={})]
    own = container("web", securityContext={"privileged": True, "runAsUser": 1})
    cut = sandbox_slice(pod(containers=[own], ephemeralContainers=looking_in, hostUsers=False))["spec"]
    assert cut["containers"] == [{"name": "web", "securityContext": {"privileged": True}}]
    assert cut["ephemeralContainers"] == [{"name": "looks", "securityContext": {"privileged": True}}]
    assert cut["hostUsers"] is False


def test_what_restricts_a_container_restricts_its_hooks() -> None:
    """They run commands in containers of their own."""
    own = container("web", securityContext={"runAsUser": 1, "capabilities": {"drop": ["ALL"]}}, command=["a"])
    assert hook_container_slice(pod(containers=[own]), "web") == {
        "name": "web",
        "securityContext": own["securityContext"],
    }


@pytest.mark.parametrize("name", ["web", "side", "first"])
def test_a_container_sees_its_own_part(name: str) -> None:
    """Unchanged, and no other container's."""
    assert container_slice(SOURCE, name)["name"] == name


def test_a_name_that_the_pod_does_not_have_is_an_error() -> None:
    """The error names the container."""
    with pytest.raises(KeyError, match="nobody"):
        container_slice(SOURCE, "nobody")


def test_the_source_is_left_as_it_is() -> None:
    """The slice is a copy."""
    container_slice(SOURCE, "web")["name"] = "other"
    sandbox_slice(SOURCE)["spec"]["hostNetwork"] = False
    assert (SOURCE["spec"]["containers"][0]["name"], SOURCE["spec"]["hostNetwork"]) == ("web", True)


def test_hooks_travel_only_where_they_are_run() -> None:
    """A container gets its preStop hook for its annotations; each hook gets itself and the ports."""
    ports = [{"name": "http", "containerPort": 80}]
    both = {"postStart": {"exec": {"command": [SECRET]}}, "preStop": {"sleep": {"seconds": 1}}}
    source = pod(containers=[container("web", ports=ports, lifecycle=both), container("side", lifecycle={})])
    cut = container_slice(source, "web")
    assert cut["lifecycle"] == {"preStop": {"sleep": {"seconds": 1}}}
    assert "lifecycle" not in container_slice(source, "side")
    assert SECRET not in repr(sandbox_slice(source))
    assert hook_slice(source, "web", Hook.PRE_STOP) == ({"sleep": {"seconds": 1}}, tuple(ports))
    assert source["spec"]["containers"][0]["lifecycle"] == both


def test_the_labels_of_containers_travel_where_selinux_is_on() -> None:
    """With a driver's volume only; no other field of a security context does."""
    options = {"seLinuxOptions": {"level": "s0:c1,c2"}}
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
    policy = {"seLinuxChangePolicy": "Recursive"}
    mounts = [{"name": "data", "mountPath": "/data"}]
    one = container("web", securityContext={**options, "privileged": True}, volumeMounts=mounts)
    source = pod(volumes=[claim], containers=[one], securityContext={**options, **policy, "runAsUser": 7})
    spec = volumes_slice(source, labels=True)["spec"]
    assert spec["securityContext"] == {**options, **policy}
    assert spec["containers"] == [{"name": "web", "securityContext": options, "volumeMounts": mounts}]
    assert "seLinuxOptions" not in str(volumes_slice(source))
    source["spec"]["volumes"] = [{"name": "data", "emptyDir": {}}]
    assert "seLinuxOptions" not in str(volumes_slice(source, labels=True))
