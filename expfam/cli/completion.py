"""`expfam --print-completion SHELL`: a script that lets a shell complete words."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

SHELLS = ("bash", "zsh", "tcsh")
_FILES = ("DATA", "FILE", "PATH")  # what the help calls them
_FOLDERS = ("DIR", "MODEL")


class PrintCompletion(argparse.Action):
    """Print the script of a shell and leave; shtab makes it."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Print the script for the parser of all commands."""
        try:
            import shtab
        except ImportError:
            print("expfam: error: completions need shtab: pip install 'expfam[completion]'", file=sys.stderr)
            parser.exit(2)
        _name_values(parser, shtab)
        print(shtab.complete(parser, shell=values))
        parser.exit(0)


def add_completion(parser: argparse.ArgumentParser) -> None:
    """Add ``--print-completion`` to the parser of all commands."""
    parser.add_argument(
        "--print-completion",
        choices=SHELLS,
        action=PrintCompletion,
        metavar="SHELL",
        help=f"print the completions of a shell, {', '.join(SHELLS[:-1])} or {SHELLS[-1]}; needs shtab",
    )


def _name_values(parser, shtab):
    """Say which arguments are files, folders and families."""
    from expfam import list_plugins

    families = sorted({plugin.name for plugin in list_plugins("family")})
    for action in _actions(parser):
        if action.dest == "family":
            action.choices = families
        words = {action.metavar} if isinstance(action.metavar, str) else set(action.metavar or ())
        if words & set(_FOLDERS):
            action.complete = shtab.DIRECTORY
        elif any(word.partition("|")[0] in _FILES for word in words):
            action.complete = shtab.FILE


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Go through the arguments of a parser and of its commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from _actions(command)
        else:
            yield action
