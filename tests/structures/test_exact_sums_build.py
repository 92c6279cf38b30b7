"""A compiler that may reorder sums of floats breaks exact sums: the tests of exact sums would see such a build."""

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest

import expfam.structures.simd
from expfam.structures.rows.exact_sums import ExactSums, lifts

HEADERS = Path(next(iter(expfam.structures.simd.__path__)))
PROGRAM = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "column_sums.h"

int main(int argc, char **argv) {
    ptrdiff_t n = atol(argv[1]), F = atol(argv[2]);
    double *rows = malloc(n * F * 8), *lift = malloc(3 * F * 8), *sums = calloc(3 * F, 8), *zeros = calloc(F, 8);
    if (argc != 3 || !fread(rows, 8, n * F, stdin) || !fread(lift, 8, 3 * F, stdin)) return 1;
    expfam_double_terms(rows, n, F, F, F, zeros, zeros, lift, sums);
    return fwrite(sums, 8, 3 * F, stdout) != (size_t)(3 * F);
}
"""


def pieces(folder, rows, flag):
    """Pieces of the sums of columns, by a program that is compiled with one more flag."""
    folder.mkdir()
    source, program = folder / "sums.c", folder / "sums"
    source.write_text(PROGRAM)
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    flags = ["-O3", "-g0", "-fno-math-errno", "-fno-trapping-math", "-fopenmp-simd", *flag]
    subprocess.run([compiler[0], *flags, "-I", HEADERS, source, "-o", program, "-lm"], check=True, cwd=folder)
    lift = lifts(np.abs(rows).max(axis=0), len(rows))
    given = rows.tobytes() + np.ascontiguousarray(lift).tobytes()
    done = subprocess.run([program, *map(str, rows.shape)], input=given, capture_output=True, check=True, cwd=folder)
    return np.frombuffer(done.stdout).reshape(3, -1)


@pytest.mark.skipif(os.name == "nt" or not shutil.which("cc"), reason="flags of gcc and clang")
def test_a_build_that_may_reorder_sums_gives_other_pieces(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((999, 65)) * 10.0 ** rng.integers(-5, 6, (999, 65))
    exact = ExactSums(np.abs(rows).max(axis=0), len(rows))
    exact.add(rows)
    own = pieces(tmp_path / "own", rows, [])
    assert own.tobytes() == exact.pieces().tobytes()
    assert pieces(tmp_path / "reversed", rows[::-1].copy(), []).tobytes() == own.tobytes()
    fast = pieces(tmp_path / "fast", rows, ["-ffast-math"])
    backwards = pieces(tmp_path / "backwards", rows[::-1].copy(), ["-ffast-math"])
    assert fast.tobytes() != own.tobytes()
    assert fast.sum(axis=0).tobytes() != backwards.sum(axis=0).tobytes()  # now the order of the rows matters
