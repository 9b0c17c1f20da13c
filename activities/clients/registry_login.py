"""The login for a registry, sent with a pull."""

import base64
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote

from proto.cri.v1 import api_pb2 as cri

_GO_ESCAPES: Final = str.maketrans(
    {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}
)
"""What Go's JSON encoder escapes and Python's does not: a credential's hash must equal the kubelet's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """The login for a registry; never logged."""

    username: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    email: str = field(default="", repr=False)
    identity_token: str = field(default="", repr=False)
    registry_token: str = field(default="", repr=False)

    def auth_config(self) -> cri.AuthConfig:
        """Convert it for the runtime."""
        return cri.AuthConfig(
            username=self.username,
            password=self.password,
            identity_token=self.identity_token,
            registry_token=self.registry_token,
        )

    def digest(self) -> str:
        """Hash it as the kubelet does (keyring.go hashAuthConfig), for image pull records."""
        fields = {
            "username": self.username,
            "password": self.password,
            "email": self.email,
            "identitytoken": self.identity_token,
            "registrytoken": self.registry_token,
        }
        present = {name: value for name, value in fields.items() if value}
        written = json.dumps(present, ensure_ascii=False, separators=(",", ":")).translate(_GO_ESCAPES)
        return hashlib.sha256(written.encode()).hexdigest()

    def secrets(self) -> Iterator[str]:
        """Yield every form in which a secret could be quoted, the longest first."""
        plain = [one for one in (self.password, self.identity_token, self.registry_token) if one]
        pairs = [f"{name}:{one}" for name in {self.username, ""} for one in plain]
        encoded = (base64.b64encode(one.encode()).decode() for one in (*pairs, *plain))
        forms = {*plain, *encoded, *(quote(one, safe="") for one in plain), *(repr(one)[1:-1] for one in plain)}
        yield from sorted(forms, key=len, reverse=True)
