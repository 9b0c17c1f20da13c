"""Does the objects folder return what the API would, and nothing that others could have put there?"""

import asyncio
import base64
import contextlib
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from activities.objects.objects import ObjectKind, ObjectMissing, ObjectRefused
from worker.objects.folder import ObjectFolder

CANARY = "hunter2-canary"
CONFIG_MAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "web", "creationTimestamp": None}}
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}


@pytest.fixture
def folder(tmp_path: Path) -> ObjectFolder:
    """Return a folder as `tempolet up` creates it."""
    (tmp_path / "objects").mkdir(mode=0o700)
    return ObjectFolder(tmp_path / "objects")


def put(folder: ObjectFolder, place: str, content: Any, mode: int = 0o600) -> Path:
    """Write a complete file with an old modification time."""
    path = folder.folder / place
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(".new")
    scratch.write_bytes(content if isinstance(content, bytes) else yaml.safe_dump(content).encode())
    scratch.chmod(mode)
    settled(scratch)
    scratch.rename(path)
    return path


def settled(path: Path) -> None:
    """Set an old modification time, so that it seems to be complete."""
    past = time.time() - 10
    os.utime(path, (past, past))


async def refusal(folder: ObjectFolder, kind: ObjectKind = ObjectKind.SECRETS, name: str = "db") -> str:
    """Return the refusal of an object, and check that it contains nothing of it."""
    with pytest.raises(ObjectRefused) as caught:
        await folder.get(kind, "default", name)
    causes = [str(caught.value), str(caught.value.__cause__), repr(caught.value.__cause__)]
    assert not any(CANARY in words or base64.b64encode(CANARY.encode()).decode() in words for words in causes)
    return str(caught.value)


async def test_a_config_map_as_kubectl_writes_it(folder: ObjectFolder) -> None:
    """Its metadata gets the folder's namespace; both kinds of data are returned."""
    put(folder, "default/configmaps/web.yaml", CONFIG_MAP | {"data": {"a": "1", "empty": None}}, 0o644)
    kept = await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")
    assert kept.json["metadata"]["namespace"] == "default"
    assert (kept.json["data"], kept.json["binaryData"]) == ({"a": "1", "empty": ""}, {})
    assert not kept.immutable


async def test_a_secrets_string_data_is_merged_as_the_api_does_it(folder: ObjectFolder) -> None:
    """It overrides data, and is removed."""
    data = {"user": base64.b64encode(b"old").decode(), "kept": "AAE=\n"}
    content = SECRET | {"data": data, "stringData": {"user": CANARY}, "immutable": True}
    put(folder, "default/secrets/db.json", json.dumps(content).encode())
    kept = await folder.get(ObjectKind.SECRETS, "default", "db")
    assert kept.json["data"] == {"user": base64.b64encode(CANARY.encode()).decode(), "kept": "AAE="}
    assert "stringData" not in kept.json
    assert (kept.json["type"], kept.immutable) == ("Opaque", True)
    assert CANARY not in repr(kept)


async def test_an_object_of_the_cluster_lies_in_a_folder_that_no_namespace_can_be_called(folder: ObjectFolder) -> None:
    """Whatever namespace is requested."""
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, "spec": {"x": 1}}
    put(folder, "_cluster/persistentvolumes/disk.yml", volume)
    kept = await folder.get(ObjectKind.PERSISTENT_VOLUMES, "anything", "disk")
    assert kept.json["spec"] == {"x": 1}
    assert "namespace" not in kept.json["metadata"]


async def test_a_version_changes_with_the_file_and_only_then(folder: ObjectFolder) -> None:
    """An unchanged file is not parsed again; a changed one has another version."""
    path = put(folder, "default/configmaps/web.yaml", CONFIG_MAP | {"data": {"a": "1"}})
    first = await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")
    again = await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")
    assert again is first
    put(folder, "default/configmaps/web.yaml", CONFIG_MAP | {"data": {"a": "2"}})
    second = await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")
    assert (second.json["data"], second.version == first.version) == ({"a": "2"}, False)
    path.unlink()
    with pytest.raises(ObjectMissing, match=r'^configmap "web" not found: there is no .*/default/configmaps/web.yaml$'):
        await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")


async def test_a_file_that_is_being_written_is_read_when_it_is_whole(folder: ObjectFolder) -> None:
    """Half of a YAML file is often valid YAML."""
    path = put(folder, "default/configmaps/web.yaml", b"")
    path.write_bytes(yaml.safe_dump(CONFIG_MAP | {"data": {"a": "1"}}).encode())
    started = time.monotonic()
    assert (await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")).json["data"] == {"a": "1"}
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [
        pytest.param(ObjectKind.SECRETS, "default", "../../etc/shadow", id="a-path"),
        pytest.param(ObjectKind.SECRETS, "default", "/etc/shadow", id="an-absolute-path"),
        pytest.param(ObjectKind.SECRETS, "default", "..", id="the-folder-above"),
        pytest.param(ObjectKind.SECRETS, "..", "db", id="a-namespace-above"),
        pytest.param(ObjectKind.SECRETS, "_cluster", "db", id="the-clusters-folder-as-namespace"),
        pytest.param(ObjectKind.SECRETS, "default", "db\n", id="a-line-end"),
        pytest.param(ObjectKind.SECRETS, "default", "a" * 5000, id="five-thousand-characters"),
        pytest.param(ObjectKind.PERSISTENT_VOLUMES, "default", "a/../b", id="a-path-in-the-cluster"),
        pytest.param(ObjectKind.SECRETS, "default", "", id="nothing"),
    ],
)
async def test_a_name_that_is_no_name_makes_no_path(
    folder: ObjectFolder, kind: ObjectKind, namespace: str, name: str
) -> None:
    """It is refused before anything is opened."""
    with pytest.raises(ObjectRefused, match="is not looked up") as caught:
        await folder.get(kind, namespace, name)
    assert len(str(caught.value)) < 400


def linked(path: Path) -> None:
    """Replace it by a link to itself."""
    moved = path.with_name("moved")
    path.rename(moved)
    path.symlink_to(moved)


def fifo(path: Path) -> None:
    """Replace it by a FIFO."""
    path.unlink()
    os.mkfifo(path, 0o600)


def folder_instead(path: Path) -> None:
    """Replace it by a folder."""
    path.unlink()
    path.mkdir()


def device(path: Path) -> None:
    """Replace it by /dev/null."""
    path.unlink()
    os.mknod(path, 0o20600, os.makedev(1, 3))


def five_mebibytes(path: Path) -> None:
    """Write a file larger than any object."""
    path.write_bytes(b"#" * (5 << 20))
    settled(path)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda path: path.chmod(0o640), "has mode 0640, so others may see a secret", id="group-reads"),
        pytest.param(lambda path: path.chmod(0o604), "has mode 0604, so others may see a secret", id="all-read"),
        pytest.param(lambda path: path.chmod(0o4600), "has mode 4600", id="setuid"),
        pytest.param(lambda path: os.chown(path, 1000, 0), "belongs to user 1000: chown root it", id="other-owner"),
        pytest.param(linked, "is a link", id="a-link"),
        pytest.param(fifo, "is a FIFO", id="a-fifo-that-nobody-feeds"),
        pytest.param(folder_instead, "is a folder", id="a-folder"),
        pytest.param(device, "a device", id="device"),
        pytest.param(lambda path: path.parent.chmod(0o777), "so others may put files there", id="folder-for-all"),
        pytest.param(lambda path: path.parent.chmod(0o1777), "others may put files there", id="sticky-folder"),
        pytest.param(lambda path: path.parent.parent.chmod(0o775), "default has mode 0775", id="namespace-for-group"),
        pytest.param(lambda path: path.parents[2].chmod(0o707), "objects has mode 0707", id="objects-for-all"),
        pytest.param(lambda path: path.parents[3].chmod(0o777), "so others may put", id="folder-above-for-all"),
        pytest.param(lambda path: os.chown(path.parent, 1000, 0), "belongs to user 1000", id="folder-of-another"),
        pytest.param(lambda path: linked(path.parent), "secrets is a link or no folder", id="a-folder-that-is-a-link"),
        pytest.param(five_mebibytes, "larger than 4 MiB", id="huge"),
    ],
)
async def test_a_secret_that_others_could_have_seen_or_put_there_is_refused(
    folder: ObjectFolder, spoil: Callable[[Path], object], words: str
) -> None:
    """Each message says what to do, and nothing hangs."""
    path = put(folder, "default/secrets/db.yaml", SECRET | {"stringData": {"password": CANARY}})
    assert (await folder.get(ObjectKind.SECRETS, "default", "db")).json["data"]
    spoil(path)
    try:
        said = await refusal(folder)
    finally:
        path.parents[3].chmod(0o700)  # pytest's own, cleaned by it
    assert said.startswith('secret "db" is refused: ')
    assert words in said


def secret(**fields: Any) -> Any:
    """Return a Secret."""
    return SECRET | fields


def config_map(**fields: Any) -> Any:
    """Return a ConfigMap."""
    return CONFIG_MAP | {"metadata": {"name": "db"}} | fields


ENCODED = base64.b64encode(CANARY.encode()).decode()


@pytest.mark.parametrize(
    ("kind", "content", "words"),
    [
        pytest.param("secrets", secret(data={"a/b": ENCODED}), "data[a/b]: Invalid value", id="a-key-with-a-slash"),
        pytest.param("secrets", secret(stringData={"..": CANARY}), "must not be '..'", id="the-key-dot-dot"),
        pytest.param("configmaps", config_map(data={"..data": "x"}), "must not start with '..'", id="a-key-like-our-own"),
        pytest.param("configmaps", config_map(data={"/etc/passwd": "x"}), "Invalid value", id="an-absolute-key"),
        pytest.param("configmaps", config_map(data={"k" * 254: "x"}), "no more than 253 characters", id="a-long-key"),
        pytest.param("configmaps", config_map(data={"a": 1}), "data[a]: must be text", id="a-number"),
        pytest.param("configmaps", config_map(data=["a"]), "data: must be a mapping", id="a-list"),
        pytest.param("configmaps", config_map(Data={}), "Data: no such field", id="an-unknown-field"),
        pytest.param(
            "configmaps",
            config_map(data={"a": "x"}, binaryData={"a": "eA=="}),
            "duplicate of key present in binaryData",
            id="a-key-twice",
        ),
        pytest.param("configmaps", config_map(binaryData={"a": "x!"}), "binaryData[a]: must be base64", id="no-base64"),
        pytest.param(
            "configmaps", config_map(data={"a": "x" * (1 << 20), "b": "c"}), "Too long", id="more-than-a-mebibyte"
        ),
        pytest.param("secrets", secret(data={"a": CANARY}), "data[a]: must be base64", id="a-value-in-clear"),
        pytest.param("secrets", secret(kind="ConfigMap"), "kind: must be Secret", id="another-kind"),
        pytest.param("secrets", secret(metadata={"name": "x"}), "metadata.name: must be db", id="another-name"),
        pytest.param(
            "secrets", secret(metadata={"name": "db", "namespace": "x"}), "must be default", id="another-namespace"
        ),
        pytest.param("secrets", secret(type="kubernetes.io/tls"), "data[tls.crt]: Required", id="tls-without-a-key"),
        pytest.param(
            "secrets",
            secret(type="kubernetes.io/dockerconfigjson", stringData={".dockerconfigjson": CANARY}),
            "<secret contents redacted>",
            id="pull-credentials-that-are-no-json",
        ),
        pytest.param("secrets", secret(type="kubernetes.io/basic-auth"), "data[username]", id="no-user-no-password"),
        pytest.param("secrets", f"password: *{CANARY}".encode(), "InvalidYAML at line 1", id="an-alias-of-nothing"),
        pytest.param("secrets", f"password: !{CANARY} x".encode(), "InvalidYAML at line 1", id="a-tag"),
        pytest.param("secrets", f'{{"a": "{CANARY}'.encode(), "InvalidJSON at line 1", id="torn-json"),
        pytest.param("secrets", b'{"a": ' + b"1" * 500 + b"}", "InvalidJSON:", id="an-endless-number"),
        pytest.param("secrets", b"---\n", "Empty", id="nothing"),
        pytest.param("secrets", b"a: &a [x,x,x,x,x,x,x,x]\n" + b"b: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n"
                     b"c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n"
                     b"e: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e]\n", "TooLarge", id="aliases"),
        pytest.param("secrets", b"- x\n", "not a list", id="a-list-of-objects"),
    ],
)  # fmt: skip
async def test_what_the_api_would_refuse_is_refused_without_a_word_of_its_content(
    folder: ObjectFolder, kind: str, content: Any, words: str
) -> None:
    """The field or the line is named."""
    put(folder, f"default/{kind}/db.yaml", content)
    assert words in await refusal(folder, ObjectKind(kind))


async def test_a_config_map_of_exactly_one_mebibyte_is_taken(folder: ObjectFolder) -> None:
    """The API's limit."""
    put(folder, "default/configmaps/web.yaml", CONFIG_MAP | {"data": {"a": "x" * (1 << 20)}})
    assert len((await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")).json["data"]["a"]) == 1 << 20


async def test_two_files_of_one_object_are_no_answer(folder: ObjectFolder) -> None:
    """It would be ambiguous."""
    put(folder, "default/secrets/db.yaml", SECRET)
    put(folder, "default/secrets/db.json", json.dumps(SECRET).encode())
    assert "keep one" in await refusal(folder)


async def test_the_cache_keeps_to_its_bound(folder: ObjectFolder) -> None:
    """Evicted files are read again."""
    for number in range(12):
        meta = {"metadata": {"name": f"m{number}"}, "data": {"a": "x" * (1 << 20)}}
        put(folder, f"default/configmaps/m{number}.yaml", CONFIG_MAP | meta)
        await folder.get(ObjectKind.CONFIG_MAPS, "default", f"m{number}")
    assert sum(one.fingerprint.size for one in folder._cache.values()) <= 8 << 20
    assert (await folder.get(ObjectKind.CONFIG_MAPS, "default", "m0")).json["metadata"]["name"] == "m0"


async def test_a_file_that_is_replaced_all_the_time_is_always_whole(folder: ObjectFolder) -> None:
    """Somebody replaces it by mv repeatedly: each result is one of the files, never a mixture."""
    for letter in "ab":
        data = dict.fromkeys(("first", "last"), letter * 20_000)
        put(folder, f"default/configmaps/{letter}.new", CONFIG_MAP | {"data": data})
    place = folder.folder / "default/configmaps"
    script = "for n in $(seq 200); do for l in a b; do cp -p $l.new tmp && mv tmp web.yaml; done; done"
    flipping = await asyncio.create_subprocess_exec("sh", "-c", script, cwd=place)
    answers = 0
    while flipping.returncode is None:
        await asyncio.sleep(0)
        with contextlib.suppress(ObjectMissing):
            data = (await folder.get(ObjectKind.CONFIG_MAPS, "default", "web")).json["data"]
            assert data["first"] == data["last"]
            answers += 1
    assert answers
