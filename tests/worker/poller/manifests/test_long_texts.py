"""Does a refused manifest repeat more than 200 characters of what its writer wrote?"""

import copy
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from worker.poller.manifests.manifest import NodeOfManifests, read_manifest
from worker.poller.manifests.static_pod import Refused

LONG = "x" * 5000
MOST = "x" * 201
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web",
        "labels": {"a": "b"},
        "annotations": {"preStart.tempolet.dev/web": '{"exec": {"command": ["a"]}, "image": "b"}'},
    },
    "spec": {
        "restartPolicy": "Always",
        "hostname": "h",
        "nodeSelector": {"a": "b"},
        "os": {"name": "linux"},
        "dnsConfig": {"nameservers": ["1.1.1.1"], "searches": ["a"], "options": [{"name": "n", "value": "1"}]},
        "securityContext": {"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "1"}]},
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute"}],
        "hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}],
        "volumes": [
            {"name": "v", "hostPath": {"path": "/a", "type": "Directory"}},
            {"name": "d", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "e", "emptyDir": {"medium": "Memory", "sizeLimit": "1Gi"}},
        ],
        "containers": [
            {
                "name": "web",
                "image": "busybox:1",
                "ports": [{"name": "p", "containerPort": 80, "protocol": "TCP", "hostIP": "1.1.1.1"}],
                "env": [
                    {"name": "A", "value": "b"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "a", "key": "k"}}},
                    {"name": "C", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name", "apiVersion": "v1"}}},
                ],
                "resources": {"limits": {"cpu": "1", "memory": "1Gi"}},
                "volumeMounts": [{"name": "v", "mountPath": "/m", "subPath": "s"}],
                "securityContext": {"capabilities": {"add": ["A"]}, "procMount": "Default"},
                "lifecycle": {"preStop": {"httpGet": {"path": "/", "port": "p", "scheme": "HTTP"}}},
                "livenessProbe": {"grpc": {"port": 80, "service": "s"}},
            }
        ],
    },
}
Put = Callable[[Any, Any], None]


def message(data: bytes) -> str:
    """Return why a manifest is refused; empty if it is not."""
    found = read_manifest(Path("/m/web.yaml"), data, NodeOfManifests("n1"), NOW)
    return f"{found.message} {found.pod}" if isinstance(found, Refused) else ""


def places(value: Any, steps: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """List the steps to every value of a document."""
    for step, one in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield (*steps, step)
        yield from places(one, (*steps, step))


def value_is_long(holder: Any, step: Any) -> None:
    """Put long text in the place of a value."""
    holder[step] = LONG


def key_is_long(holder: Any, step: Any) -> None:
    """Put long text in the place of a key."""
    if isinstance(holder, dict):
        holder[LONG] = holder.pop(step)


@pytest.mark.parametrize("put", [value_is_long, key_is_long])
def test_long_text_in_every_place(put: Put) -> None:
    """At most some of the fields take it; all others are refused shortly."""
    refused = 0
    for steps in places(POD):
        document = copy.deepcopy(POD)
        holder = document
        for step in steps[:-1]:
            holder = holder[step]
        put(holder, steps[-1])
        text = message(json.dumps(document).encode())
        assert MOST not in text, steps
        refused += bool(text)
    assert refused > 50


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(f"a: &{LONG} b\nc: *{LONG}y", id="anchor"),
        pytest.param(f"a: !{LONG} b", id="tag"),
        pytest.param(f'a: "{LONG}', id="no-end"),
        pytest.param(f"{LONG}: 1\n{LONG}: 2\n", id="duplicate-key"),
        pytest.param(f"apiVersion: {LONG}", id="version"),
        pytest.param("a: " + "9" * 5000 + ".0", id="number"),
        pytest.param('{"a": ' + "9" * 5000 + ".0}", id="json-number"),
        pytest.param('{"a": ' + LONG, id="json"),
    ],
)
def test_long_text_in_a_document_that_cannot_be_read(data: str) -> None:
    """The parser's message is as short."""
    text = message(data.encode())
    assert text
    assert MOST not in text
    assert "9" * 201 not in text
