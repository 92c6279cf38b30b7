"""Lines of Python in messages, as options of a command."""

from __future__ import annotations

import argparse
import ast
import re
import shlex

# where the names differ; a command has one of them
_DESTINATIONS = {
    "n_components": ("components", "clusters"),
    "n_steps": ("steps",),
    "random_state": ("seed",),
    "learn_hyper": ("tune",),
}
_ARGUMENT = r"(\w+)=('[^']*'|[\w.+-]+)"
_FAMILY = r"(?:'[^']*'|\w+\([^()]*\)), "  # the command has it already
_CALL = re.compile(rf"\bwrite (?:\w+\((?:{_FAMILY})?)?({_ARGUMENT}(?:, {_ARGUMENT})*)\)?(?:\.fit\(X\))?")
_UNKNOWN = re.compile(r"\b(write \w+\()None, ")  # a number that is not known
_TEXT = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_ROLE = "'(binary|category|count|positive|real|numeric|drop)'"
_COLUMN = re.compile(rf"(Columns\.from_frame\(df, )?(?:\b([^\W\d]\w*)={_ROLE}|\*\*\{{({_TEXT}): {_ROLE}\}})(?(1)\))")
_MISSING = re.compile(rf"Columns\.from_frame\(df, missing_values=(\[{_TEXT}(?:, {_TEXT})*\])\)")
_TEXTS = re.compile(rf"\bfit\(df\[({_TEXT})\]\) counts its words|\bwrite X = X\[({_TEXT})\], whose words are counted")
_NUMBERS = re.compile(
    rf"(?:df = df\.to_pandas\(\); )?df\[({_TEXT})\] = pd\.to_numeric\(df\[{_TEXT}\]"
    rf"(?:\.str\.replace\(r?{_TEXT}, r?{_TEXT}, regex=True\))*(?:, errors='coerce')?\)"
)
_DATES = re.compile(
    rf"(?:df = df\.to_pandas\(\); )?df\[({_TEXT})\] = pd\.to_datetime\(df\[{_TEXT}\](?:, dayfirst=True)?\), then "
)
_FAMILY_ALONE = re.compile(r"\bwrite \w+\('(\w+)'\)(?![\w.])")
_OPTION_LIKE = re.compile(r"-(?!\d+$|\d*\.\d+$).")  # negative numbers written plainly are none

_PART = r"(?:[^()]|\([^()]*\))*"
_FIT_WITH_CLASSES = re.compile(rf"\b([Ww]rite) Mixture\({_PART}labels='(\w+)'{_PART}\)\.fit\(X, y\)")


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

    message = _UNKNOWN.sub(r"\1n_components=None, ", message)
    if hasattr(args, "known"):
        message = _FIT_WITH_CLASSES.sub(r"\1 --known \2, without --components", message)
    if hasattr(args, "text") or hasattr(args, "data"):
        message = _TEXTS.sub(lambda match: _text_option(match, args), message)
    if hasattr(args, "numbers"):
        message = _NUMBERS.sub(lambda match: f"--numbers {shlex.quote(ast.literal_eval(match[1]))}", message)
    if hasattr(args, "dates"):
        message = _DATES.sub(lambda match: f"--dates {shlex.quote(ast.literal_eval(match[1]))} ", message)
    if hasattr(args, "family"):
        message = _FAMILY_ALONE.sub(r"write --family \1", message)
    message = _CALL.sub(options, message)
    return _of_columns(message) if hasattr(args, "missing_values") else message


def _text_option(match, args):
    """Return the option of the column of texts, of `expfam fit` where the command has none."""
    option = f"--text {shlex.quote(ast.literal_eval(match[1] or match[2]))}"
    if not hasattr(args, "text"):
        option = f"expfam fit {shlex.quote(str(args.data))} {option}"
    return option + " counts its words" if match[1] else "write " + option


def _of_columns(message):
    """Return a message in which the keywords of columns are options."""

    def option(match):
        name = match[2] or ast.literal_eval(match[4])
        role = match[3] or match[5]
        return f"--drop {shlex.quote(name)}" if role == "drop" else f"--column {shlex.quote(f'{name}={role}')}"

    def values(match):
        found = ast.literal_eval(match[1])
        plain = [value for value in found if not _OPTION_LIKE.match(value)]
        options = [f"--missing-values {' '.join(map(shlex.quote, plain))}"] if plain else []
        # others would be options as words of their own
        options += [f"--missing-values={shlex.quote(value)}" for value in found if value not in plain]
        return " ".join(options)

    return _MISSING.sub(values, _COLUMN.sub(option, message))


def _option(name, value, args):
    """Return an argument as an option, or None if the command does not have it."""
    if (name, value) == ("n_components", "None"):
        return "--infinite" if hasattr(args, "infinite") else None
    destination = next((each for each in _DESTINATIONS.get(name, (name,)) if hasattr(args, each)), None)
    if destination is None:
        return None
    option = destination.replace("_", "-")
    if value in ("True", "False"):
        return f"--{option}" if value == "True" else f"--no-{option}"
    text = value.strip("'")
    return f"--{option} '{text}'" if re.search(r"[^\w.+-]", text) else f"--{option} {text}"
