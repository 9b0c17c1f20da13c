"""What an edit under the same uid does to a running pod: applied in place, pod replaced, or nothing.

Used when a source lists the pod with another JSON, and by `tempolet history`. Three tables list the fields that may
change during a pod's life, each with a rule (pkg/apis/core/validation ValidatePodUpdate). Any other edit needs another
pod. The API server rejects such edits; here the pod is replaced, because an edit of a manifest is meant to take
effect. A pod that terminates or has finished is not edited (pkg/kubelet/pod_workers.go UpdatePod).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from proto.dra.pod_claims import STATUS_FIELDS
from proto.kubernetes.source_annotations import SEEN_ANNOTATION
from proto.temporal.pod import Lifecycle, Observed, PodJson
from workflows.decide.manifest.defaults.defaults import pull_policy_of
from workflows.decide.manifest.validation.resize import validate_resize
from workflows.decide.record.listing import lasting
from workflows.decide.resources.resources import format_resources, resources_by_name

Fields = Mapping[str, Any]
Rule = Callable[[Fields, Fields], bool]
"""Reports whether a field may change in place, given its parent (metadata, spec or a container) before and after."""
UNSET: Final[tuple[Any, ...]] = (None, "", [], {})
"""The values that the API treats as absent."""


class Outcome(StrEnum):
    """What an edit does to a pod."""

    NOTHING = "nothing"
    IN_PLACE = "in place"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Change:
    """One field that an edit changes."""

    words: str
    """`image of web from busybox:1 to busybox:2`; only the field's name where the value is not a short text."""
    in_place: bool


def any_change(_: Fields, __: Fields) -> bool:
    """Allow any change."""
    return True


def sets_or_shortens_deadline(old: Fields, new: Fields) -> bool:
    """Allow a deadline where there was none, and an earlier one."""
    before, after = old.get("activeDeadlineSeconds"), new.get("activeDeadlineSeconds")
    return after is not None and (before is None or after < before)


def replaces_negative_grace(old: Fields, new: Fields) -> bool:
    """Allow one second in place of a negative grace period, which counts as one second anyway."""
    before = old.get("terminationGracePeriodSeconds")
    return before is not None and before < 0 and new.get("terminationGracePeriodSeconds") == 1


def keeps_tolerations(old: Fields, new: Fields) -> bool:
    """Allow more tolerations, and another tolerationSeconds of those that are there."""
    kept = [_untimed(one) for one in new.get("tolerations") or ()]
    return all(_untimed(one) in kept for one in old.get("tolerations") or ())


def _untimed(toleration: Fields) -> PodJson:
    return {name: value for name, value in toleration.items() if name != "tolerationSeconds" and value not in UNSET}


def follows_image(old: Fields, new: Fields) -> bool:
    """Allow the pull policy that the new image implies, such as Always for the tag latest."""
    return all(one.get("imagePullPolicy") == pull_policy_of(one.get("image", "")) for one in (old, new))


METADATA: Final[Mapping[str, Rule]] = {
    "labels": any_change,
    "annotations": any_change,
    "generation": any_change,
}
SPEC: Final[Mapping[str, Rule]] = {
    "activeDeadlineSeconds": sets_or_shortens_deadline,
    "terminationGracePeriodSeconds": replaces_negative_grace,
    "tolerations": keeps_tolerations,
}
CONTAINER: Final[Mapping[str, Rule]] = {
    "image": any_change,
    "imagePullPolicy": follows_image,
}
STATUS: Final[Mapping[str, Rule]] = dict.fromkeys(STATUS_FIELDS, any_change)
"""What a source lists of a status: the names of the pod's ResourceClaims, which others write."""
CONTAINERS: Final = ("initContainers", "containers")
EPHEMERAL: Final = "ephemeralContainers"
RESOURCES: Final = "resources"
NO_NEWS: Final = ("generation",)
"""Applied with other changes, but no change by itself (pkg/kubelet/config/config.go podsDifferSemantically)."""


def changes(old: PodJson, new: PodJson, *, pod_level: bool = False) -> list[Change]:
    """List every field that an edit changes, and whether it may change in place.

    `pod_level`: the pod's own resources may, too. They may not in a listing of releases that could not resize them.
    """
    before, after = lasting(old), lasting(new)
    found = [*changed_fields(before["metadata"], after["metadata"], METADATA)]
    before_spec, after_spec = before["spec"], after["spec"]
    judged_as_a_resize = (RESOURCES,) if pod_level else ()
    found += changed_fields(before_spec, after_spec, SPEC, but=(*CONTAINERS, EPHEMERAL, *judged_as_a_resize))
    for kind in CONTAINERS:
        found += changed_containers(before_spec.get(kind) or (), after_spec.get(kind) or (), kind)
    found += resized(old, new, pod_level=pod_level)
    found += changed_fields(before.get("status") or {}, after.get("status") or {}, STATUS)
    found += (
        Change(f"ephemeral container {one['name']} added", in_place=True) for one in added(before_spec, after_spec)
    )
    return found


def added(old: Fields, new: Fields) -> list[PodJson]:
    """List the new ephemeral containers of a spec; existing ones are never changed or removed.

    So those that an operator added stay, although the source does not list them (validation.go
    ValidatePodEphemeralContainersUpdate).
    """
    names = {one["name"] for one in old.get(EPHEMERAL) or ()}
    return [one for one in new.get(EPHEMERAL) or () if one["name"] not in names]


def changed_fields(
    old: Fields, new: Fields, rules: Mapping[str, Rule], *, but: Sequence[str] = (), of: str = ""
) -> Iterator[Change]:
    """List the fields that differ, in the order of the table, then the others."""
    for name in dict.fromkeys((*rules, *old, *new)):
        before, after = old.get(name), new.get(name)
        if name in (*but, *NO_NEWS) or before == after or (before in UNSET and after in UNSET):
            continue
        rule = rules.get(name)
        yield Change(f"{name}{of}{describe_change(before, after)}", in_place=rule is not None and rule(old, new))


def changed_containers(old: Sequence[Fields], new: Sequence[Fields], kind: str) -> Iterator[Change]:
    """List what differs in containers; none may be added, removed or moved."""
    if [one["name"] for one in old] != [one["name"] for one in new]:
        yield Change(f"the names or order of {kind}", in_place=False)
        return
    for before, after in zip(old, new, strict=True):
        yield from changed_fields(before, after, CONTAINER, but=(RESOURCES,), of=f" of {after['name']}")


def names_of(pod: PodJson) -> list[list[str]]:
    """Name the containers of each kind."""
    return [[one["name"] for one in pod["spec"].get(kind) or ()] for kind in CONTAINERS]


def resized(old: PodJson, new: PodJson, *, pod_level: bool = False) -> Iterator[Change]:
    """List the containers, and the pod, whose resources change; a resize that breaks a rule needs another pod, and says why."""
    own = [one["spec"].get(RESOURCES) or {} for one in (old, new)]
    resizes_pod = pod_level and own[0] != own[1]
    if names_of(old) != names_of(new):
        if resizes_pod:
            yield Change(f"{RESOURCES} {_amounts(*own)}", in_place=False)
        return
    before, after = resources_by_name(old), resources_by_name(new)
    found = [f"{RESOURCES} {_amounts(*own)}"] if resizes_pod else []
    found += [
        f"{RESOURCES} of {name} {_amounts(before[name], after[name])}" for name in after if before[name] != after[name]
    ]
    if not found:
        return
    faults = validate_resize(new, old)
    why = f" ({'; '.join(faults)})" if faults else ""
    for words in found:
        yield Change(words + why, in_place=not faults)
        why = ""


def _amounts(old: Fields, new: Fields) -> str:
    return f"from {format_resources(old)} to {format_resources(new)}"


def describe_change(before: Any, after: Any) -> str:
    """Describe how a value changes; for maps of texts by keys, for other lists and objects not at all."""
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
    """List the values of two mappings."""
    return [*(before or {}).values(), *(after or {}).values()]


def differing(old: Fields, new: Fields) -> list[str]:
    """List the keys whose values differ."""
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def needs_another_pod(found: Sequence[Change]) -> str:
    """Describe the changes that cannot be made in place; empty if all can."""
    return ", ".join(one.words for one in found if not one.in_place)


def judge(observed: Observed, old: PodJson, new: PodJson, *, pod_level: bool = False) -> Outcome:
    """Return what becomes of a pod that its source lists with another JSON."""
    found = changes(old, new, pod_level=pod_level)
    if not found:
        return Outcome.NOTHING
    if needs_another_pod(found):
        return Outcome.REPLACED
    takes_none = observed.lifecycle is not Lifecycle.SYNC or observed.deletion is not None
    return Outcome.NOTHING if takes_none else Outcome.IN_PLACE


def taken_over(old: PodJson, new: PodJson) -> PodJson:
    """Return the pod after an edit in place, with the time it was first seen (pkg/kubelet/config/config.go)."""
    metadata = new["metadata"]
    annotations = dict(metadata.get("annotations") or {})
    if seen := (old["metadata"].get("annotations") or {}).get(SEEN_ANNOTATION):
        annotations[SEEN_ANNOTATION] = seen
    spec = new["spec"]
    if looking_in := [*(old["spec"].get(EPHEMERAL) or ()), *added(old["spec"], spec)]:
        spec = {**spec, EPHEMERAL: looking_in}
    return {**new, "metadata": {**metadata, "annotations": annotations}, "spec": spec}
