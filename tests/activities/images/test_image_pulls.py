"""Are pulls bounded, shared by all waiting pods, and cancelled when none waits any more?"""

import asyncio

import pytest

from activities.images.image_pulls import ImagePulls


class Registry:
    """Answers pulls when the test says so."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.cancelled: list[str] = []
        self.open = asyncio.Event()

    async def pull(self, image: str) -> str:
        """Wait until the registry opens; a name that starts with `bad` is refused."""
        self.asked.append(image)
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.cancelled.append(image)
            raise
        if image.startswith("bad"):
            raise LookupError(image)
        return f"sha256:{image}"


@pytest.fixture
async def registry() -> Registry:
    """Return a registry that does not respond yet."""
    return Registry()


async def settle() -> None:
    """Let every task run as far as it can."""
    for _ in range(10):
        await asyncio.sleep(0)


async def test_one_pull_for_all_who_wait(registry: Registry) -> None:
    """And a new one for who comes later."""
    pulls = ImagePulls()
    waiting = [asyncio.create_task(pulls.pull("a", registry.pull)) for _ in range(3)]
    await settle()
    registry.open.set()
    assert await asyncio.gather(*waiting) == ["sha256:a"] * 3
    assert registry.asked == ["a"]
    await pulls.pull("a", registry.pull)
    assert registry.asked == ["a", "a"]


async def test_only_who_has_the_same_logins_shares_a_pull(registry: Registry) -> None:
    """What one may have the other may not."""
    pulls = ImagePulls()
    waiting = [asyncio.create_task(pulls.pull("a", registry.pull, logins)) for logins in ("", "x", "x", "y")]
    await settle()
    assert registry.asked == ["a", "a", "a"]
    registry.open.set()
    await asyncio.gather(*waiting)


async def test_so_many_at_once_and_no_more(registry: Registry) -> None:
    """The third waits for a place."""
    pulls = ImagePulls(2)
    waiting = [asyncio.create_task(pulls.pull(image, registry.pull)) for image in "abc"]
    await settle()
    assert registry.asked == ["a", "b"]
    registry.open.set()
    assert await asyncio.gather(*waiting) == ["sha256:a", "sha256:b", "sha256:c"]


async def test_a_failure_is_everybodys_and_keeps_no_place(registry: Registry) -> None:
    """The next pull of the image asks again."""
    pulls = ImagePulls(1)
    waiting = [asyncio.create_task(pulls.pull("bad", registry.pull)) for _ in range(2)]
    await settle()
    registry.open.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(one) for one in answers] == [LookupError, LookupError]
    assert await pulls.pull("good", registry.pull) == "sha256:good"


async def test_who_leaves_does_not_end_it_for_others(registry: Registry) -> None:
    """A deleted pod's pull goes on for the pod beside it; with the last one it ends."""
    pulls = ImagePulls()
    first, second = (asyncio.create_task(pulls.pull("a", registry.pull)) for _ in range(2))
    await settle()
    first.cancel()
    await settle()
    assert registry.cancelled == []
    second.cancel()
    await settle()
    assert registry.cancelled == ["a"]
    registry.open.set()
    assert await pulls.pull("a", registry.pull) == "sha256:a"


@pytest.mark.jumping_clock
async def test_after_a_burst_pulls_come_at_the_registrys_rate(registry: Registry) -> None:
    """They wait, and none is refused."""
    registry.open.set()
    pulls = ImagePulls(10, qps=20, burst=3)
    loop = asyncio.get_running_loop()
    begun, times = loop.time(), []
    for number in range(5):
        await pulls.pull(str(number), registry.pull)
        times.append(loop.time() - begun)
    assert times[2] < 0.04
    assert times[3] >= 0.045
    assert times[4] >= 0.095
