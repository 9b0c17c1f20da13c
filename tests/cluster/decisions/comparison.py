"""Whether tempolet decides a case as the kubelet does.

A comparison yields each difference in words; a case without one is alike. Where the kubelet picks one of several met
thresholds at random, its answer has to be ours for one of those that it may pick. The next step then goes on from what it did.
"""

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from typing import Any, Final

from proto.temporal.eviction.pressure import Pressure
from proto.temporal.eviction.thresholds import Amount, Disks, EvictionPolicy
from proto.temporal.pod_inputs import Rejected
from tests.cluster.decisions.cases import EPOCH
from tests.cluster.decisions.readings import node_reading, pod_uses
from workflows.decide.eviction import preemption
from workflows.decide.eviction.admission import why_refused
from workflows.decide.eviction.candidates import candidate
from workflows.decide.eviction.disks import Files, Reclaim, reclaims
from workflows.decide.eviction.messages import REASON, THRESHOLD_MET, attempting
from workflows.decide.eviction.observations import observations
from workflows.decide.eviction.ranking import rank
from workflows.decide.eviction.rounds import Facts, Round, Starved, Victim, begin_round, choose_victim, is_relieved
from workflows.decide.eviction.signals import is_memory
from workflows.decide.eviction.thresholds import ThresholdConfig, parse_thresholds, threshold_faults
from workflows.decide.shutdown.groups import ending_pod, group_by_priority
from workflows.decide.shutdown.periods import Period, ShutdownConfig, periods
from workflows.decide.status.conditions import PREEMPTED

Json = Mapping[str, Any]
FILES: Final = {"root": Files.ROOT, "logs": Files.LOGS, "localVolumeSource": Files.VOLUMES}
RECLAIMS: Final = {Reclaim.DEAD_CONTAINERS: "containers", Reclaim.UNUSED_IMAGES: "images"}
_LISTED: Final = re.compile(r"(?<=\[)[^]]*(?=])")


def differences(case: Json, theirs: Json) -> Iterator[str]:
    """Yield what differs between our decision and theirs."""
    return COMPARISONS[case["kind"]](case, theirs)


def of_thresholds(case: Json, theirs: Json) -> Iterator[str]:
    """Compare parsed thresholds, or the first key with a fault, of which the kubelet names one at random."""
    config = threshold_config(case)
    faults = list(threshold_faults(config))
    if faults:
        first = [one.why for one in faults if one.key == faults[0].key]
        if theirs.get("error") not in first:
            yield f"faults {first}, but {theirs.get('error')!r}"
        return
    if "error" in theirs:
        yield f"no fault, but {theirs['error']!r}"
        return
    ours = [
        (
            one.signal.value,
            _amount(one.least),
            one.grace // timedelta(microseconds=1),
            one.reclaim and _amount(one.reclaim),
        )
        for one in parse_thresholds(config)
    ]
    kubelets = [
        (
            one["signal"],
            _their_amount(one["least"]),
            one["grace"] // 1000,
            one["reclaim"] and _their_amount(one["reclaim"]),
        )
        for one in theirs["thresholds"]
    ]
    if sorted(ours, key=str) != sorted(kubelets, key=str):
        yield f"thresholds {ours}, but {kubelets}"


def of_ranking(case: Json, theirs: Json) -> Iterator[str]:
    """Compare the order of all pods."""
    files = frozenset(FILES[name] for name in case["files"])
    ranked = rank([candidate(one) for one in case["pods"]], pod_uses(case["stats"]), case["resource"], files)
    ours = [one.pod.uid for one in ranked]
    if ours != theirs["order"]:
        yield f"order {ours}, but {theirs['order']}"


def of_preemption(case: Json, theirs: Json) -> Iterator[str]:
    """Compare victims, statuses, events and the reasons that are left."""
    preemptor, pods = candidate(case["preemptor"]), [candidate(one) for one in case["pods"]]
    reasons = [_reason(one) for one in case["reasons"]]
    found = preemption.preempt(preemptor, pods, reasons)
    ours = [
        {
            "uid": one.uid,
            "grace": None,
            "phase": "Failed",
            "reason": preemption.REASON,
            "message": preemption.MESSAGE,
            "condition": _disruption(PREEMPTED),
        }
        for one in found.victims
    ]
    if ours != (kubelets := [_kill(one) for one in theirs["kills"]]):
        yield f"victims {ours}, but {kubelets}"
    if [(one["uid"], one["reason"], one["message"]) for one in theirs["events"]] != [
        (one.uid, preemption.REASON, preemption.MESSAGE) for one in found.victims
    ]:
        yield f"events {theirs['events']}"
    message = found.rejected.message if found.rejected else ""
    if theirs["error"]:
        if not message.endswith(theirs["error"]):
            yield f"rejected with {message!r}, but {theirs['error']!r}"
    elif not theirs["left"]:
        if found.rejected:
            yield f"rejected with {message!r}, but admitted"
    elif found.rejected is None or _left(found.rejected) != theirs["left"][0]:
        yield f"rejected with {message!r}, but {theirs['left']}"


def of_rounds(case: Json, theirs: Json) -> Iterator[str]:
    """Compare each step until the first difference."""
    policy = EvictionPolicy(
        parse_thresholds(threshold_config(case["config"])),
        timedelta(seconds=case["transitionSeconds"]),
        case["maxPodGracePeriodSeconds"],
        case["localStorageCapacityIsolation"],
    )
    disks = Disks(case["dedicatedImageFs"], case["dedicatedContainerFs"])
    pods, pressure, now = [candidate(one) for one in case["pods"]], Pressure(), EPOCH
    for number, (step, answer) in enumerate(zip(case["steps"], theirs["steps"], strict=True)):
        now += timedelta(seconds=step["afterSeconds"])
        summary = step["summary"]
        facts = Facts(observations(node_reading(summary["node"])), pods, pod_uses(summary["pods"]), disks)
        begun = begin_round(policy, pressure, facts, now)
        relieved = is_relieved(policy, disks, observations(node_reading(step["reclaimed"]["node"])))
        for one in (*_of_step(policy, facts, begun, answer, relieved=relieved), *_of_admission(case, begun, answer)):
            yield f"step {number}: {one}"
            return
        pods, pressure = [one for one in pods if one.uid not in answer["evicted"]], begun.pressure


def of_shutdown(case: Json, theirs: Json) -> Iterator[str]:
    """Compare all groups, also those without pods."""
    config = ShutdownConfig(
        timedelta(milliseconds=case["whole"]),
        timedelta(milliseconds=case["part"]),
        tuple(Period(one["priority"], one["shutdownGracePeriodSeconds"]) for one in case["periods"]),
    )
    found = group_by_priority(given, [ending_pod(one) for one in case["pods"]]) if (given := periods(config)) else []
    ours = [(one.period.priority, one.period.seconds, [pod.uid for pod in one.pods]) for one in found]
    if ours != (kubelets := [(one["priority"], one["seconds"], one["pods"]) for one in theirs["groups"]]):
        yield f"groups {ours}, but {kubelets}"


def threshold_config(case: Json) -> ThresholdConfig:
    """Read the keys of a case."""
    return ThresholdConfig(
        case["evictionHard"],
        case["evictionSoft"],
        case["evictionSoftGracePeriod"],
        case["evictionMinimumReclaim"],
        enforced=tuple(case["enforceNodeAllocatable"]),
    )


def _of_step(policy: EvictionPolicy, facts: Facts, begun: Round, answer: Json, *, relieved: bool) -> Iterator[str]:
    if list(begun.pressure.conditions) != answer["conditions"]:
        yield f"conditions {begun.pressure.conditions}, but {answer['conditions']}"
    kubelets = _deeds(answer)
    if not begun.over_limits and begun.starved:
        first, *others = possible(begun)
        may_be = [_done(policy, facts, first, begun.reclaims, relieved=relieved)]
        for one in others:
            removed = reclaims(one.threshold.signal, facts.disks)
            may_be.append(_done(policy, facts, one, removed, relieved=relieved))
        if first is not begun.starved[0]:
            yield f"{begun.starved[0]} goes before memory"
    else:
        may_be = [_ended(begun.over_limits)]
    if kubelets not in may_be:
        yield f"one of {may_be}, but {kubelets}"


def possible(begun: Round) -> list[Starved]:
    """Return the thresholds of which the kubelet picks one: those of memory, or all if none is."""
    return [one for one in begun.starved if is_memory(one.threshold.signal)] or list(begun.starved)


def _done(
    policy: EvictionPolicy, facts: Facts, starved: Starved, removed: tuple[Reclaim, ...], *, relieved: bool
) -> Json:
    """Return what happens if this threshold is acted on."""
    victim = None if removed and relieved else choose_victim(policy, starved, facts)
    found = _ended((victim,) if victim else ())
    node = {"uid": "", "reason": THRESHOLD_MET, "message": attempting(starved.resource), "annotations": {}}
    return {**found, "reclaims": [RECLAIMS[one] for one in removed], "events": [node, *found["events"]]}


def _ended(victims: tuple[Victim, ...]) -> Json:
    """Return what happens when pods are evicted."""
    return {
        "reclaims": [],
        "evicted": [one.pod.uid for one in victims],
        "events": [
            {"uid": one.pod.uid, "reason": REASON, "message": one.message, "annotations": one.annotations}
            for one in victims
        ],
        "kills": [
            {
                "uid": one.pod.uid,
                "grace": one.grace_seconds,
                "phase": "Failed",
                "reason": REASON,
                "message": one.message,
                "condition": _disruption(one.message) if one.disrupts else None,
            }
            for one in victims
        ],
    }


def _deeds(answer: Json) -> Json:
    """Return what the kubelet did in a step."""
    return {
        "reclaims": answer["reclaims"],
        "evicted": answer["evicted"],
        "events": [
            {**{key: one[key] for key in ("uid", "reason", "message")}, "annotations": one["annotations"] or {}}
            for one in answer["events"]
        ],
        "kills": [_kill(one) for one in answer["kills"]],
    }


def _of_admission(case: Json, begun: Round, answer: Json) -> Iterator[str]:
    for pod, one in zip(case["pods"], answer["admitted"], strict=True):
        found = why_refused(candidate(pod), pod["spec"].get("tolerations", ()), begun.pressure.conditions)
        ours = (found.reason, _sorted(found.message)) if found else ("", "")
        if ours != (one["reason"], _sorted(one["message"])) or one["admit"] is not (found is None):
            yield f"admission {ours}, but {one}"


def _sorted(message: str) -> str:
    """Return a message whose conditions, which the kubelet lists in random order, are in alphabetical order."""
    return _LISTED.sub(lambda listed: " ".join(sorted(listed[0].split())), message)


def _kill(kill: Json) -> Json:
    condition = kill["condition"]
    kept = condition and {key: condition[key] for key in ("type", "status", "reason", "message")}
    return {**kill, "condition": kept}


def _disruption(message: str) -> Json:
    return {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet", "message": message}


def _reason(reason: Json) -> preemption.Lack | Rejected:
    if "predicate" in reason:
        return Rejected(reason["predicate"], reason["why"])
    return preemption.Lack(reason["resource"], reason["requested"], reason["used"], reason["capacity"])


def _left(rejected: Rejected) -> str:
    """Return the kubelet's GetReason of a rejection."""
    lacks = rejected.reason.startswith("OutOf")
    return f"Insufficient {rejected.reason.removeprefix('OutOf')}" if lacks else rejected.message


def _amount(amount: Amount) -> tuple[str, float]:
    return amount.quantity, amount.share


def _their_amount(amount: Json) -> tuple[str, float]:
    """Read an amount; Go writes a float of 32 bits with as few digits as tell it from others of 32 bits."""
    share: float = struct.unpack("f", struct.pack("f", amount["share"]))[0]
    return amount["quantity"], share


COMPARISONS: Final[Mapping[str, Callable[[Json, Json], Iterator[str]]]] = {
    "thresholds": of_thresholds,
    "rank": of_ranking,
    "rounds": of_rounds,
    "preempt": of_preemption,
    "shutdown": of_shutdown,
}
