"""Do the units of `tempolet up` say what they must, whatever paths and variables they are made of?"""

from pathlib import Path

import pytest

import worker
from worker.standalone.machine.unit_text import MARK, ServiceText, environment_text, quoted, settings_of, target_text
from worker.standalone.machine.units import NodeUnits, passed_on

UNITS = Path(worker.__file__).parents[1] / "deploy" / "systemd"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("/usr/bin/x", '"/usr/bin/x"', id="a-path"),
        pytest.param("a b", '"a b"', id="a-space"),
        pytest.param("100%i", '"100%%i"', id="a-specifier"),
        pytest.param("$HOME", '"$$HOME"', id="a-variable"),
        pytest.param('say "x"', '"say \\"x\\""', id="a-quote"),
        pytest.param("a\\nb", '"a\\\\nb"', id="a-backslash"),
        pytest.param("a\nExecStartPre=/bin/evil", '"a\\nExecStartPre=/bin/evil"', id="another-line"),
    ],
)
def test_a_word_of_a_command_stays_what_it_is(word: str, expected: str) -> None:
    """As systemd.syntax(7) and systemd.service(5) have it."""
    assert quoted(word, dollar="$$") == expected


def test_an_environment_file_has_each_value_on_its_own() -> None:
    """As systemd.exec(5) has it: in double quotes, a backslash is needed before four signs alone."""
    told = environment_text({"B": 'x "y" `z` $w \\v', "A": "100% 'so'"})
    assert told == 'A="100% \'so\'"\nB="x \\"y\\" \\`z\\` \\$w \\\\v"\n'


@pytest.mark.parametrize(
    ("name", "is_passed"),
    [
        pytest.param("PATH", True, id="the-path"),
        pytest.param("https_proxy", True, id="a-proxy-in-small-letters"),
        pytest.param("OTEL_EXPORTER_OTLP_ENDPOINT", True, id="where-spans-go"),
        pytest.param("TEMPORAL_ADDRESS", False, id="the-operators-own-temporal"),
        pytest.param("AWS_SECRET_ACCESS_KEY", False, id="a-secret"),
        pytest.param("NOTIFY_SOCKET", False, id="of-whoever-runs-up"),
    ],
)
def test_what_a_service_gets_of_the_operators_environment(name: str, *, is_passed: bool) -> None:
    """What it may need, and no more."""
    assert passed_on({name: "x"}) == ({name: "x"} if is_passed else {})


@pytest.mark.parametrize("role", ["worker", "poller", "node"])
def test_a_service_is_that_of_a_clusters_node(role: str) -> None:
    """Watchdog, restarts, limits and rights: all but what it runs and with what environment."""
    unit = (UNITS / f"tempolet-{role}.service").read_text()
    told = settings_of(unit, (Path("/var/lib/tempolet"), Path("/run/tempolet"))).splitlines()
    for line in ("Type=notify", "WatchdogSec=30", "Restart=always", "OOMScoreAdjust=-999", "LimitCORE=0"):
        assert line in told
    section = unit.partition("[Service]\n")[2].partition("\n[")[0].splitlines()
    ours = ("#", "ExecStart=", "Environment", "UMask=")
    assert told == [line for line in section if line and not line.startswith(ours)]


@pytest.mark.parametrize(
    ("folder", "missing"),
    [
        pytest.param("/var/lib/tempolet", [], id="nothing-is-hidden"),
        pytest.param("/tmp/node", ["PrivateTmp"], id="below-tmp"),
        pytest.param("/root/node", ["ProtectHome"], id="below-a-home"),
        pytest.param("/tmpfs/node", [], id="a-name-that-only-begins-so"),
    ],
)
def test_no_service_hides_its_own_folders(folder: str, missing: list[str]) -> None:
    """What would hide them is left out."""
    unit = (UNITS / "tempolet-poller.service").read_text()
    told = settings_of(unit, (Path(folder),))
    assert [name for name in ("PrivateTmp", "ProtectHome") if f"{name}=" not in told] == missing


def test_a_file_that_is_only_read_is_seen_too() -> None:
    """Below /tmp; below a home it may be read-only."""
    unit = (UNITS / "tempolet-poller.service").read_text()
    told = settings_of(unit, (), (Path("/tmp/kubeconfig"), Path("/root/.venv/bin/python")))
    assert "PrivateTmp=" not in told
    assert "ProtectHome=read-only" in told


def test_a_service_has_what_it_is_given() -> None:
    """In the sections where it belongs; a percent sign of a path is none of systemd's specifiers."""
    text = str(
        ServiceText(
            name="tempolet-x",
            description="words",
            settings="Type=exec\n",
            argv=("/bin/a b", "$x"),
            environment_file=Path("/state/50%/units/x.env"),
            umask=0o022,
            after=("first.service",),
            part_of="node.target",
            folders=(Path("/state/50%"),),
        )
    )
    assert text == (
        f"{MARK}\n[Unit]\nDescription=words\nPartOf=node.target\nAfter=network.target first.service\n"
        'RequiresMountsFor="/state/50%%"\nStartLimitIntervalSec=0\n\n[Service]\nType=exec\n'
        "EnvironmentFile=/state/50%%/units/x.env\nUMask=0022\n"
        "SyslogIdentifier=tempolet-x\n"
        'ExecStart="/bin/a b" "$$x"\n'
    )


def test_the_target_wants_the_services_and_is_wanted_at_a_boot() -> None:
    """So that it alone is enabled."""
    text = target_text("words", ["a.service", "b.service"])
    assert "Wants=a.service b.service\n" in text
    assert text.endswith("[Install]\nWantedBy=multi-user.target\n")


@pytest.mark.parametrize(
    ("run_dir", "prefix"),
    [
        pytest.param("/run/tempolet", "tempolet-up", id="the-node-of-a-machine"),
        pytest.param("/run/tempolet-2", "tempolet-up-run-tempolet\\x2d2", id="another-one-beside-it"),
        pytest.param("/run/a/b.c", "tempolet-up-run-a-b\\x2ec", id="escaped-as-systemd-does"),
    ],
)
def test_two_nodes_have_units_of_two_names(run_dir: str, prefix: str, tmp_path: Path) -> None:
    """By their run folders, by which nodes are found."""
    units = NodeUnits(Path(run_dir), tmp_path)
    assert units.target == f"{prefix}.target"
    assert units.name("worker") == f"{prefix}-worker.service"
