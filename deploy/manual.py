"""Writes tempolet's manual page and completions, which `deploy/wheel.py` puts into the wheel: `python -m deploy.manual FOLDER`.

They are made from the commands themselves, so they cannot differ from them. Completions are words, not calls of `tempolet`: a TAB starts no Python.
"""

import shlex
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Final

from deploy.command_line import Command, CommandLine, Term, command_line

PAGE: Final = "share/man/man8/tempolet.8"
BASH: Final = "share/bash-completion/completions/tempolet"
ZSH: Final = "share/zsh/site-functions/_tempolet"
FISH: Final = "share/fish/vendor_completions.d/tempolet.fish"
FILES: Final = """\
.TP
.I /var/lib/tempolet
State of a standalone node: manifests, objects, histories, keys, logs, images, fetched programs.
.TP
.I /run/tempolet
Its sockets and pid files.
.TP
.I /etc/tempolet
Configuration of the services of a node of a cluster.
"""


def main() -> int:
    """Write all files below a folder."""
    write_documents(Path(sys.argv[1]))
    return 0


def write_documents(folder: Path) -> None:
    """Write all files, with the version of the installed tempolet, below a folder."""
    for name, text in documents(command_line(), version("tempolet")).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def documents(line: CommandLine, release: str) -> Mapping[str, str]:
    """Return the files by their paths below an installation's prefix."""
    return {PAGE: page(line, release), BASH: bash(line), ZSH: zsh(line), FISH: fish(line)}


def page(line: CommandLine, release: str) -> str:
    """Return the manual page in roff."""
    parts = [f'.TH TEMPOLET 8 "" "tempolet {release}"', ".SH NAME", f"tempolet {_DASH} {_roff(_lowered(line.help))}"]
    parts += [".SH SYNOPSIS", ".B tempolet", "COMMAND [OPTIONS] [ARGUMENTS]", ".SH COMMANDS"]
    for command in line.commands:
        parts += [f'.SS "tempolet {command.name} {_roff(command.usage)}"', _roff(command.help)]
        for term in command.terms:
            parts += [".TP", f".B {_roff(term.shown)}", _roff(term.help)]
    parts += [".SH FILES", FILES.rstrip(), ".SH NOTES", _roff(line.epilog)]
    return "\n".join(parts) + "\n"


def bash(line: CommandLine) -> str:
    """Return the completion of bash: commands, then options; files where neither fits."""
    cases = [f"    {one.name}) words={shlex.quote(_option_words(one))} ;;" for one in line.commands]
    commands = shlex.quote(" ".join(one.name for one in line.commands))
    return "\n".join(
        [
            "_tempolet() {",
            '  local word=${COMP_WORDS[COMP_CWORD]} command="" words="" one',
            '  for one in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do',
            "    [[ $one == -* ]] || { command=$one; break; }",
            "  done",
            "  case $command in",
            f'    "") words={commands} ;;',
            *cases,
            "  esac",
            '  [[ -n $command && $word != -* ]] || mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")',
            "}",
            "complete -o default -F _tempolet tempolet",
            "",
        ]
    )


def zsh(line: CommandLine) -> str:
    """Return the completion of zsh."""
    listed = [f"    {shlex.quote(f'{one.name}:{one.summary}')}" for one in line.commands]
    cases = []
    for one in line.commands:
        words = " ".join(shlex.quote(_zsh_option(term, name)) for term in one.options for name in term.names)
        cases.append(f"  {one.name}) _arguments {words} '*:file:_files' ;;")
    return "\n".join(
        [
            "#compdef tempolet",
            "if (( CURRENT == 2 )); then",
            "  local -a commands=(",
            *listed,
            "  )",
            "  _describe command commands",
            "  return",
            "fi",
            "local command=$words[2]",
            "shift words",
            "(( CURRENT-- ))",
            "case $command in",
            *cases,
            "esac",
            "",
        ]
    )


def fish(line: CommandLine) -> str:
    """Return the completion of fish."""
    lines = []
    for one in line.commands:
        lines.append(f"complete -c tempolet -n __fish_use_subcommand -f -a {one.name} -d {_fish(one.summary)}")
        seen = _fish(f"__fish_seen_subcommand_from {one.name}")
        for term in one.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in term.names)
            value = " -r" if term.has_value else ""
            lines.append(f"complete -c tempolet -n {seen} {names}{value} -d {_fish(_one_line(term.help))}")
    return "\n".join([*lines, ""])


_DASH: Final = "\\-"


def _lowered(sentence: str) -> str:
    """Return a sentence as NAME has it."""
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _roff(text: str) -> str:
    """Escape what roff would take for a command, and keep paragraphs."""
    escaped = text.replace("\\", "\\e").replace("-", _DASH).replace("\n\n", "\n.PP\n")
    escaped = "".join(one if one.isascii() else f"\\[u{ord(one):04X}]" for one in escaped)
    lines = (
        f"\\&{one}" if one.startswith((".", "'")) and not one.startswith(".PP") else one for one in escaped.split("\n")
    )
    return "\n".join(lines)


def _option_words(command: Command) -> str:
    return " ".join(name for term in command.options for name in term.names)


def _zsh_option(term: Term, name: str) -> str:
    words = _one_line(term.help).replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
    return f"{name}[{words}]{':value:_files' if term.has_value else ''}"


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _fish(text: str) -> str:
    """Quote a word: in fish only a backslash and a quote mean something between single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


if __name__ == "__main__":
    sys.exit(main())
