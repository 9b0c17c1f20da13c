"""Do events reach the API server in order, whatever happens to one of them?"""

import asyncio
from typing import Any

from activities.clients.api_server.api_server import ApiAway, ApiServer, Content, Json
from tests.patience import PATIENCE
from worker.events.event import WARNING, ObjectReference
from worker.events.recorder import EventRecorder, sending_events


class Server(ApiServer):
    """A server with a webhook that fails for the events of one namespace."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.taken: asyncio.Queue[Json] = asyncio.Queue()

    async def call(self, method: str, path: str, *, content: Content | None = None, **_: Any) -> Json:  # noqa: ARG002 - an ApiServer's
        """Accept an event, or fail."""
        assert content
        namespace = content.body["metadata"]["namespace"]
        self.asked.append(namespace)
        if namespace == "broken":
            raise ApiAway("500 Internal error occurred: failed calling webhook", status=500)
        self.taken.put_nowait(content.body)
        return {}


async def test_one_that_a_webhook_fails_on_holds_up_no_other() -> None:
    """The kubelet drops it as well; two minutes of retries for each would delay all that follow."""
    server = Server()
    recorder = EventRecorder(server, "n1", qps=0, burst=1)
    async with sending_events(recorder), asyncio.timeout(PATIENCE / 2):
        for name, namespace in (("a", "broken"), ("b", "broken"), ("c", "default")):
            recorder.record(ObjectReference("Pod", name, name, namespace), WARNING, "BackOff", "Back-off")
        assert (await server.taken.get())["metadata"]["namespace"] == "default"
    assert server.asked == ["broken", "broken", "default"]
