"""What the protocols that are run by hand share: clocks, peaks of memory, tables, and a file of all results."""

import json
import platform
import threading
import warnings
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

from expfam.errors import ExactnessWarning

NUMBER_WIDTH = 10  # of the longest that is shown, a minus and nine characters


def clocks():
    """CPU seconds of the process and wall clock."""
    return np.array([process_time(), perf_counter()])


def timed_step(kernel, state):
    """One sweep: its Info, and (CPU, wall) seconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExactnessWarning)  # the published mode is here to be measured
        begin = clocks()
        info = kernel.step(state)
        return info, clocks() - begin


def resident(field):
    """Bytes of this process by a field of /proc/self/status (Linux)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(field)).split()[1])


def with_peak(action):
    """Result of a call, and the most memory that the process held during it, in bytes (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")  # the high-water mark begins here
    return action(), resident("VmHWM")


def with_peak_beside_files(action, seconds=0.05):
    """Result of a call, and by how much the process grew during it, in bytes (Linux).

    Pages of mapped files are not counted: the system takes them back when it needs them. Memory is looked at every so
    many seconds.
    """
    begin = most = resident("RssAnon")
    is_over = threading.Event()

    def watch():
        nonlocal most
        while not is_over.wait(seconds):
            most = max(most, resident("RssAnon"))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        return action(), max(most, resident("RssAnon")) - begin
    finally:
        is_over.set()
        watcher.join()


def asked_for(command, subjects):
    """Parse the options of a command whose arguments are subjects; all of them if none is named."""
    arguments = command.parse_args()
    unknown = set(arguments.subjects) - set(subjects)
    if unknown:
        command.error(f"unknown subject {sorted(unknown)[0]!r}; known: {', '.join(subjects)}")
    arguments.subjects = arguments.subjects or list(subjects)
    return arguments


def print_table(rows):
    """Rows with the same keys as aligned columns."""
    cells = [list(rows[0])] + [[shown(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells)]
    for line in cells:
        print_line(line, widths)
    print(flush=True)


def print_growing(rows, *, first):
    """Each of an iterator's rows as it comes, so that a run that is killed leaves those before; list of the rows.

    All have the same keys; the first column is `first` characters wide, the others as wide as any number.
    """
    found = []
    for row in rows:
        widths = [first, *(max(len(key), NUMBER_WIDTH) for key in list(row)[1:])]
        if not found:
            print_line(list(row), widths)
        print_line([shown(value) for value in row.values()], widths)
        found.append(row)
    print(flush=True)
    return found


def print_line(cells, widths):
    """One line of a table, names to the left and numbers to the right."""
    numbers = (cell.rjust(width) for cell, width in zip(cells[1:], widths[1:]))
    print("  ".join([cells[0].ljust(widths[0]), *numbers]), flush=True)


def shown(value):
    """A cell: four digits of a number, or why there is none."""
    if value is None:
        return "not reached"
    if isinstance(value, float):
        return f"{value:.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return str(value)


def report(args):
    """Run the protocol of parsed arguments and, with --json, write settings and results; return them."""
    result = args.run(args)
    if args.json:
        settings = {key: value for key, value in vars(args).items() if key not in ("run", "json", "data")}
        result = {"settings": settings, "machine": platform.processor() or platform.machine()} | result
        args.json.write_text(json.dumps(result, indent=1, allow_nan=False, default=str))
    return result
