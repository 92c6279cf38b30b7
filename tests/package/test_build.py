"""What an installed package must offer: versions, declarations, headers, stubs, and the C contract to a stranger."""

import ast
import importlib
import importlib.metadata
import inspect
import os
import re
import subprocess
import sys
import textwrap
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from source_tree import packages

import expfam

ROOT = Path(__file__).resolve().parents[2]
FROM_THE_END = re.compile(r"[\w)\]]\[-\d")


def installed(package):
    """Folder of an installed package."""
    return Path(importlib.import_module(package).__file__).parent


COMPILED = sorted(
    f"{package}.{file.stem}" for package, folder in packages(ROOT).items() for file in (ROOT / folder).glob("*.pyx")
)


# ---- metadata and package data ---------------------------------------------------------------------------------------


def test_the_version_is_said_once():
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), flags=re.M)[1]
    assert importlib.metadata.version("expfam") == expfam.__version__ == declared


def test_entry_points_of_our_own_families_load():
    mine = [e for e in importlib.metadata.entry_points(group="expfam.families") if e.dist.name == "expfam"]
    assert len(mine) >= 7
    for entry in mine:
        assert inspect.isclass(entry.load()), entry


@pytest.mark.parametrize("package", packages(ROOT))
def test_declarations_stubs_and_headers_are_installed(package):
    source, target = ROOT / packages(ROOT)[package], installed(package)
    for pattern in ("*.py", "*.pxd", "*.pyi", "*.h", "py.typed"):
        missing = {file.name for file in source.glob(pattern)} - {file.name for file in target.glob(pattern)}
        assert not missing, f"{target} lacks {missing}: build and install again"


def test_templates_of_plugins_are_installed():
    source, target = ROOT / "plugins" / "templates", installed("expfam.plugins") / "templates"
    files = {file.relative_to(source) for suffix in ("py", "toml", "md", "in") for file in source.rglob(f"*.{suffix}")}
    assert len(files) >= 13
    assert files <= {file.relative_to(target) for file in target.rglob("*")}


def test_the_include_folder_is_the_packages_own():
    include = Path(expfam.get_include())
    assert (include / "contracts.pxd").exists()
    assert include == installed("expfam")


def test_nothing_but_the_package_can_be_imported():
    names = {folder.split("/")[0] for folder in packages(ROOT).values()} - {"expfam"}
    code = f"import importlib.util\nprint([n for n in {names!r} if importlib.util.find_spec(n)])"
    done = subprocess.run([sys.executable, "-c", code], cwd=sys.prefix, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# ---- stubs -----------------------------------------------------------------------------------------------------------


def declared_names(body):
    """Names that the statements of a stub declare."""
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.AnnAssign, ast.Assign)):
            yield ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])


def stub_of(name):
    """Names that the stub of a module declares, and those of its classes; nothing if there is no stub."""
    file = installed(name.rpartition(".")[0]) / f"{name.rpartition('.')[2]}.pyi"
    body = ast.parse(file.read_text()).body if file.exists() else []
    classes = {node.name: set(declared_names(node.body)) for node in body if isinstance(node, ast.ClassDef)}
    return set(declared_names(body)), classes


@cache
def offered():
    """Module to the names that the public packages take from it."""
    homes = [importlib.import_module(package)._HOMES for package in ("expfam", "expfam.samplers", "expfam.structures")]
    return {module: set().union(*(home.get(module, ()) for home in homes)) for home in homes for module in home}


@cache
def imported():
    """Module to the names that Python files of the package import from it; read by the tests, not to collect them."""
    found = {}
    for folder in packages(ROOT).values():
        for file in (ROOT / folder).glob("*.py"):
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.ImportFrom):
                    found.setdefault(node.module, set()).update(alias.name for alias in node.names)
    return found


def is_public(name):
    return not name.startswith("_")


def test_many_compiled_modules_are_public():
    assert len(set(COMPILED) & set(offered())) > 20
    assert len(set(COMPILED) & set(imported())) > 20


@pytest.mark.parametrize("name", COMPILED)
def test_a_stub_declares_what_users_and_python_files_read(name):
    module = importlib.import_module(name)
    names, members = stub_of(name)
    public = offered().get(name, set())
    needed = public | imported().get(name, set())
    assert needed <= names, f"{needed - names}: not in the stub of {name}"
    assert {key for key in names if is_public(key)} <= set(vars(module)), f"{name}: only in the stub"
    for key, stub in members.items():
        kind = getattr(module, key)
        inherited = {member for base in kind.__mro__[1:] for member in vars(base)}  # typed where they are defined
        there = {member for member in vars(kind) if is_public(member)} - inherited
        declared = {member for member in stub if is_public(member)}
        if key in public:
            assert there <= declared, f"{key}: not in the stub"
        if kind.__dictoffset__ == 0:  # what __init__ sets on an ordinary class is in the stub alone
            assert declared <= there, f"{key}: only in the stub"


# ---- a stranger's compiled extension ---------------------------------------------------------------------------------

STRANGER = """
from cpython.pycapsule cimport PyCapsule_GetPointer
from expfam.contracts cimport EXPFAM_ABI, EXPFAM_OK, components_v1

def declared():
    return EXPFAM_ABI, sizeof(components_v1)

def given(capsule):
    cdef components_v1 *c = <components_v1 *> PyCapsule_GetPointer(capsule, "expfam.components_v1")
    return c.abi_version, c.struct_size, c.work_size

def log_marginal(capsule, double[::1] out, double[::1] work):
    cdef components_v1 *c = <components_v1 *> PyCapsule_GetPointer(capsule, "expfam.components_v1")
    return c.log_marginal(c.self, NULL, out.shape[0], &out[0], &work[0])

def add(capsule, Py_ssize_t i, Py_ssize_t k):
    cdef components_v1 *c = <components_v1 *> PyCapsule_GetPointer(capsule, "expfam.components_v1")
    return c.add(c.self, i, k)
"""
SETUP = """
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
extension = Extension("stranger", ["stranger.pyx"], include_dirs=[numpy.get_include()])
setup(name="stranger", version="0", ext_modules=cythonize([extension], build_dir="build", language_level=3))
"""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An extension compiled outside of the checkout against the installed declarations alone."""
    if not any(Path(entry or ".", "expfam", "contracts.pxd").exists() for entry in sys.path):
        pytest.skip("this editable install hides declarations from other projects: install normally, or in strict mode")
    folder = tmp_path_factory.mktemp("stranger")
    (folder / "stranger.pyx").write_text(STRANGER)
    (folder / "setup.py").write_text(SETUP)
    environment = {**os.environ, "CFLAGS": "-O0 -g0"}
    done = subprocess.run(
        [sys.executable, "setup.py", "-q", "build_ext", "--inplace"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, textwrap.indent(done.stdout + done.stderr, "| ")
    file = next(folder.glob("stranger.*.so"), None) or next(folder.glob("stranger.*.pyd"))
    spec = importlib.util.spec_from_file_location("stranger", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_stranger_sees_the_struct_that_the_package_fills(stranger):
    X = np.array([[1.0, 0.0], [2.0, 5.0], [0.0, 3.0]])
    data = expfam.Dataset(X, expfam.Poisson())
    owner = data.family.components(data, 3, layout="features")
    abi, size = stranger.declared()
    given_abi, given_size, work_size = stranger.given(owner.capsule)
    assert (given_abi, given_size) == (abi, size)
    assert stranger.add(owner.capsule, 0, 1) == 0
    assert stranger.add(owner.capsule, 2, 1) == 0
    out = np.empty(3)
    assert stranger.log_marginal(owner.capsule, out, np.empty(max(work_size, 1))) == 0
    n, S = np.array([0.0, 2.0, 0.0]), np.array([[0.0, 0.0], [1.0, 3.0], [0.0, 0.0]])
    np.testing.assert_allclose(out, data.family.log_marginal(n, S), rtol=1e-9, atol=1e-9)  # what the contract allows


def test_no_compiled_module_counts_from_the_end():
    """Without checks of bounds, an element of a Python object that is counted from the end is another one, or none."""
    found = []
    for package, folder in packages(ROOT).items():
        for path in sorted((ROOT / folder).glob("*.pyx")):
            code = re.sub(
                r'"""(?:.|\n)*?"""', lambda text: "\n" * text[0].count("\n"), path.read_text(encoding="utf-8")
            )
            lines = enumerate(code.split("\n"), 1)
            found += [f"{package}.{path.stem}, line {number}" for number, line in lines if FROM_THE_END.search(line)]
    assert found == []


@pytest.mark.parametrize(
    ("line", "is_found"), [("x = total[-1]", True), ("[-1] + [k]", False), ("x[:-1]", False), ("f(x)[-2]", True)]
)
def test_elements_counted_from_the_end_are_seen(line, is_found):
    assert bool(FROM_THE_END.search(line)) == is_found
