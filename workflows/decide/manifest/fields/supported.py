"""The supported fields of a pod: one row for each field; everything else is rejected by path.

`structure` reads a manifest along these tables. Kubernetes does not know a field that is missing here. A field with
`not_yet` is known and rejected, so that no pod runs without one of its fields. `only` and `only_empty` accept the
values that ask for nothing special. To support one more field, change its row and add its rule to `validation`. A test
compares names and kinds with kubernetes.client's models, whose schema is one release newer (1.37) than the rules.
"""

from typing import Final

from workflows.decide.manifest.fields.field_kinds import NEEDS_API, OFF, Fields, Kind, not_yet, only, only_empty, runs
from workflows.decide.manifest.fields.supported_environment import ENV_FROM, ENV_VAR
from workflows.decide.manifest.fields.supported_security import POD_SECURITY_CONTEXT, SECURITY_CONTEXT
from workflows.decide.manifest.fields.supported_volumes import VOLUME, VOLUME_DEVICE, VOLUME_MOUNT

METADATA: Final[Fields] = {
    "name": runs(Kind.STRING),
    "namespace": runs(Kind.STRING),
    "uid": runs(Kind.STRING),
    "labels": runs(Kind.STRING_MAP),
    "annotations": runs(
        Kind.STRING_MAP, never=("kubernetes.io/config.mirror", "*apparmor.security*", "*seccomp.security*")
    ),
    "generateName": only_empty(Kind.STRING),
    "creationTimestamp": not_yet(Kind.TIME),
    "deletionTimestamp": not_yet(Kind.TIME),
    "deletionGracePeriodSeconds": not_yet(Kind.INT64),
    "finalizers": only_empty(Kind.STRINGS),
    "generation": runs(Kind.INT64),
    "managedFields": only_empty(Kind.OBJECTS),
    "ownerReferences": only_empty(Kind.OBJECTS),
    "resourceVersion": only_empty(Kind.STRING),
    "selfLink": only_empty(Kind.STRING),
}

CONTAINER_PORT: Final[Fields] = {
    "name": runs(Kind.STRING),
    "containerPort": runs(Kind.INT32),
    "hostPort": runs(Kind.INT32),
    "hostIP": runs(Kind.STRING),
    "protocol": runs(Kind.STRING),
}

RESOURCES: Final[Fields] = {
    "requests": runs(Kind.QUANTITY_MAP),
    "limits": runs(Kind.QUANTITY_MAP),
    "claims": only_empty(Kind.OBJECTS, NEEDS_API),
}
POD_RESOURCES: Final[Fields] = {**RESOURCES, "claims": only_empty(Kind.OBJECTS)}
"""Of a whole pod, which has no claims on any node."""

RESIZE_POLICY: Final[Fields] = {"resourceName": runs(Kind.STRING), "restartPolicy": runs(Kind.STRING)}

EXEC_ACTION: Final[Fields] = {"command": runs(Kind.STRINGS)}
HTTP_HEADER: Final[Fields] = {"name": runs(Kind.STRING), "value": runs(Kind.STRING)}
HTTP_GET_ACTION: Final[Fields] = {
    "path": runs(Kind.STRING),
    "port": runs(Kind.INT_OR_STRING),
    "host": runs(Kind.STRING),
    "scheme": runs(Kind.STRING),
    "httpHeaders": runs(Kind.OBJECTS, HTTP_HEADER),
    "protocol": not_yet(Kind.STRING),
}
TCP_SOCKET_ACTION: Final[Fields] = {"port": runs(Kind.INT_OR_STRING), "host": runs(Kind.STRING)}
GRPC_ACTION: Final[Fields] = {
    "port": runs(Kind.INT32),
    "service": runs(Kind.STRING),
    "mode": not_yet(Kind.STRING),
}

PROBE: Final[Fields] = {
    "exec": runs(Kind.OBJECT, EXEC_ACTION),
    "httpGet": runs(Kind.OBJECT, HTTP_GET_ACTION),
    "tcpSocket": runs(Kind.OBJECT, TCP_SOCKET_ACTION),
    "grpc": runs(Kind.OBJECT, GRPC_ACTION),
    "initialDelaySeconds": runs(Kind.INT32),
    "timeoutSeconds": runs(Kind.INT32),
    "periodSeconds": runs(Kind.INT32),
    "successThreshold": runs(Kind.INT32),
    "failureThreshold": runs(Kind.INT32),
    "terminationGracePeriodSeconds": runs(Kind.INT64),
}

RESTART_RULE: Final[Fields] = {
    "action": runs(Kind.STRING),
    "exitCodes": runs(Kind.OBJECT, {"operator": runs(Kind.STRING), "values": runs(Kind.INT32S)}),
}

LIFECYCLE_HANDLER: Final[Fields] = {
    "exec": runs(Kind.OBJECT, EXEC_ACTION),
    "httpGet": runs(Kind.OBJECT, HTTP_GET_ACTION),
    "tcpSocket": runs(Kind.OBJECT, TCP_SOCKET_ACTION),  # valid, but running it fails, as in the kubelet
    "sleep": runs(Kind.OBJECT, {"seconds": runs(Kind.INT64)}),
}

LIFECYCLE: Final[Fields] = {
    "postStart": runs(Kind.OBJECT, LIFECYCLE_HANDLER),
    "preStop": runs(Kind.OBJECT, LIFECYCLE_HANDLER),
    "stopSignal": runs(Kind.STRING),  # behind the gate ContainerStopSignals: `validation.lifecycle`
}

HOOK_ANNOTATION: Final[Fields] = {
    "exec": runs(Kind.OBJECT, EXEC_ACTION),
    "httpGet": runs(Kind.OBJECT, HTTP_GET_ACTION),
    "tcpSocket": runs(Kind.OBJECT, TCP_SOCKET_ACTION),
    "grpc": runs(Kind.OBJECT, GRPC_ACTION),
    "image": runs(Kind.STRING),
    "timeoutSeconds": runs(Kind.INT32),
    "retry": runs(
        Kind.OBJECT,
        {
            "maxAttempts": runs(Kind.INT32),
            "initialSeconds": runs(Kind.INT32),
            "maxSeconds": runs(Kind.INT32),
            "factor": runs(Kind.INT32),
        },
    ),
}
"""The value of an annotation of ours about a hook (`hook_terms`), no part of the API."""

CONTAINER: Final[Fields] = {
    "name": runs(Kind.STRING),
    "image": runs(Kind.STRING),
    "imagePullPolicy": runs(Kind.STRING),
    "command": runs(Kind.STRINGS),
    "args": runs(Kind.STRINGS),
    "workingDir": runs(Kind.STRING),
    "env": runs(Kind.OBJECTS, ENV_VAR),
    "envFrom": runs(Kind.OBJECTS, ENV_FROM),
    "ports": runs(Kind.OBJECTS, CONTAINER_PORT),
    "resources": runs(Kind.OBJECT, RESOURCES),
    "resizePolicy": runs(Kind.OBJECTS, RESIZE_POLICY),
    "restartPolicy": runs(Kind.STRING),
    "restartPolicyRules": runs(Kind.OBJECTS, RESTART_RULE),
    "volumeMounts": runs(Kind.OBJECTS, VOLUME_MOUNT),
    "volumeDevices": runs(Kind.OBJECTS, VOLUME_DEVICE),
    "livenessProbe": runs(Kind.OBJECT, PROBE),
    "readinessProbe": runs(Kind.OBJECT, PROBE),
    "startupProbe": runs(Kind.OBJECT, PROBE),
    "lifecycle": runs(Kind.OBJECT, LIFECYCLE),
    "terminationMessagePath": runs(Kind.STRING),
    "terminationMessagePolicy": runs(Kind.STRING),
    "securityContext": runs(Kind.OBJECT, SECURITY_CONTEXT),
    "stdin": runs(Kind.BOOLEAN),
    "stdinOnce": runs(Kind.BOOLEAN),
    "tty": runs(Kind.BOOLEAN),
}

EPHEMERAL_CONTAINER: Final[Fields] = {**CONTAINER, "targetContainerName": runs(Kind.STRING)}
"""`validation/ephemeral.py` rejects the fields that an ephemeral container must not set."""

TOLERATION: Final[Fields] = {
    "key": runs(Kind.STRING),
    "operator": runs(Kind.STRING),
    "value": runs(Kind.STRING),
    "effect": runs(Kind.STRING),
    "tolerationSeconds": runs(Kind.INT64),
}

READINESS_GATE: Final[Fields] = {"conditionType": runs(Kind.STRING)}

HOST_ALIAS: Final[Fields] = {"ip": runs(Kind.STRING), "hostnames": runs(Kind.STRINGS)}
DNS_OPTION: Final[Fields] = {"name": runs(Kind.STRING), "value": runs(Kind.STRING)}
DNS_CONFIG: Final[Fields] = {
    "nameservers": runs(Kind.STRINGS),
    "searches": runs(Kind.STRINGS),
    "options": runs(Kind.OBJECTS, DNS_OPTION),
}

SPEC: Final[Fields] = {
    "containers": runs(Kind.OBJECTS, CONTAINER),
    "initContainers": runs(Kind.OBJECTS, CONTAINER),
    "ephemeralContainers": runs(Kind.OBJECTS, EPHEMERAL_CONTAINER),
    "volumes": runs(Kind.OBJECTS, VOLUME),
    "restartPolicy": runs(Kind.STRING),
    "terminationGracePeriodSeconds": runs(Kind.INT64),
    "activeDeadlineSeconds": runs(Kind.INT64),
    "dnsPolicy": runs(Kind.STRING),
    "dnsConfig": runs(Kind.OBJECT, DNS_CONFIG),
    "nodeSelector": runs(Kind.STRING_MAP),
    "serviceAccountName": runs(Kind.STRING),
    "serviceAccount": runs(Kind.STRING),
    "automountServiceAccountToken": only(Kind.BOOLEAN, OFF),
    "nodeName": runs(Kind.STRING),
    "hostNetwork": runs(Kind.BOOLEAN),
    "hostPID": runs(Kind.BOOLEAN),
    "hostIPC": runs(Kind.BOOLEAN),
    "hostUsers": runs(Kind.BOOLEAN),
    "shareProcessNamespace": runs(Kind.BOOLEAN),
    "securityContext": runs(Kind.OBJECT, POD_SECURITY_CONTEXT),
    "imagePullSecrets": runs(Kind.OBJECTS, {"name": runs(Kind.STRING)}),
    "hostname": runs(Kind.STRING),
    "hostnameOverride": runs(Kind.STRING),
    "subdomain": runs(Kind.STRING),
    "setHostnameAsFQDN": runs(Kind.BOOLEAN),
    "hostAliases": runs(Kind.OBJECTS, HOST_ALIAS),
    "affinity": only_empty(Kind.OBJECT),
    "schedulerName": runs(Kind.STRING),
    "schedulingGates": only_empty(Kind.OBJECTS),
    "schedulingGroup": not_yet(Kind.OBJECT),
    "tolerations": runs(Kind.OBJECTS, TOLERATION),
    "topologySpreadConstraints": only_empty(Kind.OBJECTS),
    "priority": runs(Kind.INT32),
    "priorityClassName": runs(Kind.STRING),
    "preemptionPolicy": runs(Kind.STRING),
    "runtimeClassName": runs(Kind.STRING),
    "overhead": runs(Kind.QUANTITY_MAP, never=("hugepages-*", "*/*")),
    "resources": runs(Kind.OBJECT, POD_RESOURCES),
    "resourceClaims": only_empty(Kind.OBJECTS, NEEDS_API),
    "readinessGates": runs(Kind.OBJECTS, READINESS_GATE),
    "enableServiceLinks": runs(Kind.BOOLEAN),
    "evictionResponders": only_empty(Kind.OBJECTS),
    "os": runs(Kind.OBJECT, {"name": runs(Kind.STRING)}),
}

POD: Final[Fields] = {
    "apiVersion": runs(Kind.STRING),
    "kind": runs(Kind.STRING),
    "metadata": runs(Kind.OBJECT, METADATA),
    "spec": runs(Kind.OBJECT, SPEC),
    "status": only_empty(Kind.OBJECT),
}
