"""Who Temporal runs as, and what of the gateway's environment it gets.

The gateway is told by two variables and not by arguments: a unit that an earlier release has written does not set them, and has Temporal
run as root, where it did; and the gateway of an earlier release, started by a unit of this one, does the same.
"""

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from worker.standalone.gateway.database_folder import ROOT, Owner, give_to

USER: Final = "TEMPOLET_TEMPORAL_USER"
STATE: Final = "TEMPOLET_TEMPORAL_STATE"
KEPT_BACK: Final = ("TEMPOLET_", "OTEL_", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
"""Beginnings of variables that may hold credentials, and are of no use in a network without a way out."""


class UserGone(OSError):
    """The user that Temporal ran as is not there any more."""


@dataclass(frozen=True, slots=True)
class ServerAccount:
    """One account of the machine, and the state folder whose database it gets."""

    owner: Owner = ROOT
    state_dir: Path | None = None
    """None: the database is where an earlier release had it."""

    @classmethod
    def told_by(cls, environment: Mapping[str, str]) -> Self:
        """Find the account that the environment names; raises UserGone."""
        name, state_dir = environment.get(USER), environment.get(STATE)
        if not name or not state_dir:
            return cls()
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            raise UserGone(f"user {name} is not there any more: `tempolet up` makes it again") from None
        return cls(Owner(found.pw_uid, found.pw_gid), Path(state_dir))

    def prepare(self) -> None:
        """Give the database to the account; raises OSError."""
        if self.state_dir is not None:
            give_to(self.owner, self.state_dir)

    def process_options(self) -> dict[str, Any]:
        """Return the options of `Popen` by which a process is this account's, without a group of root's."""
        if self.owner == ROOT:
            return {}
        return {"user": self.owner.uid, "group": self.owner.gid, "extra_groups": []}


def server_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what Temporal gets of the gateway's environment: no credential, and no home, which is another user's."""
    kept = {name: value for name, value in environment.items() if not name.upper().startswith(KEPT_BACK)}
    return kept | {"HOME": os.sep}
