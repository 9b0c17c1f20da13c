"""Are network disks validated as by the API (validation_test.go TestValidateVolumes)?"""

from typing import Any

import pytest

from tests.workflows.decide.pods import pod
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.pod import validate_pod

IQN = "iqn.2015-02.example.com:test"
ISCSI = {"targetPortal": "127.0.0.1", "iqn": IQN, "lun": 1, "fsType": "ext4"}
FORMAT = "must be valid format"
STARTS = f"{FORMAT} starting with iqn, eui, or naa"
RANGE = "must be between 0 and 255, inclusive"


def judged(kind: str, source: dict[str, Any]) -> tuple[str, ...]:
    """Decode, default and validate a pod with one volume."""
    read = read_structure(pod(volumes=[{"name": "disk", kind: source}]), POD)
    return (*read.faults, *read.not_yet) or validate_pod(default_pod(read.content))


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        pytest.param(ISCSI, [], id="valid"),
        pytest.param(ISCSI | {"iqn": "eui.0123456789ABCDEF"}, [], id="eui"),
        pytest.param(ISCSI | {"iqn": "naa.62004567BA64678D0123456789ABCDEF"}, [], id="naa"),
        pytest.param(ISCSI | {"initiatorName": "iqn.2015-02.example.com:init"}, [], id="initiator"),
        pytest.param(ISCSI | {"targetPortal": ""}, ["targetPortal: Required value"], id="no-portal"),
        pytest.param({"targetPortal": "p", "lun": 1}, ["iqn: Required value"], id="no-iqn"),
        pytest.param(ISCSI | {"iqn": "iqn.2015-02"}, [f'iqn: Invalid value: "iqn.2015-02": {FORMAT}'], id="short-iqn"),
        pytest.param(ISCSI | {"iqn": "x"}, [f'iqn: Invalid value: "x": {STARTS}'], id="odd-iqn"),
        pytest.param(ISCSI | {"iqn": "eui.01"}, [f'iqn: Invalid value: "eui.01": {FORMAT}'], id="short-eui"),
        pytest.param(ISCSI | {"lun": 256}, [f"lun: Invalid value: 256: {RANGE}"], id="lun-too-high"),
        pytest.param(ISCSI | {"lun": -1}, [f"lun: Invalid value: -1: {RANGE}"], id="lun-too-low"),
        pytest.param(
            ISCSI | {"initiatorName": "x"}, [f'initiatorname: Invalid value: "x": {STARTS}'], id="odd-initiator"
        ),
        pytest.param(
            ISCSI | {"chapAuthSession": True},
            ["chapAuthSession: not supported yet (only false is)"],
            id="passwords",
        ),
    ],
)
def test_iscsi(source: dict[str, Any], faults: list[str]) -> None:
    """Portal, names and LUN; secrets are refused."""
    assert list(judged("iscsi", source)) == [f"spec.volumes[0].iscsi.{fault}" for fault in faults]


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        pytest.param({"targetWWNs": ["some_wwn"], "lun": 1}, [], id="wwns"),
        pytest.param({"wwids": ["some_wwid"]}, [], id="wwids"),
        pytest.param(
            {}, ["targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"], id="neither"
        ),
        pytest.param(
            {"targetWWNs": ["a"], "lun": 1, "wwids": ["b"]},
            ["targetWWNs: Invalid value: […]: targetWWNs and wwids can not be specified simultaneously"],
            id="both",
        ),
        pytest.param(
            {"targetWWNs": ["a"]}, ["lun: Required value: lun is required if targetWWNs is specified"], id="no-lun"
        ),
        pytest.param({"targetWWNs": ["a"], "lun": 256}, [f"lun: Invalid value: 256: {RANGE}"], id="lun-too-high"),
    ],
)
def test_fc(source: dict[str, Any], faults: list[str]) -> None:
    """Either targetWWNs with lun, or wwids."""
    assert list(judged("fc", source)) == [f"spec.volumes[0].fc.{fault}" for fault in faults]
