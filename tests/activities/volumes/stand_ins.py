"""Fake programs of a node that a test puts on PATH; each records its arguments."""

from pathlib import Path


class StandIns:
    """A folder of programs; a fixture puts it first on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.folder.mkdir()

    def put(self, name: str, script: str) -> None:
        """Write a program with this sh script; it records its arguments first."""
        program = self.folder / name
        asked = self.folder / f"{name}.asked"
        program.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n{script}\n')
        program.chmod(0o755)

    def asked(self, name: str) -> list[str]:
        """List the calls of a program, one line each."""
        try:
            return (self.folder / f"{name}.asked").read_text().splitlines()
        except FileNotFoundError:
            return []
