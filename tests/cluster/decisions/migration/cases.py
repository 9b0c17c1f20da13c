"""Random volumes of the types that CSI drivers took over, PersistentVolumes and those in a pod's spec: a seed makes the same case everywhere."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final

Json = dict[str, Any]
ZONES: Final = ("us-central1-a", "us-central1-b", "europe-west1-c", "nova", "", "a-b-c-d", " us-east-1a ")
ZONE_KEYS: Final = (
    "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/region",
    "topology.gke.io/zone",
    "example.com/rack",
)
MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
IDS: Final = (
    *("vol-1", "vol-0a1b2c", "aws://us-east-1a/vol-9", "aws:///vol-9", "aws:///vol-9/", "aws://a/b/vol-9", "aws://"),
    *(
        "aws://z/disk",
        "aws://z/vol-%41",
        "aws://z/vol-%4",
        "aws://z/vol-1?x=y",
        "aws://z/vol-1#part",
        "AWS://z/vol-1",
        "",
    ),
)
SECRETS: Final = (
    "azure-storage-account-acc-secret",
    "azure-storage-account--secret",
    "x-azure-storage-account-a-secret-secret-y",
    "plain",
)
AUTH: Final = ("openstorage.io/auth-secret-name", "openstorage.io/auth-secret-namespace")
GROUP: Final = "kubernetes.io/azure-file-resource-group"


def case(seed: int) -> Json:
    """Draw a volume."""
    random = Random(seed)
    kind = random.choice(tuple(SOURCES))
    source = {name: value for name, value in SOURCES[kind](random).items() if value is not None}
    if random.random() < 0.4:
        return inline(random, kind, source)
    spec: Json = {kind: source, "capacity": {"storage": "1Gi"}}
    if random.random() < 0.9:
        spec["accessModes"] = random.sample(MODES, random.randint(0, 3))
    if random.random() < 0.6:
        spec["nodeAffinity"] = affinity(random)
    if random.random() < 0.7:
        spec["claimRef"] = {"name": "c", "namespace": random.choice(("default", "other", ""))}
    if random.random() < 0.3:
        spec["volumeMode"] = random.choice(("Block", "Filesystem"))
    metadata: Json = {"name": random.choice(("pv-1", "pvc-b"))}
    if random.random() < 0.6:
        keys = random.sample(ZONE_KEYS, random.randint(0, 3))
        metadata["labels"] = {key: "__".join(random.sample(ZONES, random.randint(1, 3))) for key in keys}
    if random.random() < 0.5:
        metadata["annotations"] = {
            key: random.choice(("rg", "a", "")) for key in (*AUTH, GROUP) if random.random() < 0.7
        }
    return {"kind": "migration", "volume": {"metadata": metadata, "spec": spec}}


def inline(random: Random, kind: str, source: Json) -> Json:
    """Draw a volume of a pod's spec; the library panics for one of vSphere with a policy."""
    if kind == "vsphereVolume" and random.random() < 0.9:
        source.pop("storagePolicyName", None)
    volume = {"name": random.choice(("data", "x-1")), kind: source}
    return {"kind": "migration", "inline": volume, "namespace": random.choice(("default", "other", ""))}


def affinity(random: Random) -> Json:
    """Draw where a volume may be used."""
    if random.random() < 0.1:
        return random.choice(({}, {"required": {"nodeSelectorTerms": []}}, {"required": {"nodeSelectorTerms": None}}))
    return {"required": {"nodeSelectorTerms": [term(random) for _ in range(random.randint(1, 3))]}}


def term(random: Random) -> Json:
    """Draw one of its terms."""
    return {
        "matchExpressions": [
            {
                "key": random.choice(ZONE_KEYS),
                "operator": random.choice(("In", "In", "In", "NotIn", "Exists")),
                "values": random.sample(ZONES, random.randint(0, 2)),
            }
            for _ in range(random.randint(0, 3))
        ]
    }


def fs_type(random: Random) -> str | None:
    """Draw a file system."""
    return random.choice((None, "", "ext4", "xfs"))


def flag(random: Random) -> bool | None:
    """Draw a flag that may be left out."""
    return random.choice((None, True, False))


def _partitioned(random: Random) -> Json:
    return {"fsType": fs_type(random), "readOnly": flag(random), "partition": random.choice((None, 0, 1, 12))}


SOURCES: Final[Mapping[str, Callable[[Random], Json]]] = {
    "awsElasticBlockStore": lambda random: {"volumeID": random.choice(IDS), **_partitioned(random)},
    "gcePersistentDisk": lambda random: {"pdName": random.choice(("disk", "d/e", "")), **_partitioned(random)},
    "cinder": lambda random: {
        "volumeID": random.choice(IDS),
        "fsType": fs_type(random),
        "readOnly": flag(random),
        "secretRef": random.choice((None, {"name": "s", "namespace": "n"})),
    },
    "azureDisk": lambda random: {
        "diskName": "d",
        "diskURI": random.choice(("/subscriptions/s/disks/d", "http://x/vhds/y", "")),
        "cachingMode": random.choice((None, "", "ReadOnly", "None")),
        "fsType": fs_type(random),
        "readOnly": flag(random),
        "kind": random.choice((None, "Managed", "managed", "Shared", "Dedicated", "")),
    },
    "azureFile": lambda random: {
        "secretName": random.choice(SECRETS),
        "shareName": random.choice(("share", "", "a#b")),
        "readOnly": flag(random),
        "secretNamespace": random.choice((None, None, "ns", "")),
    },
    "vsphereVolume": lambda random: {
        "volumePath": random.choice(("[ds] a/b.vmdk", "")),
        "fsType": fs_type(random),
        "storagePolicyName": random.choice((None, "", "gold")),
        "storagePolicyID": random.choice((None, "id")),
    },
    "portworxVolume": lambda random: {
        "volumeID": random.choice(("1234", "")),
        "fsType": fs_type(random),
        "readOnly": flag(random),
    },
    "nfs": lambda _: {"server": "s", "path": "/p"},
}
