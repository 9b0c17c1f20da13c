"""Do the manual page and the completions have every command and option, in a form that their programs take?"""

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.command_line import CommandLine, command_line
from deploy.manual import BASH, FISH, PAGE, ZSH, documents

LINE = command_line()


@pytest.fixture(scope="module")
def files() -> Mapping[str, str]:
    """Make all documents."""
    return documents(LINE, "1.2.3")


def words(line: CommandLine) -> set[str]:
    """Return the names of all commands and the long names of all options."""
    long = {name for one in line.commands for term in one.options for name in term.names if name.startswith("--")}
    return {one.name for one in line.commands} | long


def test_the_command_line_is_read() -> None:
    """Commands with their own words, options with the kind of their value."""
    (up,) = (one for one in LINE.commands if one.name == "up")
    terms = {term.names: term for term in up.terms}
    assert up.summary == "Start a node on this machine and wait for its pods."
    assert terms["--hello",].has_value is False
    assert terms["--state-dir",].has_value is True
    assert terms[()].shown.startswith("manifests")


@pytest.mark.parametrize("name", [PAGE, BASH, ZSH, FISH])
def test_every_command_and_option_is_in_it(files: Mapping[str, str], name: str) -> None:
    """Long names are enough: fish has them without their dashes."""
    text = files[name].replace("\\-", "-")
    missing = [word for word in words(LINE) if (word.lstrip("-") if name == FISH else word) not in text]
    assert missing == []


def test_roff_takes_the_page(files: Mapping[str, str], tmp_path: Path) -> None:
    """Without a warning."""
    if not shutil.which("groff"):
        pytest.skip("needs groff")
    page = tmp_path / "tempolet.8"
    page.write_text(files[PAGE])
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z", page], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        pytest.param("tempolet sk", ["skip-backoff"], id="a-command"),
        pytest.param("tempolet down --pu", ["--purge"], id="an-option-of-the-command"),
        pytest.param("tempolet --debug ver", ["version"], id="a-command-behind-an-option"),
        pytest.param("tempolet up hel", [], id="files-are-the-shells-own"),
    ],
)
def test_bash_offers(files: Mapping[str, str], typed: str, offered: list[str]) -> None:
    """As at a TAB after what was typed."""
    script = files[BASH] + (
        f"COMP_WORDS=({typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=(); _tempolet\n"
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == offered


@pytest.mark.parametrize(("shell", "name"), [("zsh", ZSH), ("fish", FISH)])
def test_the_other_shells_read_theirs(files: Mapping[str, str], tmp_path: Path, shell: str, name: str) -> None:
    """They find no error of syntax."""
    if not shutil.which(shell):
        pytest.skip(f"needs {shell}")
    script = tmp_path / "completion"
    script.write_text(files[name])
    subprocess.run([shell, "-n", script], check=True)
