"""Altered checkpoints and saved models, whose checksums fit, end in an ArchiveError or are used: they end no process.

A mutant that is refused later than it is read, by an error of the package or of the arithmetic that names the numbers,
is told apart from one that ends in an error of Python's own, which is a fault.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mutations import CASES

FEW, MANY = 8, 400


def faults(names, first, stop, seconds):
    """How many mutants were read and refused, and those that ended in a bare error, a crash, or not at all."""
    command = [sys.executable, Path(__file__).with_name("mutations.py"), str(first), str(stop), *names]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        try:
            output, errors = child.communicate(timeout=seconds)
            end = f"ended with {child.returncode}: {errors[-500:]}"
        except subprocess.TimeoutExpired:
            child.kill()
            output, errors = child.communicate()
            end = f"hung for {seconds} s"
    found, n_read, n_refused = [], 0, 0
    for line in output.splitlines():
        name, seed, result = [*line.split(" ", 2), ""][:3]
        if not result:
            found.append(f"{name} {seed}: {end}")
            continue
        n_read += 1
        outcome = json.loads(result)[0]
        n_refused += outcome == "refused"
        if outcome.startswith("error"):
            found.append(line)
    if child.returncode and not found:
        found.append(end)
    return n_read, n_refused, found


@pytest.mark.parametrize("part", [0, 1])
def test_a_few_hundred_altered_files_end_in_archive_errors(part):
    names = CASES[part::2]
    n_read, n_refused, found = faults(names, 0, FEW, 300)
    assert found == []
    assert n_read == FEW * len(names)
    assert n_refused > 0.3 * n_read  # the alterations are not idle


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_thousands_of_altered_files_end_in_archive_errors(name):
    n_read, _, found = faults([name], FEW, FEW + MANY, 1800)
    assert found == []
    assert n_read == MANY
