"""Does each message reach who leads its pod, once and in order, whatever Temporal and the worker do?"""

import asyncio
from collections.abc import Collection
from datetime import timedelta
from typing import Any

import pytest

from tests.patience import PATIENCE
from tests.worker.delivery.fake_lead import FakeLead
from worker.delivery import deliveries
from worker.delivery.deliveries import Deliveries
from worker.delivery.lead import Answer, LeadUnavailable, Message, NameTaken, PodLead

POD = "pod/n1/default/web/u1"


class Away(Exception):
    """Temporal is unavailable."""


class FakeTemporal:
    """Takes messages, hangs, or is away."""

    def __init__(self) -> None:
        self.taken: list[Any] = []
        self.called = 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.error: Exception | None = None

    async def call(self, value: Any) -> bool:
        """Take a message, once it answers."""
        self.called += 1
        await self.answers.wait()
        if self.error:
            raise self.error
        self.taken.append(value)
        return True


class Sender:
    """One process's messages to one pod."""

    def __init__(self, patience: float = 3600.0) -> None:
        self.temporal, self.lead = FakeTemporal(), FakeLead()
        is_away = lambda error: isinstance(error, Away)  # noqa: E731 - one expression
        self.deliveries = Deliveries(self.lead, is_away, patience=timedelta(seconds=patience))
        self.anew: list[frozenset[str]] = []
        self.deliveries.on_change(self.note)

    def note(self, pods: Collection[str]) -> None:
        """Write down who is told anew."""
        self.anew.append(frozenset(pods))

    async def send(self, value: Any) -> bool:
        """Send a message."""
        message = Message(POD, "RuntimeChanged", value, "poller", 1)
        async with asyncio.timeout(PATIENCE):
            return await self.deliveries.send(message, lambda: self.temporal.call(value), taken=True)

    async def learn(self) -> None:
        """Take what the lead says now."""
        self.deliveries.take(await self.lead.leads(""))

    @property
    def told(self) -> list[Any]:
        """What the lead has taken."""
        return [value for _, _, value in self.lead.told]


async def test_temporal_comes_first() -> None:
    """The worker is not asked while Temporal answers."""
    sender = Sender()
    assert await sender.send(1)
    assert (sender.temporal.taken, sender.lead.told, sender.lead.refused) == ([1], [], [])


@pytest.mark.parametrize(
    ("patience", "error"),
    [
        pytest.param(0.0, None, id="unanswered-for-longer-than-its-patience"),
        pytest.param(3600.0, Away(), id="unavailable"),
    ],
)
async def test_the_worker_is_told_what_temporal_does_not_take(patience: float, error: Exception | None) -> None:
    """Once it has taken one, the next ones go there at once."""
    sender = Sender(patience)
    sender.lead.take(POD)
    sender.temporal.error = error
    if error is None:
        sender.temporal.answers.clear()
    for value in range(3):
        assert await sender.send(value)
    assert sender.told == [0, 1, 2]
    assert sender.temporal.called == 1
    assert sender.deliveries.led_by_worker == {POD}


@pytest.mark.parametrize("unknown", [pytest.param(False, id="temporal-leads"), pytest.param(True, id="unknown-pod")])
async def test_what_nobody_takes_is_needed_again(unknown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker hears for how long it is due, also over several tries."""
    now = [100.0]
    monkeypatch.setattr(deliveries, "monotonic", lambda: now[0])
    sender = Sender()
    sender.temporal.error = Away()
    sender.lead.unknown |= {POD} if unknown else set()
    ages = []
    for _ in range(2):
        with pytest.raises(Away):
            await sender.send(1)
        ages.append(sender.lead.refused[-1].due_for)
        now[0] += 5
    assert ages == [0, 5]
    sender.temporal.error = None
    assert await sender.send(1)
    sender.temporal.error = Away()
    with pytest.raises(Away):
        await sender.send(2)
    assert sender.lead.refused[-1].due_for == 0, "what Temporal has taken is not due any more"


async def test_a_slow_temporal_is_awaited_if_the_worker_does_not_lead() -> None:
    """The call goes on, and its answer counts."""
    sender = Sender(0.0)
    sender.temporal.answers.clear()
    sending = asyncio.create_task(sender.send(1))
    await sender.lead.until_refused()
    sender.temporal.answers.set()
    assert await sending
    assert sender.temporal.taken == [1]


async def test_a_message_under_way_follows_the_lead() -> None:
    """The worker takes the pod while Temporal does not answer: it gets the message at once."""
    sender = Sender(0.0)
    sender.temporal.answers.clear()
    sending = asyncio.create_task(sender.send(1))
    await sender.lead.until_refused()
    sender.lead.take(POD)
    await sender.learn()
    assert await sending
    assert (sender.told, sender.temporal.taken) == ([1], [])


async def test_what_the_worker_lets_go_goes_to_temporal() -> None:
    """The same message, at once."""
    sender = Sender()
    sender.lead.take(POD)
    await sender.learn()
    assert await sender.send(1)
    sender.lead.let_go(POD)
    assert await sender.send(2)
    assert (sender.told, sender.temporal.taken) == ([1], [2])
    assert sender.deliveries.led_by_worker == frozenset()


@pytest.mark.parametrize("error", [LeadUnavailable("no answer"), ZeroDivisionError()], ids=["silent", "a-defect"])
async def test_a_worker_that_led_and_is_silent_is_not_passed_over(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """It may lead still; the message is needed again. Its defects are not the sender's."""
    sender = Sender()
    sender.lead.take(POD)
    await sender.learn()

    async def silent(_: Message) -> Answer:
        raise error

    monkeypatch.setattr(sender.lead, "deliver", silent)
    with pytest.raises(LeadUnavailable):
        await sender.send(1)
    assert sender.temporal.called == 0


async def test_a_refused_call_is_the_caller_s() -> None:
    """Temporal has answered; the worker is not asked."""
    sender = Sender()
    sender.temporal.error = ValueError("too large")
    with pytest.raises(ValueError, match="too large"):
        await sender.send(1)
    assert not sender.lead.refused


async def test_a_late_answer_does_not_undo_a_newer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker said that Temporal leads, and has taken the pod since: the message is not lost to Temporal."""
    sender = Sender()
    sender.temporal.error = Away()
    deliver = sender.lead.deliver

    async def taking_meanwhile(message: Message) -> Answer:
        answer = await deliver(message)
        if answer is not Answer.TAKEN:
            sender.lead.take(POD)
            await sender.learn()
        return answer

    monkeypatch.setattr(sender.lead, "deliver", taking_meanwhile)
    assert await sender.send(1)
    assert sender.told == [1]
    assert sender.deliveries.led_by_worker == {POD}


async def test_after_each_change_of_lead_everything_is_told_anew() -> None:
    """Also after one that was not seen; and a sender that fails keeps no other from telling."""
    sender = Sender()

    def failing(_: Collection[str]) -> None:
        raise ValueError

    sender.deliveries.on_change(failing)
    sender.deliveries.on_change(sender.note)
    await sender.learn()
    assert sender.anew == []
    sender.lead.take(POD)
    await sender.learn()
    assert sender.anew == [{POD}] * 2
    await sender.learn()
    assert sender.anew == [{POD}] * 2, "nothing has changed"
    sender.lead.let_go(POD)
    sender.lead.take(POD)
    await sender.learn()
    assert sender.anew == [{POD}] * 4
    assert sender.lead.pods == {POD: PodLead(True, 3)}


async def test_the_leads_are_followed() -> None:
    """Each change is told without a message."""
    sender = Sender()
    anew = asyncio.Event()
    sender.deliveries.on_change(lambda _: anew.set())
    following = asyncio.create_task(sender.deliveries.follow())
    try:
        sender.lead.take(POD)
        await asyncio.wait_for(anew.wait(), PATIENCE)
        assert sender.deliveries.led_by_worker == {POD}
    finally:
        following.cancel()


async def test_a_cancelled_sender_leaves_no_call_behind() -> None:
    """Neither to Temporal nor to the worker."""
    sender = Sender(0.0)
    sender.temporal.answers.clear()
    sending = asyncio.create_task(sender.send(1))
    await sender.lead.until_refused()
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    sender.temporal.answers.set()
    await asyncio.sleep(0)
    assert sender.temporal.taken == []


async def test_temporal_is_told_nothing_while_another_machine_has_the_name() -> None:
    """The message would reach that machine's pods; pods that are led here get theirs."""
    sender = Sender()
    sender.lead.rename(taken=True)
    await sender.learn()
    with pytest.raises(NameTaken):
        await sender.send(1)
    sender.lead.take(POD)
    assert await sender.send(2)
    assert sender.told == [2]
    sender.lead.let_go(POD)
    sender.lead.rename()
    await sender.learn()
    assert await sender.send(3)
    assert sender.temporal.taken == [3]
    assert sender.temporal.called == 1


async def test_what_is_for_temporal_waits_until_the_name_is_sure(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent then, and needed again if that takes too long."""
    sender = Sender()
    sender.lead.rename(unsure=True)
    await sender.learn()
    sending = asyncio.create_task(sender.send(1))
    await asyncio.sleep(0)
    assert sender.temporal.called == 0
    sender.lead.rename()
    await sender.learn()
    assert await sending
    assert sender.temporal.taken == [1]
    monkeypatch.setattr(deliveries, "SURE_WITHIN", timedelta())
    sender.lead.rename(unsure=True)
    await sender.learn()
    with pytest.raises(NameTaken):
        await sender.send(2)
    assert sender.temporal.called == 1
