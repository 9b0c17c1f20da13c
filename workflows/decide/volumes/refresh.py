"""How a running pod's volumes follow the objects they show, and edits of the pod itself.

The poller signals new versions (`ObjectsChanged`). The files are rewritten by mounting those volumes again, which
changes all of them at once or none. Volumes stay mounted even if that fails, and a container that starts meanwhile
finds the old files (pkg/volume/configmap and others, RequiresRemount). As in the kubelet, a deleted object leaves its
files, an immutable one is not read again, and subPath mounts do not change.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Final

from proto.kubernetes.claims import claim_of
from proto.kubernetes.contents.variable_sources import variable_objects
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes
from proto.temporal.failure_types import CONFIG_ERROR, FAILED_MOUNT
from proto.temporal.mounted import IMMUTABLE, UNKNOWN, VolumesFacts
from proto.temporal.pod import Observed
from proto.temporal.signals import ObjectsChanged
from workflows.decide.actions import Action, Wake
from workflows.decide.contents import pod_digest, shown_objects, shows_its_pod
from workflows.decide.keys import VOLUMES_KEY, container_key
from workflows.decide.situation import RETRY_AFTER, Situation
from workflows.decide.slices import own_part, volumes_slice
from workflows.decide.versions import USED_VOLUMES_ONLY
from workflows.decide.volumes.mounts import are_mounted, known_names, to_refresh

LONGEST_RETRY: Final = timedelta(hours=1)
"""How rarely a refresh that keeps failing is retried without a new version: each try adds to the history."""


def objects_changed(situation: Situation, signal: ObjectsChanged) -> None:
    """Record the new versions of shown objects; a refresh that failed for one of them is retried at once."""
    observed = situation.observed
    facts = observed.volumes
    if facts is None or (situation.behaviour >= USED_VOLUMES_ONLY and not are_mounted(situation)):
        observed.failures = {key: one for key, one in observed.failures.items() if one.reason != FAILED_MOUNT}
    if facts is not None:
        for name, version in signal.versions.items():
            note_version(situation, facts, name, version)
    observed.failures = {key: one for key, one in observed.failures.items() if one.reason != CONFIG_ERROR}


def note_version(situation: Situation, facts: VolumesFacts, name: str, version: str) -> None:
    """Record an object's new version; a deletion counts only if the object is optional."""
    observed, shown = situation.observed, facts.objects.get(name)
    if (
        shown is None
        or shown.startswith(IMMUTABLE)
        or shown == version
        or (not version and not is_optional(situation, name))
    ):
        observed.objects_changed.pop(name, None)
    elif observed.objects_changed.get(name) != version:
        observed.objects_changed[name] = version
        observed.failures.pop(VOLUMES_KEY, None)


def is_optional(situation: Situation, name: str) -> bool:
    """Report whether every volume that shows an object marks it as optional."""
    volumes = to_refresh(situation)["spec"].get("volumes") or ()
    found = [optional for volume in volumes for one, optional in shown_objects(volume) if one == name]
    return all(found)


def refresh_volumes(situation: Situation) -> Iterator[Action | Wake]:
    """Mount again the volumes whose objects or pod fields have changed."""
    wanted = refreshing(situation)
    if wanted is None or situation.is_busy(VOLUMES_KEY):
        return
    failure = situation.observed.failures.get(VOLUMES_KEY)
    if failure is None:
        yield wanted
        return
    at = failure.at + min(RETRY_AFTER * 2 ** min(failure.tries - 1, 12), LONGEST_RETRY)
    if at <= situation.now:
        yield wanted
    else:
        yield Wake(at, f"{failure.reason}: refresh {VOLUMES_KEY} again at {at:%H:%M:%S}", VOLUMES_KEY)


def refreshing(situation: Situation) -> MountVolumes | None:
    """Return the request that refreshes the volumes that need it; None if none does."""
    observed, facts = situation.observed, situation.observed.volumes
    if facts is None:
        return None
    shown = to_refresh(situation)
    digest = pod_digest(shown)
    edited = facts.told != digest
    if not observed.objects_changed and not edited:
        return None
    volumes = tuple(
        volume
        for volume in shown["spec"].get("volumes") or ()
        if any(name in observed.objects_changed for name, _ in shown_objects(volume))
        or (edited and shows_its_pod(volume))
    )
    return MountVolumes(
        situation.key,
        volumes,
        volumes_slice(shown, labels=situation.settings.selinux),
        facts.sandbox_attempt,
        refresh=dict(observed.objects_changed),
        told=digest,
    )


def refreshed(observed: Observed, action: MountVolumes, answer: MountedVolumes) -> None:
    """Record what the volumes show now; a hint that came meanwhile stays."""
    facts = observed.volumes
    if facts is None:
        return
    observed.volumes = replace(facts, objects=facts.objects | answer.objects, told=action.told)
    drop_applied_hints(observed, action.refresh or {})


def drop_applied_hints(observed: Observed, hints: Mapping[str, str]) -> None:
    """Drop the hints that the volumes now show."""
    observed.objects_changed = {
        name: version for name, version in observed.objects_changed.items() if hints.get(name) != version
    }


def watched_objects(situation: Situation) -> dict[str, str]:
    """Name the objects to watch for changes, each with the version that the volumes show; not of a volume that no container uses."""
    facts, volumes = situation.observed.volumes, to_refresh(situation)["spec"].get("volumes") or ()
    wanted = {name: UNKNOWN for volume in volumes for name, _ in shown_objects(volume)}
    known = known_names(situation)  # their claims are resolved, and not watched after that
    claims = (claim_of(situation.key.name, one) for one in volumes if one["name"] not in known)
    wanted |= {f"persistentvolumeclaims/{name}": UNKNOWN for name in claims if name}
    failures = situation.observed.failures
    for one in situation.all_containers:
        failure = failures.get(container_key(one.name))
        if failure and failure.reason == CONFIG_ERROR:
            objects = variable_objects(own_part(situation.source, one.name))
            wanted |= {f"{plural}/{name}": UNKNOWN for plural, name in objects}
    return wanted | (facts.objects if facts else {})
