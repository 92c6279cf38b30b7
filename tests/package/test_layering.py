"""Every import and cimport points down: a room imports its own files and the rooms of lower floors."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from source_tree import packages

ROOT = Path(__file__).resolve().parents[2]

# The rooms, one floor a line, the ground first. Rooms of one floor do not import each other. A module belongs to the
# longest name that it begins with, so a single module can be a room; "(names)" is a package's __init__, which hands on
# public names of all rooms of the package.
FLOORS = (
    ("expfam.contracts", "expfam.protocols", "expfam.errors"),
    ("expfam.amounts", "expfam.stages"),
    (
        *("expfam.params", "expfam.lazy", "expfam.staging", "expfam.near_names", "expfam.user_warnings"),
        "expfam.structures.ground",
    ),
    ("expfam.archive",),
    ("expfam.engines",),
    ("expfam.structures.simd",),
    (
        *("expfam.structures.partitions", "expfam.structures.merging", "expfam.structures.selection"),
        *("expfam.structures.hashing", "expfam.structures.cover_tree"),
    ),
    ("expfam.structures.cluster_tree", "expfam.structures.rows"),
    ("expfam.structures (names)",),
    ("expfam.frames",),
    ("expfam.families",),
    ("expfam.families.counts", "expfam.families.gaussian"),
    ("expfam.families.trials", "expfam.families.waiting", "expfam.families.directions"),
    ("expfam.families.columns",),
    ("expfam.model",),
    ("expfam.plugins.registry",),
    ("expfam.samplers.geometry",),
    ("expfam.samplers.starts",),
    ("expfam.samplers.chain",),
    ("expfam.samplers.states",),
    ("expfam.samplers.proposals",),
    ("expfam.samplers.hyper",),
    (
        "expfam.samplers.collapsed",
        "expfam.samplers.uncollapsed",
        "expfam.samplers.split_merge",
        "expfam.samplers.variational",
        "expfam.samplers.hierarchy",
    ),
    ("expfam.samplers.shards.places",),
    ("expfam.samplers.shards.checkpoint",),
    ("expfam.samplers.grouped", "expfam.samplers.topics", "expfam.samplers.shards"),
    ("expfam.samplers.nonparametric",),
    ("expfam.samplers.warm_starts",),
    ("expfam.samplers.named",),
    ("expfam.samplers (names)",),
    ("expfam.evaluation", "expfam.displays", "expfam.io"),
    ("expfam.forecast",),
    ("expfam.fitted",),
    ("expfam.fitting",),
    ("expfam.coarsening",),
    ("expfam.estimators",),
    ("expfam.dask",),
    ("expfam", "expfam.plugins"),
    ("expfam.cli",),
    ("expfam.__main__",),
)
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
CONTRACTS = set(FLOORS[0])
REGISTRY_MAY_IMPORT = {"expfam.protocols", "expfam.errors", "expfam.near_names", "expfam.families.base"}
PLUGINS_MAY_BE_IMPORTED_BY = {
    "expfam.plugins.registry": {
        "expfam",
        "expfam.estimators.family_estimator",
        "expfam.cli.arguments",
        "expfam.cli.plugins",
        "expfam.io.saved_classes",
        "expfam.samplers.proposals.by_name",
        "expfam.plugins.conformance",
        "expfam.plugins.scaffold",
    },
    "expfam.plugins.scaffold": {"expfam.cli.plugins"},
    "expfam.plugins.conformance": {"expfam", "expfam.cli.plugins"},
}
# The table of named starts that run kernels names modules above it; it imports them when they are asked for.
NAMED_LATER = {
    ("expfam.samplers.starts.rules", "expfam.samplers.warm_starts.variational"),
}


class Import(NamedTuple):
    """One imported module, with the name taken from it where that is no module itself."""

    source: str
    target: str
    name: str | None
    place: str


def room_of(module):
    """Room of a module: the longest known name that it begins with."""
    if f"{module} (names)" in FLOOR_OF:
        return f"{module} (names)"
    parts = module.split(".")
    for n in range(len(parts), 0, -1):
        if ".".join(parts[:n]) in FLOOR_OF:
            return ".".join(parts[:n])
    raise AssertionError(f"{module} stands in no room of FLOORS")


def in_conformance_kit(module):
    """Whether a module is the kit or one of its laws."""
    return module == "expfam.plugins.conformance" or module.startswith("expfam.plugins.laws")


def plugin_fault(source, target, name):
    """Why an import by or of the plug-in machinery is forbidden, or None."""
    if source == "expfam.plugins.registry":
        allowed = target in REGISTRY_MAY_IMPORT
        return None if allowed else "the registry knows protocols, errors and the family base only"
    if in_conformance_kit(source):
        if in_conformance_kit(target):
            return None
        private = [part for part in [*target.split("."), name or ""] if part.startswith("_")]
        return f"the conformance kit is a client of public names, {private[0]} is private" if private else None
    if target.startswith("expfam.plugins"):
        callers = PLUGINS_MAY_BE_IMPORTED_BY.get(target, set())
        allowed = source in callers or source == "expfam.plugins"
        return None if allowed else f"only {sorted(callers)} may import {target}"
    return "plugins/__init__ imports plugins only" if source == "expfam.plugins" else None


def fault(found):
    """Why an import is forbidden, or None."""
    source, target = found.source, found.target
    if source == target or (source, target) in NAMED_LATER:
        return None
    if source in CONTRACTS:
        return None if target in CONTRACTS else "the contracts import nothing of the package but each other"
    if "expfam.plugins" in (source[:14], target[:14]):
        return plugin_fault(source, target, found.name)
    if target in CONTRACTS and target != "expfam.errors" and source.startswith("expfam.structures"):
        return "structures know numbers, not contracts of models"
    here, there = room_of(source), room_of(target)
    if here == there:
        return None
    if FLOOR_OF[there] > FLOOR_OF[here]:
        return f"{here} may not import upwards, from {there}"
    if FLOOR_OF[there] == FLOOR_OF[here]:
        return f"{here} and {there} stand on one floor and do not import each other"
    return None


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


def faults(statements):
    """One line for each forbidden import."""
    lines = []
    for found in statements:
        reason = fault(found)
        if reason:
            lines.append(f"{found.place}: {found.source} imports {found.target}: {reason}")
    return lines


@pytest.fixture(scope="module")
def found():
    """All imports of the checkout, which are read once."""
    return list(imports(ROOT))


def test_every_import_points_down(found):
    assert len(found) > 60  # the reader sees the package
    assert {"expfam.samplers.collapsed.gibbs", "expfam.samplers.states.collapsed"} <= {i.source for i in found}
    assert not faults(found), "\n".join(faults(found))


def private_imports(statements):
    """Imports of a module whose name begins with an underscore from another folder."""
    for found in statements:
        folder, _, name = found.target.rpartition(".")
        if name.startswith("_") and name != "__init__" and found.source.rpartition(".")[0] != folder:
            yield f"{found.place}: {found.target}"


def test_private_modules_are_imported_in_their_own_folder_alone(found):
    assert list(private_imports(found)) == []


def test_nothing_outside_the_package_map_is_imported(found):
    modules = {module for module, _ in sources(ROOT)} | set(packages(ROOT))
    unknown = [f"{i.place}: {i.target}" for i in found if i.target not in modules]
    assert not unknown, "\n".join(unknown)


def test_moves_are_accepted_by_one_rule():
    """The number that a log ratio is compared with is drawn in one file alone."""
    drawn = re.compile(r"\blog\(\s*philox_double|\blog\(u\)\s*<")
    found = [str(file.relative_to(ROOT)) for _, file in sources(ROOT) if drawn.search(file.read_text(encoding="utf-8"))]
    assert found == ["samplers/chain/accept.pxd"]


# Where an import inside a function has a reason: commands start fast, and a list of plugins does not load NumPy.
LATE = ("expfam/cli/", "plugins/registry.py")


def late_imports(root):
    """Imports of our own modules inside functions, in Python and Cython sources."""
    for _, file in sources(root):
        place = file.relative_to(root).as_posix()
        if place.startswith(LATE) or file.suffix not in {".py", ".pyx"}:
            continue
        text = file.read_text(encoding="utf-8")
        if file.suffix == ".py":
            for function in ast.walk(ast.parse(text)):
                if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    for node in ast.walk(function):
                        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                        names += [node.module or "."] if isinstance(node, ast.ImportFrom) else []
                        if any(name.split(".")[0] in ("expfam", "") for name in names):
                            yield f"{place}:{node.lineno}"
        else:
            blank = LITERAL.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
            for number, line in enumerate(blank.splitlines(), 1):
                if re.match(r"\s+(from|import|cimport)\s+expfam\b", line):
                    yield f"{place}:{number}"


def test_no_import_stands_inside_a_function():
    """It would hide a circle: what a module needs is named at its top."""
    assert list(late_imports(ROOT)) == []


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("samplers/chain/trace.py", "def f():\n    from expfam.errors import DataError\n"),
        ("samplers/chain/trace.py", "class A:\n    def f(self):\n        import expfam.errors as e\n"),
        ("samplers/chain/trace.py", "def f():\n    from . import driver\n"),
        ("samplers/collapsed/gibbs.pyx", "def f():\n    from expfam.errors import DataError\n"),
    ],
)
def test_an_import_inside_a_function_is_found(tree, path, text):
    (tree / path).write_text(text)
    assert len(list(late_imports(tree))) == 1


@pytest.fixture
def tree(tmp_path):
    """A small checkout of the same shape without a fault; files are added by the test."""
    folders = packages(ROOT)
    (tmp_path / "setup.py").write_text((ROOT / "setup.py").read_text())
    for folder in folders.values():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / "__init__.py").write_text("")
    for path in (
        "expfam/estimators/mixture.py",
        "expfam/errors.py",
        "expfam/protocols.py",
        "expfam/contracts.pxd",
        "expfam/families/base.py",
        "expfam/model/data.py",
        "samplers/states/collapsed.pyx",
        "samplers/collapsed/gibbs.pyx",
        "samplers/chain/trace.py",
        "samplers/variational/mixture.py",
        "samplers/warm_starts/variational.py",
        "samplers/named.py",
        "samplers/proposals/by_name.py",
        "samplers/collapsed/metropolis.pyx",
        "samplers/proposals/table.pyx",
        "structures/ground/rng.pyx",
        "structures/selection/alias.pyx",
        "plugins/registry.py",
        "plugins/conformance.py",
        "expfam/families/trials/geometric.py",
    ):
        (tmp_path / path).write_text("")
    assert faults(imports(tmp_path)) == []
    return tmp_path


WRONG = [
    ("samplers/variational/mixture.py", "from expfam.samplers.collapsed.gibbs import CollapsedGibbs"),
    ("samplers/chain/trace.py", "from expfam.samplers.states.collapsed import CollapsedState"),
    ("structures/selection/alias.pyx", "from expfam.protocols import Family"),
    ("structures/selection/alias.pyx", "from expfam.families.base import Family"),
    ("structures/ground/rng.pyx", "from expfam.structures.selection.alias cimport AliasTable"),
    ("expfam/families/base.py", "from expfam.model.data import Dataset"),
    ("expfam/families/base.py", "def f():\n    from expfam.model import data\n"),
    ("expfam/families/base.py", "import expfam"),
    ("expfam/families/base.py", "from expfam import Mixture"),
    ("expfam/families/base.py", "from .. import estimators"),
    ("expfam/families/base.py", "from ..model.data import Dataset"),
    ("expfam/families/__init__.py", "from ..model.data import Dataset"),
    ("expfam/families/base.py", "import numpy, expfam.model.data as data"),
    (
        "expfam/families/base.py",
        "from importlib import import_module\nimport_module('expfam.samplers.collapsed.gibbs')",
    ),
    ("expfam/model/data.py", "class A:\n    def f(self):\n        import expfam.samplers.states.collapsed\n"),
    ("samplers/states/collapsed.pyx", "cimport expfam.samplers.collapsed.gibbs"),
    ("samplers/states/collapsed.pyx", 'x = "#"; from expfam.samplers.collapsed.gibbs cimport f'),
    (
        "samplers/states/collapsed.pyx",
        "def f():\n    from expfam.samplers.collapsed.gibbs import (\n        g,\n        h,\n    )\n",
    ),
    ("samplers/states/collapsed.pyx", "from expfam.samplers.collapsed \\\n    cimport gibbs"),
    ("samplers/proposals/table.pyx", "from ..collapsed.gibbs cimport f"),
    ("samplers/collapsed/gibbs.pyx", "from expfam.samplers import Trace"),
    ("samplers/chain/trace.py", "from expfam.estimators.mixture import Mixture"),
    ("samplers/chain/trace.py", "from expfam.plugins.registry import load_family"),
    ("samplers/__init__.py", '_HOMES = {"expfam.estimators.mixture": ["Mixture"]}'),
    ("samplers/named.py", "from expfam.plugins.conformance import check_family"),
    ("samplers/named.py", "from expfam.plugins.registry import load_proposal"),
    ("samplers/collapsed/metropolis.pyx", "from expfam.plugins.registry import load_proposal"),
    ("expfam/errors.py", "from expfam.families.base import Family"),
    ("plugins/registry.py", "from expfam.model.data import Dataset"),
    ("plugins/registry.py", "def f():\n    from expfam.families.trials.geometric import Geometric\n"),
    ("plugins/conformance.py", "from expfam.families.gaussian._full import GaussianComponents"),
    ("plugins/conformance.py", "from expfam.families.base import _hidden"),
    ("expfam/families/trials/geometric.py", "from expfam.model.data import Dataset"),
]


@pytest.mark.parametrize(("path", "text"), WRONG)
def test_a_wrong_import_is_found(tree, path, text):
    (tree / path).write_text(text)
    lines = faults(imports(tree))
    assert len(lines) >= 1
    assert lines[0].startswith(path)


RIGHT = [
    ("samplers/proposals/by_name.py", "from expfam.plugins.registry import load_proposal"),
    (
        "samplers/collapsed/gibbs.pyx",
        "from expfam.contracts cimport components_v1\nfrom expfam.structures.ground.rng cimport MOVE",
    ),
    (
        "samplers/collapsed/gibbs.pyx",
        '"""\nfrom expfam.samplers.named import FastEx\n"""\n# import expfam.estimators.mixture\nx = "import expfam"',
    ),
    ("samplers/warm_starts/variational.py", "from expfam.samplers.collapsed.gibbs import CollapsedGibbs"),
    (
        "expfam/families/base.py",
        '"""Example\n\n>>> from expfam import Mixture\n"""\nfrom . import base\nfrom ..errors import E',
    ),
    (
        "expfam/estimators/family_estimator.py",
        "from expfam.samplers import sample\nfrom expfam.plugins.registry import load_family",
    ),
    ("plugins/registry.py", "from expfam.errors import PluginError\nfrom expfam.families.base import Family"),
    ("plugins/conformance.py", "from expfam import Dataset\nfrom expfam.families.components import Components"),
    (
        "expfam/families/trials/geometric.py",
        "from expfam.families.base import Family\nfrom expfam.errors import DataError",
    ),
]


@pytest.mark.parametrize(("path", "text"), RIGHT)
def test_a_right_import_is_allowed(tree, path, text):
    (tree / path).write_text(text)
    assert faults(imports(tree)) == []


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
        "import expfam.structures.ground.rng, expfam.structures.ground.threads, expfam.structures.simd.probe",
    ],
)
def test_the_core_does_not_load_scikit_learn(statement):
    modules = loaded_after(statement)
    assert any(module.startswith("expfam.") for module in modules)
    assert not {"sklearn", "matplotlib", "pandas", "pyarrow"} & modules
