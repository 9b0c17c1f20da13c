"""Fixtures: a machine that is booted, one that is shared, and a way to make others."""

import contextlib
import os
import platform
import shutil
from collections.abc import Callable, Iterator

import pytest

from deploy.debian.root import NotHere
from tests.machine.hardware import Hardware
from tests.machine.images import checkout, disks
from tests.machine.images.guest import CHECKOUT, find_guest
from tests.machine.images.qemu import find_qemu
from tests.machine.machine import Machine, Parts, machine_of
from tests.machine.run_folders import run_folder

CHECKOUT_MIB = 128


@pytest.fixture(scope="session")
def machine_parts() -> Iterator[Parts]:
    """Find or build QEMU and the guest, and make a disk of the checkout as it is now."""
    if os.geteuid() != 0:
        pytest.skip("needs root: the guest's root file system is made in a chroot")
    if platform.machine() != "x86_64":
        pytest.skip(f"the guest is x86_64, this machine is {platform.machine()}")
    try:
        qemu, guest = find_qemu(), find_guest()
    except NotHere as error:
        pytest.skip(str(error))
    with run_folder() as folder:
        checkout.copy(CHECKOUT, folder / "checkout")
        checkout.compile_for_guest(folder / "checkout", guest.python)
        disks.make_disk(folder / "checkout.img", folder / "checkout", CHECKOUT_MIB)
        shutil.rmtree(folder / "checkout")
        yield Parts(qemu, guest, folder / "checkout.img")


@pytest.fixture
def make_machine(machine_parts: Parts) -> Iterator[Callable[[Hardware], Machine]]:
    """Return a function that makes a machine, which is off, of the hardware one asks for."""
    with contextlib.ExitStack() as stack:
        yield lambda hardware: stack.enter_context(machine_of(machine_parts, hardware))


@pytest.fixture
def machine(machine_parts: Parts) -> Iterator[Machine]:
    """Boot a machine for this test alone: it may be broken."""
    with machine_of(machine_parts, Hardware()) as one:
        one.boot()
        yield one


@pytest.fixture(scope="session")
def shared_machine(machine_parts: Parts) -> Iterator[Machine]:
    """Boot one machine for all tests that leave it as it was; it reaches servers of this machine, for those that need a cluster."""
    with machine_of(machine_parts, Hardware(reaches_host=True)) as one:
        one.boot()
        yield one
