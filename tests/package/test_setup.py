"""A module is compiled again where the content of something that it is made from has changed, and only there."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(not (ROOT / "setup.py").exists(), reason="needs the checkout")

FILES = {
    "expfam/__init__.py": "",
    "structures/__init__.py": "",
    "samplers/__init__.py": "",
    "plugins/__init__.py": "",
    "structures/deep.h": "static int deep(void) { return 1; }\n",
    "structures/number.h": '#include "deep.h"\nstatic int number(void) { return deep(); }\n',
    "structures/base.pxd": 'cdef extern from "number.h":\n    int number()\n',
    "structures/user.pyx": "from expfam.structures.base cimport number\n\ndef get():\n    return number()\n",
    "structures/five.h": "static int five(void) { return 5; }\n",
    "samplers/other.pyx": 'cdef extern from *:\n    """\n    #include "five.h"\n    """\n    int five()\n\n'
    "def get():\n    return five()\n",
}
USER, OTHER = "expfam.structures.user", "expfam.samplers.other"


@pytest.fixture
def tree(tmp_path):
    """A small checkout: one module reads a declaration and two headers, the other a header from its C text."""
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "setup.py").write_text((ROOT / "setup.py").read_text())
    return tmp_path


def built(tree, **variables):
    """Build in place; return the modules whose C file and whose binary were made in this run."""
    before = made_files(tree)
    environment = {**os.environ, "EXPFAM_MODULES": f"{USER} {OTHER}", "EXPFAM_OPTIMISATION": "-O0", **variables}
    command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    made = [file for file, time in made_files(tree).items() if before.get(file) != time]
    return tuple(sorted({file.name.partition(".")[0] for file in made if file.suffix == end}) for end in (".c", ".so"))


def made_files(tree):
    """Time of each C file and each binary of a build folder."""
    files = (tree / "build").rglob("*")
    return {file: file.stat().st_mtime_ns for file in files if file.suffix in (".c", ".so")}


def test_a_module_is_compiled_again_only_where_its_content_changed(tree):
    assert built(tree) == (["other", "user"], ["other", "user"])
    for file in tree.rglob("*"):
        os.utime(file)  # as new copies of the same declarations have
    assert built(tree) == ([], [])
    (tree / "structures" / "deep.h").write_text("static int deep(void) { return 2; }\n")
    assert built(tree) == ([], ["user"])
    (tree / "structures" / "five.h").write_text("static int five(void) { return 7; }\n")
    assert built(tree) == ([], ["other"])
    with (tree / "structures" / "base.pxd").open("a") as file:
        file.write("# more\n")
    assert built(tree)[0] == ["user"]
    (tree / "samplers" / "other.pyx").write_text("def get():\n    return 6\n")
    assert built(tree) == (["other"], ["other"])
    assert built(tree, EXPFAM_OPTIMISATION="-O1") == ([], ["other", "user"])
    (binary,) = (tree / "samplers").glob("other.*.so")
    as_made = binary.read_bytes()
    binary.write_bytes(b"of another build")
    built(tree, EXPFAM_OPTIMISATION="-O1")
    assert binary.read_bytes() == as_made
