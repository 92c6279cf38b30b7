"""Options that a command does not have, with the option to type instead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from expfam.cli.lines import in_shell
from expfam.near_names import did_you_mean

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

_NO_OPTIONS = ("run", "command", "data", "model", "models", "inputs", "what", "name", "parts")  # of parsed arguments


def unknown_options(unknown: Sequence[str], args: argparse.Namespace) -> str:
    """Return the message about arguments that a command does not have.

    Parameters
    ----------
    unknown : sequence of str
        Words that were left when the arguments were parsed.
    args : argparse.Namespace
        Parsed arguments of the command.
    """
    hints = "".join(
        _hint(word, unknown[place + 1] if place + 1 < len(unknown) else "", args)
        for place, word in enumerate(unknown)
        if word.startswith("--")
    )
    return f"unrecognized arguments: {' '.join(unknown)}{hints}"


def _hint(word, following, args):
    """Return what to write in place of an option, or which one is near."""
    from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
    from expfam.estimators.foreign_names import arguments_for

    option, equals, value = word.partition("=")
    owners = {"tree": BayesianHierarchy, "topics": TopicModel, "groups": GroupedMixture}
    owner = owners.get(args.command, Mixture)
    instead = arguments_for(owner, option[2:].replace("-", "_"), value if equals else following)
    line = "" if instead is None else in_shell(f"write {instead}", args)
    if line.startswith("write --"):
        return f"; in place of {option} {line}"
    known = [f"--{name.replace('_', '-')}" for name in vars(args) if name not in _NO_OPTIONS]
    return did_you_mean(option, known)
