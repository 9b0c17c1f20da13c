"""The supported volume types and mount fields; a part of `supported`.

One row for each volume type; `activities/volumes/plugin/table.py` has the supported ones.
"""

from typing import Final

from workflows.decide.manifest.fields.field_kinds import OFF, Fields, Kind, not_yet, only, refused, runs
from workflows.decide.manifest.fields.supported_contents import CONFIG_MAP, DOWNWARD_API, PROJECTED, SECRET

EMPTY_DIR: Final[Fields] = {
    "medium": runs(Kind.STRING),
    "sizeLimit": runs(Kind.QUANTITY),
    "mode": not_yet(Kind.INT32),
}
HOST_PATH: Final[Fields] = {"path": runs(Kind.STRING), "type": runs(Kind.STRING)}
CLAIM: Final[Fields] = {"claimName": runs(Kind.STRING), "readOnly": runs(Kind.BOOLEAN)}
NFS: Final[Fields] = {"server": runs(Kind.STRING), "path": runs(Kind.STRING), "readOnly": runs(Kind.BOOLEAN)}
_NO_CHAP: Final = "iscsiadm takes passwords only on its command line, where every process of the node can read them"
ISCSI: Final[Fields] = {
    "targetPortal": runs(Kind.STRING),
    "portals": runs(Kind.STRINGS),
    "iqn": runs(Kind.STRING),
    "lun": runs(Kind.INT32),
    "iscsiInterface": runs(Kind.STRING),
    "initiatorName": runs(Kind.STRING),
    "fsType": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
    "chapAuthDiscovery": only(Kind.BOOLEAN, OFF),
    "chapAuthSession": only(Kind.BOOLEAN, OFF),
    "secretRef": refused(Kind.OBJECT, _NO_CHAP),
}
FC: Final[Fields] = {
    "targetWWNs": runs(Kind.STRINGS),
    "lun": runs(Kind.INT32),
    "wwids": runs(Kind.STRINGS),
    "fsType": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
}
IMAGE: Final[Fields] = {"reference": runs(Kind.STRING), "pullPolicy": runs(Kind.STRING)}
CSI: Final[Fields] = {
    "driver": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
    "fsType": runs(Kind.STRING),
    "volumeAttributes": runs(Kind.STRING_MAP),
    "nodePublishSecretRef": runs(Kind.OBJECT, {"name": runs(Kind.STRING)}),
}
AWS_ELASTIC_BLOCK_STORE: Final[Fields] = {
    "volumeID": runs(Kind.STRING),
    "fsType": runs(Kind.STRING),
    "partition": runs(Kind.INT32),
    "readOnly": runs(Kind.BOOLEAN),
}
GCE_PERSISTENT_DISK: Final[Fields] = {
    "pdName": runs(Kind.STRING),
    "fsType": runs(Kind.STRING),
    "partition": runs(Kind.INT32),
    "readOnly": runs(Kind.BOOLEAN),
}
AZURE_DISK: Final[Fields] = {
    "diskName": runs(Kind.STRING),
    "diskURI": runs(Kind.STRING),
    "cachingMode": runs(Kind.STRING),
    "fsType": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
    "kind": runs(Kind.STRING),
}
AZURE_FILE: Final[Fields] = {
    "secretName": runs(Kind.STRING),
    "shareName": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
}
CINDER: Final[Fields] = {
    "volumeID": runs(Kind.STRING),
    "fsType": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
    "secretRef": runs(Kind.OBJECT, {"name": runs(Kind.STRING)}),
}
PORTWORX_VOLUME: Final[Fields] = {
    "volumeID": runs(Kind.STRING),
    "fsType": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
}
VSPHERE_VOLUME: Final[Fields] = {
    "volumePath": runs(Kind.STRING),
    "fsType": runs(Kind.STRING),
    "storagePolicyName": runs(Kind.STRING),
    "storagePolicyID": runs(Kind.STRING),
}

VOLUME: Final[Fields] = {
    "name": runs(Kind.STRING),
    "emptyDir": runs(Kind.OBJECT, EMPTY_DIR),
    "hostPath": runs(Kind.OBJECT, HOST_PATH),
    "configMap": runs(Kind.OBJECT, CONFIG_MAP),
    "secret": runs(Kind.OBJECT, SECRET),
    "downwardAPI": runs(Kind.OBJECT, DOWNWARD_API),
    "projected": runs(Kind.OBJECT, PROJECTED),
    "persistentVolumeClaim": runs(Kind.OBJECT, CLAIM),
    "csi": runs(Kind.OBJECT, CSI),
    "ephemeral": refused(
        Kind.OBJECT,
        "a standalone node cannot provision its claim; use a persistentVolumeClaim that you bind yourself",
    ),
    "image": runs(Kind.OBJECT, IMAGE),
    "nfs": runs(Kind.OBJECT, NFS),
    "iscsi": runs(Kind.OBJECT, ISCSI),
    "fc": runs(Kind.OBJECT, FC),
    "gitRepo": refused(
        Kind.OBJECT, "Kubernetes has switched it off; let an init container clone into an emptyDir instead"
    ),
    "awsElasticBlockStore": runs(Kind.OBJECT, AWS_ELASTIC_BLOCK_STORE),
    "azureDisk": runs(Kind.OBJECT, AZURE_DISK),
    "azureFile": runs(Kind.OBJECT, AZURE_FILE),
    "cephfs": not_yet(Kind.OBJECT),
    "cinder": runs(Kind.OBJECT, CINDER),
    "flexVolume": not_yet(Kind.OBJECT),
    "flocker": not_yet(Kind.OBJECT),
    "gcePersistentDisk": runs(Kind.OBJECT, GCE_PERSISTENT_DISK),
    "glusterfs": not_yet(Kind.OBJECT),
    "photonPersistentDisk": not_yet(Kind.OBJECT),
    "portworxVolume": runs(Kind.OBJECT, PORTWORX_VOLUME),
    "quobyte": not_yet(Kind.OBJECT),
    "rbd": not_yet(Kind.OBJECT),
    "scaleIO": not_yet(Kind.OBJECT),
    "storageos": not_yet(Kind.OBJECT),
    "vsphereVolume": runs(Kind.OBJECT, VSPHERE_VOLUME),
}

VOLUME_MOUNT: Final[Fields] = {
    "name": runs(Kind.STRING),
    "mountPath": runs(Kind.STRING),
    "readOnly": runs(Kind.BOOLEAN),
    "recursiveReadOnly": runs(Kind.STRING),
    "mountPropagation": runs(Kind.STRING),
    "subPath": runs(Kind.STRING),
    "subPathExpr": runs(Kind.STRING),
    "bindMountOptions": not_yet(Kind.STRINGS),
}

VOLUME_DEVICE: Final[Fields] = {"name": runs(Kind.STRING), "devicePath": runs(Kind.STRING)}
