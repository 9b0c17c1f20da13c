"""The user of a request, as authentication determines it and authorization passes it on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

ANONYMOUS: Final = "system:anonymous"
_AUTHENTICATED: Final = "system:authenticated"
_UNAUTHENTICATED: Final = "system:unauthenticated"


@dataclass(frozen=True, slots=True)
class User:
    """A user of the cluster, with the fields of TokenReview and SubjectAccessReview."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def authenticated(self) -> "User":
        """Add the group system:authenticated (authentication/group authenticated_group_adder.go)."""
        if self.name == ANONYMOUS or {_AUTHENTICATED, _UNAUTHENTICATED} & set(self.groups):
            return self
        return User(self.name, self.uid, (*self.groups, _AUTHENTICATED), self.extra)


ANONYMOUS_USER: Final = User(ANONYMOUS, groups=(_UNAUTHENTICATED,))
