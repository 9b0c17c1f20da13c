"""Does each row of the table of volume types name what it says?"""

from pathlib import Path

import pytest

from activities.files.pod_paths import plugin_folder
from activities.volumes.orphaned_volumes import OrphanedVolume, orphaned_volumes
from activities.volumes.plugin.table import (
    VOLUME_PLUGINS,
    Measured,
    Undo,
    kind_of,
    persistent_type,
    plugin_of,
    volume_type,
)
from workflows.decide.contents import IN_MEMORY, WRITTEN


@pytest.mark.parametrize("kind", VOLUME_PLUGINS)
def test_a_row_names_what_mounts_its_volumes(kind: str) -> None:
    """For a pod's own volumes, for PersistentVolumes, or for both."""
    row = VOLUME_PLUGINS[kind]
    own, persistent = volume_type(kind), persistent_type(kind)
    assert (own is not None, hasattr(persistent, "takes_block")) == (bool(row.own), bool(row.persistent))
    assert own or persistent


@pytest.mark.parametrize("kind", ["", "gitRepo"])
def test_a_type_that_is_not_in_the_table(kind: str) -> None:
    """Nothing mounts it; metrics still name a plugin."""
    assert (volume_type(kind), persistent_type(kind)) == (None, None)
    assert plugin_of(kind) == f"kubernetes.io/{kind}"


def test_a_local_volume_is_a_persistent_one_only() -> None:
    """A pod's spec has no field for it."""
    assert (volume_type("local"), kind_of({"name": "data"})) == (None, "")


def test_the_decisions_know_the_same_types_as_written_by_the_node() -> None:
    """The workflow cannot read this table."""
    written = {kind for kind, row in VOLUME_PLUGINS.items() if row.own.startswith("written:")}
    assert written == set(WRITTEN)
    assert {kind for kind, row in VOLUME_PLUGINS.items() if row.in_memory} == set(IN_MEMORY)
    assert all(VOLUME_PLUGINS[kind].measured is Measured.FILES for kind in written)


TRACES = {
    Undo.BY_FOLDER: "volumes/{plugin}/data",
    Undo.BY_RECORD: "plugins/{plugin}/data.json",
    Undo.BY_DRIVER: "volumes/{plugin}/data/vol_data.json",
}


@pytest.mark.parametrize("kind", [kind for kind, row in VOLUME_PLUGINS.items() if row.undo in TRACES])
def test_a_volume_of_an_orphaned_pod_is_found_with_its_own_type(tmp_path: Path, kind: str) -> None:
    """No type is undone as another one."""
    row = VOLUME_PLUGINS[kind]
    assert orphaned_volumes(tmp_path) == []
    (tmp_path / TRACES[row.undo].format(plugin=plugin_folder(row.plugin))).mkdir(parents=True)
    assert orphaned_volumes(tmp_path) == [OrphanedVolume(kind, "data")]
