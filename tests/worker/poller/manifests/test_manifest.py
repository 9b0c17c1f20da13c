"""Does every manifest give either one valid pod of this node, or one clear refusal?"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from worker.poller.manifests.manifest import NodeOfManifests, read_manifest
from worker.poller.manifests.static_pod import Refused, StaticPod
from worker.settings.kubelet.feature_gates import set_gates
from workflows.decide.manifest.fields.field_kinds import NEEDS_API

PATH = Path("/etc/kubernetes/manifests/web.yaml")
NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
HEAD = b"apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
NODE = NodeOfManifests("n1")
POD = HEAD + b"spec:\n  containers:\n  - name: web\n    image: busybox:1\n"
STOP_SIGNAL = b"    lifecycle: {stopSignal: SIGINT}\n  os: {name: linux}\n"
BOMB = b"".join(b"%c: &%c [%s]\n" % (key, key, b",".join([b"*%c" % (key - 1)] * 9)) for key in b"bcdefghij")


def read(data: bytes) -> StaticPod | Refused:
    """Read a manifest on node n1."""
    return read_manifest(PATH, data, NODE, NOW)


def test_a_stop_signal_with_its_gate() -> None:
    """It is taken as it is; a pod for Linux needs no gate."""
    on = set_gates({"ContainerStopSignals": True})
    pod = read_manifest(PATH, POD + STOP_SIGNAL, NodeOfManifests("n1", on), NOW)
    assert isinstance(pod, StaticPod)
    assert pod.pod["spec"]["containers"][0]["lifecycle"] == {"stopSignal": "SIGINT"}
    assert isinstance(read(POD + b"  os: {name: linux}\n"), StaticPod)


def test_a_pod() -> None:
    """A plain manifest becomes a defaulted pod of this node."""
    pod = read(POD)
    assert isinstance(pod, StaticPod)
    assert (pod.path, pod.namespace, pod.name) == (PATH, "default", "web-n1")
    assert pod.pod["spec"]["nodeName"] == "n1"
    assert pod.pod["spec"]["restartPolicy"] == "Always"
    assert pod.pod["metadata"]["annotations"]["kubernetes.io/config.seen"] == "2026-11-21T12:00:00.000000000Z"


@pytest.mark.parametrize(
    "same",
    [
        pytest.param(b"\xef\xbb\xbf" + POD, id="byte-order-mark"),
        pytest.param(b"---\n" + POD + b"---\n", id="empty-documents-around-it"),
        pytest.param(b"# a comment\n\n" + POD, id="comment-before"),
        pytest.param(POD.replace(b"\n", b"\r\n"), id="windows-line-ends"),
        pytest.param(
            b'\n {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"},'
            b' "spec": {"containers": [{"name": "web", "image": "busybox:1"}]}}',
            id="json",
        ),
        pytest.param(
            POD.replace(b"{name: web}", b"{name: web, creationTimestamp: null}") + b"status: {}\n", id="kubectl-dry-run"
        ),
    ],
)
def test_other_ways_to_write_it(same: bytes) -> None:
    """How the file is written does not change the pod, nor its UID."""
    assert read(same) == read(POD)


@pytest.mark.parametrize(
    ("data", "reason", "message"),
    [
        pytest.param(b"", "Empty", "the file is empty; a Pod of apiVersion v1 is expected", id="empty"),
        pytest.param(
            b"# soon\n---\n", "Empty", "the file is empty; a Pod of apiVersion v1 is expected", id="comment-only"
        ),
        pytest.param(b"a" * (10 * 2**20 + 1), "TooLarge", "the file is larger than 10485760 bytes", id="over-10-MB"),
        pytest.param(POD + b"#\0", "NotText", "line 8: a NUL byte; is it a text file?", id="nul-byte"),
        pytest.param(b"\x7fELF\x80", "NotText", "about line 1: not UTF-8 (invalid start byte)", id="a-program"),
        pytest.param(POD.decode().encode("utf-16"), "NotText", "line 1: a NUL byte; is it a text file?", id="utf-16"),
        pytest.param(
            b"a: [1\nb: 2\n",
            "InvalidYAML",
            "line 2, column 2: while parsing a flow sequence, did not find expected ',' or ']'",
            id="invalid-yaml",
        ),
        pytest.param(
            b"{a: 1}",
            "InvalidJSON",
            "line 1, column 2: expecting property name enclosed in double quotes (a file that begins with { is read as JSON)",
            id="flow-yaml-is-json-to-kubernetes",
        ),
        pytest.param(
            b'{"a": 1} {}',
            "InvalidJSON",
            "line 1, column 10: extra data (a file that begins with { is read as JSON)",
            id="two-json-documents",
        ),
        pytest.param(b'{"a": NaN}', "InvalidJSON", "NaN is not a number that Kubernetes supports", id="json-nan"),
        pytest.param(
            b'{"a": 1e999}', "InvalidJSON", "1e999 is not a number that Kubernetes supports", id="json-infinite"
        ),
        pytest.param(
            POD + b"---\n" + POD,
            "SeveralDocuments",
            "line 8: a second document; put each pod into a file of its own",
            id="several-documents",
        ),
        pytest.param(
            POD.replace(b"image", b"name"),
            "DuplicateKey",
            "spec.containers[0].name: duplicate key on line 7; first on line 6",
            id="duplicate-key",
        ),
        pytest.param(
            b'{"spec": {"containers": [{}, {"name": "a", "name": "b"}]}}',
            "DuplicateKey",
            "spec.containers[1].name: duplicate key",
            id="duplicate-key-in-json",
        ),
        pytest.param(
            POD.replace(b"busybox:1", b"!!python/object:os.system x"),
            "InvalidYAML",
            "spec.containers[0].image: line 7: the tag '!!python/object:os.system' is not supported;"
            " write the value without it",
            id="tag",
        ),
        pytest.param(
            POD.replace(b"busybox:1", b"*base"),
            "InvalidYAML",
            "spec.containers[0].image: line 7: unknown anchor 'base'",
            id="unknown-anchor",
        ),
        pytest.param(
            b"a: &a [*a]", "InvalidYAML", "a[0]: line 1: the anchor 'a' contains itself", id="anchor-within-itself"
        ),
        pytest.param(
            POD.replace(b"busybox:1", b".inf"),
            "InvalidYAML",
            "spec.containers[0].image: line 7: '.inf' is not a JSON number; quote it if it is text",
            id="infinity",
        ),
        pytest.param(b"? [a]\n: b", "InvalidYAML", "line 1: a key must be text", id="list-as-a-key"),
        pytest.param(
            b"a: &a x\n" + BOMB,
            "TooLarge",
            "line 7: more than 100000 values, aliases counted as often as they are used",
            id="bomb-of-aliases",
        ),
        pytest.param(
            b"a: &a " + b"x" * 2**20 + b"\nb: [" + b"*a," * 11 + b"]",
            "TooLarge",
            "line 2: aliases repeat text to more than 10485760 characters",
            id="bomb-of-text",
        ),
        pytest.param(b"[" * 500, "TooDeep", "line 1: nested deeper than 100 levels", id="deep-yaml"),
        pytest.param(b'{"a":' * 5000 + b"1", "TooDeep", "nested too deep", id="deep-json"),
        pytest.param(
            b"- kind: Pod", "NotAPod", "a Pod of apiVersion v1 is expected, not a list or a single value", id="list"
        ),
        pytest.param(
            POD.replace(b"kind: Pod", b"kind: Deployment").replace(b"v1", b"apps/v1"),
            "NotAPod",
            'apiVersion: Invalid value: "apps/v1": must be v1; a manifest here is one Pod of apiVersion v1;'
            ' kind: Invalid value: "Deployment": must be Pod; a manifest here is one Pod of apiVersion v1',
            id="another-kind",
        ),
        pytest.param(
            b"name: web",
            "NotAPod",
            "apiVersion: Required value: must be v1; kind: Required value: must be Pod",
            id="no-kind",
        ),
        pytest.param(HEAD, "InvalidPod", "spec.containers: Required value", id="no-spec"),
        pytest.param(POD.replace(b"name: web}", b"}"), "InvalidPod", "metadata.name: Required value", id="no-name"),
        pytest.param(
            POD + b"    image_pull_policy: Always\n",
            "InvalidPod",
            "spec.containers[0].image_pull_policy: unknown field; did you mean imagePullPolicy?",
            id="snake-case",
        ),
        pytest.param(
            POD + b"    workingDir: yes\n",
            "InvalidPod",
            "spec.containers[0].workingDir: must be a string, not a boolean (YAML reads an unquoted yes, no, on, off, y, n,"
            " true or false as a boolean; quote it)",
            id="yes-as-text",
        ),
        pytest.param(
            POD + b"  serviceAccountName: robot\n",
            "InvalidPod",
            "spec.serviceAccountName: Forbidden: static pods may not reference serviceaccounts",
            id="service-account",
        ),
        pytest.param(
            POD + b"    tty: false\n  affinity: {nodeAffinity: {}}\n  schedulingGates: [{name: a}]\n",
            "NotSupportedYet",
            "spec.affinity: not supported yet; spec.schedulingGates: not supported yet",
            id="not-supported-yet",
        ),
        pytest.param(
            POD
            + b"    resources: {claims: [{name: gpu}]}\n  resourceClaims: [{name: gpu}]\n  resources: {claims: []}\n",
            "NotSupportedYet",
            f"spec.containers[0].resources.claims: not supported: {NEEDS_API}; "
            f"spec.resourceClaims: not supported: {NEEDS_API}",
            id="claims-which-only-an-api-server-has",
        ),
        pytest.param(
            POD + b"  os: {name: windows}\n",
            "PodOSNotSupported",
            'spec.os.name: this node runs Linux, but the pod needs "windows"',
            id="another-operating-system",
        ),
        pytest.param(
            POD + STOP_SIGNAL,
            "FeatureGateOff",
            "spec.containers[0].lifecycle.stopSignal: needs the feature gate ContainerStopSignals, which is off",
            id="a-stop-signal-without-its-gate",
        ),
        pytest.param(
            POD + b"    tty: 1\n    resources: {claims: [{}]}\n",
            "InvalidPod",
            "spec.containers[0].tty: must be a boolean, not a number; "
            f"spec.containers[0].resources.claims: not supported: {NEEDS_API}",
            id="all-kinds-of-trouble-together",
        ),
        pytest.param(
            POD + b"    command: ['" + b"x" * 1572864 + b"']\n",
            "TooLarge",
            "the pod has 1573296 bytes as JSON; the maximum is 1572864",
            id="a-pod-larger-than-history-holds",
        ),
        pytest.param(
            HEAD + b"spec: {" + b",".join(b"x%d: 1" % number for number in range(25)) + b"}",
            "InvalidPod",
            "; ".join(f"spec.x{number}: unknown field" for number in range(20)) + "; and 5 more",
            id="no-flood-of-messages",
        ),
    ],
)
def test_refused(data: bytes, reason: str, message: str) -> None:
    """Each has one reason, and a message that names line or field."""
    refused = read(data)
    assert isinstance(refused, Refused)
    assert (refused.path, refused.reason, refused.message) == (PATH, reason, message)


def test_one_manifest_gives_one_uid() -> None:
    """The UID follows the pod, the node and the file, and nothing else."""
    first, again = read(POD), read_manifest(PATH, POD, NODE, NOW.replace(year=2030))
    others = [
        read(POD.replace(b"busybox:1", b"busybox:2")),
        read_manifest(PATH, POD, NodeOfManifests("n2"), NOW),
        read_manifest(PATH.with_name("other.yaml"), POD, NODE, NOW),
    ]
    assert isinstance(first, StaticPod)
    assert isinstance(again, StaticPod)
    assert first.uid == again.uid
    assert len({first.uid, *(one.uid for one in others if isinstance(one, StaticPod))}) == 4


@pytest.mark.parametrize(
    ("metadata", "pod"),
    [
        pytest.param(b"{name: web}", "default/web-n1", id="its-name-on-this-node"),
        pytest.param(b"{name: web, namespace: shop}", "shop/web-n1", id="in-its-namespace"),
        pytest.param(b"{namespace: shop}", "", id="no-name"),
        pytest.param(b"{name: 7}", "", id="a-name-that-is-none"),
        pytest.param(b"[web]", "", id="no-metadata"),
        pytest.param(b"{name: " + b"x" * 254 + b"}", "", id="longer-than-any-name"),
    ],
)
def test_a_refusal_says_which_pod_it_is_about(metadata: bytes, pod: str) -> None:
    """So that a command about the pod finds the reason."""
    refused = read(POD.replace(b"{name: web}", metadata) + b"  hostPID: maybe\n")
    assert isinstance(refused, Refused)
    assert refused.pod == pod
