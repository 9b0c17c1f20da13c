"""Are the examples for cloud-init and Ansible well-formed, and would tempolet take every command, manifest and setting in them?

Nothing of them is run. Their own checkers are asked where they are installed.
"""

import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml
from typer.core import TyperGroup

from deploy.wheel import CHECKOUT
from worker.commands.app import app
from worker.joining.request import BootstrapToken, Temporal, ca_hashes, server_of
from worker.poller.manifests.manifest import NodeOfManifests, read_manifest
from worker.poller.manifests.static_pod import Refused

FOLDER = CHECKOUT / "deploy/provisioning"
USER_DATA = sorted(FOLDER.glob("*.cloud-config.yaml"))
PLAYBOOKS = sorted(FOLDER.glob("*.playbook.yaml"))
MODULES = {"apt", "command", "copy", "meta", "systemd_service"}
KEYWORDS = {"name", "notify", "register", "changed_when"}


def load(path: Path) -> Any:
    """Read YAML."""
    return yaml.safe_load(path.read_text())


def playbook_variables() -> dict[str, str]:
    """Return the playbook's variables, and a token in the place of the vault's."""
    (play,) = load(PLAYBOOKS[0])
    return {**play["vars"], "bootstrap_token": "abcdef.0123456789abcdef"}


def filled(word: str) -> str:
    """Put variables into a word of the playbook."""
    return re.sub(r"\{\{ (\w+) \}\}", lambda found: playbook_variables()[found[1]], word)


def tasks() -> list[dict[str, Any]]:
    """Return the playbook's tasks and handlers."""
    (play,) = load(PLAYBOOKS[0])
    return [*play["tasks"], *play["handlers"]]


def commands() -> Iterator[tuple[str, list[str]]]:
    """Return every command of tempolet, without its first word."""
    for path in USER_DATA:
        for line in load(path)["runcmd"]:
            words = shlex.split(line)
            if words[0] == "tempolet":
                yield path.name, words[1:]
    for task in tasks():
        words = [filled(word) for word in task.get("ansible.builtin.command", {}).get("argv", [])]
        if words[:1] == ["tempolet"]:
            yield PLAYBOOKS[0].name, words[1:]


@pytest.mark.parametrize("words", [pytest.param(words, id=f"{name}-{words[0]}") for name, words in commands()])
def test_tempolet_takes_each_command(words: list[str]) -> None:
    """Its command line, and for join what is compared before anything is changed."""
    command = typer.main.get_command(app)
    assert isinstance(command, TyperGroup)
    options = command.commands[words[0]].make_context(words[0], words[1:]).params
    if words[0] == "join":
        assert server_of(options["server"])
        assert ca_hashes(options["ca_hash"])
        assert Temporal(options["temporal"]).variables()


def test_every_example_is_tried() -> None:
    """One command each."""
    assert sorted(name for name, _ in commands()) == sorted(path.name for path in (*USER_DATA, *PLAYBOOKS))


@pytest.mark.parametrize("path", USER_DATA, ids=lambda path: path.name)
def test_user_data_is_what_cloud_init_reads(path: Path) -> None:
    """Its first line says what it is, the shell reads the script that cloud-init makes of it, which ends at the first error."""
    assert path.read_text().startswith("#cloud-config\n")
    found = load(path)
    assert set(found) == {"package_update", "packages", "write_files", "runcmd"}
    assert found["runcmd"][0] == "set -e"
    subprocess.run(["sh", "-n"], input="\n".join(found["runcmd"]), text=True, check=True)
    if checker := shutil.which("cloud-init"):
        subprocess.run([checker, "schema", "--config-file", path], check=True)


@pytest.mark.parametrize("path", PLAYBOOKS, ids=lambda path: path.name)
def test_the_playbook_has_known_modules_only(path: Path) -> None:
    """Each task has a name and one module; whoever runs it again sees whether something was changed."""
    for task in tasks():
        (module,) = set(task) - KEYWORDS
        assert module.removeprefix("ansible.builtin.") in MODULES
        assert task["name"]
        assert "ansible.builtin.command" not in task or "changed_when" in task
    if checker := shutil.which("ansible-playbook"):
        subprocess.run([checker, "--syntax-check", path], check=True)


def test_the_words_of_an_unchanged_join_are_joins_own() -> None:
    """The playbook knows by them that nothing was changed."""
    (words,) = {
        found[1] for task in tasks() if (found := re.match(r"'(.*)' not in", str(task.get("changed_when", ""))))
    }
    assert words in (CHECKOUT / "worker/joining/join.py").read_text()


def test_manifests_are_pods_and_tokens_are_tokens() -> None:
    """What user data writes is what the node reads; a secret is root's."""
    files = {one["path"]: one for path in USER_DATA for one in load(path)["write_files"]}
    manifests = {Path(path): one["content"] for path, one in files.items() if path.endswith(".yaml")}
    assert manifests
    for path, content in manifests.items():
        judged = read_manifest(path, content.encode(), NodeOfManifests("n1", cluster=False), datetime.now(UTC))
        assert not isinstance(judged, Refused), judged
    token = files["/run/bootstrap-token"]
    assert BootstrapToken.parse(token["content"])
    assert token["permissions"] == "0600"


def test_containerd_makes_cgroups_by_systemd_everywhere() -> None:
    """The same configuration in both examples of a cluster's node."""
    written = [one["content"] for path in USER_DATA for one in load(path)["write_files"] if "containerd" in one["path"]]
    written += [one["content"] for task in tasks() if "content" in (one := task.get("ansible.builtin.copy", {}))]
    assert len(set(written)) == 1
    assert len(written) > 1
    plugin = tomllib.loads(written[0])["plugins"]["io.containerd.grpc.v1.cri"]
    assert plugin["containerd"]["runtimes"]["runc"]["options"]["SystemdCgroup"] is True
