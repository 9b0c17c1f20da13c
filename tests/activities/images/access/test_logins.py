"""Which logins does a pod have: its secrets', its service account's, the node's?"""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from activities.images.access.logins import MOST_LOGINS, ImageLogins
from activities.images.credentials.docker_config import NotADockerConfig
from activities.images.credentials.node_logins import NodeLogins, search_paths
from activities.objects.objects import ObjectKind
from proto.temporal.activities.requests import PullImage
from proto.temporal.images import PullSecrets
from proto.temporal.pod import PodKey
from tests.activities.foreign.held_loop import holds
from tests.activities.stored_objects import ObjectsInMemory

POD = PodKey("default", "web", "u1")
MISSING = (
    "FailedToRetrieveImagePullSecret: Unable to retrieve some image pull secrets (secretFoo); "
    "attempting to pull the image may not succeed."
)


def secret(password: str, *, kind: str = "kubernetes.io/dockerconfigjson") -> dict[str, Any]:
    """Write a pull secret for r.io."""
    auths = {"r.io": {"username": "foo", "password": password}}
    key, content = (".dockercfg", auths) if kind.endswith("dockercfg") else (".dockerconfigjson", {"auths": auths})
    return {"type": kind, "data": {key: base64.b64encode(json.dumps(content).encode()).decode()}}


@pytest.fixture
def objects() -> ObjectsInMemory:
    """Keep two pull secrets, one of another kind, and a service account."""
    made = ObjectsInMemory()
    made.put(ObjectKind.SECRETS, "new", secret("new"))
    made.put(ObjectKind.SECRETS, "old", secret("old", kind="kubernetes.io/dockercfg"))
    made.put(ObjectKind.SECRETS, "opaque", secret("opaque", kind="Opaque"))
    made.put(ObjectKind.SECRETS, "elsewhere", secret("elsewhere"), "other")
    made.put(ObjectKind.SERVICE_ACCOUNTS, "robot", {"imagePullSecrets": [{"name": "old"}, {}]})
    return made


def pull(*names: str, account: str = "", image: str = "r.io/app:1") -> PullImage:
    """Ask for an image."""
    return PullImage(POD, image, "IfNotPresent", PullSecrets(names, account))


@pytest.mark.parametrize(
    ("asked", "passwords"),
    [
        pytest.param(pull("new", "old"), ["new", "old"], id="both-forms-in-the-pods-order"),
        pytest.param(pull("opaque"), [], id="a-secret-of-another-type"),
        pytest.param(pull("elsewhere"), [], id="a-secret-of-another-namespace"),
        pytest.param(pull("new", image="quay.io/app"), [], id="another-registry"),
        pytest.param(pull(account="robot"), ["old"], id="the-service-account-s"),
        pytest.param(pull("new", account="robot"), ["new"], id="its-own-alone"),
        pytest.param(pull(account="nobody"), [], id="no-such-service-account"),
        pytest.param(pull(), [], id="none"),
    ],
)
async def test_a_pods_logins(objects: ObjectsInMemory, asked: PullImage, passwords: list[str]) -> None:
    """From what it names; without any it is asked for nothing."""
    found = await ImageLogins().find(objects, asked)
    assert [one.login.password for one in found.credentials] == passwords
    assert [one.source.name for one in found.credentials if one.source] == passwords
    assert not repr(found).count("foo")


async def test_a_missing_secret_does_not_hold_the_pod_up(objects: ObjectsInMemory) -> None:
    """The kubelet's words, and why a secret that is there is not taken."""
    found = await ImageLogins().find(objects, pull("secretFoo", "new"))
    assert found.warnings == (MISSING,)
    assert len(found.credentials) == 1
    objects.refused[ObjectKind.SECRETS, "default", "new"] = "secret default/new is not taken: its mode is 0644"
    found = await ImageLogins().find(objects, pull("new"))
    assert "(new)" in found.warnings[0]
    assert found.warnings[0].endswith("its mode is 0644")


async def test_a_broken_secret_is_named(objects: ObjectsInMemory) -> None:
    """And not quoted."""
    objects.put(
        ObjectKind.SECRETS, "bad", {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": "e2E="}}
    )
    with pytest.raises(NotADockerConfig, match=r"^secret default/bad: \.dockerconfigjson: it is not JSON$"):
        await ImageLogins().find(objects, pull("bad"))


async def test_the_node_s_own_logins_come_after_the_pods(objects: ObjectsInMemory, tmp_path: Path) -> None:
    """And are everybody's."""
    (tmp_path / "config.json").write_text(json.dumps({"auths": {"r.io": {"username": "n", "password": "node"}}}))
    logins = ImageLogins(NodeLogins([tmp_path / "config.json"]))
    found = await logins.find(objects, pull("new"))
    assert [(one.login.password, bool(one.source)) for one in found.credentials] == [("new", True), ("node", False)]
    assert [one.name for one in found.rights().secrets] == ["new"]


async def test_the_first_file_that_can_be_read_counts(tmp_path: Path) -> None:
    """The kubelet's places in its order; a broken file is passed over."""
    files = search_paths(tmp_path / "root", tmp_path / "home")
    assert [str(one) for one in files] == [
        str(tmp_path / "root/config.json"),
        "config.json",
        str(tmp_path / "home/.docker/config.json"),
        "/.docker/config.json",
        str(tmp_path / "root/.dockercfg"),
        ".dockercfg",
        str(tmp_path / "home/.dockercfg"),
        "/.dockercfg",
    ]
    for path, text in ((files[0], "no json"), (files[6], '{"r.io": {"password": "old"}}')):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert (await NodeLogins([files[0], files[6]]).config())["r.io"].password == "old"


async def test_the_same_logins_have_the_same_digest(objects: ObjectsInMemory) -> None:
    """By it pulls are shared; none have none."""
    logins = ImageLogins()
    assert (await logins.find(objects, pull())).digest() == ""
    new, old = await logins.find(objects, pull("new")), await logins.find(objects, pull("old"))
    assert new.digest() == (await logins.find(objects, pull("new", "secretFoo"))).digest()
    assert new.digest() != old.digest()


def secret_of(auths: str) -> dict[str, Any]:
    """Write a pull secret with these auths, as JSON."""
    data = base64.b64encode(f'{{"auths": {auths}}}'.encode()).decode()
    return {"type": "kubernetes.io/dockerconfigjson", "data": {".dockerconfigjson": data}}


@pytest.mark.parametrize(
    ("auths", "image"),
    [
        pytest.param(
            "{" + ",".join(f'"{number:x}.io":{{}}' for number in range(4_900)) + "}",
            "r.io/app:1",
            id="many-registries",
        ),
        pytest.param(
            "{" + ",".join(f'"{number:x}@r.io":{{"password":"x"}}' for number in range(3_300)) + "}",
            "r.io/app:1",
            id="many-logins-of-one-registry",
        ),
        pytest.param(
            json.dumps({f"{'*a' * 7}b.io": {"password": "x"}}), f"{'a' * 60}.io/app:1", id="a-host-with-many-stars"
        ),
        pytest.param(json.dumps({"*a" * 400_000: {"password": "x"}}), f"{'a' * 60}.io/app:1", id="a-long-host"),
    ],
)
async def test_a_secret_does_not_hold_the_event_loop(objects: ObjectsInMemory, auths: str, image: str) -> None:
    """Its owner may write up to a megabyte there."""
    objects.put(ObjectKind.SECRETS, "much", secret_of(auths))
    assert await holds(lambda: ImageLogins().find(objects, pull("much", image=image))) == []
    found = await ImageLogins().find(objects, pull("much", image=image))
    assert len(found.credentials) <= MOST_LOGINS
    assert any("the first 200 are tried" in one for one in found.warnings) is (len(found.credentials) == MOST_LOGINS)


async def test_a_secret_with_too_much_is_refused(objects: ObjectsInMemory) -> None:
    """Before it is read."""
    objects.put(ObjectKind.SECRETS, "much", secret_of("[" + "{}," * 100_000 + "{}]"))
    with pytest.raises(NotADockerConfig, match="more than 10000 values"):
        await ImageLogins().find(objects, pull("much"))
