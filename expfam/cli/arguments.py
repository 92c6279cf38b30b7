"""Arguments that several commands share: their types, groups and values."""

from __future__ import annotations

import argparse
import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.cli.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from expfam.families.base import Family
    from expfam.io.readers import Table

_READING = ("key", "id_column", "label_column", "zero_based", "n_features")  # options that `add_data` adds


def _checked_type(convert, holds, rule):
    def parse(text):
        try:
            value = convert(text)
        except ValueError:
            value = None
        if value is None or not holds(value):
            raise argparse.ArgumentTypeError(f"{rule}; got {text!r}")
        return value

    return parse


positive_int = _checked_type(int, lambda value: value >= 1, "must be an integer of at least 1")
natural_int = _checked_type(int, lambda value: value >= 0, "must be an integer of at least 0")
seed_number = _checked_type(int, lambda value: 0 <= value < 2**64, "must be an integer in [0, 2**64)")
thread_count = _checked_type(int, lambda value: value == -1 or value >= 1, "must be -1 or an integer of at least 1")
concentration = _checked_type(
    lambda text: text if text == "auto" else float(text),
    lambda value: value == "auto" or 0 < value < float("inf"),
    "must be a positive number or auto",
)
positive_float = _checked_type(float, lambda value: 0 < value < float("inf"), "must be a positive number")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command that reads a saved model."""
    parser.add_argument("model", type=Path, metavar="MODEL", help="directory that --output or the method save wrote")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="import modules that the model names, whatever they are; this runs their code",
    )


def add_seed(group: argparse.ArgumentParser | argparse._ArgumentGroup, *, of: str = "", fixed: bool = False) -> None:
    """Add the seed of a command.

    What is made from the user's data has another seed each time, which is printed, so that it can be repeated. What is
    made to be compared with others has a `fixed` one, 0.
    """
    default = "0, for everybody the same" if fixed else "a random one, which is printed"
    group.add_argument("--seed", type=seed_number, metavar="INT", help=f"seed{of}; default: {default}")


def memory_amount(text: str) -> int:
    """Return the number of bytes that a text names."""
    from expfam.forecast.memory import parse_bytes

    try:
        return parse_bytes(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def time_amount(text: str) -> float:
    """Return the number of seconds that a text names."""
    from expfam.forecast.time import parse_seconds

    try:
        return parse_seconds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def column_name(text: str) -> int | str:
    """Return a column as its number if the text is a number, else as its name."""
    return int(text) if text.isdecimal() else text


def read_with_column(
    args: argparse.Namespace, option: str, reader: Callable[[int | str | None], Any], *, instead: str
) -> Any:
    """Return what a reader reads, given the column that an option names.

    The column is None where the option is not given or names a .npy file.

    Raises
    ------
    UsageError
        There is no such column, or the format has none, in the words of the option; `instead` names what the format
        lacks, and the line to type.
    """
    from expfam.io.readers import NoColumnError, NoOptionError

    given = getattr(args, option)
    column = None if given is None or given.endswith(".npy") else column_name(given)
    try:
        return reader(column)
    except NoColumnError as error:
        if column is None or error.column != column:
            raise
        has = f" (it has {', '.join(error.names[:20])})"
        message = f"--{option}: {args.data} has no column {given!r}{has}; a file of {option} ends in .npy"
        raise UsageError(message) from error
    except NoOptionError as error:
        if error.option != "link_column":
            raise
        raise UsageError(f"--{option}: {args.data} is of a format without {instead}") from error


def add_threads(group: argparse.ArgumentParser | argparse._ArgumentGroup, *, note: str = "") -> None:
    """Add the number of threads of a command."""
    group.add_argument("--threads", type=thread_count, metavar="N", help=f"number of threads, -1 for all cores{note}")


def add_labels_file(group: argparse._ArgumentGroup) -> None:
    """Add the file to which a fit writes its labels."""
    group.add_argument(
        "--labels",
        type=Path,
        metavar="FILE",
        help="save the labels: .csv (row_id,label) or .npy; in .csv, an apostrophe is put before a name that a "
        "spreadsheet would read as a formula",
    )


def add_column_names(parser: argparse.ArgumentParser) -> None:
    """Add the file with the names of the columns."""
    parser.add_argument(
        "--vocab", type=Path, metavar="FILE", help="file with the names of the columns, one name per line"
    )


def add_numbers_of_steps(group: argparse._ArgumentGroup) -> None:
    """Add the numbers of steps of topics and of clusters of groups."""
    group.add_argument("--steps", type=natural_int, metavar="N", help="steps that count; default: 100")
    group.add_argument("--warmup", type=natural_int, metavar="N", help="steps before them; default: as many")


def add_data(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add the data file and the options that tell how to read it."""
    parser.add_argument(
        "data",
        type=Path,
        nargs="?" if is_optional else None,
        metavar="DATA",
        help="data file: .npy, .npz, .mtx, .svmlight, .csv, .tsv, .parquet, .feather, .jsonl, a .txt of texts, or UCI"
        " docword .txt; - for standard input",
    )
    add_reading(parser)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options that tell how to read a data file."""
    reading = parser.add_argument_group("reading")
    reading.add_argument("--key", metavar="NAME", help=".npz files: array with the data")
    reading.add_argument(
        "--id-column", type=column_name, metavar="COLUMN", help="tables: column with the names of the rows"
    )
    reading.add_argument(
        "--label-column",
        type=column_name,
        metavar="COLUMN",
        help="tables: column with known classes, used for scores only, unless `fit` is given --known",
    )
    reading.add_argument(
        "--numbers",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="tables: columns of text that are numbers, with decimal commas, thousands, currencies or units",
    )
    reading.add_argument(
        "--dates",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME",
        help="tables: columns of text that are dates, such as 31.12.2025 or 'Dec 31, 2025'; --column NAME=numeric takes"
        " them in, in seconds",
    )
    reading.add_argument(
        "--zero-based",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="svmlight files: columns are counted from 0, or from 1; default: from 0 if the file names a column 0",
    )
    reading.add_argument(
        "--n-features", type=positive_int, metavar="V", help="svmlight files: number of columns, if the last are empty"
    )


def add_family(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the family and its hyper-parameters; return the argument group of the model."""
    model = parser.add_argument_group("model")
    model.add_argument(
        "--family",
        default="auto",
        metavar="NAME",
        help="family of distributions, see `expfam plugins`; default: by the data, for tables by the role of each"
        " column, see `expfam roles`",
    )
    model.add_argument(
        "--hyper",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="hyper-parameters of the family: numbers, 'auto', or lists like [1,2]",
    )
    return model


def family_of(name: str, settings: list[str]) -> Family:
    """Make the family of that name, with hyper-parameters given as text."""
    from expfam import load_family
    from expfam.errors import PluginError, UnknownNameError

    hyper = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        if not (key and equals and text):
            raise UsageError(f"--hyper: {setting!r} is not of the form name=value")
        hyper[key] = _value(text)
    try:
        return load_family(name, **hyper)
    except UnknownNameError as error:
        lines = " or ".join(f"--family {near}" for near in error.near)
        raise PluginError(f"{error}. Write {lines}" if lines else str(error)) from None
    except TypeError as error:
        known = load_family(name).get_params() if hyper else {}
        unknown = [key for key in hyper if key not in known]
        if not unknown:
            raise UsageError(f"--family {name}: {error}") from error
        raise UsageError(
            f"--hyper: family {name!r} has no {unknown[0]!r}; it has {', '.join(known) or 'none'}"
        ) from error


def _value(text):
    """Return a hyper-parameter's value.

    A text that is a Python literal gives its value, with lists as arrays; any other text stays text.
    """
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    if isinstance(value, (list, tuple)):
        import numpy as np

        return np.array(value, dtype=np.float64)
    return value


def read_data(args: argparse.Namespace, **more: Any) -> Table:
    """Read the data by the options of reading that were given, together with `more`.

    Raises
    ------
    UsageError
        The format of the file does not take an option; the message has the word of the command line for it.
    """
    from expfam.cli.converted import converted
    from expfam.frames.frame import Frame
    from expfam.io.readers import NoOptionError, read

    if args.numbers or args.dates:
        more["frame"] = True
    given = {name: getattr(args, name) for name in _READING}
    options = {name: value for name, value in (given | more).items() if value is not None}
    try:
        table = read(args.data, **options)
    except NoOptionError as error:
        if error.option not in _READING:
            raise
        flag = f"--{error.option.replace('_', '-')}"
        raise UsageError(f"{flag}: {args.data} is of a format that does not take it: leave out {flag}") from error
    if not args.numbers and not args.dates:
        return table
    if not isinstance(table.X, Frame):
        option = "--numbers" if args.numbers else "--dates"
        raise UsageError(f"{option}: {args.data} is no table with columns of text: leave out {option}")
    return table._replace(X=converted(table.X, numbers=args.numbers, dates=args.dates))
