"""Every example in a docstring runs and prints what it shows, in Python and in compiled modules."""

import doctest
import importlib
import inspect

import pytest
from reference_page import MODULES
from source_tree import ROOT, packages


def module_names():
    """Names of all modules with a source, compiled ones included, by the package map of the build."""
    for package, folder in packages(ROOT).items():
        for file in sorted([*(ROOT / folder).glob("*.py"), *(ROOT / folder).glob("*.pyx")]):
            if file.stem != "__main__":
                yield package if file.stem == "__init__" else f"{package}.{file.stem}"


def examples(module):
    """The docstrings of a module that hold examples, each once (Cython lists its own again in `__test__`)."""
    found = {}
    for test in doctest.DocTestFinder(exclude_empty=True).find(module):
        if test.examples:
            found.setdefault(test.docstring, test)
    return list(found.values())


NAMES = list(module_names())


@pytest.mark.parametrize("name", NAMES)
def test_examples_of(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # an example may write files
    module = importlib.import_module(name)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    failures = []
    for test in examples(module):
        test.globs = dict(vars(module))
        runner.run(test, out=failures.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(failures)


def test_examples_of_compiled_modules_are_found():
    for name in ("expfam.structures.ground.rng", "expfam.samplers.collapsed.gibbs"):
        module = importlib.import_module(name)
        assert not module.__file__.endswith(".py")
        assert examples(module)


def public_values():
    """Classes and functions that the public packages name."""
    for package in set(MODULES) - {"expfam.errors"}:
        module = importlib.import_module(package)
        for name in module.__all__:
            value = getattr(module, name)
            if not isinstance(value, str) and not (inspect.isclass(value) and issubclass(value, Warning)):
                yield f"{package}.{name}", value


def test_every_public_name_shows_an_example():
    values = dict(public_values())
    missing = [name for name, value in values.items() if ">>>" not in (value.__doc__ or "")]
    assert len(values) > 150
    assert not missing, f"no example in the docstring of {missing}"
