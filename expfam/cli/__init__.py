"""The command line: data files in, models, labels and scores out.

Standard output holds the results, or with ``--json`` one JSON object; progress, warnings and errors go to standard
error. Exit codes: 0 done, 1 the run failed or an output was not saved, 2 bad usage or bad input, 130 stopped by Ctrl-C.
What is needed to compute is imported by the command that needs it, so that ``--help`` is quick.
"""

import argparse
import os
import sys
import warnings

from expfam.cli import demo, fit, plugins, predict, tree
from expfam.cli.errors import fail, is_bad_input, message_of, show_warning

_EPILOG = """exit codes: 0 done, 1 the run failed or an output was not saved, 2 bad usage or bad input, 130 stopped by
Ctrl-C (fit then keeps the result so far). With --json, standard output is one JSON object, and empty after an error;
where only an output could not be saved, the result is printed all the same and says so under not_saved."""


def main(argv=None):
    """Run one command.

    Parameters
    ----------
    argv : list of str, optional
        Arguments without the program's name; those of the process if not given.

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
        args = build_parser().parse_args(argv)
    except SystemExit as stop:  # argparse has already said why
        return stop.code or 0
    try:
        with warnings.catch_warnings():
            warnings.showwarning = show_warning
            return args.run(args)
    except KeyboardInterrupt:
        return fail(args, "interrupted before there was a result; nothing was saved", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else the interpreter fails again on closing
        return 1
    except Exception as error:
        return fail(args, message_of(error), 2 if is_bad_input(error) else 1)


def build_parser():
    """Parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="expfam",
        description="Fast Bayesian clustering with exponential families.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {_version()}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    demo.add_arguments(
        _command(commands, "demo", demo.run, "cluster scikit-learn's handwritten digits and draw what was found")
    )
    fit.add_arguments(_command(commands, "fit", fit.run, "cluster the rows of a file"))
    tree.add_arguments(_command(commands, "tree", tree.run, "hierarchy of clusters of the rows of a file"))
    predict.add_arguments(_command(commands, "predict", predict.run, "clusters of new rows under a saved model"))
    plugins.add_plugins(_command(commands, "plugins", plugins.run_plugins, "list the installed families and proposals"))
    plugins.add_check(
        _command(commands, "check", plugins.run_check, "try the laws on families or proposals, and tell how each went")
    )
    plugins.add_new(
        _command(
            commands, "new", plugins.run_new, "begin a family or a proposal of your own, as a distribution with tests"
        )
    )
    return parser


def _command(commands, name, run, summary):
    parser = commands.add_parser(name, help=summary, description=summary[0].upper() + summary[1:] + ".")
    parser.set_defaults(run=run, command=name, quiet=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    return parser


def _version():
    from expfam import __version__

    return __version__
