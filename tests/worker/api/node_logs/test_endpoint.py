"""Does /logs serve the node's logs, and nothing else of the machine, whatever the path?"""

import asyncio
import os
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote

import pytest
import pytest_asyncio
from multidict import MultiDict

from tests.patience import PATIENCE
from tests.waiting import until
from tests.worker.api.node_api import NodeApi, client_context, node_api
from tests.worker.api.open_descriptors import descriptors
from worker.api.node_logs import endpoint as node_logs
from worker.api.node_logs import files as log_files
from worker.api.node_logs import journal
from worker.api.node_logs.files import NotServed, opened_below
from worker.api.node_logs.query import LogOptions, LogQuery, journal_arguments, parse_log_query
from worker.api.responses.responses import Refused
from worker.settings.cluster import Authentication, Authorization, Serving

ANYBODY = Authentication(anonymous=True, webhook=False)


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a folder of logs, and files beside it that must not be served."""
    root = tmp_path / "log"
    (root / "pods" / "a").mkdir(parents=True)
    (root / "containers").mkdir()
    (root / "syslog").write_text("line\n")
    (root / "page.html").write_text("<script>alert(1)</script>")
    (root / "svc").mkdir()
    (root / "svc" / "svc.log").write_text("of svc\n")
    (root / "plain.log").write_text("of plain\n")
    (root / "pods" / "a" / "0.log").write_text("out\n")
    (root / "containers" / "a.log").symlink_to(root / "pods" / "a" / "0.log")
    (tmp_path / "shadow").write_text("secret")
    (root / "out").symlink_to(tmp_path / "shadow")
    (root / "up").symlink_to("..")
    (root / "loop").symlink_to("loop")
    os.mkfifo(root / "fifo")
    os.mknod(root / "null", 0o600 | 0o020000, os.makedev(1, 3))
    (tmp_path / "log-beside").mkdir()
    (tmp_path / "log-beside" / "x").write_text("secret")
    monkeypatch.setattr(log_files, "NODE_LOGS", root)
    return root


@pytest_asyncio.fixture
async def api(tmp_path: Path, logs: Path) -> AsyncIterator[NodeApi]:  # noqa: ARG001 - served
    """Serve an API without authentication, with log queries."""
    serving = Serving(authorization=Authorization(always_allow=True), log_query=True)
    async with node_api(tmp_path, serving=serving, authentication=ANYBODY) as served:
        yield served


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        pytest.param("syslog", 200, "line\n", id="a-file"),
        pytest.param("containers/a.log", 200, "out\n", id="a-link-that-stays-below"),
        pytest.param("pods%2Fa%2F0.log", 200, "out\n", id="a-quoted-slash-is-a-slash"),
        pytest.param("page.html", 200, "<script>alert(1)</script>", id="a-page-as-text"),
        pytest.param("none", 404, "404 page not found\n", id="what-is-not-there"),
        pytest.param("syslog/x", 404, "404 page not found\n", id="below-a-file"),
        pytest.param("out", 403, "403 Forbidden\n", id="a-link-out"),
        pytest.param("up/shadow", 403, "403 Forbidden\n", id="a-folder-linked-out"),
        pytest.param("../shadow", 403, "403 Forbidden\n", id="dots"),
        pytest.param("%2e%2e/shadow", 403, "403 Forbidden\n", id="quoted-dots"),
        pytest.param("..%2fshadow", 403, "403 Forbidden\n", id="a-quoted-slash-after-dots"),
        pytest.param("pods/../../shadow", 403, "403 Forbidden\n", id="dots-in-the-middle"),
        pytest.param("../log-beside/x", 403, "403 Forbidden\n", id="a-folder-whose-name-begins-the-same"),
        pytest.param("/etc/passwd", 404, "404 page not found\n", id="a-second-slash-begins-below"),
        pytest.param("%2fetc%2fpasswd", 404, "404 page not found\n", id="a-quoted-root-begins-below"),
        pytest.param("fifo", 403, "403 Forbidden\n", id="a-fifo"),
        pytest.param("null", 403, "403 Forbidden\n", id="a-device"),
        pytest.param("loop", 403, "403 Forbidden\n", id="a-link-to-itself"),
        pytest.param("a%00b", 404, "404: Page Not Found", id="a-zero-byte"),
        pytest.param("x" * 5000, 403, "403 Forbidden\n", id="a-name-without-end"),
    ],
)
async def test_a_path_is_a_log_or_nothing(api: NodeApi, path: str, status: int, text: str) -> None:
    """Never 500, never a byte from elsewhere."""
    answer = await api.ask(f"/logs/{path}")
    assert (answer.status, answer.text) == (status, text)
    assert "html" not in answer.kind


async def test_a_folder_is_a_list_with_links_that_work(api: NodeApi, logs: Path) -> None:
    """Names are quoted in HTML and in links; without the slash a client is redirected."""
    (logs / "pods" / "<b>&").write_text("")
    (logs / "pods" / "a:b").write_text("")
    (logs / "pods" / "z\udcff").write_text("")
    listed = await api.ask("/logs/pods/")
    assert listed.status == 200
    assert '<a href="%3Cb%3E%26">&lt;b&gt;&amp;</a>\n<a href="a/">a/</a>\n<a href="a%3Ab">a:b</a>\n' in listed.text
    assert '<a href="z%FF">z\ufffd</a>' in listed.text
    assert (await api.ask("/logs")).status == 301
    assert (await api.ask("/logs/pods")).status == 301
    assert (await api.ask("/logs/syslog/")).status == 301
    assert "syslog" in (await api.ask("/logs/")).text


async def test_a_range_of_a_file_is_answered(api: NodeApi) -> None:
    """Clients resume where they stopped."""
    answer = await api.ask("/logs/syslog", headers={"Range": "bytes=2-"})
    assert (answer.status, answer.text) == (206, "ne\n")


async def test_no_descriptor_stays_open(api: NodeApi) -> None:
    """Neither after a response nor after a refusal."""
    await api.ask("/logs/syslog")  # starts the first thread of the pool
    before = descriptors()
    for path in ("syslog", "pods/", "out", "none", "fifo", "syslog/"):
        await api.ask(f"/logs/{path}")
    await until(lambda: descriptors() <= before)


def test_a_link_that_is_exchanged_after_it_was_followed_leads_nowhere(
    logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The resolved path is opened without following links."""
    resolve = os.path.realpath

    def exchanging(path: str) -> str:
        found = resolve(path)
        if found.endswith("syslog"):
            (logs / "syslog").unlink()
            (logs / "syslog").symlink_to(logs.parent / "shadow")
        return found

    monkeypatch.setattr(os.path, "realpath", exchanging)
    with pytest.raises(NotServed), opened_below(logs, "syslog"):
        pass


QUERIES = [
    pytest.param("query=kubelet", LogQuery(("kubelet",)), id="a-service"),
    pytest.param("query=a&query=b", LogQuery(("a", "b")), id="two-services"),
    pytest.param("query=/syslog", LogQuery(file="/syslog"), id="a-slash-makes-a-file"),
    pytest.param(r"query=a\b", LogQuery(file="a/b"), id="a-backslash-too"),
    pytest.param("", None, id="nothing-is-asked"),
    pytest.param("other=1", None, id="another-word"),
    pytest.param(
        "query=a&tailLines=5&boot=-1&pattern=x.*",
        LogQuery(("a",), options=LogOptions(lines=5, boot=-1, pattern="x.*")),
        id="options",
    ),
    pytest.param(
        "query=a&sinceTime=2026-01-02T03:04:05Z",
        LogQuery(("a",), options=LogOptions(since=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))),
        id="a-time",
    ),
]


def query_of(text: str) -> MultiDict[str]:
    """Parse a query without unquoting."""
    return MultiDict((name, value) for name, _, value in (one.partition("=") for one in text.split("&") if one))


@pytest.mark.parametrize(("text", "read"), QUERIES)
def test_a_query_is_read(text: str, read: LogQuery | None) -> None:
    """The rows are the kubelet's."""
    assert parse_log_query(query_of(text)) == read


@pytest.mark.parametrize(
    ("text", "status", "sentence"),
    [
        pytest.param("query=   ", 400, "query: Invalid value: ['   ']: may not be empty\n", id="blanks"),
        pytest.param(
            "query=a&sinceTime=now", 400, 'sinceTime: Invalid value: "now": invalid time format\n', id="no-time"
        ),
        pytest.param(
            "query=a&sinceTime=0001-01-01T00:00:00+05:00",
            400,
            'sinceTime: Invalid value: "0001-01-01T00:00:00+05:00": invalid time format\n',
            id="before-any-calendar",
        ),
        pytest.param("query=a&boot=x", 400, 'boot: Invalid value: "x": invalid syntax\n', id="no-number"),
        pytest.param("tailLines=3", 406, "query: Required value: cannot be empty with options\n", id="options-alone"),
        pytest.param(
            "query=a$b", 406, 'query: Invalid value: "a$b": input contains unsupported characters\n', id="a-shell-s"
        ),
        pytest.param(
            "query=a&query=b&query=c&query=d&query=e", 406, "query: Too many: 5: must have at most 4 items\n", id="5"
        ),
        pytest.param(
            "query=a&query=/b", 406, "query: Invalid value: ['/b', 'a']: cannot specify a file and service\n", id="both"
        ),
        pytest.param(
            "query=/a&query=/b",
            406,
            "query: Invalid value: ['/a', '/b']: cannot specify more than one file\n",
            id="files",
        ),
        pytest.param(
            "query=/a&boot=0",
            406,
            "query: Invalid value: ['/a']: cannot specify file with options\n",
            id="file-and-options",
        ),
        pytest.param("query=a&boot=1", 406, "boot: Invalid value: 1: must be less than 1\n", id="a-boot-to-come"),
        pytest.param(
            "query=a&tailLines=100001",
            406,
            "tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive\n",
            id="too-many-lines",
        ),
        pytest.param(
            "query=a&sinceTime=2026-01-02T03:04:05Z&untilTime=2026-01-01T03:04:05Z",
            406,
            'untilTime: Invalid value: "2026-01-01T03:04:05+00:00": must be after `sinceTime`\n',
            id="an-end-before-the-beginning",
        ),
    ],
)
def test_a_query_is_refused_with_a_sentence(text: str, status: int, sentence: str) -> None:
    """A malformed query is 400, an invalid one 406, as in the kubelet."""
    with pytest.raises(Refused) as refused:
        parse_log_query(query_of(text))
    assert (refused.value.status, refused.value.sentence) == (HTTPStatus(status), sentence)


@pytest.mark.parametrize("pattern", ["(", "[", "*a", "\0", "(" * 900 + "a", "x" * 2000])
def test_a_pattern_never_breaks_anything(pattern: str) -> None:
    """It is refused with a message."""
    with pytest.raises(Refused) as refused:
        parse_log_query(MultiDict({"query": "a", "pattern": pattern}))
    assert refused.value.status is HTTPStatus.NOT_ACCEPTABLE


def test_journalctl_gets_no_words_that_it_could_take_for_others() -> None:
    """Each value follows its option's `=`."""
    options = LogOptions(
        since=datetime.fromisoformat("2026-01-02T03:04:05+02:00"), lines=3, boot=-1, pattern="--rotate", until=None
    )
    assert journal_arguments(["a"], options) == [
        "--utc",
        "--no-pager",
        "--output=short-precise",
        "--since=2026-01-02 01:04:05 UTC",
        "--pager-end",
        "--lines=3",
        "--unit=a",
        "--grep=--rotate",
        "--boot=-1",
    ]


@pytest.fixture
def journalctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Replace journalctl by a program that knows one unit and prints its arguments, or prints without end."""
    program = tmp_path / "journalctl"
    program.write_text(
        "#!/bin/sh\n"
        f"echo $$ >> {tmp_path}/pids\n"
        'if [ "$1" = --field ]; then echo known.service; exit 0; fi\n'
        'case "$*" in *--grep=endless*) while :; do echo again; done;; esac\n'
        'echo "asked $*"\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(journal, "JOURNALCTL", str(program))
    return program


@pytest.mark.usefixtures("journalctl")
@pytest.mark.parametrize(
    ("query", "text"),
    [
        pytest.param(
            "query=known", "asked --utc --no-pager --output=short-precise --unit=known\n", id="from-the-journal"
        ),
        pytest.param("query=svc", "of svc\n", id="from-a-file-in-a-folder-of-its-name"),
        pytest.param("query=plain", "of plain\n", id="from-a-file-with-an-ending"),
        pytest.param("query=none", "\nlog not found for none\n", id="from-nowhere"),
        pytest.param("query=..", "\nerror getting log for ..: 403 Forbidden\n", id="not-from-above"),
        pytest.param(
            "query=svc&boot=0",
            "\noptions present and query resolved to log files for [svc]\ntry without specifying options\n",
            id="files-have-no-options",
        ),
        pytest.param("query=/syslog", "line\n", id="a-file"),
    ],
)
async def test_a_query_is_answered(api: NodeApi, query: str, text: str) -> None:
    """From the journal if it has the service, else from files."""
    answer = await api.ask(f"/logs/?{quote(query, safe='=&/')}")
    assert (answer.status, answer.text) == (200, text)


async def test_a_query_has_no_path(api: NodeApi) -> None:
    """406, as in the kubelet; a file in a query is restricted to the same folder."""
    assert (await api.ask("/logs/syslog?query=a")).status == 406
    assert (await api.ask("/logs/?query=/../shadow")).status == 403


async def test_a_client_that_vanishes_takes_journalctl_along(api: NodeApi, journalctl: Path) -> None:
    """A program that prints without end must not outlive its reader."""
    asking = asyncio.create_task(api.ask("/logs/?query=known&pattern=endless"))
    pids = journalctl.parent / "pids"
    await until(lambda: pids.exists() and len(pids.read_text().split()) == 2)
    process = Path("/proc", pids.read_text().split()[-1])
    await until(process.exists)
    asking.cancel()
    await until(lambda: not process.exists())


@pytest.fixture
def yes(journalctl: Path) -> Path:
    """Replace journalctl by a program that prints faster than anybody reads."""
    journalctl.write_text(f"#!/bin/sh\necho $$ > {journalctl.parent}/pids\nexec yes\n")
    return journalctl.parent / "pids"


async def test_a_program_whose_reader_is_behind_is_ended_at_once(yes: Path) -> None:
    """Nobody sees the end of a full pipe that is not read, so its slot would be blocked for half a minute."""
    chunks = journal.output([])
    await anext(chunks)

    def state() -> str:
        path = Path("/proc", yes.read_text().strip(), "status")
        return path.read_text().split("State:\t")[1][0] if path.exists() else ""

    await until(lambda: state() == "S", "the pipe is full")
    async with asyncio.timeout(PATIENCE):
        await chunks.aclose()
    assert not state()


@pytest.mark.usefixtures("journalctl")
@pytest.mark.parametrize("query", ["query=known&pattern=endless", "query=endless"])
async def test_a_client_that_takes_nothing_gives_its_place_back(
    api: NodeApi, logs: Path, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """There are four slots; a client that does not read must not keep one."""
    monkeypatch.setattr(node_logs, "_queries", asyncio.Semaphore(1))
    monkeypatch.setattr(node_logs, "ANSWERED_WITHIN", timedelta(seconds=2))
    with (logs / "endless.log").open("wb") as file:
        file.truncate(1 << 30)
    _, writer = await asyncio.open_connection("127.0.0.1", api.port, ssl=client_context(), server_hostname="")
    writer.write(f"GET /logs/?{query} HTTP/1.1\r\nHost: n\r\n\r\n".encode())
    await until(node_logs._queries.locked)
    assert (await api.ask("/logs/?query=svc")).status == 429
    await until(lambda: not node_logs._queries.locked())
    monkeypatch.setattr(node_logs, "ANSWERED_WITHIN", timedelta(minutes=1))
    assert (await api.ask("/logs/?query=svc")).text == "of svc\n"
    writer.transport.abort()


async def test_without_a_journal_files_are_asked(api: NodeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine without systemd."""
    monkeypatch.setattr(journal, "JOURNALCTL", "/no/journalctl")
    assert (await api.ask("/logs/?query=svc")).text == "of svc\n"


async def test_queries_are_files_only_where_they_are_not_enabled(tmp_path: Path, logs: Path) -> None:  # noqa: ARG001 - served
    """They are disabled by default; the query is then ignored."""
    async with node_api(
        tmp_path, serving=Serving(authorization=Authorization(always_allow=True)), authentication=ANYBODY
    ) as served:
        assert (await served.ask("/logs/syslog?query=a")).text == "line\n"
