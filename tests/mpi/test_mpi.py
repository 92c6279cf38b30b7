"""Ranks of MPI keep the laws of engines, and have the same labels for any number of ranks."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

PROGRAM = Path(__file__).with_name("laws_of_ranks.py")


def of_mpich(name):
    """A file of the installed mpich."""
    (found,) = [file for file in metadata.files("mpich") if file.name == name]
    return Path(found.locate()).resolve()


def digest(n_ranks, *arguments):
    """Digest of the labels under some ranks."""
    command = [str(of_mpich("mpiexec")), "-n", str(n_ranks), sys.executable, str(PROGRAM), *arguments]
    # mpi4py looks for the library in the environment of Python, which may lie above that of mpich
    paths = os.environ | {"LD_LIBRARY_PATH": str(of_mpich("libmpi.so").parent)}
    settings = {"cwd": sys.prefix, "env": paths, "capture_output": True, "text": True, "timeout": 300, "check": False}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, **settings)  # mpiexec reads it, and fails if it is endless
    assert done.returncode == 0, done.stdout + done.stderr
    size, found = done.stdout.split()
    assert int(size) == n_ranks
    return found


def test_any_number_of_ranks_has_the_same_labels(tmp_path):
    """Three ranks write a checkpoint; one and two go on from it."""
    whole, path = digest(1, str(tmp_path / "one")), str(tmp_path / "three")
    assert digest(3, path) == whole
    assert digest(1, path, "resume") == digest(2, path, "resume") == whole
