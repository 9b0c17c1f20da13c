"""The HTTP GET of a lifecycle hook. Any response is a success, whatever its status.

Source: pkg/kubelet/lifecycle/handlers.go. Our own hooks need the success of a probe instead. The request is made like
a probe's (`probes/http_get.py`). If a server answers an HTTPS request in plain HTTP, the request is repeated in plain
HTTP without its credentials.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from activities.probes.http_get import HttpGet
from activities.probes.http_message import Head
from activities.probes.http_stream import Stream
from activities.probes.loop import HANDLERS
from activities.probes.outcome import Outcome, ProbeNotRun, Target

USER_AGENT: Final = "kube-lifecycle/1.36"
_SPEAKS_PLAIN_HTTP: Final = "WRONG_VERSION_NUMBER"
"""OpenSSL's reason when the first bytes of a server are not TLS."""


class _AnyAnswer(HttpGet):
    """A request that accepts any response."""

    async def _judge(self, _: Head, __: Stream) -> Outcome:
        return Outcome(success=True)


async def send_hook_request(action: Mapping[str, Any], target: Target, fell_back: Callable[[], None]) -> Outcome:
    """Make the request without a limit; the grace period ends it from outside. Calls `fell_back` if plain HTTP succeeded."""
    outcome = await _ask(action, target)
    if outcome.success or action.get("scheme") != "HTTPS" or _SPEAKS_PLAIN_HTTP not in outcome.output:
        return outcome
    given = [one for one in action.get("httpHeaders", ()) if one["name"].lower() != "authorization"]
    plain = await _ask({**action, "scheme": "HTTP", "httpHeaders": given}, target)
    if not plain.success:
        return outcome
    fell_back()
    return plain


async def send_as_probe(kind: str, action: Mapping[str, Any], target: Target, timeout: float) -> Outcome:
    """Make one request as a probe of this kind does and judge it likewise; `timeout` in seconds."""
    handler = HANDLERS[kind](dict(action), target, timeout)
    try:
        return await handler.ask()
    except ProbeNotRun as unasked:
        return Outcome(success=False, output=str(unasked))
    finally:
        await handler.close()


async def _ask(action: Mapping[str, Any], target: Target) -> Outcome:
    headers = list(action.get("httpHeaders", ()))
    if not any(one["name"].lower() == "user-agent" for one in headers):
        headers.append({"name": "User-Agent", "value": USER_AGENT})
    try:
        return await _AnyAnswer({**action, "httpHeaders": headers}, target, None).ask()
    except ProbeNotRun as unasked:
        return Outcome(success=False, output=str(unasked))
