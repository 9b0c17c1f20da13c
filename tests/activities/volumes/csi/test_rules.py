"""What is a driver told about a volume, what may it ask for on a standalone node, and which secrets are redacted?"""

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from activities.clients.secret_redaction import redact_secrets, secrets_of
from activities.objects.objects import ObjectKind, StoredObject
from activities.objects.tokens import ServiceAccountToken, TokenRefused, TokenSpec
from activities.volumes.csi.drivers import attachment
from activities.volumes.csi.drivers.attachment import NoPlaceForVolume, publish_context
from activities.volumes.csi.drivers.driver_object import DriverRules, check_rules, driver_rules, read_rules
from activities.volumes.csi.drivers.pod_tokens import pod_tokens
from activities.volumes.csi.drivers.requests import VolumeRequest, capability
from activities.volumes.csi.drivers.secrets import read_secret
from activities.volumes.csi.records.places import FilesPlace
from activities.volumes.csi.records.volume import (
    CsiVolume,
    Lifecycle,
    SecretReference,
    attachment_name,
    ephemeral_handle,
    persistent_fields,
)
from activities.volumes.plugin import attaching
from activities.volumes.plugin.volume_type import AttachLimitExceeded, NotAttached, VolumeFailed
from proto.csi.v1 import csi_pb2 as csi
from tests.activities.stored_objects import ObjectsInMemory

RPC = csi.NodeServiceCapability.RPC
RWO, RWOP, ROX, RWX = "ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany", "ReadWriteMany"
FREE = {"attachRequired": False}


def volume(lifecycle: Lifecycle = Lifecycle.PERSISTENT, **fields: Any) -> CsiVolume:
    """Write a volume."""
    return CsiVolume(**{"name": "pv1", "driver": "d", "handle": "h", "lifecycle": lifecycle, **fields})


@pytest.mark.parametrize(
    ("modes", "finer", "told"),
    [
        pytest.param((RWO,), False, "SINGLE_NODE_WRITER", id="one-node"),
        pytest.param((RWO,), True, "SINGLE_NODE_MULTI_WRITER", id="one-node-for-a-driver-that-tells-writers-apart"),
        pytest.param((RWOP,), False, "SINGLE_NODE_WRITER", id="one-pod"),
        pytest.param((RWOP,), True, "SINGLE_NODE_SINGLE_WRITER", id="one-pod-for-a-driver-that-tells-writers-apart"),
        pytest.param((ROX,), False, "MULTI_NODE_READER_ONLY", id="many-readers"),
        pytest.param((RWX,), True, "MULTI_NODE_MULTI_WRITER", id="many-writers"),
        pytest.param((ROX, RWO), False, "MULTI_NODE_READER_ONLY", id="the-first-counts"),
        pytest.param((), False, "SINGLE_NODE_WRITER", id="none-said"),
        pytest.param(("Whatever",), False, "UNKNOWN", id="one-that-csi-does-not-know"),
    ],
)
def test_the_access_mode(modes: tuple[str, ...], finer: bool, told: str) -> None:
    """csi_client.go asCSIAccessModeV1, asSingleNodeMultiWriterCapableCSIAccessModeV1."""
    able = frozenset({RPC.SINGLE_NODE_MULTI_WRITER}) if finer else frozenset[int]()
    said = capability(VolumeRequest(volume=volume(access_modes=modes), able=able))
    assert csi.VolumeCapability.AccessMode.Mode.Name(said.access_mode.mode) == told


@pytest.mark.parametrize(
    ("able", "group", "told"),
    [
        pytest.param(RPC.VOLUME_MOUNT_GROUP, 1000, "1000", id="to-a-driver-that-takes-it"),
        pytest.param(RPC.VOLUME_MOUNT_GROUP, 0, "0", id="roots-group-too"),
        pytest.param(RPC.VOLUME_MOUNT_GROUP, None, "", id="a-pod-without"),
        pytest.param(RPC.GET_VOLUME_STATS, 1000, "", id="not-to-one-that-does-not"),
    ],
)
def test_the_group_goes_to_a_driver_that_takes_it(able: int, group: int | None, told: str) -> None:
    """VOLUME_MOUNT_GROUP: then the node does not change the files."""
    asking = VolumeRequest(
        volume=volume(fs_type="xfs", mount_options=("noatime",)), able=frozenset({able}), fs_group=group
    )
    mount = capability(asking).mount
    assert (mount.volume_mount_group, mount.fs_type, list(mount.mount_flags)) == (told, "xfs", ["noatime"])


def test_a_device_has_neither_options_nor_a_group() -> None:
    """A block volume is a device, whatever else is set."""
    asking = VolumeRequest(
        volume=volume(block=True, fs_type="xfs"), able=frozenset({RPC.VOLUME_MOUNT_GROUP}), fs_group=7
    )
    assert capability(asking).WhichOneof("access_type") == "block"


@pytest.mark.parametrize(
    ("policy", "of", "takes"),
    [
        pytest.param("File", volume(), True, id="always"),
        pytest.param("None", volume(fs_type="ext4", access_modes=(RWO,)), False, id="never"),
        pytest.param("", volume(fs_type="ext4", access_modes=(RWO,)), True, id="by-default-one-writer-and-a-type"),
        pytest.param("", volume(fs_type="ext4", access_modes=(RWOP,)), True, id="by-default-one-pod-and-a-type"),
        pytest.param("", volume(access_modes=(RWO,)), False, id="by-default-not-without-a-type"),
        pytest.param("", volume(fs_type="ext4", access_modes=(RWX,)), False, id="by-default-not-with-many-writers"),
        pytest.param("", volume(fs_type="ext4"), False, id="by-default-not-without-modes"),
        pytest.param("", volume(Lifecycle.EPHEMERAL, fs_type="ext4"), True, id="a-pods-own-has-one-writer"),
        pytest.param("File", volume(read_only=True), False, id="read-only-never"),
        pytest.param("File", volume(block=True), False, id="a-device-never"),
    ],
)
def test_whether_the_pods_group_gets_the_files(policy: str, of: CsiVolume, takes: bool) -> None:
    """csi_mounter.go supportsFSGroup."""
    assert read_rules("d", {"fsGroupPolicy": policy}).needs_fs_group(of) is takes


@pytest.mark.parametrize(
    ("spec", "of", "fault"),
    [
        pytest.param(FREE, volume(), "", id="a-driver-that-attaches-nothing"),
        pytest.param({}, volume(), "spec.attachRequired: false", id="to-attach-is-the-default"),
        pytest.param({"attachRequired": True}, volume(), "(its CSIDriver object says so)", id="one-that-attaches"),
        pytest.param(None, volume(), "(no CSIDriver object says otherwise)", id="one-without-an-object"),
        pytest.param(
            None,
            volume(Lifecycle.EPHEMERAL),
            'volume mode "Ephemeral" not supported by driver d (no CSIDriver object)',
            id="a-pods-own-of-one-without-an-object",
        ),
        pytest.param(
            FREE,
            volume(Lifecycle.EPHEMERAL),
            'volume mode "Ephemeral" not supported by driver d (only supports ["Persistent"])',
            id="a-pods-own-of-one-that-has-none",
        ),
        pytest.param(
            {"volumeLifecycleModes": ["Ephemeral"]}, volume(Lifecycle.EPHEMERAL), "", id="a-pods-own-is-never-attached"
        ),
        pytest.param(
            {**FREE, "volumeLifecycleModes": ["Ephemeral"]},
            volume(),
            'volume mode "Persistent" not supported by driver d',
            id="a-claims-of-one-that-has-only-pods-own",
        ),
        pytest.param(
            {**FREE, "tokenRequests": [{"audience": "vault"}]}, volume(), "tokenRequests", id="one-that-asks-for-tokens"
        ),
    ],
)
async def test_what_a_driver_may_ask_for(spec: dict[str, Any] | None, of: CsiVolume, fault: str) -> None:
    """On a standalone node; defaults are the API's."""
    objects = ObjectsInMemory()
    if spec is not None:
        objects.put(ObjectKind.CSI_DRIVERS, "d", {"spec": spec})
    said = ""
    try:
        check_rules(await driver_rules(objects, "d"), of)
    except VolumeFailed as refused:
        said = str(refused)
    assert fault in said
    assert bool(fault) is bool(said)


@pytest.mark.parametrize(
    ("spec", "of", "attaches"),
    [
        pytest.param({}, volume(), True, id="to-attach-is-the-default"),
        pytest.param(None, volume(), True, id="also-of-one-without-an-object"),
        pytest.param(FREE, volume(), False, id="one-that-attaches-nothing"),
        pytest.param(
            {"volumeLifecycleModes": ["Ephemeral"]}, volume(Lifecycle.EPHEMERAL), False, id="never-a-pods-own"
        ),
    ],
)
async def test_what_a_cluster_does_for_a_driver(spec: dict[str, Any] | None, of: CsiVolume, attaches: bool) -> None:
    """It attaches volumes and issues tokens, so nothing of that is refused."""
    objects = ObjectsInMemory()
    if spec is not None:
        objects.put(ObjectKind.CSI_DRIVERS, "d", {"spec": {**spec, "tokenRequests": [{"audience": "vault"}]}})
    rules = await driver_rules(objects, "d")
    check_rules(rules, of, standalone=False)
    assert rules.needs_attaching(of) is attaches


@pytest.mark.parametrize(
    ("status", "context"),
    [
        pytest.param({}, None, id="under-way"),
        pytest.param({"attached": False}, None, id="not-yet"),
        pytest.param({"attached": True}, {}, id="attached-without-a-word"),
        pytest.param({"attached": True, "attachmentMetadata": {"device": "sdb"}}, {"device": "sdb"}, id="attached-as"),
    ],
)
def test_what_attaching_answered(status: dict[str, Any], context: dict[str, str] | None) -> None:
    """The attachment's metadata is passed to the driver."""
    assert publish_context({"metadata": {}, "status": status}) == context


@pytest.mark.parametrize(
    ("found", "words"),
    [
        pytest.param(
            {"metadata": {"deletionTimestamp": "now"}, "status": {"attached": True}}, "is being deleted", id="going"
        ),
        pytest.param({"metadata": {}, "status": {"attachError": {"message": "no slot"}}}, "no slot", id="failed"),
    ],
)
def test_an_attachment_that_is_not_going_to_be(found: dict[str, Any], words: str) -> None:
    """It fails at once (csi_attacher.go verifyAttachmentStatus)."""
    with pytest.raises(VolumeFailed, match=words):
        publish_context(found)


@pytest.mark.parametrize(
    ("error", "exhausted"),
    [
        pytest.param({"message": "no slot", "errorCode": 8}, True, id="no-place"),
        pytest.param({"message": "no slot", "errorCode": 13}, False, id="another-error"),
        pytest.param({"message": "no slot"}, False, id="no-code"),
    ],
)
def test_no_place_for_one_more_volume(error: dict[str, Any], exhausted: bool) -> None:
    """Told apart by gRPC's code, ResourceExhausted (csi_plugin.go isResourceExhaustError)."""
    with pytest.raises(VolumeFailed) as failed:
        publish_context({"metadata": {}, "status": {"attachError": error}})
    assert isinstance(failed.value, NoPlaceForVolume) is exhausted


async def test_an_attachment_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also before it exists; the timeout's message has the last state."""
    objects, of = ObjectsInMemory(), volume()
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.5))
    name = attachment_name(of.handle, of.driver, "n1")
    with pytest.raises(
        VolumeFailed, match=f'is not attached to node n1 after 0.5 s: volumeattachment "{name}" not found'
    ):
        await attachment.wait_attached(objects, of, "n1")
    waiting = asyncio.create_task(attachment.wait_attached(objects, of, "n1"))
    objects.put(ObjectKind.VOLUME_ATTACHMENTS, name, {"status": {"attached": True, "attachmentMetadata": {"a": "b"}}})
    assert await waiting == {"a": "b"}


ATTACHED, NO_PLACE = {"attached": True}, {"attachError": {"message": "no slot", "errorCode": 8}}


@pytest.mark.parametrize(
    ("counts", "states", "end"),
    [
        pytest.param(False, [NO_PLACE], NoPlaceForVolume, id="a-driver-that-does-not-count-fails-at-once"),
        pytest.param(True, [NO_PLACE], AttachLimitExceeded, id="no-place-in-time"),
        pytest.param(True, [NO_PLACE, ATTACHED], None, id="a-place-comes-free"),
        pytest.param(True, [NO_PLACE, {}], NotAttached, id="it-is-tried-again-when-time-is-over"),
        pytest.param(True, [{}, NO_PLACE], AttachLimitExceeded, id="no-place-in-the-end"),
    ],
)
async def test_a_place_on_the_node_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, counts: bool, states: list[dict[str, Any]], end: type[Exception] | None
) -> None:
    """Only of a driver that counts its places; the lack of one is told once, at once."""
    monkeypatch.setattr(attaching, "ATTACHED_WITHIN", timedelta(seconds=0.5))
    monkeypatch.setattr(attaching, "_LONGEST_PAUSE", 0.01)
    of, name, told = volume(), attachment_name("h", "d", "n1"), []

    class Turning(ObjectsInMemory):
        async def get(self, kind: ObjectKind, namespace: str, name: str) -> StoredObject:
            found = await ObjectsInMemory.get(self, kind, namespace, name)
            if len(states) > 1:
                self.put(ObjectKind.VOLUME_ATTACHMENTS, name, {"status": states.pop(1)})
            return found

    objects = Turning()
    objects.put(ObjectKind.VOLUME_ATTACHMENTS, name, {"status": states[0]})
    waiting = attachment.wait_attached(objects, of, "n1", (lambda: told.append(1)) if counts else None)
    if end is None:
        assert await waiting == {}
    else:
        with pytest.raises(NotAttached) as failed:
            await waiting
        assert type(failed.value) is end
    assert told == [1] * counts


class Tokens:
    """Issues a token for each request, or none."""

    def __init__(self, *, refuses: bool = False) -> None:
        self.refuses = refuses

    async def token(self, wish: TokenSpec) -> ServiceAccountToken:
        """Issue it."""
        if self.refuses:
            raise TokenRefused("no account robot")
        ends = datetime(2026, 11, 22, 13, tzinfo=UTC)
        said = f"{wish.service_account} {wish.audiences} {wish.expiration_seconds} {wish.pod and wish.pod.uid}"
        return ServiceAccountToken(said, ends - timedelta(hours=1), ends)


async def test_the_tokens_that_a_driver_wants() -> None:
    """By audience, in the JSON that drivers expect; the error of a refusing issuer names it."""
    pod = {"metadata": {"namespace": "shop", "name": "web", "uid": "u"}, "spec": {"serviceAccountName": "robot"}}
    asked = [{"audience": ""}, {"audience": "vault", "expirationSeconds": 600}]
    rules = read_rules("d", {"tokenRequests": asked})
    [(key, said)] = (await pod_tokens(Tokens(), rules, pod)).items()
    assert key == "csi.storage.k8s.io/serviceAccount.tokens"
    assert json.loads(said) == {
        "": {"token": "robot () None u", "expirationTimestamp": "2026-11-22T13:00:00Z"},
        "vault": {"token": "robot ('vault',) 600 u", "expirationTimestamp": "2026-11-22T13:00:00Z"},
    }
    assert await pod_tokens(Tokens(), read_rules("d", {}), pod) == {}
    with pytest.raises(VolumeFailed, match="no account robot"):
        await pod_tokens(Tokens(refuses=True), rules, pod)


@pytest.mark.parametrize("place", ["volume_context", "secrets"])
def test_a_token_is_not_repeated(place: str) -> None:
    """Wherever the driver got it, and whether it quotes the token or the whole JSON."""
    said = json.dumps({"vault": {"token": "eyJ0eXAi.part.sign", "expirationTimestamp": "2026-11-22T13:00:00Z"}})
    request = csi.NodePublishVolumeRequest()
    getattr(request, place)["csi.storage.k8s.io/serviceAccount.tokens"] = said
    for words in (f"token eyJ0eXAi.part.sign is bad: {said}", f"context {json.dumps(said)}"):
        assert "eyJ0eXAi" not in redact_secrets(words, secrets_of(request))


async def test_an_object_that_can_t_be_read_says_why() -> None:
    """An unknown policy, and a refused file."""
    with pytest.raises(
        VolumeFailed, match=r"CSIDriver d: spec\.fsGroupPolicy 'Some' is not one of None, File, ReadWriteOnceW"
    ):
        read_rules("d", {"fsGroupPolicy": "Some"})
    objects = ObjectsInMemory(refused={(ObjectKind.CSI_DRIVERS, "", "d"): "csidriver d is a link"})
    with pytest.raises(VolumeFailed, match="csidriver d is a link"):
        await driver_rules(objects, "d")
    assert await driver_rules(ObjectsInMemory(), "d") == DriverRules()


SECRET = 'pass"word/ü value'


@pytest.mark.parametrize(
    "quoted",
    [
        pytest.param(SECRET, id="as-it-is"),
        pytest.param(json.dumps({"key": SECRET}), id="as-json"),
        pytest.param(json.dumps({"key": SECRET}, ensure_ascii=False), id="as-json-with-its-letters"),
        pytest.param(base64.b64encode(SECRET.encode()).decode(), id="in-base64"),
        pytest.param(f"https://x/?key={quote(SECRET, safe='')}", id="in-an-address"),
        pytest.param('login failed for pass"word/ü value\n', id="with-a-line-end"),
    ],
)
def test_what_a_driver_was_told_in_secret_is_not_repeated(quoted: str) -> None:
    """In whatever form the driver quotes it."""
    told = redact_secrets(f"rpc: {quoted}", {"key": f"{SECRET}\n", "empty": ""})
    assert "[hidden]" in told
    assert "word" not in told
    assert told.startswith("rpc: ")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        pytest.param("code 7 of 17", "code [hidden] of 17", id="a-short-value-as-a-word-only"),
        pytest.param("nothing here", "nothing here", id="words-without-it"),
    ],
)
def test_a_short_secret_leaves_the_words_readable(words: str, told: str) -> None:
    """Otherwise every message would be unreadable."""
    assert redact_secrets(words, {"pin": "7"}) == told


async def test_a_secret_that_is_no_text() -> None:
    """The error names the key, and quotes nothing of the value, not even in its context."""
    objects = ObjectsInMemory()
    objects.put(ObjectKind.SECRETS, "s", {"data": {"blob": base64.b64encode(b"canary\xff").decode()}})
    with pytest.raises(VolumeFailed, match="its key blob is not text") as refused:
        await read_secret(objects, SecretReference("default", "s"), "NodeStageSecretRef")
    assert refused.value.__context__ is None


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        pytest.param({"volumeHandle": "h"}, "spec.csi.driver must be a domain name", id="no-driver"),
        pytest.param({"driver": "../..", "volumeHandle": "h"}, "spec.csi.driver must be", id="a-driver-that-is-a-path"),
        pytest.param({"driver": "d"}, "spec.csi.volumeHandle is required", id="no-handle"),
        pytest.param(
            {"driver": "d", "volumeHandle": "h", "volumeAttributes": {"n": 1}},
            "spec.csi.volumeAttributes must be a mapping of strings",
            id="attributes-that-are-no-texts",
        ),
        pytest.param(
            {"driver": "d", "volumeHandle": "h", "nodeStageSecretRef": {"name": "s"}},
            "spec.csi.nodeStageSecretRef must name a secret and its namespace",
            id="a-secret-without-a-namespace",
        ),
    ],
)
def test_a_volume_that_nobody_has_validated(source: dict[str, Any], fault: str) -> None:
    """Each error names the wrong field."""
    with pytest.raises(VolumeFailed, match=f"PV pv1: {fault}"):
        persistent_fields("pv1", source)


def test_the_handle_of_a_pods_own_volume() -> None:
    """csi_mounter.go makeVolumeHandle: it differs by pod and by volume."""
    handle = ephemeral_handle("uid", "data")
    assert len(handle) == len("csi-") + 64
    assert handle not in (ephemeral_handle("uid2", "data"), ephemeral_handle("uid", "data2"))


def test_a_record_that_is_damaged_is_not_taken_for_none(tmp_path: Path) -> None:
    """Otherwise its volume would stay mounted."""
    place = FilesPlace(tmp_path, "uid", "pv1")
    assert place.record() is None
    place.remember(volume(), "n1")
    record = place.record()
    assert record is not None
    assert (record.driver, record.handle, record.lifecycle) == ("d", "h", "Persistent")
    (place.directory / "vol_data.json").write_text("{")
    with pytest.raises(OSError, match=r"vol_data\.json is damaged"):
        place.record()
