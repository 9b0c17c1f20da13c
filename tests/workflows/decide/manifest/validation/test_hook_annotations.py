"""Is a hook annotation accepted if it is supported, and otherwise refused by its path?"""

import json
from typing import Any

import pytest

from tests.workflows.decide.pods import Pod, container
from workflows.decide.manifest.defaults.defaults import default_pod
from workflows.decide.manifest.fields.structure import read_structure
from workflows.decide.manifest.fields.supported import POD
from workflows.decide.manifest.validation.pod import validate_pod

EXEC = {"exec": {"command": ["true"]}}


def annotated(key: str, value: Any) -> Pod:
    """Build a pod with this annotation, whose container web has a postStart hook; a string is used as it is."""
    made = container(lifecycle={"postStart": EXEC}, ports=[{"name": "http", "containerPort": 80}])
    text = value if isinstance(value, str) else json.dumps(value)
    made["metadata"]["annotations"] = {key: text}
    return made


def path(key: str) -> str:
    """Return an annotation's path."""
    return f"metadata.annotations[{key}]"


PRE, POST = "preStart.tempolet.dev/web", "postStart.tempolet.dev/web"
RETRY = {"maxAttempts": 3, "initialSeconds": 1, "maxSeconds": 30, "factor": 2}

ROWS = [
    pytest.param(PRE, EXEC, [], id="exec"),
    pytest.param(PRE, EXEC | {"image": "curl:8", "timeoutSeconds": 5, "retry": RETRY}, [], id="all-that-there-is"),
    pytest.param("postStop.tempolet.dev/web", {"httpGet": {"port": "http"}}, [], id="http-get-of-a-named-port"),
    pytest.param(PRE, {"tcpSocket": {"port": 80}}, [], id="tcp-socket"),
    pytest.param(PRE, {"grpc": {"port": 80}}, [], id="grpc"),
    pytest.param(POST, {"timeoutSeconds": 5, "retry": RETRY}, [], id="limits-of-a-hook-of-kubernetes"),
    pytest.param("example.com/web", "anything", [], id="an-annotation-of-somebody-else"),
    pytest.param("tempolet.dev/node", "n1", [], id="an-annotation-of-ours-about-something-else"),
    pytest.param(
        "prestart.tempolet.dev/web",
        EXEC,
        [
            (
                f'{path("prestart.tempolet.dev/web")}: Unsupported value: "prestart": supported values: "postStart",'
                ' "postStop", "preStart", "preStop"'
            )
        ],
        id="no-hook",
    ),
    pytest.param(
        "preStart.tempolet.dev/other",
        EXEC,
        [
            (
                f'{path("preStart.tempolet.dev/other")}: Invalid value: "other":'
                " must be the name of one of the pod's containers"
            )
        ],
        id="no-container",
    ),
    pytest.param(
        PRE,
        "exec: true",
        [
            (
                f'{path(PRE)}: Invalid value: "exec: true": must be one JSON object: Expecting value: line 1 column 1'
                " (char 0)"
            )
        ],
        id="no-json",
    ),
    pytest.param(PRE, "[" * 5000, None, id="json-without-a-bottom"),
    pytest.param(PRE, [1], [f'{path(PRE)}: Invalid value: "[1]": must be one JSON object'], id="no-object"),
    pytest.param(PRE, {}, [f"{path(PRE)}: Required value: must specify a handler type"], id="no-handler"),
    pytest.param(
        PRE,
        EXEC | {"timeoutSecond": 1},
        [f"{path(PRE)}.timeoutSecond: unknown field; did you mean timeoutSeconds?"],
        id="an-unknown-key",
    ),
    pytest.param(
        PRE,
        EXEC | {"retry": {"attempts": 1}},
        [f"{path(PRE)}.retry.attempts: unknown field; did you mean maxAttempts?"],
        id="an-unknown-key-inside",
    ),
    pytest.param(PRE, {"sleep": {"seconds": 1}}, [f"{path(PRE)}.sleep: unknown field"], id="sleep-is-no-hook-of-ours"),
    pytest.param(
        PRE,
        EXEC | {"timeoutSeconds": "5"},
        [f"{path(PRE)}.timeoutSeconds: must be a 32-bit integer, not a string"],
        id="text-for-a-number",
    ),
    pytest.param(PRE, {"exec": {}}, [f"{path(PRE)}.exec.command: Required value"], id="no-command"),
    pytest.param(
        PRE,
        EXEC | {"grpc": {"port": 1}},
        [f"{path(PRE)}.grpc: Forbidden: may not specify more than 1 handler type"],
        id="two-handlers",
    ),
    pytest.param(
        PRE,
        {"tcpSocket": {"port": "none"}},
        [f'{path(PRE)}.tcpSocket.port: Invalid value: "none": must be the name of one of the container\'s ports'],
        id="no-such-port",
    ),
    pytest.param(
        PRE,
        {"tcpSocket": {"port": 80}, "image": "curl:8"},
        [f"{path(PRE)}.image: Forbidden: may not be set without exec"],
        id="an-image-for-nothing",
    ),
    pytest.param(
        POST,
        EXEC,
        [f"{path(POST)}.exec: Forbidden: may not be set for postStart, whose handler is in the spec"],
        id="a-second-handler-for-a-hook-of-kubernetes",
    ),
    pytest.param(
        "preStop.tempolet.dev/web",
        {"timeoutSeconds": 1},
        [
            (
                f'{path("preStop.tempolet.dev/web")}: Invalid value: "web":'
                " must be the name of a container that has a preStop hook"
            )
        ],
        id="limits-of-a-hook-that-is-not-there",
    ),
    pytest.param(
        POST,
        {"timeoutSeconds": 0},
        [f"{path(POST)}.timeoutSeconds: Invalid value: 0: must be between 1 and 86400, inclusive"],
        id="no-time",
    ),
    pytest.param(
        POST,
        {"retry": {"maxAttempts": 0, "factor": 101}},
        [
            f"{path(POST)}.retry.maxAttempts: Invalid value: 0: must be between 1 and 100, inclusive",
            f"{path(POST)}.retry.factor: Invalid value: 101: must be between 1 and 100, inclusive",
        ],
        id="out-of-bounds",
    ),
    pytest.param(
        POST,
        {"retry": {"maxAttempts": 2, "initialSeconds": 9, "maxSeconds": 8}},
        [f"{path(POST)}.retry.maxSeconds: Invalid value: 8: must be greater than or equal to initialSeconds"],
        id="a-pause-longer-than-the-longest",
    ),
]


@pytest.mark.parametrize(("key", "value", "faults"), ROWS)
def test_annotations(key: str, value: Any, faults: list[str] | None) -> None:
    """Each error by its path; an unknown field is an error."""
    read = read_structure(annotated(key, value), POD)
    assert (read.faults, read.not_yet) == ((), ())
    found = list(validate_pod(default_pod(read.content)))
    assert found == faults if faults is not None else found
