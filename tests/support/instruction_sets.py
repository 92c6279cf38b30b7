"""Code that is run under one instruction set, in a process of its own: the choice is made when a module is loaded."""

import os
import subprocess
import sys

import numpy as np
from source_tree import import_path

SETS = ("base", "avx2", "avx512")
NUMBERS_OF = """
def numbers_of(components):  # scores of 13 clusters of 60 rows, some of which leave the 11 that have rows
    found = []
    for i in range(0, 60, 7):
        found.append(components.log_predictive_self(i, i % 11))
        components.remove(i, i % 11)
    found.extend(components.log_predictive_block(0, 60, 13).ravel())
    found.extend(components.log_marginal())
    found.extend(components.log_merged(0, range(1, 13)))
    return found
"""  # for code whose numbers `check_sets_agree` compares


def numbers_of_families(names, families, rows):
    """Code that saves the numbers of some families of `expfam` on rows X of several widths V; rng is a generator."""
    return f"""{NUMBERS_OF}
import sys
import numpy as np
from expfam import Dataset, {names}
from expfam.families.components import Components
rng = np.random.default_rng(3)
out = []
for V in (1, 3, 8, 9, 17, 40):
    {rows}
    for family in ({families}):
        data = Dataset(X, family)
        components = Components(data.family, data, 13)
        components.refresh((np.arange(60) % 11).astype(np.int32))
        out.extend(numbers_of(components))
np.save(sys.argv[1], np.array(out))
"""


def output_under(isa, code, *arguments, file=None):
    """What code prints under an instruction set; with `file`, a test's `__file__`, it may import that test."""
    environment = os.environ | {"EXPFAM_ISA": isa} | ({} if file is None else {"PYTHONPATH": import_path(file)})
    command = [sys.executable, "-c", code, *map(str, arguments)]
    # not in the checkout, whose folders would be imported in place of the installed package
    done = subprocess.run(command, cwd=sys.prefix, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_sets_agree(code, folder, *, rtol=1e-10, atol=1e-10):
    """Numbers that code saves in the file of its first argument are those of the base set under every other one."""
    found = []
    for isa in SETS:
        target = folder / f"{isa}.npy"
        output_under(isa, code, target)
        found.append(np.load(target))
    assert found[0].size
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=rtol, atol=atol)
