"""Does a plugin that comes and goes all the time leave the log readable?"""

from collections.abc import Iterator

import pytest
import structlog

from worker.devices.plugin_news import PluginNews

GPU, NIC = "example.com/gpu", "example.com/nic"
Lines = list[structlog.typing.EventDict]


class Clock:
    """A clock that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        """Tell the time."""
        return self.now


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Take what is logged."""
    with structlog.testing.capture_logs() as found:
        yield found


def test_one_that_registers_each_second(lines: Lines) -> None:
    """Its first registrations are told, then once how often it does; another's are told as ever."""
    clock = Clock()
    news = PluginNews(2, clock)
    for _ in range(100):
        clock.now += 1
        news.registered(GPU, "/gpu.sock")
    news.registered(NIC, "/nic.sock")
    assert [(one["log_level"], one["resource"]) for one in lines] == [
        *[("info", GPU)] * 5,
        ("warning", GPU),
        ("info", NIC),
    ]
    assert {name: lines[5][name] for name in ("resource", "socket", "registrations", "seconds", "rare")} == {
        "resource": GPU,
        "socket": "/gpu.sock",
        "registrations": 6,
        "seconds": 5.0,
        "rare": "not more than 2 in 60 s",
    }
    assert "registers very often" in lines[5]["event"]
    clock.now += 60
    news.registered(GPU, "/gpu.sock")
    assert (lines[-1]["event"], len(lines)) == ("device plugin registered", 8)


def test_one_that_is_dropped_each_second(lines: Lines) -> None:
    """That is told again only for another reason, or once it is rare."""
    clock = Clock()
    news = PluginNews(2, clock)
    for number in range(100):
        clock.now += 1
        news.registered(GPU, "/gpu.sock")
        news.gone(GPU, "/gpu.sock", "it lies" if number < 98 else "the stream ended")
    assert [one["error"] for one in lines if one["event"] == "device plugin is gone"] == ["it lies"] * 5 + [
        "the stream ended"
    ]
    clock.now += 60
    news.registered(GPU, "/gpu.sock")
    news.gone(GPU, "/gpu.sock", "the stream ended")
    assert [one["event"] for one in lines[-2:]] == ["device plugin registered", "device plugin is gone"]


def test_one_that_is_refused_each_second(lines: Lines) -> None:
    """As one that is dropped."""
    clock = Clock()
    news = PluginNews(2, clock)
    for number in range(100):
        clock.now += 1
        news.refused(GPU, "/gpu.sock", "it hangs" if number < 98 else "it is gone")
    told = [(one["event"][:28], one.get("error")) for one in lines]
    refused = "device plugin not registered"
    assert told == [*[(refused, "it hangs")] * 5, ("a device plugin registers ve", None), (refused, "it is gone")]


def test_not_any_number_is_remembered(lines: Lines) -> None:
    """Those that registered last are."""
    news = PluginNews(2, Clock())
    for number in range(1000):
        news.registered(GPU, "/gpu.sock")
        news.registered(f"example.com/{number}", "/other.sock")
    assert len(news._known) == 2
    assert [one["log_level"] for one in lines if one["resource"] == GPU] == ["info"] * 5 + ["warning"]
