"""`expfam plugins`, `expfam check` and `expfam new`: list plugins, try their laws, make one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from expfam.cli.errors import UsageError, message_of
from expfam.cli.results import as_text, print_json, say

if TYPE_CHECKING:
    import argparse

_KERNEL_STARTS = 1000  # starts for the laws of a kernel that uses a part of split-merge moves
_GROUPED_MOVES = 800  # of the chains over rows in groups
_MOVE_LAWS = (  # without `partitions_are_reached`: only the complete kernel has to reach all partitions
    "holds_nothing_of_a_run",
    "states_stay_consistent",
    "seeds_decide",
    "steps_propose",
    "posterior_is_invariant",
    "later_steps_are_invariant",
    "flow_is_symmetric",
)


def add_plugins(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam plugins`."""
    parser.add_argument(
        "--check", action="store_true", help="load each plugin and try its laws; exit code 1 if one fails"
    )


def run_plugins(args: argparse.Namespace) -> int:
    """List the installed plugins and return the exit code."""
    from expfam.plugins.registry import check_all, list_plugins

    report = check_all() if args.check else [(plugin, None) for plugin in list_plugins()]
    entries = []
    for plugin, fault in report:
        kind = plugin.group.removeprefix("expfam.").replace("families", "family").replace("proposals", "proposal")
        entry: dict[str, Any] = {"kind": kind, "name": plugin.name, "distribution": plugin.distribution}
        entry |= {"version": plugin.version, "value": plugin.value}
        if args.check:
            if fault is None:
                fault = _broken_laws(plugin)
            entry |= {"passed": fault is None, "fault": fault}
        entries.append(entry)
    head = ("kind", "name", "from", "class") + (("check",) if args.check else ())
    rows = [(entry["kind"], entry["name"], _source(entry), entry["value"], *_verdict(entry)) for entry in entries]
    say(args, as_text(head, rows, left=True))
    print_json(args, {"plugins": entries})
    return 0 if all(entry.get("passed", True) for entry in entries) else 1


def run_check(args: argparse.Namespace) -> int:
    """Print a report on each named plugin, law by law, and return the exit code."""
    reports = [_laws(plugin) for name in args.names for plugin in _plugins_called(name)]
    for report in reports:
        say(args, f"{report}\n")
    entries = [{"plugin": r.subject, "results": [result._asdict() for result in r.results]} for r in reports]
    print_json(args, {"reports": entries})
    return 0 if all(report.passed for report in reports) else 1


def add_new(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `expfam new`."""
    parser.add_argument("kind", choices=("family", "proposal"))
    parser.add_argument("name", metavar="NAME", help="lower-case letters, digits and underscores")
    parser.add_argument(
        "--to", type=Path, default=Path(), metavar="DIR", help="directory in which to make expfam-NAME; default: here"
    )
    parser.add_argument("--compiled", action="store_true", help="a family with components in Cython")


def run_new(args: argparse.Namespace) -> int:
    """Write a new distribution and return the exit code."""
    from expfam.plugins.scaffold import new_plugin

    if args.compiled and args.kind != "family":
        raise UsageError(f"--compiled: compiled components are those of a family: leave it out for a {args.kind}")
    try:
        path = new_plugin(args.kind, args.name, args.to, compiled=args.compiled)
    except (FileExistsError, NotADirectoryError) as error:
        raise UsageError(str(error)) from error
    files = sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file())
    say(args, f"{path}:\n  " + "\n  ".join(files))
    own = " --no-build-isolation" if args.compiled else ""
    say(args, f"\nnext      cd {path} && python -m pip install{own} -e '.[test]' && python -m pytest")
    print_json(args, {"kind": args.kind, "name": args.name, "path": str(path), "files": files})
    return 0


def _plugins_called(name):
    """Return every plugin with that name, families and proposals."""
    from expfam.plugins.registry import list_plugins, load_family

    found = [plugin for plugin in list_plugins() if name in (plugin.name, plugin.qualified_name)]
    if not found:
        load_family(name)  # its error lists the known names
    return found


def _broken_laws(plugin):
    """Return the laws that a plugin breaks at its default settings, or None."""
    try:
        report = _laws(plugin)
    except Exception as error:  # foreign code may raise anything; the other plugins must still be checked
        return f"the laws cannot be tried: {message_of(error)}"
    return "; ".join(f"{name}: {report[name].message}" for name in report.named("failed")) or None


def _laws(plugin):
    """Return a report on a plugin at its default settings.

    A family that keeps its laws is tried in groups, too; parts of split-merge moves are tried alone and in a kernel.
    """
    from expfam.plugins.conformance import Report, check_family, check_grouped, check_kernel, check_proposal
    from expfam.plugins.registry import load_family, load_proposal
    from expfam.samplers import SplitMerge

    if plugin.group == "expfam.families":
        family = load_family(plugin.qualified_name)
        report = check_family(family, raises=False)
        if not report.passed:
            return report  # the laws of groups build upon these
        grouped = check_grouped(family, n_moves=_GROUPED_MOVES, raises=False)
        return Report(report.subject, report.results + grouped.results)
    part = load_proposal(plugin.qualified_name)
    report = check_proposal(part, raises=False)
    if part.kind == "assignment":
        return report
    # the kernel has no other part and one move in each step: other moves, or steps without moves, would hide errors
    kernel = SplitMerge(**{part.kind: part}, n_moves=1, every=1)
    moves = check_kernel(kernel, n_moves=_KERNEL_STARTS, reversible=True, raises=False, only=_MOVE_LAWS)
    return Report(report.subject, report.results + moves.results)


def _source(entry):
    return f"{entry['distribution']} {entry['version']}".strip()


def _verdict(entry):
    if "passed" not in entry:
        return ()
    return ("ok" if entry["passed"] else f"FAILED {entry['fault']}",)
