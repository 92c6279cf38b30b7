"""A new plugin is a distribution that works as it stands; what stands in its place is never touched."""

import os
import shutil
from pathlib import Path

import pytest
from distributions import built, environment_with, run

from expfam.cli import main
from expfam.errors import PluginError
from expfam.plugins import scaffold
from expfam.plugins.scaffold import new_plugin

NAMES = {"family": "log_zeta", "proposal": "by_top_2", "compiled": "fast_zeta"}


@pytest.fixture(scope="module", params=NAMES)
def installed(request, tmp_path_factory):
    """A plugin made by the command, built and installed: (kind, source, python, site)."""
    folder = tmp_path_factory.mktemp(request.param)
    kind = ["family", "--compiled"] if request.param == "compiled" else [request.param]
    assert main(["new", *kind, NAMES[request.param], "--to", str(folder)]) == 0
    (source,) = folder.iterdir()
    wheels = tmp_path_factory.mktemp("wheels")
    built_from = shutil.copytree(source, wheels / "source")  # building leaves files behind
    return request.param, source, *environment_with(built(built_from, wheels), wheels)


def own_tests(source, python, *options, fails=False):
    return run(python, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, cwd=source, fails=fails)


def test_its_own_tests_pass_as_soon_as_it_is_made(installed):
    kind, source, python, site = installed
    run(python, "-P", "-m", "doctest", site / f"expfam_{NAMES[kind]}" / "__init__.py", cwd=source)
    report = own_tests(source, python)
    assert int(report.rsplit(" passed", 1)[0].split()[-1]) >= {"family": 40, "proposal": 5, "compiled": 60}[kind]
    assert "template" not in "".join(path.name for path in source.rglob("*"))
    assert not [
        p
        for p in source.rglob("*.*")
        if p.suffix in (".py", ".toml", ".md", ".pyx", ".in") and "emplate" in p.read_text()
    ]


SPOILED = {
    "family": ("(shape / rate).sum", "(shape / shape).sum"),
    "compiled": ("np.log(self.b + n[:, None])).sum", "np.log(self.b + 1.01 * n[:, None])).sum"),
    "proposal": ("weight * share.T", "weight * np.random.random((5, len(snapshot.n)))"),
}


def test_its_own_tests_fail_when_it_is_spoiled(installed):
    kind, source, python, site = installed
    module = site / f"expfam_{NAMES[kind]}" / "__init__.py"
    right, (found, wrong) = module.read_text(), SPOILED[kind]
    assert found in right
    module.write_text(right.replace(found, wrong))
    # same size, and perhaps the same second: the cached bytecode would pass for current
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
    assert "failed" in own_tests(source, python, "-k", "laws", fails=True)


def test_nothing_is_overwritten(tmp_path, capsys):
    made = new_plugin("family", "zeta", tmp_path)
    module = made / "src" / "expfam_zeta" / "__init__.py"
    module.write_text("years of work")
    with pytest.raises(FileExistsError, match="nothing was written"):
        new_plugin("family", "zeta", tmp_path)
    assert main(["new", "proposal", "zeta", "--to", str(tmp_path)]) == 2
    assert "exists; nothing was written" in capsys.readouterr().err
    assert module.read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == ["expfam-zeta"]


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError("no space left")

    monkeypatch.setattr(scaffold, "_replaced", full)
    with pytest.raises(OSError, match="no space"):
        new_plugin("family", "zeta", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *[
            (bad, "a name is made of lower-case letters and digits")
            for bad in ("", "Zeta", "z-eta", "9a", "a__b", "a_")
        ],
        ("../zeta", "a name is made of"),
        (7, "a name is made of"),
        ("family", "its class would be called Family"),
        ("none", "its class would be called None"),
        ("poisson", "offered already, by expfam"),
    ],
)
def test_bad_names_are_refused_with_what_is_allowed(name, said, tmp_path):
    with pytest.raises(PluginError, match=said):
        new_plugin("family", name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_kinds_and_folders_are_checked(tmp_path, capsys):
    with pytest.raises(ValueError, match="kind of plugin"):
        new_plugin("sampler", "zeta", tmp_path)
    assert main(["new", "family", "zeta", "--to", str(tmp_path / "nowhere")]) == 2
    assert "there is no directory" in capsys.readouterr().err
    assert main(["new", "proposal", "zeta", "--compiled", "--to", str(tmp_path)]) == 2
    assert "--compiled: compiled components are those of a family" in capsys.readouterr().err
    assert main(["new", "sampler", "zeta"]) == 2
    assert "'family', 'proposal'" in capsys.readouterr().err


def test_the_command_says_what_comes_next(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "family", "zeta"]) == 0
    out = capsys.readouterr().out
    assert str(Path("src", "expfam_zeta", "__init__.py")) in out
    assert "cd expfam-zeta && python -m pip install" in out
    assert os.listdir(tmp_path) == ["expfam-zeta"]
