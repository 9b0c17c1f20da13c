"""Are volumes that no container uses left out wherever a pod's volumes are mounted, waited for, watched and told of?

Source: pkg/kubelet/volumemanager: processPodVolumes, and getExpectedVolumes of WaitForAttachAndMount.
"""

from typing import Any

import pytest

from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.mounted import MountedVolume, VolumesFacts
from proto.temporal.pod import Failure, Lifecycle, PodJson
from proto.temporal.signals import ObjectsChanged
from tests.workflows.decide.situations import (
    Context,
    at,
    container,
    deletion,
    describe,
    describe_all,
    down,
    pod,
    sandbox,
    situation,
    up,
)
from workflows.decide.contents import pod_digest
from workflows.decide.explain.explain import explanation
from workflows.decide.record import signals
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.situation import Situation
from workflows.decide.status.status import pod_status, pod_summary
from workflows.decide.steps.containers import start
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.versions import USED_VOLUMES_ONLY
from workflows.decide.volumes.mounts import are_mounted, unmounted
from workflows.decide.volumes.refresh import refreshing, watched_objects

LABELS = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
VOLUMES: list[PodJson] = [
    {"name": "data", "emptyDir": {}},
    {"name": "app", "configMap": {"name": "app"}},
    {"name": "keys", "secret": {"secretName": "keys"}},
    {"name": "about", "downwardAPI": {"items": [LABELS]}},
    {"name": "disk", "persistentVolumeClaim": {"claimName": "mine"}},
    {"name": "tool", "image": {"reference": "tool:1", "pullPolicy": "Always"}},
]
EVERY = [one["name"] for one in VOLUMES]
BEFORE = Context(behaviour=USED_VOLUMES_ONLY - 1)
NOW = Context(behaviour=USED_VOLUMES_ONLY)
FRESH: dict[str, Any] = {"sandbox": None, "directories": False}


def mounts(*names: str) -> PodJson:
    """Build a container's mounts."""
    return {"volumeMounts": [{"name": name, "mountPath": f"/{name}"} for name in names]}


def using(*names: str, looks: tuple[str, ...] = (), **fields: Any) -> PodJson:
    """Build a pod of which one container mounts these volumes, and perhaps an ephemeral one others."""
    source = pod(volumes=VOLUMES, containers=[container("web", **(mounts(*names) if names else {}), **fields)])
    if looks:
        source["spec"]["ephemeralContainers"] = [container("looks", **mounts(*looks))]
    return source


def facts(*names: str, objects: dict[str, str] | None = None, attempt: int = 0, told: str = "") -> VolumesFacts:
    """Build what is known of mounted volumes."""
    return VolumesFacts(attempt, tuple(MountedVolume(one) for one in names), objects or {}, told)


def asked(here: Situation) -> list[str] | None:
    """Name the volumes of the mount that begins now; None if none does."""
    found = [one for one in pod_actions(here).begin if isinstance(one, MountVolumes)]
    return [one["name"] for one in found[0].volumes] if found else None


TOLD = pod_digest(using())
"""What the volumes show of the pod."""
DEVICE: dict[str, Any] = {"volumeDevices": [{"name": "disk", "devicePath": "/dev/a"}]}
FROM_FILE: dict[str, Any] = {
    "env": [{"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": "data", "path": "a", "key": "A"}}}]
}


@pytest.mark.parametrize(
    ("source", "context", "known", "mounted"),
    [
        pytest.param(using("app"), NOW, FRESH, ["app"], id="only-what-a-container-mounts"),
        pytest.param(using("keys", "data"), NOW, FRESH, ["data", "keys"], id="in-the-order-of-the-spec"),
        pytest.param(using(), NOW, FRESH, None, id="no-mount-if-nothing-is-used"),
        pytest.param(using(**DEVICE), NOW, FRESH, ["disk"], id="a-block-device"),
        pytest.param(using("app", **FROM_FILE), NOW, FRESH, ["app"], id="not-for-a-variable-from-a-file"),
        pytest.param(using("app"), BEFORE, FRESH, EVERY, id="before-behaviour-6-all"),
        pytest.param(using(), BEFORE, FRESH, EVERY, id="and-also-if-nothing-is-used"),
        pytest.param(
            using("app", looks=("app",)), NOW, {"volumes": facts("app")}, None, id="an-ephemeral-container-shares-one"
        ),
        pytest.param(
            using("app", looks=("keys",)), NOW, {"volumes": facts("app")}, ["app", "keys"], id="or-brings-one-more"
        ),
        pytest.param(using(looks=("keys",)), NOW, {}, ["keys"], id="or-the-first"),
        pytest.param(
            using("app", looks=("keys",)),
            BEFORE,
            {"volumes": facts(*EVERY, told=TOLD)},
            None,
            id="before-behaviour-6-it-is-there",
        ),
        pytest.param(
            using("app", looks=("keys",)),
            NOW,
            {"volumes": facts(*EVERY, told=TOLD)},
            None,
            id="also-in-a-run-that-was-raised",
        ),
        pytest.param(
            using("app"),
            NOW,
            {"volumes": facts(*EVERY), "sandbox": sandbox(1), "containers": {"web": down(1, ended=-900)}},
            ["app"],
            id="whose-next-sandbox-needs-only-used-ones",
        ),
    ],
)
def test_what_is_mounted(source: PodJson, context: Context, known: dict[str, Any], mounted: list[str] | None) -> None:
    """One action mounts them, and nothing waits for others."""
    assert asked(situation(source, context, **known)) == mounted


@pytest.mark.parametrize(
    ("source", "context", "known", "begun"),
    [
        pytest.param(using(), NOW, {}, ["StartContainer web 0"], id="at-once-if-it-uses-none"),
        pytest.param(
            using("app"), NOW, {"volumes": facts("app")}, ["StartContainer web 0"], id="when-its-own-are-there"
        ),
        pytest.param(using("app"), NOW, {}, ["MountVolumes"], id="not-before"),
        pytest.param(using(), BEFORE, {}, ["MountVolumes"], id="before-behaviour-6-it-waited-for-all"),
        pytest.param(
            using("app", looks=("keys",)),
            NOW,
            {"volumes": facts("app"), "containers": {"web": up()}},
            ["MountVolumes"],
            id="an-ephemeral-container-waits-for-what-it-brings",
        ),
        pytest.param(
            using("app", looks=("keys",)),
            NOW,
            {"volumes": facts("app"), "containers": {"web": down(1, ended=-900)}},
            ["MountVolumes"],
            id="and-so-does-a-restart-meanwhile",
        ),
        pytest.param(
            using("app", looks=("keys",)),
            NOW,
            {"volumes": facts("app", "keys"), "containers": {"web": up()}},
            ["StartContainer looks 0"],
            id="until-it-is-mounted",
        ),
    ],
)
def test_what_starts(source: PodJson, context: Context, known: dict[str, Any], begun: list[str]) -> None:
    """As in SyncPod, every start of a pod waits for all volumes that its containers use."""
    assert describe_all(pod_actions(situation(source, context, **known)).begin) == begun


def test_one_more_volume_is_known_beside_the_others() -> None:
    """After the mount for an ephemeral container; each container is told of its own volumes."""
    here = situation(using("app", looks=("keys",)), NOW, volumes=facts("app"), containers={"web": up()})
    [action] = pod_actions(here).begin
    assert isinstance(action, MountVolumes)
    assert action.refresh is None
    fold(here, action, MountedVolumes((MountedVolume("app"), MountedVolume("keys")), ("app",), {"secrets/keys": "1"}))
    assert are_mounted(here)
    [looks] = here.ephemeral_containers
    assert [one.name for one in start(here, looks).volumes] == ["keys"]
    assert [one.name for one in start(here, here.containers[0]).volumes] == ["app"]


@pytest.mark.parametrize(
    ("names", "context", "digest"),
    [
        pytest.param(("app",), NOW, False, id="an-unused-one-tells-nothing-of-the-pod"),
        pytest.param(("app", "about"), NOW, True, id="a-used-one-does"),
        pytest.param(("app",), BEFORE, True, id="before-behaviour-6-each-did"),
    ],
)
def test_the_request_has_only_what_used_volumes_need(names: tuple[str, ...], context: Context, digest: bool) -> None:
    """The pod's labels and their digest, for instance."""
    source = using(*names)
    source["metadata"]["labels"] = {"app": "web"}
    [action] = [one for one in pod_actions(situation(source, context)).begin if isinstance(one, MountVolumes)]
    assert (bool(action.told), "labels" in action.pod_spec["metadata"]) == (digest, digest)


@pytest.mark.parametrize(
    ("source", "context", "known", "watched"),
    [
        pytest.param(using("app"), NOW, {}, {"configmaps/app": "?"}, id="what-it-waits-for"),
        pytest.param(using(), NOW, {}, {}, id="nothing-if-nothing-is-used"),
        pytest.param(using("disk"), NOW, {}, {"persistentvolumeclaims/mine": "?"}, id="a-claim-until-it-is-resolved"),
        pytest.param(using("disk"), NOW, {"volumes": facts("disk")}, {}, id="and-no-longer"),
        pytest.param(
            using("app", looks=("disk", "keys")),
            NOW,
            {"volumes": facts("app", objects={"configmaps/app": "1"})},
            {"configmaps/app": "1", "secrets/keys": "?", "persistentvolumeclaims/mine": "?"},
            id="what-an-ephemeral-container-brings",
        ),
        pytest.param(
            using("app"),
            NOW,
            {"volumes": facts("app", "keys", objects={"configmaps/app": "1", "secrets/keys": "2"})},
            {"configmaps/app": "1", "secrets/keys": "2"},
            id="what-an-earlier-behaviour-mounted",
        ),
        pytest.param(
            using(),
            BEFORE,
            {},
            {"configmaps/app": "?", "secrets/keys": "?", "persistentvolumeclaims/mine": "?"},
            id="before-behaviour-6-all",
        ),
    ],
)
def test_what_is_watched(source: PodJson, context: Context, known: dict[str, Any], watched: dict[str, str]) -> None:
    """No object of a volume that is not mounted: it would only lengthen the history."""
    assert watched_objects(situation(source, context, **known)) == watched


def heard(here: Situation, name: str, version: str) -> Situation:
    """Let the poller hint at a version."""
    signals.apply_signal(here, ObjectsChanged("objects", {name: version}))
    return here


@pytest.mark.parametrize(
    ("source", "known", "changed", "refreshed"),
    [
        pytest.param(using("app"), facts("app", objects={"configmaps/app": "1"}), "configmaps/app", ["app"], id="used"),
        pytest.param(using("app"), facts("app", objects={"configmaps/app": "1"}), "secrets/keys", None, id="unused"),
        pytest.param(
            using("app"),
            facts("app", "keys", objects={"configmaps/app": "1", "secrets/keys": "1"}),
            "secrets/keys",
            ["keys"],
            id="unused-but-mounted-by-an-earlier-behaviour",
        ),
    ],
)
def test_what_is_refreshed(source: PodJson, known: VolumesFacts, changed: str, refreshed: list[str] | None) -> None:
    """What is mounted follows its object; an ephemeral container may use it later."""
    wanted = refreshing(heard(situation(source, NOW, volumes=known, containers={"web": up()}), changed, "2"))
    assert ([one["name"] for one in wanted.volumes] if wanted else None) == refreshed


def test_a_raised_run_refreshes_nothing_anew() -> None:
    """The digest of what its mounted volumes show of the pod is the same, whoever uses them; after its next sandbox that of the used ones."""
    source = using("app")
    source["metadata"]["labels"] = {"app": "web"}
    known = facts(*EVERY, told=pod_digest(source))
    assert known.told
    here = situation(source, NOW, volumes=known, containers={"web": up()})
    assert refreshing(here) is None
    fold(here, MountVolumes(here.key, (VOLUMES[1],), {}, told=""), MountedVolumes((MountedVolume("app"),)))
    assert refreshing(here) is None


@pytest.mark.parametrize(
    ("context", "mounted", "refreshed"),
    [
        pytest.param(NOW, ("app",), True, id="not-by-an-unused-one"),
        pytest.param(NOW, ("app", "unused"), False, id="but-by-one-that-is-mounted"),
        pytest.param(BEFORE, ("app", "unused"), False, id="before-behaviour-6-by-all"),
    ],
)
def test_whether_an_object_is_optional(context: Context, mounted: tuple[str, ...], refreshed: bool) -> None:
    """A volume that is not mounted cannot need it."""
    source = using("app")
    source["spec"]["volumes"] = [
        {"name": "app", "configMap": {"name": "app", "optional": True}},
        {"name": "unused", "configMap": {"name": "app"}},
    ]
    here = situation(source, context, volumes=facts(*mounted, objects={"configmaps/app": "1"}))
    assert (refreshing(heard(here, "configmaps/app", "")) is not None) == refreshed


@pytest.mark.parametrize(
    ("context", "tried"),
    [pytest.param(NOW, ["MountVolumes"], id="at-once"), pytest.param(BEFORE, [], id="before-6-not")],
)
def test_what_a_further_mount_waited_for_has_come(context: Context, tried: list[str]) -> None:
    """The volumes of an earlier sandbox, or of the other containers, are known, and yet the mount is tried again at once."""
    here = situation(
        using("app", looks=("keys",)),
        context,
        volumes=facts(*(EVERY if context is BEFORE else ["app"]), attempt=-1 if context is BEFORE else 0),
        containers={"web": up()},
        failures={"volumes": Failure("FailedMount", 'secret "keys" not found', at(-1), tries=6)},
    )
    assert describe_all(pod_actions(here).begin) == []
    assert describe_all(pod_actions(heard(here, "secrets/keys", "1")).begin) == tried


def texts(here: Situation) -> list[str]:
    """Explain a pod."""
    return [one.text for one in explanation(here, describe).sentences]


@pytest.mark.parametrize(
    ("source", "context", "known", "waits"),
    [
        pytest.param(using("app", "data"), NOW, {}, ["data", "app"], id="those-that-it-uses"),
        pytest.param(using(), NOW, {}, [], id="none"),
        pytest.param(using("app", looks=("keys",)), NOW, {"volumes": facts("app")}, ["keys"], id="the-one-that-lacks"),
        pytest.param(using("app"), BEFORE, {}, EVERY, id="before-behaviour-6-all"),
    ],
)
def test_what_explain_names(source: PodJson, context: Context, known: dict[str, Any], waits: list[str]) -> None:
    """The volumes that a container waits for."""
    here = situation(source, context, **known)
    assert list(unmounted(here)) == waits


def test_explain_says_that_an_ephemeral_container_waits_for_its_volume() -> None:
    """By name, while the pod runs on."""
    source = using("app", looks=("keys",))
    mounting = MountVolumes(situation(source).key, (), {})
    busy = Context(behaviour=USED_VOLUMES_ONLY, busy=(mounting,))
    here = situation(source, busy, volumes=facts("app"), containers={"web": up()})
    assert "looks waits for the pod's volumes: keys" in texts(here)


def test_a_mount_that_failed_before_the_raise_is_told_no_longer() -> None:
    """Nothing tries it again in a pod that uses none; one that is unmounted is told of as ever."""
    failures = {"volumes": Failure("FailedMount", 'secret "keys" not found', at(-1))}
    here = situation(using(), NOW, failures=failures, containers={"web": up()})
    assert pod_summary(here, pod_status(here)).reason == ""
    here = situation(using(), BEFORE, failures=failures)
    assert pod_summary(here, pod_status(here)).reason == "FailedMount"
    here = situation(using(), NOW, lifecycle=Lifecycle.TERMINATED, deletion=deletion(), sandbox=None)
    [action] = pod_actions(here).begin
    assert isinstance(action, UnmountVolumes)
    fold_failure(here, action, "FailedUnmount", "device or resource busy")
    assert pod_summary(here, pod_status(here)).reason == "FailedUnmount"


@pytest.mark.parametrize("context", [NOW, BEFORE], ids=["now", "before"])
def test_every_volume_is_unmounted(context: Context) -> None:
    """Also one that no container uses any more: the history may be lost, or an earlier behaviour have mounted it."""
    here = situation(using(), context, lifecycle=Lifecycle.TERMINATED, deletion=deletion(), sandbox=None)
    [action] = pod_actions(here).begin
    assert isinstance(action, UnmountVolumes)
    assert [one["name"] for one in action.volumes] == EVERY


@pytest.mark.parametrize(
    ("names", "begun"),
    [
        pytest.param((), ["StartContainer web 0"], id="unused"),
        pytest.param(("tool",), ["ReadImages", "MountVolumes"], id="used"),
    ],
)
def test_the_image_of_a_volume_is_pulled_for_a_container_that_mounts_it(
    names: tuple[str, ...], begun: list[str]
) -> None:
    """The kubelet pulls it for nobody, too, and waits for neither."""
    source = using(*names)
    source["spec"]["volumes"][5]["image"]["pullPolicy"] = "IfNotPresent"
    assert sorted(describe_all(pod_actions(situation(source, NOW)).begin)) == sorted(begun)
