"""Who does the gateway make Temporal run as, and what of its environment does Temporal get?"""

import pwd
from pathlib import Path

import pytest

from worker.standalone.gateway.database_folder import ROOT, Owner
from worker.standalone.gateway.server_account import STATE, USER, ServerAccount, UserGone, server_environment

NOBODY = pwd.getpwnam("nobody")


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        pytest.param({}, ServerAccount(), id="a-unit-of-an-earlier-release"),
        pytest.param({STATE: "/state"}, ServerAccount(), id="a-state-folder-alone"),
        pytest.param({USER: "root", STATE: "/state"}, ServerAccount(ROOT, Path("/state")), id="root"),
        pytest.param(
            {USER: "nobody", STATE: "/state"},
            ServerAccount(Owner(NOBODY.pw_uid, NOBODY.pw_gid), Path("/state")),
            id="a-user",
        ),
    ],
)
def test_the_environment_tells(environment: dict[str, str], expected: ServerAccount) -> None:
    """And nothing else."""
    assert ServerAccount.told_by(environment) == expected


def test_a_user_that_is_gone_is_told() -> None:
    """Root does not take its place."""
    with pytest.raises(UserGone, match=r"user no-such-user is not there any more: `tempolet up` makes it again"):
        ServerAccount.told_by({USER: "no-such-user", STATE: "/state"})


def test_only_another_user_gives_up_groups() -> None:
    """Where it runs as root it runs as before."""
    assert ServerAccount().process_options() == {}
    assert ServerAccount(Owner(7, 8)).process_options() == {"user": 7, "group": 8, "extra_groups": []}


@pytest.mark.parametrize(
    ("name", "is_passed"),
    [
        pytest.param("GODEBUG", True, id="what-tunes-it"),
        pytest.param("GOMEMLIMIT", True, id="of-a-drop-in"),
        pytest.param("TZ", True, id="time-zone"),
        pytest.param("https_proxy", False, id="a-proxy-with-a-password"),
        pytest.param("OTEL_EXPORTER_OTLP_HEADERS", False, id="a-key-for-spans"),
        pytest.param("TEMPOLET_STATE_DIR", False, id="of-the-gateway"),
    ],
)
def test_what_temporal_gets(name: str, *, is_passed: bool) -> None:
    """No credential; and the home of root is none of its."""
    assert server_environment({name: "x", "HOME": "/root"}) == ({name: "x"} if is_passed else {}) | {"HOME": "/"}
