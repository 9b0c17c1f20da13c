"""One pull from a registry: tries each login in turn, writes the intent before and the record after.

Shared by all pods that wait for the same image (`image_pulls`). If the outcome in the runtime is unknown, the intent stays.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from activities.clients.cri_error import CriError, Remedy
from activities.clients.runtime import RuntimeClient
from activities.images.access.rights import PullRights
from activities.images.credentials.keyring import Credential


def is_runtime_unavailable(error: CriError) -> bool:
    """Report whether the runtime did not answer; a runtime passes a registry's 503 on with the same code."""
    return error.remedy is Remedy.RETRY and not error.details.startswith("failed to pull")


class IntentNotWritten(Exception):
    """The pull could not start, because its intent must be on disk first."""


@dataclass(frozen=True, slots=True)
class RegistryPull:
    """A pull of an image, whose tag is written out."""

    runtime: RuntimeClient
    rights: PullRights | None
    image: str
    credentials: Sequence[Credential]

    async def run(self) -> str:
        """Pull; returns the image's reference. Raises CriError, and IntentNotWritten before anything has started."""
        if (rights := self.rights) is None:
            return (await self._pull())[0]
        try:
            await rights.ready(self.runtime.image_id)
            await rights.intend(self.image)
        except OSError as error:
            why = f'Failed to record image pull intent for container image "{self.image}": {error}'
            raise IntentNotWritten(why) from error
        try:
            image_ref, used = await self._pull()
        except CriError as error:
            if is_runtime_unavailable(error) or error.remedy is Remedy.TIMED_OUT:
                rights.unknown(self.image)
            else:
                await rights.pull_failed(self.image)
            raise
        except BaseException:  # cancelled: the runtime may still finish it
            rights.unknown(self.image)
            raise
        rights.pulled(self.image, image_ref, used)
        return image_ref

    async def _pull(self) -> tuple[str, Credential | None]:
        """Try each login; returns the one that worked. Without logins, pull anonymously."""
        failures = []
        if not self.credentials:
            return await self.runtime.pull_image(self.image), None
        for one in self.credentials:
            try:
                return await self.runtime.pull_image(self.image, one.login), one
            except CriError as error:
                if is_runtime_unavailable(error):
                    raise  # another login would fail as well
                failures.append(error)
        raise CriError.joined(failures) from None
