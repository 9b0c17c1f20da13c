"""httpGet probes: a status from 200 to 399 is success (pkg/probe/http/http.go, request.go).

HTTP/1.1, one request per connection, no proxy, no compression; certificates are not verified. Redirects are followed
on the same host; one to another host ends the probe as a success with a warning. One limit of time and one of bytes
hold for the whole exchange, redirects included.
"""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

from activities.probes.dialing import dial, refusal_reason
from activities.probes.http_message import BadResponse, Head, read_body, read_head
from activities.probes.http_stream import PlainStream, ReadBudget, SecureStream, Stream
from activities.probes.outcome import USER_AGENT, Outcome, ProbeNotRun, Target, address, port_of

_MOST_REDIRECTS: Final = 10
_PLAIN: Final = 80
_SECURE: Final = 443
_AS_WRITTEN: Final = "/%:=&?~#+!$,;'@()*[]"
_REDIRECTS: Final = (301, 302, 303, 307, 308)
_NEVER_IN_A_VALUE: Final = ("\r", "\n", "\0")
_LONGEST_LOCATION: Final = 8 * 1024
"""Characters of a redirect that is followed, as most servers limit a request's line; resolving it takes time."""
_LOCATION_SHOWN: Final = 80
_CIPHERS: Final = "DEFAULT:!DHE@SECLEVEL=0"
"""Without finite-field Diffie-Hellman, which Go does not have: the server chooses the group, and a large one takes seconds."""


@dataclass(slots=True)
class _Way:
    """The progress of a request through redirects."""

    urls: list[str]
    """URLs requested so far, each redirected to the next."""
    budget: ReadBudget = field(default_factory=ReadBudget)
    in_body: bool = False


class HttpGet:
    """httpGet: scheme, host (by default the pod's address), port, path and headers."""

    def __init__(self, action: Mapping[str, Any], target: Target, timeout: float | None) -> None:
        self._action, self._target, self._timeout = action, target, timeout
        self._headers = request_headers(action.get("httpHeaders") or ())

    async def ask(self) -> Outcome:
        """Send the request; raises NoOutcome for an unknown port name, or a body that breaks off."""
        way = _Way([self._url()])
        try:
            async with asyncio.timeout(self._timeout):
                return await self._follow(way)
        except TimeoutError:
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
        except (BadResponse, OSError, ValueError) as error:  # ValueError: a host or port that cannot be one
            why = str(error)
        if way.in_body:
            raise ProbeNotRun(f"the response's body broke off: {why}")
        return Outcome(success=False, output=f'Get "{way.urls[-1]}": {why}')

    async def close(self) -> None:
        """Nothing to close."""

    def _url(self) -> str:
        """Build the URL as the kubelet does; host and port override those in the path."""
        host = self._action.get("host") or self._target.pod_ip
        port = port_of(self._target, self._action["port"])
        path = str(self._action.get("path") or "/").partition("#")[0]
        slash = "" if path.startswith("/") else "/"
        scheme = str(self._action.get("scheme") or "HTTP").lower()
        return f"{scheme}://{address(host, port)}{slash}{quote(path, safe=_AS_WRITTEN)}"

    async def _follow(self, way: _Way) -> Outcome:
        """Send the request and follow redirects on the same host."""
        first = urlsplit(way.urls[0]).hostname
        while True:
            stream = await _open(way.urls[-1], way.budget)
            try:
                await stream.write(self._request(way.urls))
                head = await read_head(stream)
                onward = _onward(way.urls[-1], head.location) if _redirects(head) else ""
                if not onward or urlsplit(onward).hostname != first:
                    way.in_body = True
                    return await self._judge(head, stream)
            finally:
                stream.close()
            way.urls.append(onward)
            if len(way.urls) > _MOST_REDIRECTS:
                raise BadResponse(f"stopped after {_MOST_REDIRECTS} redirects")

    async def _judge(self, head: Head, stream: Stream) -> Outcome:
        return judge_response(head.status, await read_body(head, stream))

    def _request(self, reached: Sequence[str]) -> bytes:
        """Send one request; a relative redirect keeps the probe's Host header."""
        parts = urlsplit(reached[-1])
        own_host = self._headers.get("Host", [""])[0] if parts.netloc == urlsplit(reached[0]).netloc else ""
        lines = [f"GET {parts.path or '/'}{'?' if parts.query else ''}{parts.query} HTTP/1.1"]
        lines.append(f"Host: {own_host or parts.netloc}")
        for name, values in self._headers.items():
            if name != "Host":
                lines.extend(f"{name}: {value}" for value in values)
        if len(reached) > 1:
            lines.append(f"Referer: {reached[-2]}")
        for line in lines:
            if any(sign in line for sign in _NEVER_IN_A_VALUE):
                raise BadResponse(f'invalid header field value for "{line.partition(":")[0]}"')
        return ("\r\n".join([*lines, "Connection: close", "", ""])).encode()


def request_headers(given: Sequence[dict[str, str]]) -> dict[str, list[str]]:
    """Return the request's headers: the given ones, and the kubelet's defaults for the rest."""
    headers: dict[str, list[str]] = {}
    for one in given:
        name = "-".join(part.capitalize() for part in one["name"].split("-"))
        headers.setdefault(name, []).append(one.get("value") or "")
    headers.setdefault("User-Agent", [USER_AGENT])
    headers.setdefault("Accept", ["*/*"])
    return {
        name: values for name, values in headers.items() if values[0] or name not in ("User-Agent", "Accept", "Host")
    }


async def _open(url: str, budget: ReadBudget) -> Stream:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https"):
        raise BadResponse(f'unsupported protocol scheme "{parts.scheme}"')
    host, port = parts.hostname or "", _port(parts.scheme, parts.port)
    try:
        plain = PlainStream(await dial(host, port), budget)
    except OSError as error:
        raise BadResponse(refusal_reason(host, port, error)) from error
    if parts.scheme == "http":
        return plain
    try:
        secure = SecureStream(plain, _unverified(), host)
        await secure.handshake()
    except BaseException:
        plain.close()
        raise
    return secure


def _onward(url: str, location: str) -> str:
    """Resolve a redirect; raises BadResponse."""
    shown = location[:_LOCATION_SHOWN]
    if len(location) > _LONGEST_LOCATION:
        raise BadResponse(f'Location header of more than {_LONGEST_LOCATION} characters: "{shown}…"')
    try:
        onward = urljoin(url, location)
        _ = urlsplit(onward).port
    except ValueError as error:
        raise BadResponse(f'failed to parse Location header "{shown}": {error}') from error
    return onward


def judge_response(status: int, body: bytes) -> Outcome:
    """Judge a response; a failure is reported without the body, which may contain a secret (kubernetes#99425)."""
    if status < 200 or status >= 400:
        return Outcome(success=False, output=f"HTTP probe failed with statuscode: {status}")
    if status >= 300:
        return Outcome(
            warning=True,
            success=True,
            output=f"Probe terminated redirects, Response body: {body.decode(errors='replace')}",
        )
    return Outcome(success=True)


def _redirects(head: Head) -> bool:
    return head.status in _REDIRECTS and bool(head.location)


def _port(scheme: str, port: int | None) -> int:
    return port if port is not None else _SECURE if scheme == "https" else _PLAIN


@cache
def _unverified() -> ssl.SSLContext:
    """Do not verify certificates and accept old keys: a probe asks whether the server answers, not who it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_ciphers(_CIPHERS)
    context.options |= ssl.OP_NO_RENEGOTIATION  # as in Go: a server could ask for handshakes without end
    return context
