"""Densities, probabilities and filled cells as means over the draws of a fit."""

import copy
import json
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

from expfam import Mixture
from expfam.errors import ArchiveError
from expfam.estimators.mixture_results import drawn_of, set_model
from expfam.fitting.kept import n_bytes
from expfam.model.statistics import weighted_statistics
from expfam.samplers.hyper.record import HyperRecorder


def overlapping(n=60, seed=0):
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.normal(place, 1.0, size=(n, 2)) for place in (0.0, 1.8, 6.0)])


@pytest.fixture(scope="module", params=["gaussian_diag", "gaussian"])
def fitted(request):
    X = overlapping()
    return Mixture(request.param, 3, n_draws=12, random_state=0).fit(X), X


def one_draw(mixture, X, labels, family):
    """A mixture with the partition of a draw as its labels."""
    n, S = weighted_statistics(mixture.plan_fit(X).whole, labels.astype(np.int32), int(labels.max()) + 1)
    other = copy.copy(mixture)
    other.n_, other.S_, other.cluster_sizes_ = n, S, n
    set_model(other, mixture.model_.with_family(family))
    return other


def by_hand(mixture, X):
    """Mixtures of all draws, under the hyper-parameters of each."""
    draws = mixture.posterior_.draws()
    assert len(draws) == len(drawn_of(mixture)) > 8
    return [one_draw(mixture, X, labels, kept.family) for labels, kept in zip(draws, drawn_of(mixture))]


def test_densities_and_probabilities_are_means_over_the_draws(fitted):
    mixture, X = fitted
    new = overlapping(20, seed=1)
    others = by_hand(mixture, X)
    scores = [other.score_samples(new, average=False) for other in others]
    np.testing.assert_allclose(mixture.score_samples(new), logsumexp(scores, axis=0) - np.log(len(scores)), rtol=1e-12)
    assert mixture.score(new) == pytest.approx(np.mean(mixture.score_samples(new)))
    wanted = np.zeros((len(new), 3))
    for other, labels in zip(others, mixture.posterior_.draws()):
        shares = np.array(
            [[np.mean(mixture.labels_[labels == j] == k) for k in range(3)] for j in range(len(other.n_))]
        )
        wanted += other.predict_proba(new, average=False) @ shares / len(others)
    np.testing.assert_allclose(mixture.predict_proba(new), wanted, atol=1e-12)
    top = mixture.predict_proba(new, n_top=1)
    np.testing.assert_allclose(top.max(axis=1).toarray().ravel(), wanted.max(axis=1), atol=1e-12)
    assert abs(mixture.score(new) - np.mean(mixture.score_samples(new, average=False))) > 1e-4


def test_draws_have_their_own_hyper_parameters(fitted):
    mixture, _ = fitted
    strengths = {float(np.ravel(kept.family.mean_strength)[0]) for kept in drawn_of(mixture)}
    assert len(strengths) > 6
    np.testing.assert_allclose(
        [kept.family.hyper_factors_["mean_strength"] for kept in drawn_of(mixture)],
        mixture.posterior_.hyper["mean_strength_factor"],
    )


def test_conditional_densities_and_means_are_those_of_all_draws_as_one_mixture(fitted):
    mixture, _ = fitted
    grid = np.linspace(-15.0, 25.0, 4001)
    for x in (-1.0, 0.9, 4.0):
        rows = np.column_stack([np.full(grid.size, x), grid])
        p = np.exp(mixture.score_samples(rows, given=[0]))
        assert np.trapezoid(p, grid) == pytest.approx(1.0, abs=1e-3)
        joint = np.exp(mixture.score_samples(rows))
        np.testing.assert_allclose(p, joint / np.trapezoid(joint, grid), rtol=2e-3)
        mean = np.trapezoid(p * grid, grid)
        lacking = np.array([[x, np.nan]])
        assert mixture.impute(lacking)[0, 1] == pytest.approx(mean, abs=5e-3)
        assert mixture.impute(lacking)[0, 0] == x
        drawn = np.array([one[0, 1] for one in mixture.impute(np.repeat(lacking, 1, axis=0), draws=2000)])
        sd = np.sqrt(np.trapezoid(p * (grid - mean) ** 2, grid))
        assert abs(drawn.mean() - mean) < 4.0 * sd / np.sqrt(2000)
        assert abs(drawn.std() - sd) < 0.15 * sd


def test_models_keep_their_draws_in_files_and_copies(fitted, tmp_path):
    mixture, _ = fitted
    new = overlapping(5, seed=2)
    mixture.save(tmp_path / "model")
    for other in (
        Mixture.load(tmp_path / "model"),
        copy.copy(mixture),
        copy.deepcopy(mixture),
        pickle.loads(pickle.dumps(mixture)),
    ):
        np.testing.assert_array_equal(other.score_samples(new), mixture.score_samples(new))
        np.testing.assert_array_equal(other.predict_proba(new), mixture.predict_proba(new))


def stored(packed, *names):
    """The value of nested names in a header."""
    for name in names:
        packed = packed["$dict"][name]
    return packed


def test_altered_draws_are_refused(fitted, tmp_path):
    mixture, _ = fitted
    for name, wrong in (("family", 99), ("n", "lost")):
        mixture.save(tmp_path / "model")
        path = tmp_path / "model" / "header.json"
        header = json.loads(path.read_text())
        draws = stored(header["header"]["results"], "_drawn", "draws")
        if wrong == "lost":
            del draws[0]["$dict"][name]
        else:
            draws[0]["$dict"][name] = wrong
        path.write_text(json.dumps(header))
        with pytest.raises(ArchiveError, match="model"):
            Mixture.load(tmp_path / "model")


def test_without_draws_and_after_more_learning_the_labels_answer(fitted):
    X = overlapping()
    plain = Mixture("gaussian_diag", 3, random_state=0).fit(X)
    assert drawn_of(plain) == ()
    np.testing.assert_array_equal(plain.score_samples(X), plain.score_samples(X, average=False))
    mixture = copy.copy(fitted[0])
    coarse = mixture.coarsen(n_clusters=2)
    assert drawn_of(coarse) == ()
    again = mixture.fit(X[:50])
    assert drawn_of(again)[0].home.shape[1] == again.n_components_
    learned = Mixture("gaussian_diag", 3, n_draws=8, random_state=0).fit(X)
    learned.set_params(sampler="variational").partial_fit(X)
    assert drawn_of(learned) == ()
    with pytest.raises(ValueError, match="Mixture: average must be"):
        mixture.score_samples(X, average="yes")


def test_tables_and_counts_have_means_too():
    rng = np.random.default_rng(0)
    group = np.arange(150) % 3
    table = pd.DataFrame(
        {
            "height": rng.normal(np.array([0.0, 1.5, 6.0])[group], 1.0),
            "kind": pd.Categorical(np.array(["a", "b", "c"])[(group + (rng.random(150) < 0.3)) % 3]),
            "visits": rng.poisson(np.array([1.0, 4.0, 12.0])[group]),
        }
    )
    mixture = Mixture(n_components=3, n_draws=10, random_state=0).fit(table)
    lacking = table.copy()
    lacking.loc[::2, "height"] = np.nan
    lacking.loc[1::3, "kind"] = None
    filled = mixture.impute(lacking)
    assert not filled.isna().any().any()
    assert list(filled["kind"].cat.categories) == ["a", "b", "c"]
    drawn = mixture.impute(lacking, draws=400)
    means = np.mean([one["height"].to_numpy() for one in drawn], axis=0)
    np.testing.assert_allclose(means, filled["height"], atol=0.6)
    shares = pd.concat([one["kind"] for one in drawn], axis=1)
    at = shares.index[1::3]
    most = [row.value_counts().idxmax() for _, row in shares.loc[at].iterrows()]
    assert np.mean(np.array(most) == filled.loc[at, "kind"].to_numpy()) > 0.9
    conditional = mixture.score_samples(lacking, given=["visits"])
    assert np.isfinite(conditional).all()
    assert not np.array_equal(conditional, mixture.score_samples(lacking, given=["visits"], average=False))


@pytest.mark.filterwarnings("ignore:Mixture. 2 chains disagree")
def test_many_draws_are_thinned_evenly_and_large_ones_are_fewer(monkeypatch):
    X = overlapping()
    mixture = Mixture("gaussian_diag", 3, n_draws=50, n_chains=2, random_state=0).fit(X)
    kept, draws = drawn_of(mixture), mixture.posterior_.draws()
    assert len(kept) == 20
    places = np.linspace(0, len(draws) - 1, 20).round().astype(int)
    for one, labels in zip(kept, draws[places]):
        np.testing.assert_array_equal(np.sort(one.n), np.sort(np.bincount(labels)))
    monkeypatch.setattr("expfam.fitting.kept.MOST_BYTES", 5 * n_bytes(kept[0]))
    assert len(drawn_of(mixture.fit(X))) == 5
    monkeypatch.setattr("expfam.fitting.kept.MOST_BYTES", 1)
    assert len(drawn_of(mixture.fit(X))) == 2


def test_the_recorded_hyper_parameters_are_not_read_once_more_for_each_draw(monkeypatch):
    values, n_read = HyperRecorder.values.fget, []
    monkeypatch.setattr(HyperRecorder, "values", property(lambda recorder: n_read.append(1) or values(recorder)))
    n_by_draws = []
    for n_draws in (20, 60):
        n_read.clear()
        Mixture("gaussian_diag", 3, n_draws=n_draws, random_state=0).fit(overlapping())
        n_by_draws.append(len(n_read))
    assert n_by_draws[0] == n_by_draws[1] > 0
