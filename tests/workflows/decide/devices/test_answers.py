"""What does a container get if plugins answer alike, or against each other?"""

from workflows.decide.devices.answers import DeviceMount, DeviceNode, Usage, conflicts, merged

A = Usage({"X": "1"}, (DeviceMount("/m", "/a"),), (DeviceNode("/dev/x", "/dev/a", "rw"),), {"k": "1"}, ("v/c=1",))
B = Usage(
    {"X": "2", "Y": "3"},
    (DeviceMount("/m", "/b"), DeviceMount("/n", "/b")),
    (DeviceNode("/dev/x", "/dev/b"),),
    {"k": "1"},
    ("v/c=1", "v/c=2"),
)


def test_the_first_resource_wins() -> None:
    """Whatever order they come in."""
    both = merged({"b": B, "a": A})
    assert both == Usage({"X": "1", "Y": "3"}, (*A.mounts, B.mounts[1]), A.devices, {"k": "1"}, ("v/c=1", "v/c=2"))


def test_conflicts_are_named() -> None:
    """Without their values."""
    assert list(conflicts({"b": B, "a": A})) == ["environment variable X", "mount /m", "device /dev/x"]


def test_values_are_not_shown() -> None:
    """A variable may be a secret."""
    assert "3" not in repr(B)
