"""Columns of tables on the command line: which are used, what they are, and `expfam roles`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.cli.arguments import add_data, family_of, read_data
from expfam.cli.errors import UsageError
from expfam.cli.lines import in_shell
from expfam.cli.outputs import check_file, replacing
from expfam.cli.results import as_text, print_json, say, shape_line
from expfam.near_names import did_you_mean

if TYPE_CHECKING:
    import argparse

_OPTIONS = ("roles", "column", "drop", "columns", "missing", "missing_values")


def add_columns(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which columns of a table are used, and as what."""
    group = parser.add_argument_group("columns of a table (CSV, TSV or Parquet, without --family)")
    group.add_argument("--roles", type=Path, metavar="FILE", help="JSON file with roles, as `expfam roles` writes it")
    group.add_argument(
        "--column",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=WHAT",
        help="role or family of a column, for example income=lognormal, zip=category, when=numeric",
    )
    group.add_argument("--drop", nargs="+", action="extend", default=[], metavar="NAME", help="columns to leave out")
    group.add_argument("--columns", metavar="NAMES", help="use these columns alone, separated by commas")
    group.add_argument(
        "--missing",
        choices=("ignorable", "informative"),
        help="whether the absence of a cell is itself a fact that tells clusters apart; default: ignorable",
    )
    group.add_argument(
        "--missing-values",
        nargs="+",
        action="extend",
        default=[],
        metavar="VALUE",
        help="values that stand for missing cells, for example '?' -999, in all columns, or as NAME=VALUE in one",
    )


def given_data(args: argparse.Namespace, table: Any) -> tuple[Any, Any]:
    """Return the data to fit, and the `family` that an estimator is given.

    That is a name, "auto" too, where the options change nothing of the family; else the family that they make.
    """
    from expfam.estimators.tables import first_fraction
    from expfam.frames.frame import Frame

    X = table.X if table.documents is None else table.documents  # whose words the model keeps
    if not is_automatic(args):
        return X, family_of(args.family, args.hyper) if args.hyper else args.family
    given = _given(args)
    if not isinstance(table.X, Frame):
        _refuse(given, "a table: a CSV, TSV or Parquet file")
        fraction = first_fraction(table.X)
        if fraction is not None:
            raise UsageError(
                f"--family: the sparse rows hold {fraction:.6g}, which is no count: name the family of such rows, for"
                " example --family von_mises_fisher for rows of length 1"
            )
        return X, "auto"
    frame = _selected(args, table.X)
    if not given and frame.is_plain():
        return rows_of_table(table._replace(X=frame)), "auto"
    return frame, _family(args, frame) if given and given != ["columns"] else "auto"


def model_data(args: argparse.Namespace, table: Any) -> tuple[Any, Any]:
    """Return the data to fit, and their family: the named one, or the one that suits them."""
    from expfam.estimators.tables import family_of_array, holds_real_columns
    from expfam.frames.frame import Frame

    X, family = given_data(args, table)
    if family == "auto" and table.documents is not None:
        return X, family_of("multinomial", [])
    if family != "auto":
        return X, family_of(family, []) if isinstance(family, str) else family
    if not isinstance(X, Frame):
        return X, family_of_array(X, owner="--family")
    return X, family_of("gaussian_diag", []) if holds_real_columns(X) else _family(args, X)


def rows_of_table(table: Any) -> Any:
    """Return the rows of a table of numbers: a matrix if its columns have no names."""
    from expfam.frames.frame import Frame
    from expfam.frames.numbers import numbers_of_frame

    if not isinstance(table.X, Frame) or not all(name.isdecimal() for name in table.X.names):
        return table.X
    return numbers_of_frame(table.X, of_fit=False)


def check_family(args: argparse.Namespace) -> None:
    """Refuse options of the family that do not go together, before the data are read."""
    if is_automatic(args):
        if args.hyper:
            raise UsageError("--hyper: name the family with --family first")
        return
    family_of(args.family, args.hyper)
    _refuse(_given(args), "--family auto, which is the default: a named family is that of all columns")


def _given(args):
    return [option for option in _OPTIONS if getattr(args, option)]


def is_automatic(args: argparse.Namespace) -> bool:
    """Return whether the data choose the family."""
    return args.family == "auto"


def _refuse(given, needs):
    if given:
        raise UsageError(f"--{given[0].replace('_', '-')} needs {needs}")


def _family(args, frame):
    """Return the family of a frame by its roles and the options."""
    from expfam import Columns

    (roles, gone), missing = _read_roles(args.roles), args.missing or "ignorable"
    values = _missing_values(args, frame, gone)
    return Columns.from_frame(frame, roles=roles, missing=missing, missing_values=values, **_by_column(args, frame))


def _selected(args, frame):
    if args.columns is None:
        return frame
    names = [name.strip() for name in args.columns.split(",")]
    for name in names:
        _check_name("--columns", name, frame)
    return frame.only(names)


def _by_column(args, frame):
    """Return roles and families by column, as the options give them."""
    by_column: dict[str, Any] = {}
    for setting in args.column:
        name, equals, what = setting.rpartition("=")
        if not (name and equals and what):
            raise UsageError(f"--column: {setting!r} is not of the form name=role or name=family")
        _check_name("--column", name, frame)
        by_column[name] = what
    for name in args.drop:
        _check_name("--drop", name, frame)
        by_column[name] = "drop"
    return by_column


def _missing_values(args, frame, gone):
    """Return values that stand for missing cells, by column, of the file and of the option."""
    from expfam.frames.missing_values import missing_values_of

    found = missing_values_of(gone, frame.names, owner="--roles")
    for given in args.missing_values:
        name, equals, value = given.partition("=")
        if name and equals:
            _check_name("--missing-values", name, frame)
        for column in [name] if name and equals else frame.names:
            found.setdefault(column, []).append(value if name and equals else given)
    return found


def _check_name(option, name, frame):
    if name in frame.names:
        return
    hint = did_you_mean(name, frame.names)
    raise UsageError(f"{option}: the table has no column {name!r}{hint} (it has {', '.join(frame.names[:20])})")


def _read_roles(path):
    """Return the roles of a file, and its values that stand for missing cells of all columns."""
    if path is None:
        return None, None
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"--roles: {path} cannot be read as JSON ({error})") from error
    gone = found.get("missing_values") if isinstance(found, dict) else None
    if isinstance(found, dict):
        found = found.get("roles", [] if gone is not None else None)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise UsageError(f"--roles: {path} holds no list of roles, such as `expfam roles DATA --output FILE` writes")
    return found, gone


# ---- what is printed of a family -------------------------------------------------------------------------------------


def family_line(family: Any) -> str:
    """Return a family in one line: that of a table by its numbers of columns."""
    roles = getattr(family, "roles", None)
    if not roles:
        return repr(family)
    kept = [role["family"] for role in roles if role["role"] != "dropped"]
    counts = ", ".join(f"{kept.count(name)} {name}" for name in dict.fromkeys(kept))
    left = f", {len(roles) - len(kept)} left out" if len(kept) < len(roles) else ""
    return f"columns: {counts}{left} (see `expfam roles`)"


def family_facts(family: Any) -> Any:
    """Return the settings of a bound family for JSON."""
    from expfam.cli.results import plain

    roles = getattr(family, "roles", None)
    return {"roles": list(roles), "missing": family.missing} if roles else plain(family.get_params())


# ---- expfam roles ----------------------------------------------------------------------------------------------------


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam roles`."""
    add_data(parser)
    add_columns(parser)
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help="write the roles as .json, to be edited and read with fit --roles"
    )


def run(args: argparse.Namespace) -> int:
    """Run `expfam roles` and return its exit code."""
    from expfam.families.columns.roles import Roles
    from expfam.frames.frame import Frame

    if args.output is not None:
        check_file(args, args.output, "--output", (".json",))
    table = read_data(args, frame=True)
    if not isinstance(table.X, Frame):
        raise UsageError(f"{args.data}: roles are of the columns of a table: give a CSV, TSV or Parquet file")
    frame = _selected(args, table.X)
    family: Any = _family(args, frame)
    found = Roles(family.roles).table(family.parts)
    found["note"] = [in_shell(note, args) for note in found["note"]]
    say(args, f"data      {args.data}: {shape_line(frame)}\n")
    say(args, as_text(list(found), list(zip(*found.values())), left=True))
    if args.output is not None:
        with replacing(args.output, "w") as file:
            json.dump(list(family.roles), file, indent=1, ensure_ascii=False)
        say(args, f"\nsaved     {args.output}: edit it and give it to fit --roles")
    output = None if args.output is None else str(args.output)
    print_json(args, {"data": str(args.data), "roles": list(family.roles), "output": output})
    return 0
