"""Reads the manifests behind a URL: bytes, or why there are none.

Used by the poller's `url_source` (pkg/kubelet/config/http.go). Loads an HTTP client of 25 MB, so it is imported only
if such a URL is configured. Headers and the query may hold credentials and are never logged.
"""

import asyncio
import ssl
from collections.abc import Sequence
from datetime import timedelta
from http import HTTPStatus
from typing import Final

import aiohttp

LIMIT: Final = timedelta(seconds=10)


class ManifestsUnreadable(Exception):
    """The URL gave nothing readable; the message says why."""


class ManifestUrl:
    """A URL and the headers to send; use it from one event loop."""

    def __init__(
        self, url: str, headers: Sequence[tuple[str, str]], *, most_bytes: int, limit: timedelta = LIMIT
    ) -> None:
        self._url, self._headers, self._most = url, list(headers), most_bytes
        self._context: ssl.SSLContext | None = None
        self._timeout = aiohttp.ClientTimeout(total=limit.total_seconds())

    async def _tls(self) -> ssl.SSLContext | bool:
        """Create the TLS context with the system's CAs only if the URL needs it: it takes 2.5 MB."""
        if self._url.startswith("https:") and self._context is None:
            self._context = await asyncio.to_thread(ssl.create_default_context)
        return self._context or True

    async def read(self) -> bytes:
        """Read the URL; raises NoManifests."""
        try:
            async with (
                aiohttp.TCPConnector(ssl=await self._tls()) as connector,
                aiohttp.ClientSession(connector=connector, timeout=self._timeout, trust_env=True) as session,
                session.get(self._url, headers=self._headers) as response,
            ):
                if response.status != HTTPStatus.OK:
                    raise ManifestsUnreadable(f"{response.status} {response.reason or ''}".strip())
                found = bytearray()
                async for chunk in response.content.iter_any():
                    found += chunk
                    if len(found) > self._most:
                        raise ManifestsUnreadable(f"the answer has more than {self._most} bytes")
                return bytes(found)
        except TimeoutError:
            raise ManifestsUnreadable(f"no answer within {self._timeout.total:g} s") from None
        except aiohttp.ClientResponseError as error:
            raise ManifestsUnreadable(f"{error.status} {error.message}") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ManifestsUnreadable(type(error).__name__) from error  # the message may repeat the URL
