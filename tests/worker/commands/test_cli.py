"""Does every wrong call end with one line that says what to do, and its own exit code?"""

import io
import os
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
import structlog

from worker.cli import run
from worker.commands.access.exits import CommandFailed, Exit, report_error
from worker.daemon.node_lock import hold_node_lock
from worker.settings.kubelet.configuration import ConfigurationRefused

pytestmark = pytest.mark.usefixtures("logs_restored")  # a service that starts sets up its own

HEAD = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"


@pytest.mark.parametrize(
    ("words", "code", "line"),
    [
        pytest.param(["bogus"], Exit.USAGE, "No such command 'bogus'", id="an-unknown-command"),
        pytest.param(["pods", "--watc"], Exit.USAGE, "Possible options: --watch", id="a-mistyped-option"),
        pytest.param(["pods", "-o", "yaml"], Exit.USAGE, "--output yaml: it is one of", id="an-output-we-lack"),
        pytest.param(["history"], Exit.USAGE, "Missing argument 'NAMESPACE/POD'", id="history-of-nothing"),
        pytest.param(["history", "web"], Exit.USAGE, "for example default/web", id="history-without-namespace"),
        pytest.param(["history", "a/b/c"], Exit.USAGE, "write NAMESPACE/POD", id="history-of-too-much"),
        pytest.param(["explain"], Exit.USAGE, "Missing argument 'NAMESPACE/POD'", id="explain-nothing"),
        pytest.param(["explain", "web"], Exit.USAGE, "for example default/web", id="explain-without-namespace"),
        pytest.param(["explain", "a/b", "-o", "wide"], Exit.USAGE, "--output wide: it is one of", id="explain-wide"),
        pytest.param(["skip-backoff"], Exit.USAGE, "Missing argument 'NAMESPACE/POD'", id="skip-nothing"),
        pytest.param(["skip-backoff", "web"], Exit.USAGE, "for example default/web", id="skip-without-namespace"),
        pytest.param(["skip-backoff", "a/b", "c", "d"], Exit.USAGE, "unexpected extra argument", id="skip-too-much"),
        pytest.param(["condition", "a/b"], Exit.USAGE, "Missing argument 'TYPE=STATUS'", id="no-condition"),
        pytest.param(["condition", "a/b", "gate"], Exit.USAGE, "write TYPE=True", id="a-condition-without-status"),
        pytest.param(["stop", "a/b", "--grace-period", "0"], Exit.USAGE, "add --force", id="no-grace-without-force"),
        pytest.param(
            ["stop", "a/b", "--grace-period", "9", "--force"], Exit.USAGE, "a grace period of 0", id="force-with-grace"
        ),
        pytest.param(
            ["stop", "a/b", "--grace-period", "-1"], Exit.USAGE, "greater than or equal to 0", id="a-negative-grace"
        ),
        pytest.param(["debug", "a/b"], Exit.USAGE, "--image: name an image", id="look-with-nothing"),
        pytest.param(
            ["debug", "a/b", "--image", "x", "--env", "A"], Exit.USAGE, "--env A: write NAME=VALUE", id="no-variable"
        ),
        pytest.param(["evict"], Exit.USAGE, "Missing argument 'NAMESPACE/POD'", id="evict-nothing"),
        pytest.param(["replay"], Exit.USAGE, "give --live or files", id="replay-of-nothing"),
        pytest.param(["replay", "--live", "f"], Exit.USAGE, "give --live or files", id="replay-of-both"),
        pytest.param(["replay", "/nowhere"], Exit.FAILED, "/nowhere: No such file", id="replay-of-no-file"),
        pytest.param(["replay", "{tmp}/k"], Exit.FAILED, "no exported history", id="replay-of-another-file"),
        pytest.param(["up", "--kubeconfig", "/nowhere"], Exit.USAGE, "'/nowhere' does not exist", id="no-kubeconfig"),
        pytest.param(["join"], Exit.USAGE, "URL is missing", id="join-nothing"),
        pytest.param(
            ["join", "h:1", "--for-kubeadm", "--temporal", "t:1"],
            Exit.USAGE,
            "--for-kubeadm: without URL",
            id="join-for-kubeadm-by-itself",
        ),
        pytest.param(["join", "h:1"], Exit.USAGE, "--temporal is missing", id="join-without-temporal"),
        pytest.param(
            ["join", "h:1", "--temporal", "t:1"], Exit.USAGE, "--ca-hash is missing", id="join-whatever-server-answers"
        ),
        pytest.param(
            ["join", "h:1", "--temporal", "t:1", "--ca-hash", "x"], Exit.USAGE, "sha256: and 64", id="join-by-no-hash"
        ),
        pytest.param(
            ["join", "http://h:1", "--temporal", "t:1"], Exit.USAGE, "https://10.0.0.1:6443", id="join-without-tls"
        ),
        pytest.param(
            ["join", "h:1", "--temporal", "t:1", "--token", "a", "--token-file", "b"],
            Exit.USAGE,
            "give one of them",
            id="join-with-two-tokens",
        ),
        pytest.param(
            ["join", "h:1", "--temporal", "t:1", "--token-file", "/nowhere"],
            Exit.FAILED,
            "/nowhere: No such file",
            id="join-without-the-tokens-file",
        ),
        pytest.param(["worker", "--bogus"], Exit.USAGE, "unknown argument '--bogus'", id="an-unknown-flag"),
        pytest.param(["worker", "pod"], Exit.USAGE, "unknown argument 'pod'", id="a-word-too-many"),
        pytest.param(["worker", "--max-pods", "x"], Exit.USAGE, "'x' is not a whole number", id="no-number"),
        pytest.param(["worker", "--root-dir"], Exit.USAGE, "--root-dir: expected one argument", id="no-value"),
        pytest.param(["worker", "--conf", "x"], Exit.USAGE, "unknown argument '--conf'", id="no-abbreviations"),
        pytest.param(["poller", "--config", "/nowhere"], Exit.USAGE, "/nowhere: cannot be read", id="no-config"),
        pytest.param(["worker", "--config", "{tmp}/k"], Exit.USAGE, "k: maxPods: 'x' is text", id="a-wrong-value"),
        pytest.param(["worker", "--feature-gates", "Nope=true"], Exit.USAGE, "no such gate", id="an-unknown-gate"),
        pytest.param(["worker", "--feature-gates", "Nope"], Exit.USAGE, "write Name=true", id="a-gate-without-value"),
        pytest.param(["worker", "--cgroup-driver=x"], Exit.USAGE, "it is cgroupfs or systemd", id="a-cgroup-driver"),
        pytest.param(["worker", "--node-ip", "x"], Exit.USAGE, "--node-ip 'x'", id="no-address"),
        pytest.param(["worker", "--lock-file", "{tmp}/dir/"], Exit.FAILED, "dir: Is a directory", id="no-lock-file"),
    ],
)
def test_a_wrong_call(
    words: list[str], code: Exit, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line on stderr, nothing on stdout, no traceback."""
    (tmp_path / "k").write_text(HEAD + "maxPods: x\n")
    (tmp_path / "dir").mkdir()
    words = [word.replace("{tmp}", str(tmp_path)) for word in words]
    assert run(words) == code
    said = capsys.readouterr()
    last = said.err.strip().splitlines()[-1]
    assert last.startswith("tempolet: ")
    assert line in last
    assert "Traceback" not in said.err
    assert said.out == ""


def test_nothing_asked_is_answered_with_what_can_be(capsys: pytest.CaptureFixture[str]) -> None:
    """The list of commands, exit codes below it."""
    assert run([]) == Exit.USAGE
    said = capsys.readouterr().err
    for word in (
        "up",
        "down",
        "worker",
        "poller",
        "pods",
        "history",
        "explain",
        "skip-backoff",
        "debug",
        "replay",
        "version",
        "5 a replayed history differs",
    ):
        assert word in said


def test_a_second_worker_is_told_who_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It has an exit code of its own, so that systemd need not restart it for ever."""
    with hold_node_lock(tmp_path):
        assert run(["worker", "--root-dir", str(tmp_path)]) == Exit.ALREADY_RUNNING
    assert "the worker process of this node is already running: pid" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["worker", "poller", "history"])
def test_an_address_that_cannot_be_one_is_an_error_at_once(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], key_file: Path
) -> None:
    """A service starts without Temporal, but not with a typo that no Temporal could answer."""
    own = tmp_path / "own.yaml"
    own.write_text(
        "apiVersion: tempolet.dev/v1alpha1\nkind: TempoletConfiguration\n"
        f"temporal: {{address: 'temporal.example:72x33', payloadKeyFile: {key_file}}}\n"
    )
    more = ["default/web"] if word == "history" else ["--root-dir", str(tmp_path), "--healthz-port", "0"]
    assert run([word, *more, "--tempolet-config", str(own)]) == Exit.USAGE
    assert "Temporal's address 'temporal.example:72x33' is no address" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["history", "explain", "skip-backoff"])
def test_a_question_without_temporal_says_how_to_have_it(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, key_file: Path
) -> None:
    """A command times out; it does not wait for ever."""
    monkeypatch.setattr("worker.commands.access.temporal_access.ANSWER_WITHIN", timedelta(seconds=1))
    own = tmp_path / "own.yaml"
    own.write_text(
        "apiVersion: tempolet.dev/v1alpha1\nkind: TempoletConfiguration\n"
        f"temporal: {{address: '127.0.0.1:1', payloadKeyFile: {key_file}}}\n"
    )
    assert run([word, "default/web", "--tempolet-config", str(own)]) == Exit.FAILED
    assert "Temporal at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("word", [pytest.param("worker", id="worker"), pytest.param("poller", id="poller")])
def test_a_service_starts_without_any_command_line_library(word: str) -> None:
    """They live for months: typer and rich would cost each 7 MB."""
    check = (
        "import sys\nfrom worker.cli import run\nrun([sys.argv[1], '--help'])\n"
        "from worker.daemon.lean_imports import without\n"
        "with without('rich'):\n    import worker.daemon.logs\n"
        "print([name for name in ('typer', 'rich', 'click') if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", check, word], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert f"usage: tempolet {word}" in done.stdout
    import rich  # noqa: PLC0415  # it can still be imported

    assert rich is not None


def test_the_models_come_without_the_rest_of_their_library() -> None:
    """The worker needs V1Pod, not an HTTP client: 13 MB; what is selector later is still found."""
    check = (
        "import sys\nfrom worker.daemon.lean_imports import bare_kubernetes\nbare_kubernetes()\nimport worker.processes.worker\n"
        "from kubernetes.client.models.v1_pod import V1Pod\nassert V1Pod.from_dict({'kind': 'Pod'}).kind == 'Pod'\n"
        "print([name for name in ('requests', 'oauthlib', 'websocket', 'kubernetes.config') if name in sys.modules])\n"
        "import kubernetes.config\nfrom kubernetes import client\nassert client.CoreV1Api, kubernetes.config.load_config\n"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("module", ["worker.processes.worker", "worker.processes.poller"])
def test_a_standalone_node_imports_no_http_client(module: str) -> None:
    """It has no API server to ask: 10 MB a process."""
    check = f"import sys\nimport {module}\nprint('aiohttp' in sys.modules)\n"
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_temporals_sdk_comes_without_what_it_holds_ready_for_others() -> None:
    """No stubs for grpc, no messages of Temporal Cloud, no other processes: 2 to 3 MB; what is asked for is there."""
    check = (
        "import sys\nfrom worker.daemon.lean_imports import bare_temporalio\nbare_temporalio()\n"
        "import grpc, temporalio.client, temporalio.worker\n"
        "print([name for name in sys.modules if name.startswith('temporalio')\n"
        "       and (name.endswith('_grpc') or 'cloudservice.v1.' in name)], 'multiprocessing.pool' in sys.modules)\n"
        "assert temporalio.api.cloud.cloudservice.v1.GetUsersRequest(page_size=2).page_size == 2\n"
        "from temporalio.api.cloud.cloudservice.v1.service_pb2_grpc import CloudServiceStub\n"
        "assert temporalio.worker.SharedStateManager and sys.modules['multiprocessing.managers'].SyncManager\n"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert done.stdout == "[] False\n"


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        pytest.param(lambda: CommandFailed("no", Exit.NOT_FOUND), Exit.NOT_FOUND, "tempolet: no\n", id="ours"),
        pytest.param(lambda: PermissionError(13, "Permission denied", "/x"), 1, "/x: Permission denied", id="a-file"),
        pytest.param(lambda: RuntimeError("odd"), 1, "RuntimeError: odd; run it again with --debug", id="a-surprise"),
        pytest.param(
            lambda: ExceptionGroup("parts", [ExceptionGroup("more", [ConfigurationRefused("port: no")])]),
            Exit.USAGE,
            "tempolet: port: no\n",
            id="a-part-of-a-process",
        ),
        pytest.param(KeyboardInterrupt, Exit.INTERRUPTED, "", id="control-c-says-nothing"),
    ],
)
def test_each_error_has_its_line(
    error: Callable[[], BaseException], code: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also for unexpected exceptions."""
    assert report_error(error(), debug=False) == code
    assert line in capsys.readouterr().err


def test_a_service_that_ends_by_a_defect_logs_where(tmp_path: Path) -> None:
    """Nobody can run it again with --debug: it may have been a chance."""
    program = (
        "from worker.commands import serve\n"
        "async def odd(config): raise RuntimeError('odd')\n"
        "serve._RUN['poller'] = odd\n"
        "try: serve.serve('poller', ['--root-dir', '.', '--hostname-override', 'n1'])\n"
        "except RuntimeError: pass\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    )
    assert "ended by a defect" in done.stderr
    assert "in odd\n\tRuntimeError: odd" in done.stderr


def test_debug_shows_where(capsys: pytest.CaptureFixture[str]) -> None:
    """The traceback comes before the line."""
    assert run(["replay", "/nowhere", "--debug"]) == Exit.FAILED
    said = capsys.readouterr().err
    assert said.startswith("Traceback")
    assert said.strip().splitlines()[-1] == "tempolet: /nowhere: No such file or directory"


def test_a_reader_that_goes_away_is_no_error() -> None:
    """`tempolet pods | head` ends in silence."""
    command = [sys.executable, "-m", "worker.cli", "version"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered) as process:
        assert isinstance(process.stdout, io.BufferedReader)
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_what_a_commands_code_logs_is_not_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Else `-o json` is no JSON: the lead of a pod may change while `explain` asks."""
    log = structlog.get_logger("a module")

    def build() -> str:
        log.info("the lead of pods has changed")
        log.warning("something is wrong")
        return "b"

    monkeypatch.setattr("worker.host.replays.build.build_id", build)
    before = structlog.get_config()
    assert run(["version"]) == Exit.DONE
    answer = capsys.readouterr()
    assert "build b" in answer.out
    assert "changed" not in answer.out + answer.err
    assert "something is wrong" not in answer.out
    assert "something is wrong" in answer.err
    assert structlog.get_config() == before
