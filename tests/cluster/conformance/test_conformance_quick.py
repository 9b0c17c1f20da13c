"""Does a selection of Kubernetes' own node and storage tests pass on our node? `make conformance` runs all of them."""

from pathlib import Path
from typing import Final

import pytest

from tests.cluster.binaries import CONTROL_PLANE, OFFICIAL_TESTS, can_be_had, find_binaries
from tests.cluster.conformance.conformance_run import (
    Choice,
    Result,
    exactly,
    named_in,
    owed_by,
    read_result,
    run_ginkgo,
)
from tests.cluster.conformance.official_images import OfficialImages
from tests.cluster.one_node import OneNode
from tests.node.images.debian_registry import DebianRegistry

QUICK: Final = named_in(Path(__file__).parent / "quick.txt")
PROCESSES: Final = 6
PROGRAMS: Final = (*CONTROL_PLANE, *OFFICIAL_TESTS)


@pytest.fixture(scope="module")
def result(one_node: OneNode, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Run the selected tests once."""
    if reason := can_be_had(PROGRAMS):
        pytest.skip(reason)
    programs, folder = find_binaries(PROGRAMS), tmp_path_factory.mktemp("official")
    choice = Choice(procs=PROCESSES, focus=exactly(QUICK))
    with DebianRegistry(folder / "registry") as registry:
        OfficialImages(folder / "images", programs).give(one_node.settings.containerd, registry)
        run_ginkgo(programs, one_node.plane.admin_kubeconfig, folder, choice)
    return read_result(folder, QUICK)


def test_the_choice_is_of_what_the_kubelet_passes() -> None:
    """At least 40, each by its full name, without duplicates."""
    assert set(QUICK) <= set(owed_by(Choice()))
    assert len(set(QUICK)) == len(QUICK) >= 40


@pytest.mark.parametrize("name", QUICK)
def test_official(name: str, result: Result) -> None:
    """A skipped test counts as failed."""
    assert name in result.passed, result.failures.get(name, "it did not run")
