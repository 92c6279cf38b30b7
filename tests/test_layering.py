"""Every import and cimport points down: face, samplers, model, families, structures, and the ground of structures."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]

CONTRACTS = {"expfam.contracts", "expfam.protocols", "expfam.errors"}
GROUND = {"expfam.structures._rng", "expfam.structures._threads", "expfam.structures._kernels"}
DRIVERS = {f"expfam.samplers.{name}" for name in ("sampling", "trace", "callbacks", "diagnostics", "systems")}
# What a package's __init__ loads lazily may be any of its modules: the package itself stands above all of them.
LAYERS = (
    "ground",
    "structures",
    "families",
    "model",
    "state",
    "proposals",
    "algorithms",
    "drivers",
    "samplers",
    "face",
)
REGISTRY_MAY_IMPORT = {"expfam.protocols", "expfam.errors", "expfam.families.base"}
PLUGINS_MAY_BE_IMPORTED_BY = {
    "expfam.plugins.registry": {
        "expfam",
        "expfam.estimators",
        "expfam.cli.arguments",
        "expfam.cli.plugins",
        "expfam.saved_classes",
        "expfam.samplers.proposals.by_name",
        "expfam.plugins.conformance",
        "expfam.plugins.scaffold",
    },
    "expfam.plugins.scaffold": {"expfam.cli.plugins"},
    "expfam.plugins.conformance": {"expfam", "expfam.cli.plugins"},
    "expfam.plugins.families": {"expfam"},
}


class Import(NamedTuple):
    """One imported module, with the name taken from it where that is no module itself."""

    source: str
    target: str
    name: str | None
    place: str


def layer(module):
    """Name of the layer of a module that is neither a contract nor a plugin."""
    package = module.rpartition(".")[0]
    if module in GROUND:
        return "ground"
    if module in ("expfam.samplers.state", "expfam.samplers.settings"):
        return "state"
    if module in tuple(f"expfam.samplers.{name}" for name in ("cluster_tree", "_cluster_cells", "_cluster_search")):
        return "state"  # a structure over parameters, which kernels and proposals search
    if module in DRIVERS:
        return "drivers"
    if "expfam.samplers.proposals" in (module, package):
        return "proposals"
    if package == "expfam.samplers":
        return "algorithms"
    for known in ("structures", "families", "model", "samplers"):
        if module == f"expfam.{known}" or package == f"expfam.{known}":
            return known
    return "face"


def in_conformance_kit(module):
    """Whether a module is the kit or one of its private parts, which stand beside it in plugins/."""
    return module == "expfam.plugins.conformance" or module.startswith("expfam.plugins._")


def fault(found):
    """Why an import is forbidden, or None."""
    source, target = found.source, found.target
    if source == target:
        return None
    if source in CONTRACTS:
        return None if target in CONTRACTS else "the contracts import nothing of the package but each other"
    if source == "expfam.plugins.registry":
        return (
            None if target in REGISTRY_MAY_IMPORT else "the registry knows protocols, errors and the family base only"
        )
    if in_conformance_kit(source):
        if in_conformance_kit(target):
            return None
        private = [part for part in [*target.split("."), found.name or ""] if part.startswith("_")]
        return f"the conformance kit is a client of public names, {private[0]} is private" if private else None
    if target.startswith("expfam.plugins"):
        callers = PLUGINS_MAY_BE_IMPORTED_BY.get(target, set())
        return (
            None if source in callers or source == "expfam.plugins" else f"only {sorted(callers)} may import {target}"
        )
    if source == "expfam.plugins":
        return "plugins/__init__ imports plugins only"
    # families kept in plugins/ stand where those of expfam/families/ stand
    height = LAYERS.index("families" if source.startswith("expfam.plugins.") else layer(source))
    if target == "expfam.errors" and layer(source) == "structures":
        return None  # errors are named by cause, not by model
    if target in CONTRACTS:
        if target == "expfam.errors" and layer(source) == "structures":
            return None  # errors are named by cause, not by model
        return None if height > LAYERS.index("structures") else "structures know numbers, not contracts of models"
    if LAYERS.index(layer(target)) > height:
        return f"{LAYERS[height]} may not import upwards, from {layer(target)}"
    return None


def packages(root):
    """Package name to folder, as the build has it."""
    for node in ast.parse((root / "setup.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "PACKAGES":
            return ast.literal_eval(node.value)
    raise AssertionError("setup.py no longer has a literal PACKAGES")


def sources(root):
    """(module, file) of all Python and Cython sources and stubs of the package."""
    for package, folder in packages(root).items():
        for file in sorted((root / folder).iterdir()):
            if file.suffix in {".py", ".pyx", ".pxd", ".pyi"}:
                yield (package if file.stem == "__init__" else f"{package}.{file.stem}"), file


LITERAL = re.compile(r'("""|\'\'\').*?\1|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|#[^\n]*', re.DOTALL)
STATEMENT = re.compile(
    r"(?:^|:|;)[ \t]*(?:from[ \t]+([.\w]+)[ \t]+c?import[ \t]*(\([^)]*\)|[^\n;]*)|c?import[ \t]+([^\n;]*))",
    re.MULTILINE,
)


def cython_statements(text):
    """(line, module, names or None) of the imports and cimports of a Cython source."""
    blank = LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    blank = blank.replace("\\\n", "  ")
    for match in STATEMENT.finditer(blank):
        line = blank.count("\n", 0, match.end()) + 1
        module, names, plain = match.groups()
        if module:
            yield line, module, [name.split()[0] for name in names.strip("()\n ").split(",") if name.strip()]
        else:
            for name in plain.split(","):
                yield line, name.split()[0], None


def python_statements(text):
    """(line, module, names or None) of the imports of a Python source: nested, by string and from tables of homes."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.lineno, "." * node.level + (node.module or ""), [alias.name for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] in ("import_module", "__import__"):
            if node.args and isinstance(node.args[0], ast.Constant):
                yield node.lineno, node.args[0].value, None
        elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_HOMES":
            yield from ((key.lineno, key.value, None) for key in node.value.keys)


def absolute(module, source, file):
    """Dotted name of a possibly relative module."""
    stripped = module.lstrip(".")
    level = len(module) - len(stripped)
    if not level:
        return module
    parents = source.split(".") if file.stem == "__init__" else source.split(".")[:-1]
    parents = parents[: len(parents) - level + 1]
    return ".".join([*parents, stripped] if stripped else parents)


def imports(root):
    """All imports among the modules of the package in a checkout."""
    files = list(sources(root))
    modules = {module for module, _ in files} | set(packages(root))
    for source, file in files:
        reader = cython_statements if file.suffix in {".pyx", ".pxd"} else python_statements
        for line, module, names in reader(file.read_text(encoding="utf-8")):
            target = absolute(module, source, file)
            if target.split(".")[0] != "expfam":
                continue
            place = f"{file.relative_to(root)}:{line}"
            for name in names or [None]:
                below = f"{target}.{name}"
                yield Import(source, below, None, place) if below in modules else Import(source, target, name, place)


def faults(root):
    """One line for each forbidden import."""
    lines = []
    for found in imports(root):
        reason = fault(found)
        if reason:
            lines.append(f"{found.place}: {found.source} imports {found.target}: {reason}")
    return lines


def test_every_import_points_down():
    found = list(imports(ROOT))
    assert len(found) > 60  # the reader sees the package
    assert {"expfam.samplers.gibbs", "expfam.samplers.state"} <= {i.source for i in found}
    assert not faults(ROOT), "\n".join(faults(ROOT))


def test_nothing_outside_the_package_map_is_imported():
    modules = {module for module, _ in sources(ROOT)} | set(packages(ROOT))
    unknown = [f"{i.place}: {i.target}" for i in imports(ROOT) if i.target not in modules]
    assert not unknown, "\n".join(unknown)


@pytest.fixture
def tree(tmp_path):
    """A small checkout of the same shape without a fault; files are added by the test."""
    folders = packages(ROOT)
    (tmp_path / "setup.py").write_text(f"PACKAGES = {folders!r}\n")
    for folder in folders.values():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "__init__.py").write_text("")
    for path in (
        "expfam/estimators.py",
        "expfam/errors.py",
        "expfam/protocols.py",
        "expfam/contracts.pxd",
        "expfam/families/base.py",
        "expfam/model/data.py",
        "samplers/state.pyx",
        "samplers/gibbs.pyx",
        "samplers/trace.py",
        "samplers/systems.py",
        "samplers/proposals/by_name.py",
        "samplers/proposals/table.pyx",
        "structures/_rng.pyx",
        "structures/alias.pyx",
        "plugins/registry.py",
        "plugins/conformance.py",
        "plugins/families.py",
    ):
        (tmp_path / path).write_text("")
    assert faults(tmp_path) == []
    return tmp_path


WRONG = [
    ("structures/alias.pyx", "from expfam.protocols import Family"),
    ("structures/alias.pyx", "from expfam.families.base import Family"),
    ("structures/_rng.pyx", "from expfam.structures.alias cimport AliasTable"),
    ("expfam/families/base.py", "from expfam.model.data import Dataset"),
    ("expfam/families/base.py", "def f():\n    from expfam.model import data\n"),
    ("expfam/families/base.py", "import expfam"),
    ("expfam/families/base.py", "from expfam import Mixture"),
    ("expfam/families/base.py", "from .. import estimators"),
    ("expfam/families/base.py", "from ..model.data import Dataset"),
    ("expfam/families/__init__.py", "from ..model.data import Dataset"),
    ("expfam/families/base.py", "import numpy, expfam.model.data as data"),
    ("expfam/families/base.py", "from importlib import import_module\nimport_module('expfam.samplers.gibbs')"),
    ("expfam/model/data.py", "class A:\n    def f(self):\n        import expfam.samplers.state\n"),
    ("samplers/state.pyx", "cimport expfam.samplers.gibbs"),
    ("samplers/state.pyx", 'x = "#"; from expfam.samplers.gibbs cimport f'),
    ("samplers/state.pyx", "def f():\n    from expfam.samplers.gibbs import (\n        g,\n        h,\n    )\n"),
    ("samplers/state.pyx", "from expfam.samplers \\\n    cimport gibbs"),
    ("samplers/proposals/table.pyx", "from ..gibbs cimport f"),
    ("samplers/gibbs.pyx", "from expfam.samplers.trace import Trace"),
    ("samplers/gibbs.pyx", "from expfam.samplers import Trace"),
    ("samplers/trace.py", "from expfam.estimators import Mixture"),
    ("samplers/trace.py", "from expfam.plugins.registry import load_family"),
    ("samplers/__init__.py", '_HOMES = {"expfam.estimators": ["Mixture"]}'),
    ("samplers/systems.py", "from expfam.plugins.conformance import check_family"),
    ("samplers/systems.py", "from expfam.plugins.registry import load_proposal"),
    ("samplers/metropolis.pyx", "from expfam.plugins.registry import load_proposal"),
    ("expfam/errors.py", "from expfam.families.base import Family"),
    ("plugins/registry.py", "from expfam.model.data import Dataset"),
    ("plugins/registry.py", "def f():\n    from expfam.plugins.families import Geometric\n"),
    ("plugins/conformance.py", "from expfam.structures._rng import generator"),
    ("plugins/conformance.py", "from expfam.families.base import _hidden"),
    ("plugins/families.py", "from expfam.model.data import Dataset"),
    ("expfam/model/data.py", "from expfam.plugins.families import Geometric"),
]


@pytest.mark.parametrize(("path", "text"), WRONG)
def test_a_wrong_import_is_found(tree, path, text):
    (tree / path).write_text(text)
    lines = faults(tree)
    assert len(lines) >= 1
    assert lines[0].startswith(path)


RIGHT = [
    ("samplers/proposals/by_name.py", "from expfam.plugins.registry import load_proposal"),
    ("samplers/gibbs.pyx", "from expfam.contracts cimport components_v1\nfrom expfam.structures._rng cimport MOVE"),
    (
        "samplers/gibbs.pyx",
        '"""\nfrom expfam.samplers.trace import Trace\n"""\n# import expfam.estimators\nx = "import expfam"',
    ),
    ("samplers/trace.py", "from expfam.samplers.gibbs import CollapsedGibbs"),
    (
        "expfam/families/base.py",
        '"""Example\n\n>>> from expfam import Mixture\n"""\nfrom . import base\nfrom ..errors import E',
    ),
    ("expfam/estimators.py", "from expfam.samplers import sample\nfrom expfam.plugins.registry import load_family"),
    ("plugins/registry.py", "from expfam.errors import PluginError\nfrom expfam.families.base import Family"),
    ("plugins/conformance.py", "from expfam import Dataset\nfrom expfam.families.components import Components"),
    ("plugins/families.py", "from expfam.families.base import Family\nfrom expfam.errors import DataError"),
]


@pytest.mark.parametrize(("path", "text"), RIGHT)
def test_a_right_import_is_allowed(tree, path, text):
    (tree / path).write_text(text)
    assert faults(tree) == []


def loaded_after(statement):
    """Top-level modules in a fresh interpreter after a statement."""
    code = f"{statement}\nimport sys\nprint(*sorted(sys.modules))"
    # started elsewhere: the checkout's own folder expfam/ is not the package
    done = subprocess.run([sys.executable, "-c", code], cwd=sys.prefix, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_no_heavy_library():
    heavy = {"scipy", "sklearn", "matplotlib", "pandas", "pyarrow", "tqdm", "threadpoolctl"}
    assert not heavy & loaded_after("import expfam")


@pytest.mark.parametrize(
    "statement",
    [
        "import expfam.families.base, expfam.families.components, expfam.families.generic",
        "from expfam import Dataset, MixtureModel, DirichletProcess",
        "from expfam import Categorical, DiagonalGaussian, Gaussian, Multinomial, Poisson, SphericalGaussian",
        "from expfam.samplers import CollapsedGibbs, UncollapsedGibbs, Cycle, UpdateHyper, sample, steps",
        "import expfam.structures._rng, expfam.structures._threads, expfam.structures._kernels",
    ],
)
def test_the_core_does_not_load_scikit_learn(statement):
    modules = loaded_after(statement)
    assert any(module.startswith("expfam.") for module in modules)
    assert not {"sklearn", "matplotlib", "pandas", "pyarrow"} & modules
