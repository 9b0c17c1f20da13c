"""Fixtures: a machine that is booted, one that is shared, and a way to make others."""

import contextlib
import os
import platform
from collections.abc import Callable, Generator, Iterator
from typing import Final

import pytest

from deploy.debian.root import NotHere
from tests.machine.failures import evidence
from tests.machine.hardware import Hardware
from tests.machine.machine import Machine, Parts, machine_of, parts_of_this_checkout

FAILED: Final = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell the fixtures of a test that it has failed."""
    report = yield
    if report.failed:
        item.stash[FAILED] = True
    return report


@pytest.fixture(scope="session")
def machine_parts() -> Iterator[Parts]:
    """Find or build QEMU and the guest, and make a disk of the checkout as it is now."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the guest's root file system is made in a chroot")
    if platform.machine() != "x86_64":
        pytest.skip(f"the guest is x86_64, this machine is {platform.machine()}")
    with contextlib.ExitStack() as stack:
        try:
            parts = stack.enter_context(parts_of_this_checkout())
        except NotHere as error:
            pytest.skip(str(error))
        yield parts


@pytest.fixture
def make_machine(
    machine_parts: Parts, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Hardware], Machine]]:
    """Return a function that makes a machine, which is off, of the hardware one asks for; what is left of a failed test's is kept."""
    made: list[Machine] = []
    with contextlib.ExitStack() as stack:

        def make(hardware: Hardware) -> Machine:
            made.append(stack.enter_context(machine_of(machine_parts, hardware)))
            return made[-1]

        yield make
        if request.node.stash.get(FAILED, False):
            for one in made:
                folder = evidence.folder_for(request.node.name, lambda: tmp_path_factory.mktemp("failed-machine"))
                evidence.keep(one, folder)


@pytest.fixture
def machine(make_machine: Callable[[Hardware], Machine]) -> Machine:
    """Boot a machine for this test alone: it may be broken."""
    one = make_machine(Hardware())
    one.boot()
    return one


@pytest.fixture(scope="session")
def shared_machine(machine_parts: Parts) -> Iterator[Machine]:
    """Boot one machine for all tests that leave it as it was; it reaches servers of this machine, for those that need a cluster."""
    with machine_of(machine_parts, Hardware(reaches_host=True)) as one:
        one.boot()
        yield one
