"""Is only what join wrote ever replaced or removed, also after an interruption and an edit?"""

import os
from pathlib import Path

import pytest

from worker.joining.installing import install, lead_link, look, make_folder
from worker.joining.leave import Leaving
from worker.joining.places import Places
from worker.joining.planned import PlannedFile
from worker.joining.record import Record
from worker.joining.refusal import JoinRefused

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, as leave does")


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """Return a machine's paths, where systemctl says that there are no units."""
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\necho LoadState=not-found\n")
    program.chmod(0o755)
    return Places.below(tmp_path / "root", str(program))


def joined(places: Places) -> Record:
    """Return the record of a join that begins."""
    record = Record(places.record, node="n", server="https://h:1", endpoint="unix:///nowhere")
    make_folder(places.own, record)
    record.write()
    return record


def same(one: PlannedFile, content: bytes) -> bool:
    """Compare bytes."""
    return one.content == content


def leave(places: Places, *, purge: bool = False) -> list[str]:
    """Leave; returns what was said."""
    said: list[str] = []
    assert Leaving(places, said.append, lambda: True, purge=purge).run()
    return said


def test_what_is_there_with_the_right_content_stays_its_owners(places: Places) -> None:
    """It is neither written nor recorded, and leave does not remove it."""
    record = joined(places)
    places.kubelet_configuration.write_bytes(b"a")
    planned = [PlannedFile(places.kubelet_configuration, b"a"), PlannedFile(places.environment, b"b")]
    found = look(planned, record, same)
    assert (found.missing, found.unchanged) == ((planned[1],), (planned[0],))
    install(found, record)
    assert look(planned, record, same).changes == ()
    leave(places)
    assert [one.name for one in places.own.iterdir()] == ["kubelet.yaml"]


def test_what_join_wrote_is_replaced_and_what_was_edited_is_refused(places: Places) -> None:
    """By name; leave keeps an edited file, and --purge does not."""
    record = joined(places)
    install(look([PlannedFile(places.environment, b"old")], record, same), record)
    new = PlannedFile(places.environment, b"new")
    assert look([new], Record.read(places.record), same).outdated == (new,)
    places.environment.write_bytes(b"edited")
    with pytest.raises(JoinRefused, match=r"tempolet\.env was edited since"):
        look([new], record, same)
    assert any("which was edited" in line for line in leave(places))
    assert places.environment.read_bytes() == b"edited"


def test_purge_removes_edited_files(places: Places) -> None:
    """And the folders that join made."""
    record = joined(places)
    install(look([PlannedFile(places.environment, b"old")], record, same), record)
    places.environment.write_bytes(b"edited")
    leave(places, purge=True)
    assert not places.own.exists()


def test_an_interruption_between_record_and_file_is_no_edit(places: Places) -> None:
    """The next join finds its own file missing, and writes it; leave does not mind that it is."""
    record = joined(places)
    record.files[str(places.environment)] = "0" * 64
    record.write()
    assert look([PlannedFile(places.environment, b"x")], record, same).missing
    leave(places)
    assert not places.own.exists()


def test_files_and_folders_are_private_whatever_the_umask(places: Places) -> None:
    """0700 for /etc/tempolet, 0600 in it, 0644 for the CA."""
    before = os.umask(0)
    try:
        record = joined(places)
        install(
            look([PlannedFile(places.environment, b""), PlannedFile(places.authority, b"", 0o644)], record, same),
            record,
        )
    finally:
        os.umask(before)
    modes = {
        one: one.stat().st_mode & 0o777 for one in (places.own, places.record, places.environment, places.authority)
    }
    assert modes == {places.own: 0o700, places.record: 0o600, places.environment: 0o600, places.authority: 0o644}
    assert places.authority.parent.stat().st_mode & 0o777 == 0o755


def test_only_a_link_that_join_made_is_removed(places: Places) -> None:
    """One that was there stays."""
    record = joined(places)
    assert lead_link(places.link, Path("/opt/t"), record)
    assert not lead_link(places.link, Path("/opt/t"), record)
    leave(places)
    assert not places.link.is_symlink()
    places.link.parent.mkdir(parents=True)
    places.link.symlink_to("/opt/t")
    lead_link(places.link, Path("/opt/t"), joined(places))
    leave(places)
    assert places.link.is_symlink()


def test_state_that_was_there_before_the_join_stays(places: Places) -> None:
    """The rest of --root-dir goes, but for the keys of the histories."""
    record = joined(places)
    (places.root_dir / "plugins").mkdir(parents=True)
    record.found = ["plugins"]
    record.write()
    (places.root_dir / "pods").mkdir()
    (places.root_dir / "pki").mkdir()
    places.payload_keys.parent.mkdir()
    places.payload_keys.write_text("k")
    (places.payload_keys.parent / "cluster.uid").write_text("u")
    assert any(f"kept {places.payload_keys}" in line for line in leave(places))
    assert sorted(str(one.relative_to(places.root_dir)) for one in places.root_dir.rglob("*")) == [
        "plugins",
        "tempolet",
        "tempolet/payload.keys",
    ]


def test_pods_whose_runtime_does_not_answer_keep_their_files(places: Places) -> None:
    """Nothing below them is removed while they may run; the next leave goes on."""
    joined(places)
    (places.root_dir / "pods" / "uid").mkdir(parents=True)
    with pytest.raises(JoinRefused, match="does not answer, so the pods run on"):
        leave(places)
    assert (places.root_dir / "pods" / "uid").is_dir()
    assert places.record.exists()


def test_the_commands_that_are_left_are_told(places: Places) -> None:
    """With the node's name and Temporal's namespace."""
    joined(places)
    said = "\n".join(leave(places))
    assert "kubectl delete node n\n" in said
    assert "--namespace tempolet --query \"PodNode = 'n' AND" in said


def test_without_a_yes_nothing_is_changed(places: Places) -> None:
    """The drain that must come before is told by then."""
    joined(places)
    said: list[str] = []
    assert not Leaving(places, said.append, lambda: False).run()
    assert "kubectl drain n " in said[-1]
    assert places.record.exists()


@pytest.mark.parametrize("text", ["{", "[]", '{"version": 9}'])
def test_a_record_that_cannot_be_read_is_not_guessed(places: Places, text: str) -> None:
    """Neither join nor leave goes on without it."""
    places.own.mkdir(parents=True)
    places.record.write_text(text)
    with pytest.raises(JoinRefused, match=r"joined\.json"):
        leave(places)
