"""Are the kubelet's records read, and are ours its own, on the disk before they count?"""

import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from activities.clients.registry_login import Login
from activities.images.access.pull_records import PullRecords
from activities.images.access.record_format import Rights, SecretRight, file_name
from activities.images.access.rights import PullRights
from activities.images.access.verification import Standing
from activities.images.credentials.keyring import Credential, SecretSource

IMAGE = "docker.io/testing/test:latest"
REF = "testimageref"
RIGHT = SecretRight("default", "pull-secret", "testsecretuid", "testsecrethash")
OF_A_KUBELET = {
    "kind": "ImagePulledRecord",
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "lastUpdatedTime": "2024-10-21T12:26:40Z",
    "imageRef": REF,
    "credentialMapping": {
        "docker.io/testing/test": {
            "kubernetesSecrets": [
                {
                    "uid": "testsecretuid",
                    "namespace": "default",
                    "name": "pull-secret",
                    "credentialHash": "testsecrethash",
                }
            ]
        }
    },
}
LOGIN = Credential(Login(username="u", password="p"), SecretSource("default", "pull-secret", "testsecretuid"))
THEN = datetime(2024, 10, 21, 12, 26, 40, tzinfo=UTC)


@pytest.fixture
def records(tmp_path: Path) -> PullRecords:
    """Begin with empty folders."""
    made = PullRecords(tmp_path)
    made.load()
    return made


def content(path: Path) -> dict[str, Any]:
    """Read a record's JSON."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_a_record_is_the_kubelet_s_own(records: PullRecords) -> None:
    """Name, fields and their order; for root's eyes only."""
    records.pulled(IMAGE, REF, Rights((RIGHT,)), THEN)
    path = records.pulled_dir / "sha256-b3c0cc4278800b03a308ceb2611161430df571ca733122f0a40ac8b9792a9064"
    assert content(path) == OF_A_KUBELET
    assert list(content(path)) == list(OF_A_KUBELET)
    assert path.stat().st_mode & 0o777 == 0o600
    assert records.pulled_dir.stat().st_mode & 0o777 == 0o700


def test_an_intent_is_the_kubelet_s_own(records: PullRecords) -> None:
    """It stands while a pull is under way."""
    records.intend(IMAGE)
    path = records.pulling_dir / "sha256-aef2af226629a35d5f3ef0fdbb29fdbebf038d0acd8850590e8c48e1e283aa56"
    assert content(path) == {
        "kind": "ImagePullIntent",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "image": IMAGE,
    }
    records.forget_intent(IMAGE)
    assert not list(records.pulling_dir.iterdir())


@pytest.mark.parametrize("version", ["v1beta1", "v1alpha1"])
def test_a_kubelet_s_records_are_read(records: PullRecords, version: str) -> None:
    """Of both versions; what was changed is written as the newer one."""
    written = OF_A_KUBELET | {"apiVersion": f"kubelet.config.k8s.io/{version}"}
    path = records.pulled_dir / file_name(REF)
    path.write_text(json.dumps(written))
    (records.pulled_dir / f"{file_name('x')}.tmp").write_text("half a rec")
    records.load()
    known = records.known(IMAGE, REF)
    assert known.record is not None
    assert known.record.rights == {"docker.io/testing/test": Rights((RIGHT,))}
    assert known.record.rights["docker.io/testing/test"].secrets[0].hash == "testsecrethash"
    records.pulled(IMAGE, REF, Rights(everyone=True), THEN)
    assert content(path)["credentialMapping"] == {"docker.io/testing/test": {"nodePodsAccessible": True}}
    assert content(path)["apiVersion"] == "kubelet.config.k8s.io/v1beta1"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"kind":"ImagePulledRecord"', id="half-written"),
        pytest.param(json.dumps(OF_A_KUBELET | {"imageRef": "another"}), id="of-another-image"),
        pytest.param(json.dumps(OF_A_KUBELET | {"more": 1}), id="with-an-unknown-field"),
        pytest.param(json.dumps(OF_A_KUBELET | {"credentialMapping": {"x": {"all": True}}}), id="of-an-unknown-right"),
        pytest.param(json.dumps(OF_A_KUBELET | {"lastUpdatedTime": 3}), id="without-a-time"),
        pytest.param("[]", id="no-object"),
    ],
)
def test_a_broken_record_gives_nobody_a_right(records: PullRecords, text: str) -> None:
    """Until the image is pulled again, which rewrites the record."""
    (records.pulled_dir / file_name(REF)).write_text(text)
    records.load()
    assert records.known(IMAGE, REF).broken
    records.pulled(IMAGE, REF, Rights(everyone=True))
    assert not records.known(IMAGE, REF).broken


def test_what_is_nothing_new_is_not_written(records: PullRecords) -> None:
    """A pull of the same image by the same right leaves the file alone."""
    records.pulled(IMAGE, REF, Rights((RIGHT,)))
    before = (records.pulled_dir / file_name(REF)).stat().st_ino
    records.pulled(IMAGE, REF, Rights((RIGHT,)))
    assert (records.pulled_dir / file_name(REF)).stat().st_ino == before


def test_records_of_images_that_are_gone_go(records: PullRecords) -> None:
    """But not those that changed since the images were listed."""
    for ref in ("kept", "gone", "new"):
        records.pulled(IMAGE, ref, Rights(everyone=True), THEN if ref != "new" else datetime.now(UTC))
    records.prune({"kept"}, datetime(2025, 1, 1, tzinfo=UTC))
    assert {one.name for one in records.pulled_dir.iterdir()} == {file_name("kept"), file_name("new")}
    assert records.known(IMAGE, "gone").record is None


async def nothing_is_there(_: str) -> str:
    """Find no image."""
    return ""


async def test_a_pull_that_a_killed_worker_had_begun_belongs_to_nobody(records: PullRecords) -> None:
    """Its image is present without known credentials; if it is absent, the intent stays."""
    records.intend(IMAGE)
    records.intend("not-there:1")
    again = PullRights(PullRecords(records.root_dir))

    async def there(image: str) -> str:
        return REF if image == IMAGE else ""

    await again.ready(there)
    assert again.standing(IMAGE, REF) is Standing.DENIED
    assert content(records.pulled_dir / file_name(REF)).keys() == {
        "kind",
        "apiVersion",
        "lastUpdatedTime",
        "imageRef",
    }
    assert [content(one)["image"] for one in records.pulling_dir.iterdir()] == ["not-there:1"]


async def test_an_intent_stays_while_another_pull_of_the_image_is_under_way(records: PullRecords) -> None:
    """With other logins; the last one removes it."""
    rights = PullRights(records)
    await rights.ready(nothing_is_there)
    await rights.intend(IMAGE)
    await rights.intend(IMAGE)
    await rights.pull_failed(IMAGE)
    assert len(list(records.pulling_dir.iterdir())) == 1
    rights.pulled(IMAGE, REF, None)
    await rights.flushed()
    assert not list(records.pulling_dir.iterdir())
    assert rights.standing(IMAGE, REF) is Standing.ALLOWED


async def test_without_a_record_a_pulled_image_is_nobodys(
    records: PullRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full after the pull: the intent stays, and each pod has to prove its access."""
    rights = PullRights(records)
    await rights.ready(nothing_is_there)
    await rights.intend(IMAGE)
    monkeypatch.setattr(os, "fsync", full_disk)
    rights.pulled(IMAGE, REF, None)
    await rights.flushed()
    assert rights.standing(IMAGE, REF) is Standing.DENIED
    assert len(list(records.pulling_dir.iterdir())) == 1
    assert not list(records.pulled_dir.iterdir())


async def test_a_right_counts_at_once_and_its_intent_goes_last(records: PullRecords) -> None:
    """The pod that has pulled, and those after it, wait for no disk; until the record is there a crash takes the right."""
    rights = PullRights(records)
    await rights.ready(nothing_is_there)
    await rights.intend(IMAGE)
    rights.pulled(IMAGE, REF, None)
    assert rights.standing(IMAGE, REF) is Standing.ALLOWED
    crashed = PullRecords(records.root_dir)
    crashed.load()
    assert crashed.known(IMAGE, REF).intended
    await rights.flushed()
    assert not list(records.pulling_dir.iterdir())
    assert len(list(records.pulled_dir.iterdir())) == 1


async def test_records_that_an_operator_removes_count_as_removed(records: PullRecords) -> None:
    """All of them at once, while the worker runs: the image is everybody's then, and the next pull makes the folders."""
    rights = PullRights(records)
    await rights.ready(nothing_is_there)
    records.pulled(IMAGE, REF, Rights((RIGHT,)))
    records.intend("half-pulled:1")
    assert rights.standing(IMAGE, REF) is Standing.ASK_LOGINS
    shutil.rmtree(records.pulled_dir.parent)
    await rights.ready(nothing_is_there)
    assert rights.standing(IMAGE, REF) is Standing.ALLOWED
    assert not records.intents()
    await rights.intend(IMAGE)
    rights.pulled(IMAGE, REF, LOGIN)
    await rights.flushed()
    assert [one.name for one in records.pulled_dir.iterdir()] == [file_name(REF)]
    assert records.pulled_dir.stat().st_mode & 0o777 == 0o700
    assert not list(records.pulling_dir.iterdir())
    await rights.ready(nothing_is_there)
    assert rights.standing(IMAGE, REF) is Standing.ASK_LOGINS


async def test_of_one_image_s_record_alone(records: PullRecords) -> None:
    """The other's stays, and so does one that the worker itself could not write."""
    rights = PullRights(records)
    await rights.ready(nothing_is_there)
    for ref in (REF, "other", "third"):
        records.pulled(IMAGE, ref, Rights((RIGHT,)))
    (records.pulled_dir / file_name(REF)).unlink()
    records.remember(IMAGE, "third", Rights(everyone=True))
    (records.pulled_dir / file_name("third")).unlink()
    await rights.ready(nothing_is_there)
    stand = [rights.standing(IMAGE, ref) for ref in (REF, "other", "third")]
    assert stand == [Standing.ALLOWED, Standing.ASK_LOGINS, Standing.ALLOWED]
    assert records.known(IMAGE, "third").record is not None


async def test_the_intent_of_a_pull_under_way_is_written_again(records: PullRecords) -> None:
    """Else an image whose pull ends unheard would be everybody's."""
    rights = PullRights(records)
    await rights.ready(nothing_is_there)
    await rights.intend(IMAGE)
    shutil.rmtree(records.pulled_dir.parent)
    await rights.ready(nothing_is_there)
    assert [content(one)["image"] for one in records.pulling_dir.iterdir()] == [IMAGE]
    rights.unknown(IMAGE)
    assert rights.standing(IMAGE, REF) is Standing.DENIED


def full_disk(_: int) -> None:
    """Refuse to sync."""
    raise OSError(28, "No space left on device")
