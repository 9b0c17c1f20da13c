"""When are volumes mounted again because their content has changed, and when are they left alone?"""

from typing import Any

import pytest

from proto.temporal.activities.volumes import MountedVolumes, MountVolumes
from proto.temporal.mounted import MountedVolume, VolumesFacts
from proto.temporal.pod import ContainerFacts, Failure, PodJson
from proto.temporal.signals import ObjectsChanged
from tests.workflows.decide.situations import NOW, Context, at, container, describe_all, down, pod, situation, up
from workflows.decide import contents
from workflows.decide.record import signals
from workflows.decide.record.fold import fold, fold_failure
from workflows.decide.situation import Situation
from workflows.decide.slices import volumes_slice
from workflows.decide.steps.pod_actions import pod_actions
from workflows.decide.volumes.refresh import refreshing, watched_objects

LABELS = {"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}
CPU = {"path": "cpu", "resourceFieldRef": {"containerName": "web", "resource": "limits.cpu"}}
VOLUMES: list[PodJson] = [
    {"name": "plain", "emptyDir": {}},
    {"name": "app", "configMap": {"name": "app"}},
    {"name": "keys", "secret": {"secretName": "db"}},
    {"name": "about", "downwardAPI": {"items": [LABELS]}},
    {
        "name": "all",
        "projected": {
            "sources": [
                {"configMap": {"name": "app"}},
                {"secret": {"name": "extra", "optional": True}},
                {"downwardAPI": {"items": [CPU]}},
            ]
        },
    },
]
SHOWN = {"configmaps/app": "1", "secrets/db": "1", "secrets/extra": ""}


def showing(source: PodJson | None = None, context: Context | None = None, **known: Any) -> Situation:
    """Build a running pod whose volumes are mounted."""
    source = source or edited()
    facts = VolumesFacts(
        0, tuple(MountedVolume(one["name"]) for one in VOLUMES), dict(SHOWN), contents.pod_digest(edited())
    )
    defaults: dict[str, Any] = {"containers": {"web": up()}, "volumes": facts}
    return situation(source, context or Context(), **defaults | known)


def edited(**metadata: Any) -> PodJson:
    """Build the pod, optionally with other metadata."""
    source = pod(volumes=VOLUMES)
    source["metadata"] |= metadata
    return source


def heard(here: Situation, **versions: str) -> Situation:
    """Let the poller hint at versions; two underscores in a name stand for the slash."""
    signals.apply_signal(
        here, ObjectsChanged("objects", {name.replace("__", "/"): one for name, one in versions.items()})
    )
    return here


@pytest.mark.parametrize(
    ("versions", "volumes"),
    [
        pytest.param({"configmaps__app": "2"}, ["app", "all"], id="every-volume-that-shows-it"),
        pytest.param({"secrets__db": "2"}, ["keys"], id="only-those-that-show-it"),
        pytest.param({"secrets__extra": "1"}, ["all"], id="an-optional-one-that-has-come"),
        pytest.param({"configmaps__app": "1"}, [], id="the-version-that-is-shown"),
        pytest.param({"configmaps__other": "2"}, [], id="an-object-of-others"),
        pytest.param({"secrets__db": ""}, [], id="one-that-is-gone-and-must-be-there-leaves-its-files"),
        pytest.param({"configmaps__app": "2", "secrets__db": "3"}, ["app", "keys", "all"], id="two-at-once"),
    ],
)
def test_a_hint_refreshes_what_shows_the_object(versions: dict[str, str], volumes: list[str]) -> None:
    """Only those volumes are mounted again."""
    actions = pod_actions(heard(showing(), **versions)).begin
    assert [one["name"] for action in actions if isinstance(action, MountVolumes) for one in action.volumes] == volumes


def test_an_optional_object_that_is_gone_empties_its_volume() -> None:
    """It may be absent, and its absence is shown."""
    here = showing()
    assert here.observed.volumes
    here.observed.volumes.objects["secrets/extra"] = "5"
    assert [one["name"] for one in refreshing(heard(here, secrets__extra="")).volumes] == ["all"]  # type: ignore[union-attr]  # there is one


def test_an_immutable_object_is_not_looked_at_again() -> None:
    """It never changes."""
    here = showing()
    assert here.observed.volumes
    here.observed.volumes.objects["configmaps/app"] = "=1"
    assert refreshing(heard(here, configmaps__app="2")) is None


@pytest.mark.parametrize(
    ("metadata", "volumes"),
    [
        pytest.param({"labels": {"app": "other"}}, ["about", "all"], id="labels-that-a-file-shows"),
        pytest.param({"annotations": {"note": "new"}}, [], id="annotations-that-no-file-shows"),
    ],
)
def test_an_edit_in_place_refreshes_what_tells_of_the_pod(metadata: PodJson, volumes: list[str]) -> None:
    """Its files follow the labels."""
    wanted = refreshing(showing(edited(**metadata)))
    assert [one["name"] for one in wanted.volumes] if wanted else volumes == []
    if wanted:
        assert wanted.pod_spec["metadata"]["labels"] == metadata["labels"]


def test_a_resize_refreshes_what_tells_of_it() -> None:
    """A file with a limit follows it."""
    source = pod(volumes=VOLUMES, containers=[container("web", resources={"limits": {"cpu": "2"}})])
    assert refreshing(showing(source)) is not None


def test_what_is_done_is_done() -> None:
    """After the result nothing is due, even if the version found is newer than the hint."""
    here = heard(showing(), configmaps__app="2")
    [action] = pod_actions(here).begin
    assert isinstance(action, MountVolumes)
    assert (action.refresh, action.sandbox_attempt) == ({"configmaps/app": "2"}, 0)
    fold(here, action, MountedVolumes((), objects={"configmaps/app": "3", "secrets/extra": ""}))
    assert here.observed.volumes
    assert here.observed.volumes.objects == SHOWN | {"configmaps/app": "3"}
    assert len(here.observed.volumes.volumes) == len(VOLUMES)
    assert describe_all(pod_actions(here).begin) == []
    assert describe_all(pod_actions(heard(here, configmaps__app="3")).begin) == []


def test_a_hint_that_comes_meanwhile_is_followed_next() -> None:
    """The result of the earlier refresh does not discard it."""
    here = heard(showing(), configmaps__app="2")
    [action] = pod_actions(here).begin
    heard(here, configmaps__app="3")
    assert isinstance(action, MountVolumes)
    fold(here, action, MountedVolumes((), objects={"configmaps/app": "2"}))
    [following] = pod_actions(here).begin
    assert isinstance(following, MountVolumes)
    assert following.refresh == {"configmaps/app": "3"}


@pytest.mark.parametrize(("tries", "pause"), [(1, 10), (2, 20), (5, 160), (20, 3600)])
def test_a_refresh_that_fails_is_tried_ever_less(tries: int, pause: float) -> None:
    """The volume stays mounted, and containers start with it."""
    here = heard(showing(containers={"web": down(1, ended=-900)}), configmaps__app="2")
    [action] = [one for one in pod_actions(here).begin if isinstance(one, MountVolumes)]
    for _ in range(tries):
        fold_failure(here, action, "FailedMount", 'configmap "app" is not taken')
    found = pod_actions(here)
    assert describe_all(found.begin) == ["StartContainer web 1"]
    assert found.wake
    assert (found.wake.at - NOW).total_seconds() == pause
    assert "FailedMount" in found.wake.summary


def test_another_version_is_tried_at_once() -> None:
    """Whatever the delay after the last failure."""
    here = heard(showing(), configmaps__app="2")
    [action] = pod_actions(here).begin
    fold_failure(here, action, "FailedMount", "…")
    assert describe_all(pod_actions(heard(here, configmaps__app="2")).begin) == []
    assert describe_all(pod_actions(heard(here, configmaps__app="3")).begin) == ["MountVolumes"]


def test_what_waits_for_an_object_tries_again_when_one_has_come() -> None:
    """A pod whose mount failed, and a container whose variables could not be resolved."""
    mounts = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in VOLUMES]
    waiting = showing(
        pod(volumes=VOLUMES, containers=[container("web", volumeMounts=mounts)]),
        volumes=None,
        sandbox=None,
        containers={"web": ContainerFacts(failure_reason="CreateContainerConfigError")},
        failures={
            "volumes": Failure("FailedMount", 'configmap "app" not found', at(-1), tries=6),
            "container/web": Failure("CreateContainerConfigError", 'secret "db" not found', at(-1), tries=6),
            "sandbox": Failure("FailedCreatePodSandBox", "…", at(-1)),
        },
    )
    assert watched_objects(waiting) == dict.fromkeys(SHOWN, "?")
    heard(waiting, configmaps__app="1")
    assert set(waiting.observed.failures) == {"sandbox"}
    assert "MountVolumes" in describe_all(pod_actions(waiting).begin)


def test_a_pod_that_waits_for_its_claim_is_told_of_it() -> None:
    """It retries at once; a pod whose volumes are mounted does not follow the claim."""
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
    mounting = container("web", volumeMounts=[{"name": "data", "mountPath": "/data"}])
    source = pod(volumes=[claim], containers=[mounting])
    failure = Failure("FailedMount", "error processing PVC default/mine", at(-1))
    waiting = situation(source, failures={"volumes": failure})
    assert watched_objects(waiting) == {"persistentvolumeclaims/mine": "?"}
    heard(waiting, persistentvolumeclaims__mine="1")
    assert waiting.observed.failures == {}
    mounted = situation(source, volumes=VolumesFacts(0, (MountedVolume("data"),)))
    assert watched_objects(mounted).keys().isdisjoint({"persistentvolumeclaims/mine"})


def test_a_container_that_waits_for_its_variables_is_told_of_their_objects() -> None:
    """Only while it waits; afterwards their variables are fixed."""
    env = [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "late", "key": "a"}}}, {"name": "B", "value": "b"}]
    source = pod(containers=[container("web", env=env, envFrom=[{"configMapRef": {"name": "base"}}])])
    assert watched_objects(situation(source)) == {}
    failure = Failure("CreateContainerConfigError", 'secret "late" not found', at(-1))
    waiting = situation(source, failures={"container/web": failure})
    assert watched_objects(waiting) == {"secrets/late": "?", "configmaps/base": "?"}


def test_a_pod_that_goes_or_is_through_refreshes_nothing() -> None:
    """Its files are not read any more."""
    through = showing(pod(volumes=VOLUMES, restartPolicy="Never"), containers={"web": down(0)})
    assert describe_all(pod_actions(heard(through, configmaps__app="2")).begin) == []


def test_mounting_is_told_what_the_files_are_made_of_and_nothing_else() -> None:
    """Labels if a file shows them, the containers' resources, and mounts only if one is inside another."""
    source = edited(labels={"app": "web"}, annotations={"secret": "no"})
    cut = volumes_slice(source)
    assert cut["metadata"] == {"name": "web", "namespace": "default", "uid": "uid-1", "labels": {"app": "web"}}
    assert [sorted(one) for one in cut["spec"]["containers"]] in ([["name"]], [["name", "resources"]])
    plain = pod(volumes=[{"name": "app", "configMap": {"name": "app"}}])
    assert volumes_slice(plain)["spec"] == {}
    mounts = [{"name": "app", "mountPath": "/etc/app", "readOnly": True}, {"name": "x", "mountPath": "/etc/app/x"}]
    plain["spec"]["containers"][0]["volumeMounts"] = mounts
    assert volumes_slice(plain)["spec"]["containers"] == [
        {
            "name": "web",
            "volumeMounts": [{"name": "app", "mountPath": "/etc/app"}, {"name": "x", "mountPath": "/etc/app/x"}],
        }
    ]
