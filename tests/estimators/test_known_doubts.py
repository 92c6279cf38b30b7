"""Known rows that the data contradict, and classes that have parts although each was to be one cluster."""

import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from expfam import (
    Dataset,
    DirichletProcess,
    GroupedMixture,
    Known,
    Mixture,
    PitmanYor,
    Poisson,
    SymmetricDirichlet,
    load_family,
)
from expfam.errors import DataWarning
from expfam.estimators.known_doubts import doubtful_rows, log_mass_without
from expfam.fitted.class_parts import warn_of_parts
from expfam.model.mixture import MixtureModel
from expfam.model.statistics import weighted_statistics
from expfam.samplers import SparseVariational, Stochastic

RNG = np.random.default_rng(0)
Z = RNG.integers(0, 4, 400)
X = RNG.normal(size=(4, 5))[Z] * 3.0 + RNG.normal(size=(400, 5))
IS_KNOWN = RNG.random(400) < 0.25
Y = np.where(IS_KNOWN, Z, -1)
WRONG = np.flatnonzero(IS_KNOWN)[::5]
FLIPPED = Y.copy()
FLIPPED[WRONG] = (Z[WRONG] + 1) % 4
FAR = np.array([[0.0, 0.0], [30.0, 0.0], [0.0, 30.0], [30.0, 30.0]])[Z] + RNG.normal(size=(400, 2))
IN_PARTS = np.where(IS_KNOWN, np.array([0, 0, 1, 2])[Z], -1)  # class 0 has two parts


def quiet(mixture, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DataWarning)
        return mixture.fit(*args, **options)


# ---- rows with wrong classes -----------------------------------------------------------------------------------------

FITS = {
    "search": {"labels": "clusters"},
    "a given number": {"labels": "clusters", "n_components": 4},
    "classes": {"labels": "classes"},
    "full": {"labels": "clusters", "family": "gaussian"},
    "gibbs": {"labels": "clusters", "sampler": "gibbs"},
    "em": {"labels": "clusters", "n_components": 4, "sampler": "em"},
    "variational": {"labels": "clusters", "n_components": 4, "sampler": "variational"},
    "stochastic": {
        "labels": "clusters",
        "n_components": 4,
        "sampler": SparseVariational(schedule=Stochastic(batch_size=100)),
    },
    "canopy": {"labels": "clusters", "n_components": 4, "sampler": "canopy"},
    "pitman-yor": {"labels": "clusters", "weights": PitmanYor(1.0, 0.2)},
}


@pytest.mark.parametrize("name", FITS)
def test_rows_with_wrong_classes_are_listed(name):
    mixture = quiet(Mixture(random_state=0, **FITS[name]), X, FLIPPED)
    doubtful = mixture.doubtful_known_
    assert doubtful.dtype == np.int64
    share = 0.7 if name == "classes" else 0.9  # wrong rows that lie together make a cluster of their own
    assert len(np.intersect1d(doubtful, WRONG)) >= share * len(WRONG)
    assert len(np.setdiff1d(doubtful, WRONG)) <= 2
    assert (mixture.likelier_classes_ == Z[doubtful]).mean() > 0.9
    clean = quiet(Mixture(random_state=0, **FITS[name]), X, Y)
    assert len(clean.doubtful_known_) <= 1


def test_without_the_doubtful_rows_the_others_are_found_as_with_right_classes():
    y = FLIPPED.copy()
    y[Mixture(labels="clusters", random_state=0).fit(X, y).doubtful_known_] = -1
    assert (quiet(Mixture(labels="clusters", random_state=0), X, y).predict_class(X) == Z).mean() > 0.97


def test_a_frame_and_names_of_classes():
    frame = pd.DataFrame(X, columns=list("abcde"), index=np.arange(1000, 1400)).assign(kind=np.array(list("uvwx"))[Z])
    names = pd.Series(np.array(["ape", "bear", "cat", "dog", None], dtype=object)[FLIPPED], index=frame.index)
    mixture = Mixture(labels="clusters", random_state=0).fit(frame, names)
    assert set(mixture.doubtful_known_) >= set(WRONG)
    assert mixture.likelier_classes_.tolist() == [["ape", "bear", "cat", "dog"][z] for z in Z[mixture.doubtful_known_]]


@pytest.mark.parametrize("as_data", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("family", ["poisson", "multinomial", "exponential"])
def test_counts_and_families_in_numpy(as_data, family):
    rate = np.repeat(np.eye(4) * 6.0 + 0.5, 3, axis=1)
    counts = np.random.default_rng(1).poisson(rate[Z]).astype(float)
    if family == "exponential":
        counts += 0.1
    mixture = Mixture(family, 4, labels="clusters", random_state=0, n_steps=5).fit(as_data(counts), FLIPPED)
    assert len(np.intersect1d(mixture.doubtful_known_, WRONG)) >= 0.9 * len(WRONG)


def test_rows_in_groups():
    groups = np.arange(400) // 20
    for sampler in ("gibbs",):
        mixture = GroupedMixture("gaussian_diag", 4, labels="clusters", sampler=sampler, random_state=0, n_steps=20)
        mixture.fit(X, FLIPPED, groups=groups)
        assert set(mixture.doubtful_known_) == set(WRONG)
        assert (mixture.likelier_classes_ == Z[mixture.doubtful_known_]).all()
    assert not hasattr(mixture.fit(X, groups=groups) if mixture.set_params(labels=None) else None, "doubtful_known_")


def test_a_weight_of_three_is_three_rows():
    weight = np.where(np.isin(np.arange(400), WRONG), 3.0, 1.0)
    mixture = Mixture("gaussian_diag", 4, labels="clusters", sampler="em", random_state=0)
    mixture.fit(X, FLIPPED, sample_weight=weight)
    assert len(np.intersect1d(mixture.doubtful_known_, WRONG)) >= 0.9 * len(WRONG)
    weight[WRONG[:3]] = 0.0  # not in the fit, and judged all the same
    mixture.fit(X, FLIPPED, sample_weight=weight)
    assert set(WRONG[:3]) <= set(mixture.doubtful_known_)


def test_chunks_say_it_of_their_own_rows():
    mixture = Mixture("gaussian_diag", 4, labels="clusters", sampler="variational", random_state=0)
    for rows in np.split(np.arange(400), 2):
        mixture.partial_fit(X[rows], FLIPPED[rows], classes=[0, 1, 2, 3])
        assert set(rows[mixture.doubtful_known_]) == set(np.intersect1d(WRONG, rows))
    mixture.fit_chunks([(X[:200], FLIPPED[:200]), (X[200:], FLIPPED[200:])], classes=[0, 1, 2, 3])
    with pytest.raises(AttributeError, match=r"write np\.flatnonzero") as caught:
        _ = mixture.doubtful_known_
    line = re.search(r"write (np\..*)$", str(caught.value))[1]
    assert set(eval(line, {"np": np, "y": FLIPPED, "X": X, "model": mixture})) >= set(WRONG)


def test_files_keep_them_with_labels(tmp_path):
    mixture = Mixture(labels="clusters", random_state=0).fit(X, FLIPPED)
    mixture.save(tmp_path / "with", labels=True)
    loaded = Mixture.load(tmp_path / "with")
    np.testing.assert_array_equal(loaded.doubtful_known_, mixture.doubtful_known_)
    np.testing.assert_array_equal(loaded.likelier_classes_, mixture.likelier_classes_)
    assert loaded.summary() == mixture.summary()
    mixture.save(tmp_path / "without")
    with pytest.raises(AttributeError, match=r"write model.save\(path, labels=True\)"):
        _ = Mixture.load(tmp_path / "without").doubtful_known_


def test_the_summary_counts_them():
    n = (FLIPPED >= 0).sum()
    line = quiet(Mixture(labels="clusters", random_state=0), X, FLIPPED).summary().splitlines()[-1]
    assert line == f"{n} of known class; the data contradict {len(WRONG)} of them, see doubtful_known_"
    line = quiet(Mixture(labels="clusters", random_state=0), X, Y).summary().splitlines()[-1]
    assert line == f"{n} of known class; the data contradict none"


def test_a_fit_without_classes_has_none():
    mixture = Mixture("gaussian_diag", labels="clusters", random_state=0).fit(X, Y)
    mixture.set_params(labels=None).fit(X)
    assert not hasattr(mixture, "doubtful_known_")
    linked = mixture.fit(X, links=np.where(np.arange(400) < 2, 0, -1))
    assert linked.doubtful_known_.shape == linked.likelier_classes_.shape == (0,)
    one = Mixture("gaussian_diag", labels="clusters", random_state=0).fit(X, np.where(Z == 0, Y, -1))
    assert one.doubtful_known_.size == 0


# ---- the law by its definition ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [DirichletProcess(2.0), PitmanYor(1.0, 0.3), SymmetricDirichlet(3, 1.0)])
@pytest.mark.parametrize("repeats", [None, [2, 1, 1, 3, 1, 1, 2]])
def test_each_row_is_judged_by_the_others(weights, repeats):
    """A row is taken out of the data, and the clusters are made of the rest."""
    counts = np.array([[0], [1], [9], [8], [0], [9], [4]])
    labels = np.array([0, 0, 1, 1, 1, 1, 2])
    data = Dataset(counts, Poisson(1.0, 0.5), known=Known(labels), weight=repeats)
    n, S = weighted_statistics(data, labels, 3)
    model = MixtureModel(data.family, weights)
    weight = np.ones(7) if repeats is None else np.array(repeats, dtype=float)
    expected = []
    for i in range(7):
        kept = np.arange(7) != i
        one = data.family.sufficient_statistics(data.X[[i]])
        n_rest = np.bincount(labels[kept], weights=weight[kept], minlength=3)
        S_rest = np.zeros((3, 1))
        np.add.at(S_rest, labels[kept], weight[kept, None] * data.family.sufficient_statistics(data.X)[kept])
        mass, new = weights.posterior_mean(n_rest)
        mass = np.where(n_rest == 0, new, mass)
        gain = data.family.log_marginal(n_rest + 1, S_rest + one) - data.family.log_marginal(n_rest, S_rest)
        p = mass * np.exp(gain)
        expected.append(p[labels[i]] / p.sum())
    order = [i for i in np.argsort(expected, kind="stable") if expected[i] < 0.2]

    def log_mass(rows):
        return log_mass_without(model, n, labels[rows], None if repeats is None else weight[rows])

    found = doubtful_rows(data, n, S, labels, np.arange(3), log_mass)
    assert found.rows.tolist() == order
    assert 1 <= len(order) < 7


# ---- classes that have parts -----------------------------------------------------------------------------------------

PARTED = {
    "search": {},
    "a given number": {"n_components": 4},
    "full": {"family": "gaussian"},
    "em": {"n_components": 4, "sampler": "em"},
    "variational": {"n_components": 4, "sampler": "variational"},
    "weights": {"weights": SymmetricDirichlet(4, 1.0)},
}


@pytest.mark.parametrize("name", PARTED)
def test_a_class_in_parts_is_named_with_the_line_to_type(name):
    mixture = Mixture(labels="clusters", random_state=0, **PARTED[name])
    with pytest.warns(DataWarning, match=r"explain the known rows of class 0 better than one") as warned:
        mixture.fit(FAR, IN_PARTS)
    line = re.search(r"Write (.*\))\.fit\(X, y\)", str(warned[0].message))[1]
    better = eval(line, {"Mixture": Mixture})
    assert better.get_params()["family"] == mixture.family
    quiet(better, FAR, IN_PARTS)
    right = np.array([0, 0, 1, 2])[Z]
    assert (better.predict_class(FAR) == right).mean() > 0.99


def test_rows_in_groups_and_chunks_are_told_once():
    grouped = GroupedMixture("gaussian_diag", 4, labels="clusters", random_state=0, n_steps=10)
    with pytest.warns(DataWarning, match="names of their own in y"):
        grouped.fit(FAR, IN_PARTS, groups=np.arange(400) // 20)
    mixture = Mixture("gaussian_diag", 4, labels="clusters", sampler="variational", random_state=0)
    with pytest.warns(DataWarning, match=r"take all rows at once\. Write Mixture\(family='gaussian_diag'") as warned:
        mixture.partial_fit(FAR[:300], IN_PARTS[:300], classes=[0, 1, 2])
    line = re.search(r"Write (.*\))\.fit\(X, y\)", str(warned[0].message))[1]
    better = eval(line, {"Mixture": Mixture})
    assert better.random_state == 0
    quiet(better, FAR, IN_PARTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mixture.partial_fit(FAR[300:], IN_PARTS[300:])
    em = Mixture("gaussian_diag", 4, labels="clusters", sampler="em", random_state=0)
    with pytest.warns(DataWarning, match="names of their own in y"):  # no sampler takes weights and classes in parts
        em.fit(FAR, IN_PARTS, sample_weight=np.where(np.arange(400) % 2, 1.0, 2.0))


@pytest.mark.parametrize("share", [0.03, 0.2, 0.9])
@pytest.mark.parametrize("seed", range(5))
def test_plain_classes_are_not_said_to_have_parts(seed, share):
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 3, 600)
    rows = rng.normal(size=(3, 4))[z] * 3.0 + rng.normal(size=(600, 4))
    y = np.where(rng.random(600) < share, z, -1)
    quiet(Mixture(labels="clusters", random_state=0), rows, y)


@pytest.mark.parametrize("family", ["poisson", "multinomial", "categorical", "bernoulli", "geometric", "exponential"])
def test_parts_of_counts_and_categories(family):
    rng = np.random.default_rng(2)
    high = np.array([[0.9] * 6 + [0.1] * 6, [0.1] * 6 + [0.9] * 6])[np.arange(80) % 2]
    draw = {
        "poisson": lambda: rng.poisson(5 * high),
        "multinomial": lambda: np.stack([rng.multinomial(20, p / p.sum()) for p in high]),
        "geometric": lambda: rng.geometric(high) - 1,
        "exponential": lambda: rng.exponential(high),
    }
    rows = draw.get(family, lambda: rng.random((80, 12)) < high)().astype(float)
    data = Dataset(rows, load_family(family), known=Known(np.zeros(80, dtype=int)))
    with pytest.warns(DataWarning, match="class 'all'"):
        assert warn_of_parts("Mixture", data.family, data, ["all"], np.empty(0, dtype=np.int64), "")
    same = Dataset(rows[::2], data.family, known=Known(np.zeros(40, dtype=int)))
    assert not warn_of_parts("Mixture", data.family, same, ["all"], np.empty(0, dtype=np.int64), "")
    kinds = Dataset(rows, data.family, known=Known(np.zeros(80, dtype=int), "classes"))
    assert not warn_of_parts("Mixture", data.family, kinds, ["all"], np.empty(0, dtype=np.int64), "")
