"""Is every field of a pod either supported completely, or refused by its path, and none forgotten?"""

import types
import typing
from datetime import datetime
from typing import Any

import pytest
from kubernetes.client import models
from pydantic import BaseModel

from workflows.decide.manifest.fields import (
    supported,
    supported_contents,
    supported_environment,
    supported_security,
    supported_volumes,
)
from workflows.decide.manifest.fields.field_kinds import Field, Fields, Kind, Support
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD

TABLES = [
    pytest.param(supported.POD, models.V1Pod, id="Pod"),
    pytest.param(supported.METADATA, models.V1ObjectMeta, id="ObjectMeta"),
    pytest.param(supported.SPEC, models.V1PodSpec, id="PodSpec"),
    pytest.param(supported.CONTAINER, models.V1Container, id="Container"),
    pytest.param(supported.EPHEMERAL_CONTAINER, models.V1EphemeralContainer, id="EphemeralContainer"),
    pytest.param(supported.RESTART_RULE, models.V1ContainerRestartRule, id="ContainerRestartRule"),
    pytest.param(
        supported.RESTART_RULE["exitCodes"].inside, models.V1ContainerRestartRuleOnExitCodes, id="RestartRuleExitCodes"
    ),
    pytest.param(supported_environment.ENV_VAR, models.V1EnvVar, id="EnvVar"),
    pytest.param(supported_environment.ENV_VAR_SOURCE, models.V1EnvVarSource, id="EnvVarSource"),
    pytest.param(supported_environment.FIELD_SELECTOR, models.V1ObjectFieldSelector, id="ObjectFieldSelector"),
    pytest.param(supported_environment.RESOURCE_SELECTOR, models.V1ResourceFieldSelector, id="ResourceFieldSelector"),
    pytest.param(supported_environment.KEY_SELECTOR, models.V1ConfigMapKeySelector, id="ConfigMapKeySelector"),
    pytest.param(supported_environment.KEY_SELECTOR, models.V1SecretKeySelector, id="SecretKeySelector"),
    pytest.param(supported_environment.FILE_SELECTOR, models.V1FileKeySelector, id="FileKeySelector"),
    pytest.param(supported_environment.ENV_FROM, models.V1EnvFromSource, id="EnvFromSource"),
    pytest.param(supported_environment.OBJECT_REFERENCE, models.V1ConfigMapEnvSource, id="ConfigMapEnvSource"),
    pytest.param(supported_environment.OBJECT_REFERENCE, models.V1SecretEnvSource, id="SecretEnvSource"),
    pytest.param(supported.HOST_ALIAS, models.V1HostAlias, id="HostAlias"),
    pytest.param(supported.DNS_CONFIG, models.V1PodDNSConfig, id="PodDNSConfig"),
    pytest.param(supported.DNS_OPTION, models.V1PodDNSConfigOption, id="PodDNSConfigOption"),
    pytest.param(supported.CONTAINER_PORT, models.V1ContainerPort, id="ContainerPort"),
    pytest.param(supported.RESOURCES, models.V1ResourceRequirements, id="ResourceRequirements"),
    pytest.param(supported.PROBE, models.V1Probe, id="Probe"),
    pytest.param(supported.EXEC_ACTION, models.V1ExecAction, id="ExecAction"),
    pytest.param(supported.HTTP_GET_ACTION, models.V1HTTPGetAction, id="HTTPGetAction"),
    pytest.param(supported.HTTP_HEADER, models.V1HTTPHeader, id="HTTPHeader"),
    pytest.param(supported.TCP_SOCKET_ACTION, models.V1TCPSocketAction, id="TCPSocketAction"),
    pytest.param(supported.GRPC_ACTION, models.V1GRPCAction, id="GRPCAction"),
    pytest.param(supported.READINESS_GATE, models.V1PodReadinessGate, id="PodReadinessGate"),
    pytest.param(supported.TOLERATION, models.V1Toleration, id="Toleration"),
    pytest.param(supported_volumes.VOLUME, models.V1Volume, id="Volume"),
    pytest.param(supported_volumes.VOLUME_MOUNT, models.V1VolumeMount, id="VolumeMount"),
    pytest.param(supported_volumes.EMPTY_DIR, models.V1EmptyDirVolumeSource, id="EmptyDirVolumeSource"),
    pytest.param(supported_contents.KEY_TO_PATH, models.V1KeyToPath, id="KeyToPath"),
    pytest.param(supported_contents.CONFIG_MAP, models.V1ConfigMapVolumeSource, id="ConfigMapVolumeSource"),
    pytest.param(supported_contents.SECRET, models.V1SecretVolumeSource, id="SecretVolumeSource"),
    pytest.param(supported_contents.DOWNWARD_FILE, models.V1DownwardAPIVolumeFile, id="DownwardAPIVolumeFile"),
    pytest.param(supported_contents.DOWNWARD_API, models.V1DownwardAPIVolumeSource, id="DownwardAPIVolumeSource"),
    pytest.param(supported_contents.OBJECT_PROJECTION, models.V1ConfigMapProjection, id="ConfigMapProjection"),
    pytest.param(supported_contents.OBJECT_PROJECTION, models.V1SecretProjection, id="SecretProjection"),
    pytest.param(supported_contents.DOWNWARD_PROJECTION, models.V1DownwardAPIProjection, id="DownwardAPIProjection"),
    pytest.param(supported_contents.PROJECTION, models.V1VolumeProjection, id="VolumeProjection"),
    pytest.param(supported_contents.PROJECTED, models.V1ProjectedVolumeSource, id="ProjectedVolumeSource"),
    pytest.param(supported_volumes.HOST_PATH, models.V1HostPathVolumeSource, id="HostPathVolumeSource"),
    pytest.param(supported_security.SECURITY_CONTEXT, models.V1SecurityContext, id="SecurityContext"),
    pytest.param(supported_security.POD_SECURITY_CONTEXT, models.V1PodSecurityContext, id="PodSecurityContext"),
    pytest.param(supported_security.CAPABILITIES, models.V1Capabilities, id="Capabilities"),
    pytest.param(supported_security.SECCOMP_PROFILE, models.V1SeccompProfile, id="SeccompProfile"),
    pytest.param(supported_security.APPARMOR_PROFILE, models.V1AppArmorProfile, id="AppArmorProfile"),
    pytest.param(supported_security.SELINUX_OPTIONS, models.V1SELinuxOptions, id="SELinuxOptions"),
    pytest.param(supported_security.SYSCTL, models.V1Sysctl, id="Sysctl"),
    pytest.param(supported_volumes.ISCSI, models.V1ISCSIVolumeSource, id="ISCSIVolumeSource"),
    pytest.param(supported_volumes.FC, models.V1FCVolumeSource, id="FCVolumeSource"),
    pytest.param(supported_volumes.NFS, models.V1NFSVolumeSource, id="NFSVolumeSource"),
    pytest.param(
        supported_volumes.AWS_ELASTIC_BLOCK_STORE,
        models.V1AWSElasticBlockStoreVolumeSource,
        id="AWSElasticBlockStoreVolumeSource",
    ),
    pytest.param(
        supported_volumes.GCE_PERSISTENT_DISK,
        models.V1GCEPersistentDiskVolumeSource,
        id="GCEPersistentDiskVolumeSource",
    ),
    pytest.param(supported_volumes.AZURE_DISK, models.V1AzureDiskVolumeSource, id="AzureDiskVolumeSource"),
    pytest.param(supported_volumes.AZURE_FILE, models.V1AzureFileVolumeSource, id="AzureFileVolumeSource"),
    pytest.param(supported_volumes.CINDER, models.V1CinderVolumeSource, id="CinderVolumeSource"),
    pytest.param(supported_volumes.PORTWORX_VOLUME, models.V1PortworxVolumeSource, id="PortworxVolumeSource"),
    pytest.param(
        supported_volumes.VSPHERE_VOLUME, models.V1VsphereVirtualDiskVolumeSource, id="VsphereVirtualDiskVolumeSource"
    ),
    pytest.param(supported_volumes.VOLUME_DEVICE, models.V1VolumeDevice, id="VolumeDevice"),
    pytest.param(supported_volumes.IMAGE, models.V1ImageVolumeSource, id="ImageVolumeSource"),
]
AMOUNTS = {"sizeLimit", "divisor"}  # strings in the models
QUANTITIES = {"limits", "requests", "overhead"}  # mappings of strings in the models
WIDE = {  # int64 in Go; the models have no sizes
    "activeDeadlineSeconds",
    "defaultUser",
    "deletionGracePeriodSeconds",
    "fsGroup",
    "generation",
    "runAsGroup",
    "runAsUser",
    "supplementalGroups",
    "terminationGracePeriodSeconds",
    "tolerationSeconds",
    "user",
}


def kind_of(name: str, annotation: Any) -> Kind:
    """Return the kind of a model's field."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in {typing.Union, types.UnionType}:
        kinds = [kind_of(name, one) for one in arguments if one is not type(None)]
        return Kind.INT_OR_STRING if len(kinds) > 1 else kinds[0]
    if origin is typing.Annotated:
        return kind_of(name, arguments[0])
    if origin is list:
        inner = kind_of(name, arguments[0])
        return {Kind.STRING: Kind.STRINGS, Kind.INT32: Kind.INT32S, Kind.INT64: Kind.INT64S}.get(inner, Kind.OBJECTS)
    if origin is dict:
        return Kind.QUANTITY_MAP if name in QUANTITIES else Kind.STRING_MAP
    if issubclass(annotation, BaseModel):
        return Kind.OBJECT
    if name in AMOUNTS:
        return Kind.QUANTITY
    number = Kind.INT64 if name in WIDE else Kind.INT32
    return {str: Kind.STRING, bool: Kind.BOOLEAN, int: number, datetime: Kind.TIME}[annotation]


@pytest.mark.parametrize(("table", "model"), TABLES)
def test_tables_are_the_models(table: Fields, model: type[BaseModel]) -> None:
    """A new release of the API shows here: each new field needs a line, at first as unsupported."""
    named = {field.serialization_alias or name: field for name, field in model.model_fields.items()}
    expected = {name: kind_of(name, field.annotation) for name, field in named.items()}
    assert {name: field.kind for name, field in table.items()} == expected


def minimal(**spec: Any) -> dict[str, Any]:
    """Build a minimal pod."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "busybox"}]} | spec,
    }


def with_container(**fields: Any) -> dict[str, Any]:
    """Build a minimal pod whose container has these fields."""
    return minimal(containers=[{"name": "web", "image": "busybox"} | fields])


def some_value(kind: Kind) -> Any:
    """Return a non-empty value of a kind."""
    return {
        Kind.STRING: "x",
        Kind.BOOLEAN: True,
        Kind.INT32: 7,
        Kind.INT64: 7,
        Kind.INT_OR_STRING: 7,
        Kind.TIME: "2026-01-01T00:00:00Z",
        Kind.STRINGS: ["x"],
        Kind.INT32S: [7],
        Kind.INT64S: [7],
        Kind.STRING_MAP: {"x": "x"},
        Kind.QUANTITY: "1Mi",
        Kind.QUANTITY_MAP: {"cpu": "1"},
        Kind.OBJECT: {"x": 1},
        Kind.OBJECTS: [{"x": 1}],
    }[kind]


def not_run(fields: Fields, path: str) -> list[Any]:
    """List every field of a table that is not fully supported."""
    return [
        pytest.param(f"{path}{name}", field, id=f"{path}{name}")
        for name, field in fields.items()
        if field.support is not Support.RUNS
    ]


def place(path: str, value: Any) -> dict[str, Any]:
    """Put a value at a path of the minimal pod."""
    pod = with_container(env=[{"name": "A", "valueFrom": {}}], resources={}, securityContext={})
    pod["spec"]["securityContext"] = {}
    holder: Any = pod
    *steps, last = path.replace("[0]", ".0").split(".")
    for step in steps:
        holder = holder[int(step)] if step.isdigit() else holder[step]
    holder[last] = value
    return pod


@pytest.mark.parametrize(
    ("path", "field"),
    [
        *not_run(supported.POD, ""),
        *not_run(supported.METADATA, "metadata."),
        *not_run(supported.SPEC, "spec."),
        *not_run(supported.CONTAINER, "spec.containers[0]."),
        *not_run(supported.RESOURCES, "spec.containers[0].resources."),
        *not_run(supported_security.POD_SECURITY_CONTEXT, "spec.securityContext."),
        *not_run(supported_security.SECURITY_CONTEXT, "spec.containers[0].securityContext."),
    ],
)
def test_what_is_not_run_is_refused_by_its_path(path: str, field: Field) -> None:
    """Each line other than `runs` refuses a value that asks for the feature, and accepts those that do not."""
    asked = not field.only[0] if field.kind is Kind.BOOLEAN else some_value(field.kind)
    (refusal,) = read_structure(place(path, asked), POD).not_yet
    assert refusal.startswith(
        f"{path}: not supported: {field.instead}" if field.instead else f"{path}: not supported yet"
    )
    for value in field.only:
        assert read_structure(place(path, value), POD).not_yet == ()
    assert read_structure(place(path, None), POD).not_yet == ()


@pytest.mark.parametrize(
    ("pod", "refusals"),
    [
        pytest.param(
            with_container(livenessProbe={"tcpSocket": {"port": "http"}}, readinessProbe={}),
            [],
            id="probes-are-taken",
        ),
        pytest.param(
            minimal(automountServiceAccountToken=True),
            ["spec.automountServiceAccountToken: not supported yet (only false is)"],
            id="says-which-value-is-taken",
        ),
        pytest.param(
            with_container(resources={"limits": {"ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi", "cpu": 1}}),
            [],
            id="limits-of-every-kind",
        ),
        pytest.param(
            with_container(resources={"requests": {"ephemeral-storage": "1Gi"}}),
            [],
            id="storage-asked-is-only-summed-up",
        ),
        pytest.param(
            minimal()
            | {"metadata": {"annotations": {"container.apparmor.security.beta.kubernetes.io/web": "unconfined"}}},
            ["metadata.annotations[container.apparmor.security.beta.kubernetes.io/web]: not supported yet"],
            id="security-by-annotation",
        ),
        pytest.param(
            minimal() | {"metadata": {"annotations": {"kubernetes.io/config.mirror": "x"}}},
            ["metadata.annotations[kubernetes.io/config.mirror]: not supported yet"],
            id="a-manifest-is-no-mirror",
        ),
        pytest.param(
            minimal(hostPID=False, hostUsers=True, volumes=[], securityContext={}, shareProcessNamespace=False)
            | {"status": {}},
            [],
            id="what-asks-for-nothing-is-taken",
        ),
    ],
)
def test_refusals(pod: dict[str, Any], refusals: list[str]) -> None:
    """The message that an operator sees."""
    found = read_structure(pod, POD)
    assert found.faults == ()
    assert list(found.not_yet) == refusals
