"""The command line: it reads data files and writes models, labels and scores.

Standard output holds the results, or one JSON object with ``--json``. Progress, warnings and errors go to standard
error. Exit codes: 0 done, 1 the run failed or an output was not saved, 2 bad usage or bad input, 130 stopped by Ctrl-C.
Each command imports what it computes with only when it runs, so that ``--help`` is quick.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any, NoReturn

from expfam.cli import certificate, coarsen, columns, demo, fit, groups, merge, plugins, predict, tables, topics, tree
from expfam.cli.completion import add_completion
from expfam.cli.errors import UsageError, fail, is_bad_input, message_of, show_warning
from expfam.cli.given_files import check_given_files
from expfam.cli.lines import in_shell
from expfam.cli.unknown_options import unknown_options
from expfam.estimators.lines import changes_alone
from expfam.near_names import did_you_mean

_EPILOG = """exit codes: 0 done, 1 the run failed or an output was not saved, 2 bad usage or bad input, 130 stopped by
Ctrl-C (fit then keeps the result so far). With --json, standard output is one JSON object; it is empty after an error.
If only an output could not be saved, the result is still printed, and its entry not_saved gives the reason."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; by default those of the process.

    Returns
    -------
    int
        Exit code.

    Examples
    --------
    >>> from expfam.cli import main
    >>> main(["predict", "no-such-model", "no-such-file.npy"])
    2
    """
    try:
        args, unknown = build_parser().parse_known_args(argv)
    except SystemExit as stop:  # argparse has already printed the reason
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    try:
        if unknown:
            raise UsageError(unknown_options(unknown, args))
        check_given_files(args)
        with changes_alone(), warnings.catch_warnings():
            warnings.showwarning = lambda message, *place: show_warning(in_shell(str(message), args), *place)
            return args.run(args)
    except KeyboardInterrupt:
        return fail(args, "interrupted before there was a result; nothing was saved", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else closing the output raises again
        return 1
    except Exception as error:
        return fail(args, in_shell(message_of(error), args), 2 if is_bad_input(error) else 1)


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one line, without the list of all options."""

    def error(self, message: str) -> NoReturn:
        """Print one line on standard error and leave with exit code 2."""
        message = re.sub(r"invalid choice: '([^']*)' (?=\(choose from (.+)\))", _with_near, message)
        self.exit(2, f"{self.prog}: error: {message}; see {self.prog} --help\n")


def _with_near(found: re.Match) -> str:
    """Return what argparse says of a wrong choice, with the choice that was probably meant."""
    near = did_you_mean(found[1], re.findall(r"[^\s,']+", found[2]))
    return f"invalid choice: '{found[1]}'{near} "


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="expfam",
        description="Fast Bayesian clustering with exponential families.",
        epilog=_EPILOG,
    )
    hidden: dict[str, Any] = {"dest": argparse.SUPPRESS, "default": argparse.SUPPRESS}
    parser.add_argument("--version", action=_ShowVersion, nargs=0, **hidden, help="show the version and exit")
    add_completion(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo.add_arguments(
        _command(commands, "demo", demo.run, "cluster scikit-learn's handwritten digits and draw the clusters")
    )
    fit.add_arguments(_command(commands, "fit", fit.run, "cluster the rows of a file"))
    columns.add_arguments(
        _command(commands, "roles", columns.run, "say what each column of a table is taken for, before a fit")
    )
    topics.add_arguments(_command(commands, "topics", topics.run, "find the topics of texts, or of counts of words"))
    groups.add_arguments(
        _command(commands, "groups", groups.run, "find clusters of rows in groups, and their weights in each group")
    )
    tree.add_arguments(_command(commands, "tree", tree.run, "make a hierarchy of clusters of the rows of a file"))
    predict.add_arguments(
        _command(commands, "predict", predict.run, "assign new rows to the clusters of a saved model")
    )
    tables.add_explain(
        _command(commands, "explain", tables.run_explain, "say which columns tell the clusters of a saved model apart")
    )
    tables.add_impute(
        _command(commands, "impute", tables.run_impute, "fill the missing cells of a table by a saved model")
    )
    coarsen.add_arguments(
        _command(commands, "coarsen", coarsen.run, "merge the clusters of a saved model to the few that a person wants")
    )
    merge.add_arguments(
        _command(commands, "merge", merge.run, "make one model of all rows from models of disjoint parts of them")
    )
    plugins.add_plugins(_command(commands, "plugins", plugins.run_plugins, "list the installed families and proposals"))
    certificate.add_arguments(
        _command(commands, "check", certificate.run, "try the laws of plugins, or certify a sampler on data")
    )
    plugins.add_new(
        _command(commands, "new", plugins.run_new, "start your own family or proposal, as a distribution with tests")
    )
    return parser


def _command(commands, name, run, summary):
    parser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    parser.set_defaults(run=run, command=name, quiet=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


class _ShowVersion(argparse.Action):
    """Print the version.

    It is looked up only then, which takes a quarter of the time of a command that says what is wrong.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from expfam import __version__

        print(parser.prog, __version__)
        parser.exit()
