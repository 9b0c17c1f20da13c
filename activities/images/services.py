"""The services that images use."""

from collections.abc import Callable
from typing import Protocol

from activities.clients.runtime import RuntimeClient
from activities.execution.timings import Timings
from activities.images.access.logins import ImageLogins
from activities.images.access.rights import PullRights
from activities.images.image_ages import ImageAges
from activities.images.image_pulls import ImagePulls
from activities.objects.objects import ObjectSource
from activities.objects.tokens import TokenSource
from activities.settings.activity_settings import ActivitySettings
from proto.image_collection import CollectionStep
from proto.temporal.activities.requests import PullImage


class ImageServices(Protocol):
    """The services that images use."""

    @property
    def settings(self) -> ActivitySettings: ...

    @property
    def runtime(self) -> RuntimeClient: ...

    @property
    def objects(self) -> ObjectSource: ...

    @property
    def tokens(self) -> TokenSource: ...

    @property
    def logins(self) -> ImageLogins: ...

    @property
    def pull_rights(self) -> PullRights | None: ...

    @property
    def image_ages(self) -> ImageAges: ...

    @property
    def pulls(self) -> ImagePulls: ...

    @property
    def timings(self) -> Timings: ...

    @property
    def collection_step(self) -> Callable[[CollectionStep], None]: ...

    @property
    def pull_started(self) -> Callable[[PullImage], None]: ...
