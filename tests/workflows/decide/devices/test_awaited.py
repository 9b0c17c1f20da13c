"""What is a pod told that waits for a device plugin?"""

import pytest

from workflows.decide.devices.awaited import LISTS_NONE, LONGEST, closed, not_registered, registered, why_awaited

GPU, NIC = "example.com/gpu", "example.com/nic"
MANY = "it lists 100000 devices, more than 10000"


@pytest.mark.parametrize(
    ("lacking", "unused", "words"),
    [
        pytest.param([GPU], {}, f"no device plugin has registered {GPU} yet; the pod starts when one does", id="none-has-come"),
        pytest.param(
            [NIC, GPU], {}, f"no device plugin has registered {GPU}, {NIC} yet; the pod starts when one does", id="neither"
        ),
        pytest.param(
            [GPU],
            {GPU: closed(MANY), NIC: "another's"},
            f"the device plugin of {GPU} is not in use: its last connection was closed: {MANY}; "
            "the pod starts when it lists devices",
            id="dropped",
        ),
        pytest.param(
            [GPU],
            {GPU: registered("")},
            f"the device plugin of {GPU} is not in use: it has registered, but has listed no device yet; "
            "the pod starts when it lists devices",
            id="silent",
        ),
        pytest.param(
            [GPU],
            {GPU: LISTS_NONE},
            f"the device plugin of {GPU} is not in use: it lists no device; the pod starts when it lists devices",
            id="empty",
        ),
        pytest.param(
            [NIC, GPU],
            {NIC: not_registered("failed to dial device plugin: context deadline exceeded")},
            f"no device plugin has registered {GPU} yet; the device plugin of {NIC} is not in use: its registration failed: "
            "failed to dial device plugin: context deadline exceeded; the pod starts when all of them list devices",
            id="one-of-each",
        ),
    ],
)  # fmt: skip
def test_what_a_waiting_pod_is_told(lacking: list[str], unused: dict[str, str], words: str) -> None:
    """The true reason of each resource."""
    assert why_awaited(lacking, unused) == words


def test_why_the_last_connection_was_closed_stays() -> None:
    """While the plugin comes again and again, and lists nothing that can be used."""
    assert registered(closed(MANY)) == closed(MANY)
    assert registered(not_registered("it hangs")) == registered("") == registered(registered(""))


@pytest.mark.parametrize("word", [closed, not_registered])
def test_reasons_are_bounded(word: object) -> None:
    """A plugin may put anything into them."""
    found = word("\x1b[2J\n" + "x" * 1000)  # type: ignore[operator]  # by row
    assert (len(found), found.isprintable(), found[-1]) == (LONGEST, True, "…")
