"""Where a migrated PersistentVolume may be used: its zone in the words of its CSI driver; pure (csi-translation-lib in_tree_volume.go)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

Json = dict[str, Any]
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
BETWEEN_ZONES: Final = "__"


def with_driver_zone(volume: Json, key: str) -> Json:
    """Name the zone as a driver does, by its affinity or else its label; the old name of a region becomes the new one."""
    zone, region = _labels_used(volume)
    if _has_values(volume, zone):
        volume = _renamed(volume, zone, key)
    elif (label := _labels(volume).get(zone)) is not None:
        volume = _with_values(volume, key, label.split(BETWEEN_ZONES))
    if region == OLD_REGION and _has_values(volume, region):
        volume = _renamed(volume, region, REGION)
    return volume


def with_vsphere_topology(volume: Json, zone_key: str, region_key: str) -> Json:
    """Name zone and region as the driver of vSphere does."""
    for label, key in zip(_labels_used(volume), (zone_key, region_key), strict=True):
        if _has_values(volume, label):
            volume = _renamed(volume, label, key)
        elif value := _labels(volume).get(label):
            volume = _with_values(volume, key, [value])
    return volume


def _labels_used(volume: Mapping[str, Any]) -> tuple[str, str]:
    """Return the names of zone and region that this volume uses (getTopologyLabel)."""
    keys = {one.get("key") for one in _requirements(volume)}
    for used in (keys, _labels(volume).keys()):
        if ZONE in used:
            return ZONE, REGION
        if OLD_ZONE in used:
            return OLD_ZONE, OLD_REGION
    return ZONE, REGION


def _has_values(volume: Mapping[str, Any], key: str) -> bool:
    return any(one.get("values") for one in _requirements(volume) if one.get("key") == key)


def _renamed(volume: Json, old: str, new: str) -> Json:
    def renamed(term: Mapping[str, Any]) -> Json:
        given = term.get("matchExpressions") or ()
        return {**term, "matchExpressions": [one | {"key": new} if one.get("key") == old else one for one in given]}

    return _with_terms(volume, [renamed(one) if one.get("matchExpressions") else dict(one) for one in _terms(volume)])


def _with_values(volume: Json, key: str, values: Iterable[str]) -> Json:
    """Demand one of these values in every term (addTopology)."""
    listed = sorted({one.strip() for one in values} - {""})
    if not listed:
        return volume
    demand = {"key": key, "operator": "In", "values": listed}
    terms = _terms(volume) or [{}]
    return _with_terms(
        volume, [{**one, "matchExpressions": [*(one.get("matchExpressions") or ()), demand]} for one in terms]
    )


def _with_terms(volume: Json, terms: Sequence[Mapping[str, Any]]) -> Json:
    spec = volume["spec"]
    affinity = spec.get("nodeAffinity") or {}
    required = {**(affinity.get("required") or {}), "nodeSelectorTerms": list(terms)}
    return {**volume, "spec": {**spec, "nodeAffinity": {**affinity, "required": required}}}


def _terms(volume: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    required = (volume["spec"].get("nodeAffinity") or {}).get("required") or {}
    return required.get("nodeSelectorTerms") or ()


def _requirements(volume: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for term in _terms(volume):
        yield from term.get("matchExpressions") or ()


def _labels(volume: Mapping[str, Any]) -> Mapping[str, str]:
    return volume["metadata"].get("labels") or {}
