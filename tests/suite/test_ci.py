"""Does CI end with the line that says how the tests went, and name the flaky ones before it?"""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAID = "0:01 1/1 tests/node/test_a.py: 1 passed in 0.50s\n"
FLAKY = "flaky: tests/node/test_a.py::test_once\n"
LAST = "1 passed in 1.00s\n"


@pytest.mark.parametrize(
    ("said", "code", "ends"),
    [
        pytest.param(SAID + LAST, 0, [LAST], id="passed"),
        pytest.param(SAID + FLAKY + LAST, 0, [FLAKY, LAST], id="flaky-ones-come-before-the-last-line"),
        pytest.param(SAID + LAST, 1, ["lint or tests failed, see above\n", LAST], id="failed"),
        pytest.param(SAID, 2, ["lint or tests failed, see above\n", "no tests ran\n"], id="no-summary"),
    ],
)
def test_the_last_lines_of_ci(tmp_path: Path, said: str, code: int, ends: list[str]) -> None:
    """With a make that only says what it is told to, on a machine where apt installs nothing."""
    (tmp_path / "said").write_text(said)
    _program(tmp_path / "make", f'[ "$1" != test ] || {{ cat {tmp_path}/said; exit {code}; }}')
    _program(tmp_path / "apt-get", "exit 0")
    environment = {"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines(keepends=True)[-len(ends) :] == ends
    assert done.stdout.count(FLAKY) == 2 * said.count(FLAKY)
    assert done.returncode == (code != 0)


def test_a_booted_machine_fails_ci(tmp_path: Path) -> None:
    """Its essential tests run beside `make test`, whose line stays the last."""
    _program(tmp_path / "make", f'case "$1" in test) echo "{LAST.strip()}";; test-machine) echo "$2"; exit 1;; esac')
    environment = {"PATH": f"{tmp_path}:/usr/sbin:/usr/bin:/sbin:/bin", "TMPDIR": str(tmp_path)}
    done = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-3:] == [
        "ARGS=-q -m 'machine(essential=True)'",
        "lint or tests failed, see above",
        LAST.strip(),
    ]
    assert done.returncode == 1


def test_bytecode_is_kept(tmp_path: Path) -> None:
    """What make starts does not compile every module anew, even if the shell asks for that."""
    (tmp_path / "Makefile").write_text(
        f"include {ROOT / 'Makefile'}\nsays:\n\t@printenv PYTHONDONTWRITEBYTECODE || echo unset\n"
    )
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(["make", "-C", tmp_path, "says"], env=environment, capture_output=True, text=True, check=True)
    assert "unset" in done.stdout.splitlines()


def _program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
