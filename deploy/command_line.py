"""The commands and options of `tempolet`, as its own --help has them, for the manual page and the completions. Read from typer's tree."""

from dataclasses import dataclass

import typer
from typer.core import TyperGroup, TyperOption

from worker.commands.app import app


@dataclass(frozen=True, slots=True)
class Term:
    """An option or an argument."""

    names: tuple[str, ...]
    """Of an option: as `-o` and `--output`; of an argument none."""
    shown: str
    """As --help shows it, with the kind of its value."""
    help: str
    has_value: bool


@dataclass(frozen=True, slots=True)
class Command:
    """A sub-command."""

    name: str
    summary: str
    help: str
    usage: str
    terms: tuple[Term, ...]

    @property
    def options(self) -> tuple[Term, ...]:
        """Its options."""
        return tuple(term for term in self.terms if term.names)


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The whole command."""

    help: str
    epilog: str
    commands: tuple[Command, ...]


def command_line() -> CommandLine:
    """Read all of it."""
    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    context = typer.Context(group, info_name="tempolet")
    commands = []
    for name, command in sorted(group.commands.items()):
        below = typer.Context(command, info_name=name, parent=context)
        terms = []
        for one in command.get_params(below):
            shown, words = one.get_help_record(below) or ("", "")
            if not shown:
                continue
            option = isinstance(one, TyperOption)
            names = (*one.opts, *one.secondary_opts) if option else ()
            terms.append(Term(names, shown, words, not (option and getattr(one, "is_flag", False))))
        usage = " ".join(command.collect_usage_pieces(below))
        summary = command.short_help or (command.help or "").partition("\n")[0]
        commands.append(Command(name, summary, command.help or summary, usage, tuple(terms)))
    return CommandLine(group.help or "", group.epilog or "", tuple(commands))
