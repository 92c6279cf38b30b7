"""Warnings name the line of the program that called the package, not a line of the package."""

import re
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import expfam as ef
from expfam.errors import DataWarning
from expfam.families.base import Family
from expfam.fitting import slow_fits
from expfam.io.readers import read
from expfam.samplers import (
    CollapsedMetropolis,
    HierarchicalClustering,
    PrototypeProposal,
    SparseVariational,
    TableProposal,
    UncollapsedMetropolis,
    sample,
    tuned_family,
)
from expfam.samplers.geometry import hash_tables
from expfam.samplers.hierarchy import kernel as hierarchy
from expfam.samplers.proposals import prototype
from expfam.user_warnings import warn

ROOT = Path(__file__).parents[2]
RNG = np.random.default_rng(0)
CONSTANT = np.column_stack([RNG.normal(size=40), np.ones(40)])
COUNTS = RNG.poisson(3.0, (40, 4))
EMPTY = np.vstack([COUNTS, np.zeros((1, 4), dtype=int)])
CLASSES = np.arange(40) % 2


def a_frame(**more):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"size": RNG.normal(size=40), "id": np.arange(40), **more})


def of_two_functions():
    class Own(Family):
        support = "counts"

        def sufficient_statistics(self, X):
            return X

        def log_marginal(self, n, S):
            return ef.Poisson(shape=1.0, rate=1.0).bind([[1]]).log_marginal(n, S)

    return Own()


def stepped(kernel, family, X, weights):
    state = kernel.init(ef.MixtureModel(family, weights), X, seed=0)
    return sample(kernel, state, 1)


def prototypes_without_room(patch):
    patch.setattr(prototype, "_memory_limit", lambda: 1)
    kernel = UncollapsedMetropolis(PrototypeProposal(max_group=2))
    return stepped(kernel, ef.DiagonalGaussian(), RNG.normal(size=(40, 2)), ef.SymmetricDirichlet(3))


def large_buckets(patch):
    patch.setattr(hash_tables, "_FEW", 1)
    return hash_tables.warn_of_large_buckets(9, 10)


def many_leaves(patch):
    patch.setattr(hierarchy, "_MANY", 10)
    return ef.BayesianHierarchy("gaussian_diag", sampler=HierarchicalClustering()).fit(RNG.normal(size=(30, 2)))


def slow(patch):
    patch.setattr(slow_fits, "_MOST_MOVES", 10)
    return ef.Mixture("exponential", 2, sampler="gibbs", n_steps=2, random_state=0).fit(COUNTS + 0.5)


def svmlight(tmp_path):
    (tmp_path / "x.svm").write_text("1 1:5 2:6\n0 2:7\n")
    return read(tmp_path / "x.svm")


def predicted(patch):
    model = ef.Mixture(n_components=2, n_steps=2, random_state=0)
    frame = a_frame().drop(columns="id").assign(kind=["red", "blue"] * 20)
    return model.fit(frame).predict(frame.assign(new=1.0))


CALLS = {
    "constant column": lambda patch: ef.Mixture("gaussian_diag", 2, n_steps=2, random_state=0).fit(CONSTANT),
    "constant column, fit_predict": lambda patch: ef.Mixture("gaussian", 2, n_steps=2, random_state=0).fit_predict(
        CONSTANT
    ),
    "constant column, groups": lambda patch: ef.GroupedMixture("gaussian_diag", 2, n_steps=2, random_state=0).fit(
        CONSTANT, groups=CLASSES
    ),
    "constant column, tree": lambda patch: ef.BayesianHierarchy("gaussian_diag").fit(CONSTANT),
    "constant column, bind": lambda patch: ef.DiagonalGaussian().bind(CONSTANT),
    "constant column, pipeline": lambda patch: make_pipeline(
        FunctionTransformer(), ef.Mixture("gaussian_diag", 2, n_steps=2, random_state=0)
    ).fit(CONSTANT),
    "empty row": lambda patch: ef.Mixture("multinomial", 2, n_steps=2, random_state=0).fit(EMPTY),
    "empty row, chunk": lambda patch: ef.Mixture("multinomial", 2, sampler="variational", random_state=0).partial_fit(
        EMPTY
    ),
    "zero column": lambda patch: ef.Mixture("exponential", 2, n_steps=2, random_state=0).fit(
        np.array([[0.0, 1], [0, 2]])
    ),
    "classes are ignored": lambda patch: ef.Mixture("poisson", 2, n_steps=2, random_state=0).fit(COUNTS, CLASSES),
    "no class is known": lambda patch: ef.Mixture("poisson", 2, n_steps=2, labels="classes", random_state=0).fit(
        COUNTS, np.full(40, -1)
    ),
    "columns are left out": lambda patch: ef.Mixture(n_components=2, n_steps=2, random_state=0).fit(a_frame()),
    "new columns": predicted,
    "chains": lambda patch: ef.Mixture("poisson", 3, n_chains=2, n_steps=20, random_state=1).fit(COUNTS),
    "slow": slow,
    "more clusters than rows": lambda patch: SparseVariational().init(
        ef.MixtureModel(ef.Poisson(), ef.SymmetricDirichlet(9)), COUNTS[:3], seed=0
    ),
    "more clusters than a chunk": lambda patch: ef.Mixture("poisson", 5, sampler="variational").partial_fit(COUNTS[:3]),
    "not exact": lambda patch: stepped(
        CollapsedMetropolis(TableProposal(), mode="published"), ef.Poisson(), COUNTS, ef.SymmetricDirichlet(3)
    ),
    "old laws": lambda patch: stepped(UncollapsedMetropolis(refresh=3), ef.Poisson(), COUNTS, ef.SymmetricDirichlet(3)),
    "numeric derivatives": lambda patch: (
        of_two_functions().bind([[1], [2]]).expected_natural(np.ones(1), np.ones((1, 1)))
    ),
    "edge of a grid": lambda patch: tuned_family(ef.Multinomial(), COUNTS, grid={"concentration": [10.0, 20.0, 30.0]}),
    "leaves": many_leaves,
    "buckets": large_buckets,
    "tables": prototypes_without_room,
}


@pytest.mark.parametrize("name", CALLS)
def test_the_line_of_the_caller_is_named(name, monkeypatch):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        CALLS[name](monkeypatch)
    assert caught
    assert {warning.filename for warning in caught} == {__file__}


def test_a_reader_names_the_line_of_its_caller(tmp_path):
    with pytest.warns(DataWarning, match="counted from 1") as caught:
        svmlight(tmp_path)
    assert caught[0].filename == __file__


def test_a_topic_model_names_the_line_of_its_caller():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ef.TopicModel(2, n_steps=2, random_state=0).fit(EMPTY)
        stepped(SparseVariational(), ef.Multinomial(), EMPTY, ef.DirichletProcess())
    assert {warning.filename for warning in caught} == {__file__}


@pytest.mark.filterwarnings("always")
def test_a_thread_of_a_pool_names_the_outermost_caller():
    with pytest.warns(UserWarning, match="from a pool") as caught, ThreadPoolExecutor(1) as pool:
        pool.submit(warn, "from a pool").result()
    assert Path(caught[0].filename).name == Path(threading.__file__).name


def test_no_module_warns_past_the_helper():
    found = set()
    for folder in ("expfam", "structures", "samplers", "plugins"):
        for path in (ROOT / folder).rglob("*.py*"):
            if path.suffix in (".py", ".pyx") and re.search(r"\bwarnings\.warn(_explicit)?\(", path.read_text()):
                found.add(path.relative_to(ROOT).as_posix())
    assert found == {"expfam/user_warnings.py"}
