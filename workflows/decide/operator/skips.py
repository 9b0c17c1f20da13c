"""Which back-offs an operator may skip, of a container or an image, and what that changes: the Update SkipBackoff.

A skip ends one wait. The back-off itself stays recorded, so the next delay is the same as without the skip.
"""

from collections.abc import Iterator

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.operator import SkipBackoff, SkippedBackoff
from proto.temporal.pod import Lifecycle
from workflows.decide.containers.backoff import starts_at
from workflows.decide.containers.init_containers import init_failed
from workflows.decide.containers.standing import Standing, next_attempt, standing
from workflows.decide.keys import container_key, image_key
from workflows.decide.manifest.fields.field_errors import shortened
from workflows.decide.refusal import Refusal
from workflows.decide.situation import Situation
from workflows.decide.steps.images import image_action_key, pulls_at


def waiting_backoffs(situation: Situation, name: str = "") -> list[SkippedBackoff]:
    """List the running back-offs of one container or of all; an image is listed with the first container that needs it."""
    if situation.observed.lifecycle is not Lifecycle.SYNC or situation.observed.deletion or init_failed(situation):
        return []
    found: dict[str, SkippedBackoff] = {}
    for container in situation.all_containers:
        if name in ("", container.name) and standing(situation, container) is Standing.WANTED:
            for one in backoffs_of(situation, container):
                found.setdefault(one.about, one)
    return list(found.values())


def backoffs_of(situation: Situation, container: V1Container) -> Iterator[SkippedBackoff]:
    """List what one container waits for: its own back-off and those of its images."""
    facts = situation.facts(container.name)
    if (at := starts_at(facts)) and at > situation.now:
        yield SkippedBackoff(
            container.name,
            "CrashLoopBackOff",
            at - situation.now,
            attempt=next_attempt(facts),
            about=container_key(container.name),
        )
    for asked in situation.images_missing(container):
        image = situation.image_of(asked)
        if (at := pulls_at(image)) and at > situation.now:
            about = image_action_key(situation, asked)
            yield SkippedBackoff(container.name, image.reason, at - situation.now, image=asked[0], about=about)


def why_not(situation: Situation, asked: SkipBackoff) -> Refusal | None:
    """Return why there is nothing to skip: NoSuchContainer or NoBackoff."""
    pod, observed = situation.key, situation.observed
    names = [one.name for one in situation.all_containers]
    if asked.container and asked.container not in names:
        known = ", ".join(names)
        return Refusal("NoSuchContainer", f"{pod} has no container {shortened(asked.container)!r}: it has {known}")
    if waiting_backoffs(situation, asked.container):
        return None
    who = f"container {asked.container} of {pod} waits" if asked.container else f"no container of {pod} waits"
    text = f"{who} in no back-off" if asked.container else f"{who} in a back-off"
    if observed.deletion:
        text += f": the pod is terminating ({observed.deletion.reason})"
    elif observed.lifecycle is not Lifecycle.SYNC:
        text += ": the pod has finished"
    elif others := waiting_backoffs(situation):
        text += f"; {', '.join(dict.fromkeys(one.container for one in others))} does"
    return Refusal("NoBackoff", f"{text} (`tempolet explain {pod}` says what it waits for)")


def skip(situation: Situation, asked: SkipBackoff) -> None:
    """Record that these waits are over."""
    observed = situation.observed
    by_name = {one.name: one for one in situation.all_containers}
    for one in waiting_backoffs(situation, asked.container):
        if one.image:
            for image in situation.images_needed(by_name[one.container]):
                if image_action_key(situation, image) == one.about:
                    observed.images[image_key(*image)].skipped_at = situation.now
        else:
            observed.containers[one.container].skipped_at = situation.now
