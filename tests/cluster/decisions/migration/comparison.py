"""Whether tempolet finds the same volume of a CSI driver as the kubelet, over many seeds."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from activities.volumes.migration.handles import MigrationError
from activities.volumes.migration.translation import inline_volume, migrated_volume
from tests.cluster.decisions.migration.cases import case
from tests.cluster.decisions.tally import Subject, Tally, tally

Json = Mapping[str, Any]


def compare(program: Path, first: int, cases: int) -> Tally:
    """Compare the cases of these seeds."""
    return tally(program, range(first, first + cases), Subject(case, deeds, differences))


def deeds(asked: Json, theirs: Json) -> Iterator[str]:
    """Name the driver that has the volume now, or that there is none."""
    if inline := asked.get("inline"):
        kind = next(one for one in inline if one != "name")
        if found := theirs.get("volume"):
            yield f"inline {found['spec']['csi']['driver']}"
        else:
            why = "stays" if "error" not in theirs else "panics" if _panics(theirs) else "refused"
            yield f"inline {kind} {why}"
        return
    kind = next(one for one in asked["volume"]["spec"] if one not in {"capacity", "accessModes", "nodeAffinity"})
    yield f"{kind} refused" if "error" in theirs else theirs["volume"]["spec"].get("csi", {}).get("driver", kind)


def differences(asked: Json, theirs: Json) -> Iterator[str]:
    """Yield what differs."""
    if "inline" in asked:
        yield from _inline_differences(asked, theirs)
        return
    try:
        ours = migrated_volume(asked["volume"])
    except MigrationError as error:
        if "error" not in theirs:
            yield f"{error}, but {theirs}"
        return
    if "error" in theirs:
        yield f"{ours}, but {theirs}"
    elif (mine := _plain(ours)) != (other := _plain(theirs["volume"])):
        yield f"{mine}, but {other}"


def _inline_differences(asked: Json, theirs: Json) -> Iterator[str]:
    try:
        ours = inline_volume(asked["inline"], asked["namespace"])
    except MigrationError as error:
        if "error" not in theirs or _panics(theirs):
            yield f"{error}, but {theirs}"
        return
    if _panics(theirs):
        return
    expected = theirs.get("volume")
    if "error" in theirs or (ours is asked["inline"]) != (expected is None):
        yield f"{ours}, but {theirs}"
    elif expected and (mine := _plain(ours)) != (other := _plain(expected)):
        yield f"{mine}, but {other}"


def _panics(theirs: Json) -> bool:
    return str(theirs.get("error", "")).startswith("panic")


def _plain(volume: Json) -> Json:
    """Leave out what the API leaves out; attributes of a driver are compared as they are."""
    csi = volume["spec"].get("csi") or {}
    attributes = csi.get("volumeAttributes")
    return {"attributes": attributes or {}, "metadata": _full(volume["metadata"]), "spec": _full(volume["spec"])}


def _full(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _full(one) for key, one in value.items()}
        return {key: one for key, one in kept.items() if one or one == "0"}
    return [_full(one) for one in value] if isinstance(value, list) else value
