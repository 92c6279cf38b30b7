"""The family that the guide for plugin authors builds works as printed, and clusters data."""

import doctest
import re
import sys
from pathlib import Path
from types import ModuleType

import matplotlib as mpl
import numpy as np
import pytest

from expfam import DiagonalGaussian, DirichletProcess, Mixture, MixtureModel, variation_of_information
from expfam.errors import DataWarning
from expfam.plugins.conformance import check_family
from expfam.samplers import CollapsedGibbs, CollapsedMetropolis, Cycle

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "plugins.md"


def blocks(page=GUIDE):
    """The blocks of code of a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)


def ran(name, monkeypatch=None):
    """All blocks of code of a page beside the guide, run as one module; pickle finds its classes by `monkeypatch`."""
    page = ModuleType(name)
    if monkeypatch is not None:
        monkeypatch.setitem(sys.modules, name, page)
    for code in blocks(GUIDE.with_name(f"{name}.md")):
        exec(compile(code, f"{name}.md", "exec"), vars(page))
    return page


def test_the_guides_family_keeps_the_laws_and_clusters(monkeypatch):
    code = blocks()[0]
    guide = ModuleType("guide")
    monkeypatch.setitem(sys.modules, "guide", guide)  # where pickle looks for the class
    exec(compile(code, str(GUIDE), "exec"), vars(guide))
    coin = guide.Coin
    report = check_family(coin())
    assert report.passed
    X = np.repeat(np.eye(4, dtype=int), 15, axis=0)
    assert Mixture(coin(a=0.1, b=0.1), n_steps=20, random_state=0).fit(X).n_components_ == 4


def test_the_page_on_known_rows_works_as_printed(capsys):
    names = vars(ran("known_rows"))
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("['cat' 'dog'] 4 ")
    doubtful = [line for line in printed if ": labelled " in line]
    assert doubtful
    assert all(line.endswith("labelled cat, likelier dog") for line in doubtful)
    assert not names["second"].doubtful_known_.size
    assert printed[-1] == "[['vote', 'party', 'law'], ['goal', 'match', 'team']]"
    answers = names["mixture"].predict_class([[6.0, 0.5], [0.2, 6.1], [3.0, 14.0]], unknown="none of these")
    assert answers.tolist() == ["cat", "dog", "none of these"]
    assert names["learner"].cluster_classes_[:3].tolist() == [0, 1, 2]


@pytest.fixture(scope="module")
def coarsening():
    """What the page on merged clusters leaves behind, run once."""
    mpl.use("Agg")
    guide = ran("coarsening")
    yield guide
    mpl.pyplot.close("all")


def test_the_page_on_merged_clusters_works_as_printed(coarsening):
    assert coarsening.ten.n_components_ == len(set(coarsening.groups)) == 10
    parts = [coarsening.first, coarsening.second]
    assert coarsening.merge(parts, clusters="merged").cluster_sizes_.sum() == 600


def test_the_page_on_unknown_numbers_works_as_printed():
    names = vars(ran("unknown_numbers"))
    assert len(names["mixture"].n_) == 4
    assert names["mixture"].group_weights_.shape == (30, 4)
    model, X = names["model"], names["X"]
    assert model.transform(X[:2], rest=True).shape == (2, len(model.components_) + 1)
    assert 5 <= (model.sizes_ > 0.01 * X.sum()).sum() < 15


def example(of_class):
    """The guide's block of code that defines a class, as a module."""
    (code,) = [block for block in blocks() if f"class {of_class}" in block]
    guide = ModuleType("guide")
    exec(compile(code, str(GUIDE), "exec"), vars(guide))
    return guide


def test_the_guides_anchors_and_allocator_make_a_kernel():
    kernel = Cycle(example("BySign").kernel, CollapsedGibbs())
    X = np.repeat([[-5.0, 1.0], [5.0, 0.0]], 30, axis=0)
    state = kernel.init(MixtureModel(DiagonalGaussian(), DirichletProcess()), X, seed=0, start="one")
    accepted = sum(kernel.step(state).extra["parts"][0].accepted for _ in range(10))
    state.check()
    assert accepted > 0
    assert state.n_clusters == 2


def test_the_guides_anchors_and_allocator_keep_the_laws(capsys):
    guide = example("BySign")
    (code,) = [block for block in blocks() if "check_proposal" in block]
    exec(compile(code, str(GUIDE), "exec"), vars(guide))
    reports = capsys.readouterr().out
    assert "failed" not in reports
    assert [line.split(",")[0] for line in reports.splitlines() if line.endswith(" passed")] == [
        "5 passed",
        "3 passed",
        "24 passed",
    ]


def test_the_guides_proposal_moves_data():
    guide = example("ByFirstCount")
    X = np.repeat([[0, 5], [9, 1]], 30, axis=0)
    kernel = CollapsedMetropolis(guide.ByFirstCount(), mode="crossfit")
    with pytest.warns(DataWarning, match="n_components=6, but 2 rows are distinct"):
        mixture = Mixture("poisson", 6, sampler=kernel, n_steps=30, random_state=0).fit(X)
    assert mixture.n_components_ <= 4
    assert set(mixture.labels_[:30]).isdisjoint(mixture.labels_[30:])


@pytest.mark.parametrize("n_moves", [1000, pytest.param(None, marks=pytest.mark.slow)])
def test_the_guides_kernel_keeps_the_laws(n_moves, capsys):
    (code,) = [block for block in blocks() if "check_kernel(OneAtATime" in block]
    if n_moves is not None:
        code = code.replace("reversible=True)", f"reversible=True, n_moves={n_moves})")
        assert f"n_moves={n_moves}" in code
    exec(compile(code, str(GUIDE), "exec"), {"__name__": "guide"})
    report = capsys.readouterr().out
    assert report.startswith("OneAtATime()")
    assert report.strip().endswith("24 passed")


def test_the_example_of_the_page_on_split_merge_finds_the_clusters(capsys):
    assert len(blocks(GUIDE.with_name("split_merge.md"))) == 1
    ran("split_merge")
    assert 28 <= int(capsys.readouterr().out) <= 34


def test_the_example_of_the_page_on_kernels_that_keep_parameters_finds_the_clusters(capsys):
    assert len(blocks(GUIDE.with_name("canopy.md"))) == 1
    ran("canopy")
    assert int(capsys.readouterr().out) == 5


def test_the_guide_to_hierarchies_runs():
    mpl.use("Agg")
    guide = ran("hierarchies")
    assert guide.hierarchy.n_clusters_ > 10
    assert guide.Z.shape == (len(guide.X) - 1, 4)
    mpl.pyplot.close("all")


def test_ten_merged_clusters_are_nearer_the_digits(coarsening):
    assert coarsening.mixture.n_components_ > 50
    loss = [
        variation_of_information(coarsening.digits, labels)
        for labels in (coarsening.ten.labels_, coarsening.mixture.labels_)
    ]
    assert loss[0] < 0.7 * loss[1]


def test_the_way_from_a_formula_to_clusters(capsys, monkeypatch):
    guide = ran("own_family", monkeypatch)
    assert "failed" not in capsys.readouterr().out
    assert variation_of_information(guide.kind, guide.mixture.labels_) < 0.5
    assert len(set(guide.mixture.predict([[1.0, 20.0], [20.0, 1.0], [0.1, 0.1]]))) == 3
    assert min(guide.canopy.n_components_, guide.fast.n_components_) >= 3
    wrong = type("Wrong", (guide.Weibull,), {"log_base": lambda self, X: np.zeros(len(X))})
    monkeypatch.setattr(guide, "Wrong", wrong, raising=False)
    wrong.__module__ = "own_family"
    report = check_family(wrong(), guide.X, raises=False)
    assert "predictive_is_normalised" in report.named("failed")


def test_the_page_on_other_likelihoods_runs(capsys, monkeypatch):
    guide = ran("other_likelihoods", monkeypatch)
    assert sorted(guide.two_parts.clusters_["visits"]) == pytest.approx([4.0, 15.0], abs=1.0)
    assert guide.two_parts.clusters_["came"].all()
    assert sorted(guide.mixture.cluster_sizes_) == [60, 60]
    assert check_family(guide.Logistic(), guide.X, raises=False).passed


def test_every_doc_points_to_things_that_exist():
    root = GUIDE.parents[1]
    pages = [page for pattern in ("*.md", "guide/*.md", "coming_from/*.md") for page in GUIDE.parent.glob(pattern)]
    for page in [*pages, root / "README.md", root / "CHANGELOG.md"]:
        for target in re.findall(
            r"`((?:tests|plugins|structures|samplers|expfam|asv_bench|docs)/[\w./-]+)`", page.read_text()
        ):
            assert (root / target.rstrip("/")).exists(), f"{page.name} names {target}"


def test_the_compositions_run(capsys):
    mpl.use("Agg")
    shown = ran("composing")
    topics, start, bounds, tree, certificate, *of_groups = capsys.readouterr().out.splitlines()
    assert of_groups == ["True", "True"]
    assert certificate.startswith("True no error found by rows, truth.")
    assert 7 <= int(topics.split()[0]) <= 10
    assert start.split()[1] == "True"
    assert 11 <= int(start.split()[0]) <= 15
    assert set(shown.bounds) == {24, None}
    assert abs(shown.bounds[24] - shown.bounds[None]) < 0.02 * abs(shown.bounds[None]), bounds
    assert int(tree.split()[2]) == 3
    mpl.pyplot.close("all")


def test_the_page_on_groups_runs_as_printed():
    names = vars(ran("groups"))
    mixture, kind = names["mixture"], names["kind"]
    place = [np.bincount(kind[mixture.labels_ == k]).argmax() for k in range(4)]
    assert sorted(place) == [0, 1, 2, 3]
    assert (np.array(place)[mixture.labels_] == kind).mean() > 0.85
    assert abs(mixture.group_weights_[:, np.argsort(place)] - names["shares"]).mean() < 0.06
    assert names["chain"].group_counts().shape == (80, 4)


def test_the_page_about_the_posterior_prints_what_it_shows():
    code = "\n".join(blocks(GUIDE.with_name("how_sure.md")))
    test = doctest.DocTestParser().get_doctest(code, {}, "how_sure.md", "how_sure.md", 0)
    assert len(test.examples) > 20
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test).failed == 0
