"""The HTTP GET of a lifecycle hook: any answer is success, whatever its status (pkg/kubelet/lifecycle/handlers.go).

Hooks of our own ask as a probe does, and need a probe's success.

Asked as a probe is (`probes/http_get.py`). A server that answers an HTTPS request in plain HTTP is asked once more in that,
without the credentials that were meant for the other.
"""

from collections.abc import Mapping
from typing import Any, Final

from activities.probes.http_get import HttpGet
from activities.probes.http_message import Head
from activities.probes.http_stream import Stream
from activities.probes.loop import HANDLERS
from activities.probes.outcome import NoOutcome, Outcome, Target

USER_AGENT: Final = "kube-lifecycle/1.36"
_SPEAKS_PLAIN_HTTP: Final = "WRONG_VERSION_NUMBER"
"""OpenSSL's word for a server whose first bytes are no TLS."""


class _AnyAnswer(HttpGet):
    """A request that only wants to be answered."""

    async def _judge(self, _: Head, __: Stream) -> Outcome:
        return Outcome(success=True)


async def answered(action: Mapping[str, Any], target: Target) -> Outcome:
    """Make the request; it takes as long as it takes, a grace ends it from outside."""
    outcome = await _ask(action, target)
    if outcome.success or action.get("scheme") != "HTTPS" or _SPEAKS_PLAIN_HTTP not in outcome.output:
        return outcome
    given = [one for one in action.get("httpHeaders", ()) if one["name"].lower() != "authorization"]
    plain = await _ask({**action, "scheme": "HTTP", "httpHeaders": given}, target)
    return plain if plain.success else outcome


async def ask_as_probe(kind: str, action: Mapping[str, Any], target: Target, timeout: float) -> Outcome:
    """Ask once as a probe of this kind does, and judge as it does; `timeout` in seconds."""
    handler = HANDLERS[kind](dict(action), target, timeout)
    try:
        return await handler.ask()
    except NoOutcome as unasked:
        return Outcome(success=False, output=str(unasked))
    finally:
        await handler.close()


async def _ask(action: Mapping[str, Any], target: Target) -> Outcome:
    headers = list(action.get("httpHeaders", ()))
    if not any(one["name"].lower() == "user-agent" for one in headers):
        headers.append({"name": "User-Agent", "value": USER_AGENT})
    try:
        return await _AnyAnswer({**action, "httpHeaders": headers}, target, None).ask()
    except NoOutcome as unasked:
        return Outcome(success=False, output=str(unasked))
