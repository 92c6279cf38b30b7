"""Importing and using the package leaves the floating-point state of every thread as it was."""

import json
import os
import re
import subprocess
import sys

import pytest
from source_tree import ROOT

# In a process of its own: the state belongs to threads, and shared objects change it when they are loaded.
PROGRAM = """
import ctypes, json, sys, threading
import numpy as np

libm = ctypes.CDLL(None)


def state():
    tiny, single = np.full(9, 5e-324), np.full(9, 1e-45, dtype=np.float32)  # long enough for vectors
    third = np.ones(9) / np.full(9, 3.0)
    return {
        "rounding": libm.fegetround(),
        "double denormals in": int(np.count_nonzero(tiny * 1.0)),
        "single denormals in": int(np.count_nonzero(single * np.float32(1))),
        "double denormals out": int(np.count_nonzero(np.full(9, 2.0**-1022) * 0.5)),
        "single denormals out": int(np.count_nonzero(np.full(9, 2.0**-126, dtype=np.float32) * np.float32(0.5))),
        "scalar": 5e-324 * 1.0 > 0.0,
        "to nearest": bool((third == 1 / 3).all() and (-third == -1 / 3).all() and 1.0 + 2.0**-53 == 1.0),
    }


def elsewhere():
    found = []
    thread = threading.Thread(target=lambda: found.append(state()))
    thread.start()
    thread.join()
    return found[0]


out = {"before": state(), "before in a thread": elsewhere()}
if "spoil" in sys.argv:  # FE_UPWARD of this processor, given by the test
    libm.fesetround(int(sys.argv[-1]))
import expfam
import expfam.structures as structures
from expfam.structures.ground.threads import run

out["imported"] = state()
rng = np.random.default_rng(0)
for name in dir(structures):
    getattr(structures, name)
structures.select_top(rng.normal(size=(3000, 200)), 40, n_threads=2)
arena = structures.AliasArena(40, 9000)
arena.fill(rng.random((40, 9000)), n_threads=2)
arena.draw_streams(rng.integers(0, 40, 200_000), 1, n_threads=2)
hashed = structures.SignHash(128)
codes = structures.SignCodes(hashed, 100, bound=np.full(20, 9.0))
codes.rebuild(rng.normal(size=(100, 20)))
words = hashed.codes(rng.normal(size=(300, 20)), n_threads=2)
codes.draws(words, rng.random(300), norms=np.ones(300), bias=np.zeros(100))
structures.CoverTree(rng.normal(size=(500, 4)))
expfam.Mixture("gaussian_diag", n_components=3, n_steps=3, random_state=0, n_threads=2).fit(
    rng.normal(size=(300, 2))
)
out["used"] = state()
out["thread after"] = elsewhere()
barrier = threading.Barrier(2)
workers = run(lambda: (barrier.wait(30), threading.current_thread().name, state()), [(), ()], 2)
out["names"] = [name for _, name, _ in workers]
for i, (_, _, found) in enumerate(workers):
    out[f"worker {i}"] = found
print(json.dumps(out))
"""


def states(isa=None, *arguments):
    environment = os.environ if isa is None else {**os.environ, "EXPFAM_ISA": isa}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=sys.prefix,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(os.name == "nt", reason="the C library is found under another name")
@pytest.mark.parametrize("isa", ["base", None])
def test_nothing_is_changed(isa):
    found = states(isa)
    assert sum(name.startswith("expfam") for name in found.pop("names")) == 1  # and the caller, who works too
    before = found.pop("before")
    assert {key: before[key] for key in before if key.endswith(("in", "out"))} == {
        f"{width} denormals {way}": 9 for width in ("double", "single") for way in ("in", "out")
    }
    assert before["scalar"]
    assert before["to nearest"]
    assert len(found) == 6
    for when, state in found.items():
        assert state == before, when


@pytest.mark.skipif(os.name == "nt", reason="the C library is found under another name")
@pytest.mark.skipif("sys.maxsize < 2**32 or __import__('platform').machine() != 'x86_64'", reason="number of a mode")
def test_a_change_would_be_seen():
    found = states(None, "spoil", str(0x800))
    assert found["imported"] != found["before"]


def test_no_flag_trades_exactness_for_speed():
    """A shared object linked with -ffast-math by gcc flushes denormals of the whole process once it is loaded."""
    root = ROOT
    sources = [root / "setup.py", root / "pyproject.toml"]
    sources += [
        path for folder in ("expfam", "structures", "samplers", "plugins") for path in (root / folder).rglob("*")
    ]
    sources = [
        path for path in sources if path.suffix in (".py", ".toml", ".pyx", ".pxd", ".h", ".c") and path.is_file()
    ]
    if not sources:
        pytest.skip("no sources beside the tests")
    pattern = re.compile(r"fast-math|Ofast|unsafe-math|finite-math|fp:fast|reciprocal-math|march=native|SET_FLUSH_ZERO")
    assert [str(path) for path in sources if pattern.search(path.read_text(encoding="utf-8"))] == []
