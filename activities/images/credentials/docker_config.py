"""Docker configuration files: which login belongs to which registry, in every common form.

Read from pull secrets, the node's own files and credential providers. The rules are the kubelet's
(pkg/credentialprovider/config.go). In addition, identity and registry tokens are supported, which the CRI has fields
for. Error messages quote nothing of the content.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from typing import Any, Final

from activities.clients.registry_login import Login

MOST_VALUES: Final = 10_000
"""Commas and brackets. A Secret has at most 1 MiB, which could hold forty times as many; to read those takes too long."""
_FIELDS: Final = ("username", "password", "email", "auth", "identitytoken", "registrytoken")


class NotADockerConfig(ValueError):
    """The text is no docker configuration; the message quotes nothing of it."""


DockerConfig = Mapping[str, Login]
"""Location (a registry, perhaps with a path; its host may contain `*`) -> login."""


def docker_config_json(data: bytes) -> DockerConfig:
    """Read the newer form, `{"auths": {…}}`; raises NotADockerConfig."""
    return _logins(_object(data).get("auths"))


def dockercfg(data: bytes) -> DockerConfig:
    """Read the older form, only the logins; raises NotADockerConfig."""
    return _logins(_object(data))


def has_too_much(data: bytes) -> bool:
    """Report whether JSON has more than MOST_VALUES: reading it holds the event loop, also from a thread."""
    return sum(data.count(sign) for sign in (b",", b"{", b"[")) > MOST_VALUES


def _object(data: bytes) -> dict[str, Any]:
    if has_too_much(data):
        raise NotADockerConfig(f"it has more than {MOST_VALUES} values")
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise NotADockerConfig("it is not JSON") from None  # the error quotes what it could not read
    if not isinstance(content, dict):
        raise NotADockerConfig("it is not a JSON object")
    return content


def _logins(entries: Any) -> DockerConfig:
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise NotADockerConfig("its auths are not a JSON object")
    return {location: _login(entry) for location, entry in entries.items()}


def _login(entry: Any) -> Login:
    if not isinstance(entry, dict | None):
        raise NotADockerConfig("an entry is not a JSON object")
    fields = {name.lower(): value for name, value in (entry or {}).items() if value is not None}  # as Go reads keys
    if not all(isinstance(fields.get(name, ""), str) for name in _FIELDS):
        raise NotADockerConfig("an entry's field is not text")
    username, password = fields.get("username", ""), fields.get("password", "")
    if auth := fields.get("auth"):
        username, password = _decoded(auth)
    identity_token = fields.get("identitytoken", "")
    if identity_token:
        username = password = ""  # the token replaces them, as in docker
    return Login(
        username=username,
        password=password,
        email=fields.get("email", ""),
        identity_token=identity_token,
        registry_token=fields.get("registrytoken", ""),
    )


def _decoded(auth: str) -> tuple[str, str]:
    """Decode base64 of `user:password`, padded or not."""
    plain = auth.replace("\n", "").replace("\r", "")
    if not plain.strip().endswith("="):
        plain += "=" * (-len(plain) % 4)
    try:
        username, colon, password = base64.b64decode(plain, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        raise NotADockerConfig("an entry's auth is not base64") from None
    if not colon:
        raise NotADockerConfig("unable to parse auth field, must be formatted as base64(username:password)")
    return username, password
