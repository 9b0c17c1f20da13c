"""Is each login tried, is the intent on the disk before the pull, and who has the image afterwards?"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import grpc
import pytest

from activities.clients.cri_error import CriError, Remedy
from activities.clients.registry_login import Login
from activities.clients.runtime import RuntimeClient
from activities.images.access.pull_records import PullRecords
from activities.images.access.record_format import Rights
from activities.images.access.registry_pull import IntentNotWritten, RegistryPull, is_runtime_unavailable
from activities.images.access.rights import PullRights, rights_of
from activities.images.access.verification import Standing
from activities.images.credentials.keyring import Credential, SecretSource

IMAGE = "r.io/app:1"
REF = "sha256:1"
GOOD = Credential(Login(username="u", password="good"), SecretSource("default", "good", "u1"))
BAD = Credential(Login(username="u", password="bad"), SecretSource("default", "bad", "u2"))
UNAUTHORIZED = 'failed to pull and unpack image "r.io/app:1": 401 Unauthorized'


@dataclass
class Runtime:
    """Pulls with the password `good`, or without a login where it may."""

    rights: PullRights
    public: bool = False
    code: grpc.StatusCode = grpc.StatusCode.UNKNOWN
    says: str = UNAUTHORIZED
    numbered: bool = False
    """Each refusal says which it is."""
    tried: list[str] = field(default_factory=list)
    hangs: asyncio.Event | None = None
    """Set when a pull has begun that never ends."""

    async def pull_image(self, image: str, login: Login | None = None) -> str:
        """Look at the login; the intent must stand by now."""
        assert self.rights.records.known(image, REF).intended
        self.tried.append(login.password if login else "")
        if self.hangs:
            self.hangs.set()
            await asyncio.Event().wait()
        if self.public or (login and login.password == "good"):
            return REF
        raise CriError("PullImage", self.code, self.says + (f" ({len(self.tried)})" if self.numbered else ""))

    async def image_id(self, _image: str) -> str:
        """Have no image."""
        return ""


@pytest.fixture
async def runtime(tmp_path: Path) -> Runtime:
    """Begin with no records."""
    return Runtime(PullRights(PullRecords(tmp_path)))


def pull(runtime: Runtime, credentials: Sequence[Credential]) -> RegistryPull:
    """Pull with these logins."""
    return RegistryPull(cast("RuntimeClient", runtime), runtime.rights, IMAGE, credentials)


async def test_the_login_that_is_taken_gives_the_right(runtime: Runtime) -> None:
    """All are tried in order; pods with the same secret may use the image, no others."""
    assert await pull(runtime, [BAD, GOOD]).run() == REF
    await runtime.rights.flushed()
    assert runtime.tried == ["bad", "good"]
    assert runtime.rights.standing(IMAGE, REF) is Standing.ASK_LOGINS
    assert await runtime.rights.allows(IMAGE, REF, rights_of(GOOD))
    assert not await runtime.rights.allows(IMAGE, REF, rights_of(BAD))
    assert not await runtime.rights.allows(IMAGE, REF, Rights())
    assert not runtime.rights.records.intents()


@pytest.mark.parametrize(
    "credentials",
    [pytest.param([], id="without-a-login"), pytest.param([Credential(Login(password="good"))], id="with-the-node-s")],
)
async def test_a_public_image_is_everybodys(runtime: Runtime, credentials: Sequence[Credential]) -> None:
    """So is one that the node itself has a login for."""
    runtime.public = True
    await pull(runtime, credentials).run()
    assert runtime.rights.standing(IMAGE, REF) is Standing.ALLOWED


async def test_when_no_login_is_taken(runtime: Runtime) -> None:
    """Each refusal is reported once, no anonymous pull follows, and the intent is removed."""
    with pytest.raises(CriError) as error:
        await pull(runtime, [BAD, BAD]).run()
    assert error.value.details == UNAUTHORIZED
    assert runtime.tried == ["bad", "bad"]
    assert not runtime.rights.records.intents()


async def test_a_registry_that_is_away_is_not_the_runtime(runtime: Runtime) -> None:
    """Its 503 comes with the code of a runtime that is away; the next login is tried, and the intent goes."""
    runtime.code = grpc.StatusCode.UNAVAILABLE
    runtime.numbered = True
    with pytest.raises(CriError) as error:
        await pull(runtime, [BAD, BAD]).run()
    assert error.value.details == f"[{UNAUTHORIZED} (1), {UNAUTHORIZED} (2)]"
    assert not is_runtime_unavailable(error.value)
    assert error.value.remedy is Remedy.PERMANENT
    assert not runtime.rights.records.intents()


@pytest.mark.parametrize(
    ("code", "says"),
    [(grpc.StatusCode.DEADLINE_EXCEEDED, UNAUTHORIZED), (grpc.StatusCode.UNAVAILABLE, "connection refused")],
)
async def test_a_pull_whose_end_nobody_knows_leaves_its_intent(
    runtime: Runtime, code: grpc.StatusCode, says: str
) -> None:
    """The runtime may finish it, and then the image has no owner."""
    runtime.code, runtime.says = code, says
    with pytest.raises(CriError):
        await pull(runtime, []).run()
    assert runtime.rights.standing(IMAGE, REF) is Standing.DENIED


async def test_so_does_one_that_is_given_up(runtime: Runtime) -> None:
    """Its pod was deleted; the next pull of the image that goes well clears it up."""
    runtime.hangs = asyncio.Event()
    task = asyncio.create_task(pull(runtime, [GOOD]).run())
    await runtime.hangs.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert runtime.rights.standing(IMAGE, REF) is Standing.DENIED
    runtime.hangs = None
    await pull(runtime, [GOOD]).run()
    await runtime.rights.flushed()
    assert not runtime.rights.records.intents()


async def test_nothing_is_pulled_before_its_intent_stands(runtime: Runtime, tmp_path: Path) -> None:
    """Where the disk does not take it the pod is told so."""
    (tmp_path / "image_manager").write_text("in the way")
    with pytest.raises(IntentNotWritten, match="Failed to record image pull intent for container image"):
        await pull(runtime, [GOOD]).run()
    assert runtime.tried == []
