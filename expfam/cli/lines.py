"""Lines of Python in messages, as options of a command."""

from __future__ import annotations

import argparse
import re

_DESTINATIONS = {"n_components": "components", "n_steps": "steps", "random_state": "seed"}  # where the names differ
_ARGUMENT = r"(\w+)=('[^']*'|[\w.+-]+)"
_CALL = re.compile(rf"\bwrite (?:\w+\((?:'[^']*', )?)?({_ARGUMENT}(?:, {_ARGUMENT})*)\)?")


def in_shell(message: str, args: argparse.Namespace) -> str:
    """Return a message whose lines to type are options of the command, where it has them.

    Parameters
    ----------
    message : str
    args : argparse.Namespace
        Parsed arguments of the command.

    Examples
    --------
    >>> from argparse import Namespace
    >>> from expfam.cli.lines import in_shell
    >>> in_shell("got 'vb': write Mixture(sampler='variational')", Namespace(sampler="vb"))
    "got 'vb': write --sampler variational"
    """

    def options(match):
        given = [_option(name, value, args) for name, value in re.findall(_ARGUMENT, match[1])]
        return match[0] if None in given else f"write {' '.join(given)}"

    return _CALL.sub(options, message)


def _option(name, value, args):
    """Return an argument as an option, or None if the command does not have it."""
    destination = _DESTINATIONS.get(name, name)
    if not hasattr(args, destination):
        return None
    option = destination.replace("_", "-")
    if value in ("True", "False"):
        return f"--{option}" if value == "True" else f"--no-{option}"
    text = value.strip("'")
    return f"--{option} '{text}'" if re.search(r"[^\w.+-]", text) else f"--{option} {text}"
