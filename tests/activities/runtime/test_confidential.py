"""Does a value that came out of an object stay out of what the runtime says?"""

import grpc
import pytest

from activities.clients.cri_error import CriError, Remedy
from activities.cri_config.environment import Environment
from activities.runtime.confidential import QUOTABLE, Redaction, quotes_confidential, redact_status, redaction_for
from proto.cri.v1 import api_pb2 as cri
from proto.messages import MAX_MESSAGE

CANARY = "canary-0123456789"
ENVIRONMENT = Environment(
    {"SECRET": CANARY, "PORT": "80", "QUOTED": 'a"b\ncdefg', "PLAIN": "plain-value", "EMPTY": ""},
    frozenset({"SECRET", "PORT", "QUOTED", "EMPTY"}),
)
CONTAINER = {"command": ["/bin/$(SECRET)"], "args": ["$(PLAIN)", "$(PORT)"]}


@pytest.mark.parametrize(
    ("message", "told"),
    [
        pytest.param(
            f'exec: "/bin/{CANARY}": not found', 'exec: "/bin/$(SECRET)": not found', id="a-word-of-the-command"
        ),
        pytest.param(f"x{CANARY}y{CANARY}", "x$(SECRET)y$(SECRET)", id="wherever-it-stands"),
        pytest.param('exec: "a\\"b\\ncdefg"', 'exec: "$(QUOTED)"', id="as-go-quotes-it"),
        pytest.param("port 80: 8080 is free", "port $(PORT): 8080 is free", id="a-short-one-where-it-stands-alone"),
        pytest.param("plain-value stays", "plain-value stays", id="what-is-no-secret-stays"),
        pytest.param(f"cut off: {CANARY[:9]}…", "cut off: $(SECRET)…", id="one-that-the-end-cuts-off"),
        pytest.param("", "", id="nothing-said"),
    ],
)
def test_messages(message: str, told: str) -> None:
    """The reference stands where the value stood."""
    assert redaction_for(ENVIRONMENT, CONTAINER).hide(message) == told


def test_an_error_keeps_its_meaning() -> None:
    """The same call, code and remedy; a message that was cut is hidden, too."""
    error = CriError("StartContainer", grpc.StatusCode.UNKNOWN, f'name "a" is reserved for "{CANARY}"')
    told = redaction_for(ENVIRONMENT, CONTAINER).redact_error(error)
    assert (told.call, told.code, told.remedy) == (error.call, error.code, Remedy.ADOPT)
    assert CANARY not in str(told)
    long = CriError("StartContainer", grpc.StatusCode.UNKNOWN, "x" * (MAX_MESSAGE - 10) + CANARY)
    assert CANARY[:6] not in str(redaction_for(ENVIRONMENT, CONTAINER).redact_error(long))


def test_a_container_read_back_says_nothing_where_its_command_may_stand_in_it() -> None:
    """Its values are not known then; one with a plain command keeps its message."""
    said = f'exec: "{CANARY}": not found'
    marked = cri.ContainerStatus(message=said, annotations={QUOTABLE: "true"})
    assert CANARY not in redact_status(marked).message
    assert redact_status(marked).message.startswith("what the runtime said is not shown")
    assert redact_status(cri.ContainerStatus(message=said)).message == said
    assert not redact_status(cri.ContainerStatus(annotations={QUOTABLE: "true"})).message
    assert (
        redact_status(cri.ContainerStatus(message=said), Redaction(((CANARY, "?"),))).message == 'exec: "?": not found'
    )


@pytest.mark.parametrize(
    ("container", "confidential"),
    [
        pytest.param(CONTAINER, True, id="command"),
        pytest.param({"args": ["a $(PORT)"]}, True, id="argument"),
        pytest.param({"args": ["$(PLAIN)", "$$(PORT)"]}, False, id="an-escape-is-no-reference"),
        pytest.param({"volumeMounts": [{"subPathExpr": "a/$(SECRET)"}, {"name": "v"}]}, True, id="path"),
        pytest.param({}, False, id="no-command"),
    ],
)
def test_which_commands_are_confidential(container: dict[str, list[str]], *, confidential: bool) -> None:
    """Those that refer to a value of an object."""
    assert quotes_confidential(ENVIRONMENT, container) is confidential


def test_nothing_prints_a_value() -> None:
    """Neither what hides them nor the environment."""
    assert CANARY not in f"{redaction_for(ENVIRONMENT, CONTAINER)!r}{ENVIRONMENT!r}"
