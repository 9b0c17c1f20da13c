"""What an edit under the same uid does to a pod that is there: taken over in place, the pod replaced, or nothing.

Asked by `hints` when a source lists the pod with another JSON, and by the story of `tempolet history` for its words. What
may change during a pod's life stands in three tables, one line a field with the rule that its change must meet
(pkg/apis/core/validation ValidatePodUpdate); everything else needs another pod. Beyond the API server, which refuses such
an edit, the pod is replaced then: who edits a manifest wants what it says now. One that goes or has finished takes over
nothing (pkg/kubelet/pod_workers.go UpdatePod).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from proto.kubernetes.source_annotations import SEEN_ANNOTATION
from proto.temporal.pod import Lifecycle, Observed, PodJson
from workflows.decide.manifest.defaults.defaults import pull_policy_of
from workflows.decide.manifest.validation.resize import validate_resize
from workflows.decide.record.listing import lasting
from workflows.decide.resources.resources import format_resources, resources_by_name

Fields = Mapping[str, Any]
Rule = Callable[[Fields, Fields], bool]
"""Whether a field may change in place, from what holds it (metadata, spec or a container) before and after."""
UNSET: Final[tuple[Any, ...]] = (None, "", [], {})
"""What the API takes for a field that is not there."""


class Outcome(StrEnum):
    """What becomes of an edit."""

    NOTHING = "nothing"
    IN_PLACE = "in place"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Change:
    """One field that an edit changes."""

    words: str
    """`image of web from busybox:1 to busybox:2`; of what is no short text only its name."""
    in_place: bool


def whatever(_: Fields, __: Fields) -> bool:
    """Allow any change."""
    return True


def sets_or_shortens_deadline(old: Fields, new: Fields) -> bool:
    """Allow a deadline where there was none, and an earlier one."""
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    return after is not None and (before is None or after < before)


def replaces_negative_grace(old: Fields, new: Fields) -> bool:
    """Allow a second instead of a negative grace, which counts as one anyway."""
    before = old.get("terminationGracePeriodSeconds")
    return before is not None and before < 0 and new.get("terminationGracePeriodSeconds") == 1


def keeps_tolerations(old: Fields, new: Fields) -> bool:
    """Allow further tolerations, and another tolerationSeconds of those that are there."""
    kept = [_untimed(one) for one in new.get("tolerations") or ()]
    return all(_untimed(one) in kept for one in old.get("tolerations") or ())


def _untimed(toleration: Fields) -> PodJson:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds" and value not in UNSET}


def follows_image(old: Fields, new: Fields) -> bool:
    """Allow the pull policy that a manifest without one gets with its new image, as by the tag latest."""
    return all(one.get("imagePullPolicy") == pull_policy_of(one.get("image", "")) for one in (old, new))


METADATA: Final[Mapping[str, Rule]] = {
    "labels": whatever,
    "annotations": whatever,
    "generation": whatever,
}
SPEC: Final[Mapping[str, Rule]] = {
    "activeDeadlineSeconds": sets_or_shortens_deadline,
    "terminationGracePeriodSeconds": replaces_negative_grace,
    "tolerations": keeps_tolerations,
}
CONTAINER: Final[Mapping[str, Rule]] = {
    "image": whatever,
    "imagePullPolicy": follows_image,
}
CONTAINERS: Final = ("initContainers", "containers")
EPHEMERAL: Final = "ephemeralContainers"
RESOURCES: Final = "resources"
NO_NEWS: Final = ("generation",)
"""What is taken over with other changes and is none of its own (pkg/kubelet/config/config.go podsDifferSemantically)."""


def changes(old: PodJson, new: PodJson) -> list[Change]:
    """Name every field that an edit changes, and whether that can be done in place; what a reading alone changes is none."""
    before, after = lasting(old), lasting(new)
    found = [*changed_fields(before["metadata"], after["metadata"], METADATA)]
    before_spec, after_spec = before["spec"], after["spec"]
    found += changed_fields(before_spec, after_spec, SPEC, but=(*CONTAINERS, EPHEMERAL))
    for kind in CONTAINERS:
        found += changed_containers(before_spec.get(kind) or (), after_spec.get(kind) or (), kind)
    found += resized(old, new)
    found += (
        Change(f"ephemeral container {one['name']} added", in_place=True) for one in added(before_spec, after_spec)
    )
    return found


def added(old: Fields, new: Fields) -> list[PodJson]:
    """List the ephemeral containers that are new in a spec; those that were there are never changed or removed.

    So an operator's stay, of which the source knows nothing (validation.go ValidatePodEphemeralContainersUpdate).
    """
    names = {one["name"] for one in old.get(EPHEMERAL) or ()}
    return [one for one in new.get(EPHEMERAL) or () if one["name"] not in names]


def changed_fields(
    old: Fields, new: Fields, rules: Mapping[str, Rule], *, but: Sequence[str] = (), of: str = ""
) -> Iterator[Change]:
    """Name the fields that differ, in the order of the table, and then the others."""
    for name in dict.fromkeys((*rules, *old, *new)):
        before, after = old.get(name), new.get(name)
        if name in (*but, *NO_NEWS) or before == after or (before in UNSET and after in UNSET):
            continue
        rule = rules.get(name)
        yield Change(f"{name}{of}{describe_change(before, after)}", in_place=rule is not None and rule(old, new))


def changed_containers(old: Sequence[Fields], new: Sequence[Fields], kind: str) -> Iterator[Change]:
    """Name what differs of containers; none may come, go, or change its place."""
    if [one["name"] for one in old] != [one["name"] for one in new]:
        yield Change(f"the names or order of {kind}", in_place=False)
        return
    for before, after in zip(old, new, strict=True):
        yield from changed_fields(before, after, CONTAINER, but=(RESOURCES,), of=f" of {after['name']}")


def names_of(pod: PodJson) -> list[list[str]]:
    """Name the containers, kind by kind."""
    return [[one["name"] for one in pod["spec"].get(kind) or ()] for kind in CONTAINERS]


def resized(old: PodJson, new: PodJson) -> Iterator[Change]:
    """Name the containers whose resources change; a resize that breaks a rule is none, and its faults stand with the first."""
    if names_of(old) != names_of(new):
        return
    before, after = resources_by_name(old), resources_by_name(new)
    names = [name for name in after if before[name] != after[name]]
    if not names:
        return
    faults = validate_resize(new, old)
    why = f" ({'; '.join(faults)})" if faults else ""
    for name in names:
        words = f"{RESOURCES} of {name} from {format_resources(before[name])} to {format_resources(after[name])}{why}"
        yield Change(words, in_place=not faults)
        why = ""


def describe_change(before: Any, after: Any) -> str:
    """Say how a value changes; what a list or an object holds is not told, of a mapping of texts the names are."""
    match before, after:
        case (str() | int(), str() | int()):
            return f" from {before} to {after}"
        case (None, str() | int()):
            return f" set to {after}"
        case (str() | int(), None):
            return f" {before} removed"
        case (dict() | None, dict() | None) if all(isinstance(one, str) for one in values(before, after)):
            return f" {', '.join(differing(before or {}, after or {}))}"
        case _:
            return ""


def values(before: Fields | None, after: Fields | None) -> list[Any]:
    """List what two mappings hold."""
    return [*(before or {}).values(), *(after or {}).values()]


def differing(old: Fields, new: Fields) -> list[str]:
    """Name the keys whose values differ."""
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def needs_another_pod(found: Sequence[Change]) -> str:
    """Name what can't be changed in place; empty when all can."""
    return ", ".join(one.words for one in found if not one.in_place)


def judge(observed: Observed, old: PodJson, new: PodJson) -> Outcome:
    """Say what becomes of a pod that its source lists otherwise now."""
    found = changes(old, new)
    if not found:
        return Outcome.NOTHING
    if needs_another_pod(found):
        return Outcome.REPLACED
    takes_none = observed.lifecycle is not Lifecycle.SYNC or observed.deletion is not None
    return Outcome.NOTHING if takes_none else Outcome.IN_PLACE


def taken_over(old: PodJson, new: PodJson) -> PodJson:
    """Write the pod as it is after an edit in place: as listed now, seen first when it was (pkg/kubelet/config/config.go)."""
    metadata = new["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    if seen := (old["metadata"].get("annotations") or {}).get(SEEN_ANNOTATION):
        annotations[SEEN_ANNOTATION] = seen
    spec = new["spec"]
    if looking_in := [*(old["spec"].get(EPHEMERAL) or ()), *added(old["spec"], spec)]:
        spec = {**spec, EPHEMERAL: looking_in}
    return {**new, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
