"""Docker configuration: which login belongs to which registry, in each form that people keep it in.

Read from pull secrets, from the node's own files and from what credential providers answer. The rules are the kubelet's
(pkg/credentialprovider/config.go); beyond it, an entry's identity or registry token is taken, too, which the CRI has
fields for. Whatever is wrong is told without a word of what stands there.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

from proto.cri.v1 import api_pb2 as cri

_FIELDS: Final = ("username", "password", "email", "auth", "identitytoken", "registrytoken")
_GO_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""What Go's encoder escapes and Python's does not: a credential's hash must be the one that the kubelet writes."""


class NotADockerConfig(ValueError):
    """The text is no docker configuration; its message holds nothing of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """What a registry is told; none of it is ever shown."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    email: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    def auth_config(self) -> cri.AuthConfig:
        """Write it for the runtime."""
        return cri.AuthConfig(
            username=self.username,
            password=self.password,
            identity_token=self.identity_token,
            registry_token=self.registry_token,
        )

    def digest(self) -> str:
        """Hash it as the kubelet does (keyring.go hashAuthConfig), for its records."""
        fields = {
            "username": self.username,
            "password": self.password,
            "email": self.email,
            "identitytoken": self.identity_token,
            "registrytoken": self.registry_token,
        }
        said = {name: value for name, value in fields.items() if value}
        written = json.dumps(said, ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)
        return hashlib.sha256(written.encode()).hexdigest()

    def secrets(self) -> Iterator[str]:
        """Give every form in which somebody could quote what must not be told, the longest first."""
        plain = [one for one in (self.password, self.identity_token, self.registry_token) if one]
        pairs = [f"{name}:{one}" for name in {self.username, ""} for one in plain]
        encoded = (base64.b64encode(one.encode()).decode() for one in (*pairs, *plain))
        forms = {*plain, *encoded, *(quote(one, safe="") for one in plain), *(repr(one)[1:-1] for one in plain)}
        yield from sorted(forms, key=len, reverse=True)


DockerConfig = Mapping[str, Login]
"""Location (a registry, perhaps with a path; its host may hold `*`) -> login."""


def docker_config_json(data: bytes) -> DockerConfig:
    """Read the newer form, `{"auths": {…}}`; raises NotADockerConfig."""
    return _logins(_object(data).get("auths"))


def dockercfg(data: bytes) -> DockerConfig:
    """Read the older form, the logins alone; raises NotADockerConfig."""
    return _logins(_object(data))


def _object(data: bytes) -> dict[str, Any]:
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        raise NotADockerConfig("it is not JSON") from None  # the error quotes what it could not read
    if not isinstance(content, dict):
        raise NotADockerConfig("it is no JSON object")
    return content


def _logins(entries: Any) -> DockerConfig:
    if entries is None:
        return {}
    if not isinstance(entries, dict):
        raise NotADockerConfig("its auths are no JSON object")
    return {location: _login(entry) for location, entry in entries.items()}


def _login(entry: Any) -> Login:
    if not isinstance(entry, dict | None):
        raise NotADockerConfig("an entry is no JSON object")
    said = {name.lower(): value for name, value in (entry or {}).items() if value is not None}  # as Go reads keys
    if not all(isinstance(said.get(name, ""), str) for name in _FIELDS):
        raise NotADockerConfig("an entry's field is no text")
    username, password = said.get("username", ""), said.get("password", "")
    if auth := said.get("auth"):
        username, password = _decoded(auth)
    identity_token = said.get("identitytoken", "")
    if identity_token:
        username = password = ""  # the token stands in their place, as docker itself does it
    return Login(
        username=username,
        password=password,
        email=said.get("email", ""),
        identity_token=identity_token,
        registry_token=said.get("registrytoken", ""),
    )


def _decoded(auth: str) -> tuple[str, str]:
    """Read base64 of `user:password`, padded or not."""
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
