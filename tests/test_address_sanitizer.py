"""Selection and sums of sparse responsibilities under the address sanitizer: nothing is touched out of range."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    "expfam.structures.top_l": ROOT / "build/cython/structures/top_l.c",
    "expfam.samplers._sparse_pass": ROOT / "build/cython/samplers/_sparse_pass.c",
}
LOAD = """
import importlib.machinery, importlib.util, sys
import expfam.samplers, expfam.structures
for name, path in {modules!r}.items():
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_file_location(name, path, loader=loader))
    sys.modules[name] = module
    loader.exec_module(module)
    package, _, last = name.rpartition(".")
    setattr(sys.modules[package], last, module)
import numpy as np
from expfam.samplers._sparse_pass import select_rows, work_size
"""
TIES = """
import pytest
chosen = "ties or kept or candidates or reference or sparse"
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", {tests!r}, "-k", chosen]))
"""
TOO_SHORT = """
K, L, m = 6, 4, 50
indices = np.empty((m, L - 1), dtype=np.int32)  # the routine goes by the other array
rest = (np.empty((m, L)), indices, np.empty(m), np.empty(m), np.empty(work_size(K)))
select_rows(np.zeros((m, K)), None, None, None, *rest)
"""
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc"),
    pytest.mark.skipif(not all(path.exists() for path in SOURCES.values()), reason="needs the C of a build in place"),
]


@pytest.fixture(scope="module")
def run_checked(tmp_path_factory):
    """Run a program with both modules built for the sanitizer."""
    folder = tmp_path_factory.mktemp("asan")
    library = subprocess.run(["gcc", "-print-file-name=libasan.so"], check=True, capture_output=True, text=True).stdout
    if not Path(library.strip()).is_absolute():
        pytest.skip("gcc has no address sanitizer here")
    include = [sysconfig.get_paths()["include"], np.get_include(), ROOT / "expfam", ROOT / "structures"]
    flags = ["-shared", "-fPIC", "-O1", "-fsanitize=address", "-DNPY_NO_DEPRECATED_API=NPY_2_0_API_VERSION"]
    modules = {}
    for name, source in SOURCES.items():
        modules[name] = str(folder / f"{source.stem}.so")
        command = ["gcc", *flags, *(f"-I{path}" for path in include), str(source), "-o", modules[name], "-lm"]
        subprocess.run(command, check=True, capture_output=True)

    def run(program):
        environment = {"LD_PRELOAD": library.strip(), "ASAN_OPTIONS": "detect_leaks=0", "PATH": "/usr/bin:/bin"}
        command = [sys.executable, "-c", LOAD.format(modules=modules) + program]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)

    return run


def test_nothing_is_touched_out_of_range(run_checked):
    done = run_checked(TIES.format(tests=str(ROOT / "tests" / "test_variational.py")))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert "passed" in done.stdout


def test_the_sanitizer_sees_what_is_out_of_range(run_checked):
    done = run_checked(TOO_SHORT)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
