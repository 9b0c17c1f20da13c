"""Which images to ask for now.

All that the pod's next containers need, side by side with the sandbox. A container in backoff asks when it is due, not
before; with policy Always every start asks again (pkg/kubelet/images/image_manager.go).
"""

from collections.abc import Iterator

from proto.temporal.requests import PullImage
from workflows.decide.actions import Action, Wake, key
from workflows.decide.containers import init_failed, is_due
from workflows.decide.situation import Situation, image_asked


def pull_images(situation: Situation) -> Iterator[Action | Wake]:
    """Ask for every image that a container which may start now still lacks."""
    if init_failed(situation):
        return
    asked: set[str] = set()
    for container in (*situation.init_containers, *situation.containers):
        if not is_due(situation, container):
            continue
        action = PullImage(situation.key, *image_asked(container))
        image = situation.image(container)
        if image.pulled or key(action) in asked or key(action) in situation.busy:
            continue
        asked.add(key(action))
        if image.failed_at and image.backoff and (at := image.failed_at + image.backoff) > situation.now:
            yield Wake(at, f"{image.reason}: pull {container.image} again at {at:%H:%M:%S}")
        else:
            yield action
