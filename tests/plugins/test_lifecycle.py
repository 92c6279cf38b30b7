"""Strangers' distributions are built, installed, found, loaded, tested by their own tests, and spoiled in every way."""

import json
import shutil
import struct
from pathlib import Path

import pytest
from distributions import built, copy_of, environment_with, run

import expfam

REFERENCES = Path(__file__).resolve().parents[2] / "plugins" / "reference"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """A copy, so that building leaves nothing in the checkout."""
    return shutil.copytree(REFERENCES / "rayleigh", tmp_path_factory.mktemp("source") / "rayleigh")


@pytest.fixture(scope="module")
def wheel(source, tmp_path_factory):
    return built(source, tmp_path_factory.mktemp("wheels"))


@pytest.fixture(scope="module")
def erlang(tmp_path_factory):
    """An environment with the compiled family installed: (python, site)."""
    folder = tmp_path_factory.mktemp("erlang")
    return environment_with(built(shutil.copytree(REFERENCES / "erlang", folder / "source"), folder), folder)


@pytest.fixture(scope="module")
def unchanged(wheel, tmp_path_factory):
    """An environment with the NumPy family installed, for all tests to copy: (python, site)."""
    return environment_with(wheel, tmp_path_factory.mktemp("unchanged"))


@pytest.fixture
def environment(unchanged, tmp_path):
    """An environment with the NumPy family installed: (python, site)."""
    return copy_of(unchanged, tmp_path)


def offer(site, distribution, name, *, module=None, version="2.0"):
    info = site / f"{distribution}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(f"[expfam.families]\n{name} = {distribution}:Plugin\n")
    (site / f"{distribution}.py").write_text(module or "from expfam_rayleigh import Rayleigh as Plugin\n")


def messages(python, cwd, names):
    """What asking for each name gives: a repr, or the error's text."""
    code = (
        "import json, sys\n"
        "from expfam import load_family\n"
        "def ask(name):\n"
        "    try: return repr(load_family(name))\n"
        "    except Exception as error: return f'{type(error).__name__}: {error}'\n"
        f"print(json.dumps({{name: ask(name) for name in {names!r}}}))\n"
    )
    return json.loads(run(python, "-P", "-c", code, cwd=cwd))


def test_the_wheel_is_found_without_import_and_loaded_by_name(environment, tmp_path):
    python, _ = environment
    code = (
        "import sys\n"
        "from expfam import list_plugins, load_family\n"
        "record, = [p for p in list_plugins('family') if p.name == 'rayleigh']\n"
        "assert (record.distribution, record.version, record.loaded) == ('expfam_rayleigh', '0.1.0', False), record\n"
        "assert 'expfam_rayleigh' not in sys.modules\n"
        "print(load_family('rayleigh', a=2.0), load_family('expfam-rayleigh:rayleigh'), load_family('bernoulli'))\n"
        "assert [p.loaded for p in list_plugins('family') if p.name == 'rayleigh'] == [True]\n"
    )
    printed = run(python, "-P", "-c", code, cwd=tmp_path)
    assert printed.split("\n")[0] == "Rayleigh(a=2.0, b=1.0) Rayleigh(a=1.0, b=1.0) Bernoulli(a='auto', b='auto')"


def test_its_own_tests_pass_and_hold_the_kit(environment, source):
    python, _ = environment
    report = run(python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=source)
    assert " failed" not in report
    assert int(report.rsplit(" passed", 1)[0].split()[-1]) >= 40


def test_its_own_tests_fail_when_the_family_is_spoiled(environment, source):
    python, site = environment
    module = site / "expfam_rayleigh" / "__init__.py"
    text = module.read_text()
    assert "0.5 * np.square" in text
    module.write_text(text.replace("0.5 * np.square", "0.4 * np.square"))
    # same size, and perhaps the same second: the cached bytecode would pass for current
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
    report = run(python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=source, fails=True)
    assert "predictive_is_normalised" in report


def test_uninstalling_takes_the_name_away(environment, tmp_path):
    python, site = environment
    assert messages(python, tmp_path, ["rayleigh"])["rayleigh"] == "Rayleigh(a=1.0, b=1.0)"
    (info,) = site.glob("expfam_rayleigh*.dist-info")
    shutil.rmtree(info)
    assert messages(python, tmp_path, ["rayleigh"])["rayleigh"].startswith(
        "UnknownNameError: no family is called 'rayleigh'"
    )


def test_broken_duplicate_stale_and_misnamed_plugins_are_told_apart(environment, tmp_path):
    python, site = environment
    newer = "from expfam_rayleigh import Rayleigh\nclass Plugin(Rayleigh):\n    api_version = 7\n"
    offer(site, "other_noise", "rayleigh")
    offer(site, "copy_cat", "bernoulli")
    offer(site, "broken_noise", "broken", module="import a_module_that_is_missing\n")
    offer(site, "later_noise", "later", module=newer)
    offer(site, "loud_noise", "LOUD")
    names = ["rayleigh", "other_noise:rayleigh", "bernoulli", "expfam:bernoulli", "broken", "later", "LOUD", "poison"]
    said = messages(python, tmp_path, [*names, "geometric"])
    assert "offered by expfam_rayleigh 0.1.0" in said["rayleigh"]
    assert "and other_noise 2.0" in said["rayleigh"]
    assert "'expfam_rayleigh:rayleigh' or 'other_noise:rayleigh'" in said["rayleigh"]
    assert said["other_noise:rayleigh"] == "Rayleigh(a=1.0, b=1.0)"
    assert "other distributions do not replace a name of expfam silently" in said["bernoulli"]
    assert said["expfam:bernoulli"].startswith("Bernoulli(")
    assert said["broken"].startswith(
        "PluginError: family 'broken' of broken_noise 2.0 (entry point broken = broken_noise:"
    )
    assert "ModuleNotFoundError: No module named 'a_module_that_is_missing'" in said["broken"]
    assert said["later"].endswith("uses interface version 7, this expfam supports 1 to 1: upgrade expfam")
    assert "is misnamed: a name is made of lower-case letters" in said["LOUD"]
    assert "did you mean 'poisson'?" in said["poison"]
    assert said["geometric"].startswith("Geometric(")


def test_the_compiled_family_keeps_its_own_tests(erlang, tmp_path):
    python, _ = erlang
    report = run(python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", REFERENCES / "erlang", cwd=tmp_path)
    assert int(report.rsplit(" passed", 1)[0].split()[-1]) >= 60


def test_the_proposal_keeps_its_own_tests(tmp_path):
    source = shutil.copytree(REFERENCES / "by_total", tmp_path / "source")
    python, _ = environment_with(built(source, tmp_path), tmp_path)
    report = run(python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=source)
    assert int(report.rsplit(" passed", 1)[0].split()[-1]) == 3


LABELS = """
import ctypes, json
import numpy as np
from expfam import Dataset, Mixture, load_family
X = np.random.default_rng(0).gamma(3.0, np.repeat([[1.0], [5.0]], 60, axis=0), size=(120, 4))
family = load_family("erlang", stages=3.0)
owner = family.bind(X).components(Dataset(X, family), 4)
ctypes.pythonapi.PyCapsule_GetPointer.restype = ctypes.c_void_p
ctypes.pythonapi.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
head = ctypes.pythonapi.PyCapsule_GetPointer(owner.capsule, b"expfam.components_v1")
size = ctypes.cast(head, ctypes.POINTER(ctypes.c_uint32))[1]
labels = Mixture(family, n_components=4, random_state=0).fit(X).labels_
print(json.dumps([size, labels.tolist()]))
"""


def test_a_plugin_built_against_an_earlier_struct_works_on(erlang, tmp_path):
    """The first version of the struct had no `expect`: what was appended is absent, and nothing else changes."""
    source, older = shutil.copytree(REFERENCES / "erlang", tmp_path / "source"), tmp_path / "older"
    (older / "expfam").mkdir(parents=True)
    (older / "expfam" / "__init__.py").touch()
    text = (Path(expfam.__file__).parent / "contracts.pxd").read_text()
    appended = "    void (*expect)(void *self, Py_ssize_t i, Py_ssize_t k) noexcept nogil\n"
    assert text.count(appended) == 1
    (older / "expfam" / "contracts.pxd").write_text(text.replace(appended, ""))
    setup, found = (source / "setup.py").read_text(), "str(Path(expfam.get_include()).parent)"
    assert found in setup
    (source / "setup.py").write_text(setup.replace(found, repr(str(older))))
    answers = []
    for python, _ in (erlang, environment_with(built(source, tmp_path), tmp_path)):
        answers.append(json.loads(run(python, "-P", "-c", LABELS, cwd=tmp_path)))
    (size, labels), (older_size, older_labels) = answers
    assert older_size == size - struct.calcsize("P")
    assert older_labels == labels


def test_families_with_parameters_on_a_grid_keep_their_own_tests(tmp_path):
    built_from = shutil.copytree(REFERENCES / "on_grid", tmp_path / "source")  # building leaves files behind
    python, _ = environment_with(built(built_from, tmp_path), tmp_path)
    tests = REFERENCES / "on_grid" / "tests"
    report = run(python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", tests, cwd=tmp_path)
    assert int(report.rsplit(" passed", 1)[0].split()[-1]) >= 70
