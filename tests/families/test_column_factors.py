"""Hyper-parameters of which each column learns a factor of its own: the update, and what it is for."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from expfam import Categorical, Columns, Dataset, DiagonalGaussian, DirichletProcess, Mixture, MixtureModel, merge
from expfam.errors import ArchiveError
from expfam.families.column_factors import ColumnFactors
from expfam.families.slice_sampling import climb_to_modes, slice_sample_each
from expfam.families.trials.bernoulli import Bernoulli
from expfam.model.hyper_prior import HyperPrior, at_factors
from expfam.model.statistics import label_statistics
from expfam.samplers import CollapsedGibbs, Cycle, UpdateHyper, sample

LEAST_P = 1e-5


def codes(n_rows, *, seed=0, levels=(2, 3, 4, 5, 6, 2, 3, 4, 5, 6)):
    """Columns of categories that tell nothing about each other."""
    rng = np.random.default_rng(seed)
    columns = [rng.choice(size, n_rows, p=rng.dirichlet(np.full(size, 5.0))) for size in levels]
    return np.column_stack(columns).astype(np.float64)


def strains(seed=0, *, n_strains=12, n_rows=40, n_columns=100, n_private=4, error=0.005):
    """Nearly constant columns; each strain has a few variants of its own, and each cell may be misread."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(n_strains), n_rows)
    variant = np.zeros((n_strains, n_columns), dtype=bool)
    for row in variant:
        row[rng.choice(n_columns, n_private, replace=False)] = True
    return (variant[labels] ^ (rng.random((len(labels), n_columns)) < error)).astype(np.float64), labels


def statistics(data, labels):
    return label_statistics(data, np.asarray(labels, dtype=np.int32), int(max(labels)) + 1)


def best_log_joint(data, labels, *, n_updates=25):
    """Log joint of labels under the best of some draws of the prior that fits them, density of the prior included."""
    n, S = statistics(data, labels)
    family, rng, best = data.family, np.random.default_rng(0), -np.inf
    for _ in range(n_updates):
        family = family.update_hyper(n, S, rng)
        logs = np.log(family.hyper_factors_["concentration"])
        best = max(best, family.total_log_marginal(n, S) - 0.5 * ((logs / 3.0) ** 2).sum())
    return best + DirichletProcess().log_prior(n), family


# ---- one update ------------------------------------------------------------------------------------------------------


def test_each_of_many_scalars_keeps_its_law():
    """Each begins at an exact draw of a normal law, the last ones cut off at bounds; so it has that law afterwards."""
    rng = np.random.default_rng(0)
    mean, sd = np.repeat([0.0, 2.0, -1.0, 0.5], 3000), np.repeat([0.1, 3.0, 1.0, 0.4], 3000)
    low, high = -1.5, 2.5
    laws = [stats.truncnorm((low - m) / s, (high - m) / s, m, s) for m, s in zip(mean[::3000], sd[::3000])]
    t = np.concatenate([law.rvs(3000, random_state=rng) for law in laws])
    new = slice_sample_each(lambda x: -0.5 * ((x - mean) / sd) ** 2, t, rng, low=low, high=high)
    assert new.min() >= low
    assert new.max() <= high
    assert (new != t).mean() > 0.99
    for place, law in enumerate(laws):
        assert stats.kstest(new[3000 * place : 3000 * (place + 1)], law.cdf).pvalue > LEAST_P


def test_a_level_that_every_value_reaches_ends_at_the_bounds():
    new = slice_sample_each(np.zeros_like, np.zeros(500), np.random.default_rng(0), low=-2.0, high=1.0)
    assert -2.0 <= new.min() < -1.5
    assert 0.8 < new.max() <= 1.0


@pytest.mark.parametrize("is_sparse", [False, True])
def test_the_evidence_of_columns_is_that_of_the_family(is_sparse):
    X = codes(60, levels=(2, 3, 5))
    X[::7, 1] = -1.0
    data = Dataset(X, Categorical())
    n, S = statistics(data, np.arange(60) % 4)
    family = data.family.update_hyper(n, S, np.random.default_rng(1))  # a factor that is not 1 already
    rows = S if is_sparse else S.toarray() if hasattr(S, "toarray") else np.asarray(S)
    evidence = family._column_evidence("concentration", n, rows)
    rng = np.random.default_rng(2)
    points = [rng.normal(size=3) for _ in range(4)]
    gaps = [
        family._at_factor("concentration", t).log_marginal_by_column(n, S).sum(axis=0) - evidence(t) for t in points
    ]
    assert np.ptp(gaps, axis=0).max() < 1e-10


def test_the_update_keeps_the_prior_of_every_column():
    """Factors from their prior, data given them, three updates: each column's factor has its prior then."""
    family = Categorical(concentration=[0.6, 1.2, 0.5, 0.5, 0.9]).bind([[0, 0], [1, 2]])
    rng, labels, logs = np.random.default_rng(3), np.array([0, 0, 0, 1, 1, 2]), []
    low, high = np.log(family.hyper_bounds("concentration"))
    prior = stats.truncnorm(low / 3.0, high / 3.0, scale=3.0)
    for _ in range(400):
        own = family._at_factor("concentration", prior.rvs(2, random_state=rng))
        theta, _ = own.draw_natural(np.zeros(3), np.zeros((3, 5)), rng)
        X = np.concatenate([own.sample(theta[[k]], m, rng) for k, m in enumerate(np.bincount(labels))])
        n, S = statistics(Dataset(X, own), labels)
        for _ in range(3):
            own = own.update_hyper(n, S, rng)
        logs.append(np.log(own.hyper_factors_["concentration"]))
    for column in np.transpose(logs):
        assert stats.kstest(column, prior.cdf).pvalue > LEAST_P


def test_one_number_for_all_columns_has_one_factor():
    data = Dataset(codes(40), Categorical(concentration=0.5))
    drawn = data.family.update_hyper(*statistics(data, np.arange(40) % 3), np.random.default_rng(0))
    assert isinstance(drawn.hyper_factors_["concentration"], float)
    assert np.ndim(drawn.concentration) == 0


def test_values_are_the_base_times_the_factors():
    X = codes(50, levels=(2, 4))
    data = Dataset(X, Categorical())
    drawn = data.family
    for step in range(3):
        drawn = drawn.update_hyper(*statistics(data, np.arange(50) % 3), np.random.default_rng(step))
    factors = drawn.hyper_factors_["concentration"]
    assert factors.shape == (2,)
    np.testing.assert_allclose(drawn.concentration, data.family.concentration * np.repeat(factors, [2, 4]), rtol=1e-12)


# ---- tables ----------------------------------------------------------------------------------------------------------


def mixed(X, **settings):
    return Columns([(DiagonalGaussian(), (0,)), (Categorical(), (1, 2, 3, 4))], **settings).bind(X)


def test_a_part_of_a_table_is_updated_from_its_own_sums():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), codes(80, levels=(2, 3, 4, 2))])
    X[::5, 2] = np.nan
    data = Dataset(X, mixed(X))
    n, S = statistics(data, np.arange(80) % 3)
    family = data.family.update_hyper(n, S, np.random.default_rng(1), names=["categorical.concentration"])
    cells = np.where(np.isnan(X[:, 1:]), -1.0, X[:, 1:])
    alone = Dataset(cells, Categorical())
    expected = alone.family.update_hyper(*statistics(alone, np.arange(80) % 3), np.random.default_rng(1))
    np.testing.assert_array_equal(family.parts[1].family.concentration, expected.concentration)
    np.testing.assert_array_equal(
        family.hyper_factors_["categorical.concentration"], expected.hyper_factors_["concentration"]
    )
    np.testing.assert_array_equal(getattr(family, "categorical.concentration"), expected.concentration)


class Switches(ColumnFactors, Bernoulli):
    """Parts of it are split where columns have other holes, and so are the factors."""

    name = "switches"
    hyper_by_column = ("a", "b")


def test_parts_of_one_name_have_the_factors_of_their_columns():
    X = codes(80, levels=(2, 2, 2))
    X[::5, 1] = np.nan
    data = Dataset(X, Columns([(Switches(), (0, 1, 2))]))
    n, S = statistics(data, np.arange(80) % 3)
    parts = [part for part in data.family.parts if part.name == "switches"]
    assert [part.columns for part in parts] == [(0, 2), (1,)]
    assert data.family.factor_shape("switches.a") == (3,)
    family = data.family.update_hyper(n, S, np.random.default_rng(1))
    assert set(family.hyper_factors_) == {"switches.a", "switches.b"}
    other = data.family
    for name, factors in family.hyper_factors_.items():
        assert factors.shape == np.unique(factors).shape == (3,)
        other = other._at_factor(name, np.log(factors))
    assert other.hyper_factors_.keys() == family.hyper_factors_.keys()
    for place, at in enumerate([slice(0, 2), slice(2, 3)]):
        drawn, scaled = family.parts[place].family, other.parts[place].family
        np.testing.assert_allclose(drawn.a, scaled.a, rtol=1e-12)
        np.testing.assert_allclose(drawn.b, scaled.b, rtol=1e-12)
        np.testing.assert_array_equal(drawn.hyper_factors_["a"], family.hyper_factors_["switches.a"][at])


def test_a_family_on_some_columns_keeps_their_factors():
    data = Dataset(codes(80, levels=(2, 2, 2)), Switches())
    family = data.family.update_hyper(*statistics(data, np.arange(80) % 3), np.random.default_rng(1))
    part, _ = family.of_columns([2, 0])
    np.testing.assert_array_equal(part.hyper_factors_["a"], family.hyper_factors_["a"][[2, 0]])
    np.testing.assert_allclose(part._base_of("a"), data.family.a[[2, 0]], rtol=1e-12)


# ---- what is stored --------------------------------------------------------------------------------------------------


def learned_state(X, n_steps):
    kernel = Cycle(CollapsedGibbs(), UpdateHyper())
    state = kernel.init(MixtureModel(Dataset(X, Categorical()).family, DirichletProcess()), X, seed=0)
    sample(kernel, state, n_steps)
    return kernel, state


def test_a_resumed_chain_goes_on_bit_for_bit():
    X = codes(60, levels=(2, 3))
    kernel, whole = learned_state(X, 6)
    _, half = learned_state(X, 3)
    _, other = learned_state(X, 1)
    other.from_arrays(half.to_arrays())
    sample(kernel, other, 3)
    np.testing.assert_array_equal(other.model.family.concentration, whole.model.family.concentration)
    np.testing.assert_array_equal(other.partition, whole.partition)


def test_factors_of_other_columns_are_refused():
    X = codes(60, levels=(2, 3))
    _, state = learned_state(X, 2)
    arrays = state.to_arrays()
    arrays["model"]["factors"]["concentration"] = np.ones(3)
    with pytest.raises(ArchiveError, match="concentration"):
        state.from_arrays(arrays)


@pytest.mark.filterwarnings("ignore:.*left out")
@pytest.mark.parametrize("frame", [False, True])
def test_a_saved_mixture_keeps_the_factors(tmp_path, frame):
    X, _ = strains(n_columns=20, n_strains=3)
    X = pd.DataFrame(X.astype(bool)).rename(columns=str) if frame else X.astype(int)
    mixture = Mixture("auto" if frame else "categorical", random_state=0).fit(X)
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert loaded.family_ == mixture.family_
    assert loaded.family_.hyper_factors_.keys() == mixture.family_.hyper_factors_.keys()
    np.testing.assert_array_equal(loaded.score_samples(X), mixture.score_samples(X))


def test_the_prior_of_hyper_parameters_draws_each_factor():
    model = MixtureModel(Categorical(), DirichletProcess()).bind(codes(30, levels=(2, 3)))
    prior = HyperPrior(model, ["concentration"], weights=False)
    assert prior.names == ("concentration[0]", "concentration[1]")
    drawn = prior.draw(np.random.default_rng(0))
    values = prior.values(drawn)
    assert values[0] != values[1]
    np.testing.assert_allclose(
        drawn.family.concentration, model.family.concentration * np.exp(np.repeat(values, [2, 3])), rtol=1e-12
    )


# ---- what it is for --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_rows", [300, 1000])
def test_noise_is_more_probable_as_one_cluster(n_rows):
    """Under the prior that each partition learns, one cluster is above the clusters that a run makes of noise."""
    X = codes(n_rows)
    data = Dataset(X, Categorical())
    chain = {"sampler": "gibbs", "start": "random", "n_steps": 30}
    fixed = Mixture("categorical", learn_hyper=False, random_state=0, **chain).fit(X.astype(int))
    one, family = best_log_joint(data, np.zeros(n_rows, dtype=int))
    assert fixed.n_components_ > 3
    assert one > best_log_joint(data, fixed.labels_)[0] + 50.0
    assert np.median(family.hyper_factors_["concentration"]) > 20.0  # all clusters are thought to be alike


@pytest.mark.parametrize("n_rows", [300, 1000, 4000])
@pytest.mark.parametrize("family", ["auto", "categorical", "bernoulli"])
def test_noise_is_one_cluster(n_rows, family):
    """A split by the levels of one column describes nothing else; it is no better than one cluster."""
    for seed in range(2):
        X = codes(n_rows, seed=seed, levels=(2,) * 10 if family == "bernoulli" else (2, 3, 4, 5, 6, 2, 3, 4, 5, 6))
        X = pd.DataFrame(np.array(list("abcdef"))[X.astype(int)]).rename(columns=str) if family == "auto" else X
        assert Mixture(family, random_state=seed).fit(X).n_components_ == 1


def test_a_learned_prior_is_never_worth_less_than_four_observations():
    X, labels = strains()
    family = Dataset(np.column_stack([X, labels]), Categorical()).family
    n, S = statistics(Dataset(np.column_stack([X, labels]), family), labels)  # the last column has one level a cluster
    fitted = family.fit_hyper(n, S)
    mass = np.add.reduceat(fitted.concentration, fitted.offsets_[:-1])
    np.testing.assert_allclose([mass.min(), mass[-1]], 4.0, rtol=1e-12)


def test_columns_that_tell_strains_apart_get_another_prior_than_the_others():
    X, labels = strains()
    data = Dataset(X, Categorical())
    truth, family = best_log_joint(data, labels)
    tells = np.array([(X[labels == k] > 0.5).mean(axis=0) > 0.5 for k in range(12)]).any(axis=0)
    factors = family.hyper_factors_["concentration"]
    assert 20 < tells.sum() < 80
    assert np.median(factors[tells]) < 2.0 < 5.0 < np.median(factors[~tells])
    assert truth > best_log_joint(data, np.zeros_like(labels))[0] + 1000.0
    n, S = statistics(data, labels)
    assert truth > data.family.total_log_marginal(n, S) + DirichletProcess().log_prior(n) + 50.0


@pytest.mark.filterwarnings("ignore:.*left out")  # columns without a variant
@pytest.mark.parametrize("family", ["auto", "categorical", "bernoulli"])
def test_strains_are_found(family):
    X, labels = strains()
    X = pd.DataFrame(X.astype(bool)).rename(columns=str) if family == "auto" else X.astype(int)
    mixture = Mixture(family, random_state=0).fit(X)
    counts = pd.crosstab(labels, mixture.labels_).to_numpy()
    assert (counts.max(axis=1) >= 39).all()  # each strain is one cluster, but for a misread row
    assert (counts > 1).sum() == 12


@pytest.mark.parametrize("seed", range(5))
def test_two_classes_that_each_column_tells_vaguely_are_two_clusters(seed):
    """Weaker priors make clusters of the few rows between the classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, 600)
    table = pd.DataFrame({f"noise {j}": np.array(list("abcd"))[rng.integers(0, 4, 600)] for j in range(6)})
    for j in range(4):
        table[f"sign {j}"] = np.where(rng.random(600) < 0.85, labels, 1 - labels).astype(str)
    mixture = Mixture(random_state=seed).fit(table)
    assert mixture.n_components_ == 2
    assert adjusted_rand_score(labels, mixture.labels_) > 0.65


@pytest.mark.parametrize("seed", range(3))
def test_a_category_tells_a_table_apart_among_numbers(seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 500)
    table = pd.DataFrame({f"x{j}": rng.normal(size=500) + (labels if j < 2 else 0.0) for j in range(4)})
    table["kind"] = np.array(list("abc"))[labels]
    assert (pd.crosstab(labels, Mixture(random_state=seed).fit(table).labels_) > 0).sum().sum() == 3


@pytest.mark.parametrize("is_frame", [False, True])
def test_chunks_and_models_of_parts_share_one_prior(is_frame):
    """Chunks learn one prior with their start; a family that has learned gives its prior to the next model."""
    X, labels = strains()
    order = np.random.default_rng(0).permutation(len(X))
    X, labels = X[order], labels[order]
    rows = pd.DataFrame(X.astype(bool)).rename(columns=str) if is_frame else X.astype(int)
    parts = [rows[start : start + 120] for start in range(0, 480, 120)]
    family = "auto" if is_frame else Categorical(n_levels=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # columns of one value
        chunked = Mixture(family, 12, sampler="variational", random_state=0).fit_chunks(parts)
        assert (pd.crosstab(labels, chunked.predict(rows)).max(axis=1) >= 39).all()
        (factors,) = chunked.family_.hyper_factors_.values()
        assert factors.shape == (sum(X[:120].any(axis=0)) if is_frame else 100,)
        first = Mixture(family, random_state=0).fit(parts[0])
        second = Mixture(first.family_, random_state=0).fit(parts[1])
        assert first.family_.hyper_factors_
        assert second.family_ == first.family_
        assert merge([first, second], clusters="merged").family_ == first.family_


def test_learning_can_be_left_out():
    X, _ = strains(n_columns=20, n_strains=3)
    mixture = Mixture("categorical", learn_hyper=False, random_state=0).fit(X.astype(int))
    assert not getattr(mixture.family_, "hyper_factors_", {})
    np.testing.assert_array_equal(mixture.family_.concentration, Categorical().bind(X).concentration)


# ---- modes -----------------------------------------------------------------------------------------------------------


def test_each_of_many_scalars_climbs_to_its_mode():
    mean, sd = np.array([0.0, 3.0, -2.0, 9.0]), np.array([0.1, 2.0, 0.5, 1.0])
    found = climb_to_modes(lambda t: -0.5 * ((t - mean) / sd) ** 2, np.zeros(4), low=-4.0, high=6.0)
    np.testing.assert_allclose(found, [0.0, 3.0, -2.0, 6.0], atol=0.03)


@pytest.mark.parametrize("is_table", [False, True])
def test_the_fit_is_the_mode_of_the_update(is_table):
    X = codes(90, levels=(2, 3, 4))
    data = Dataset(X, Columns([(Categorical(), (0, 1, 2))]) if is_table else Categorical())
    name = "categorical.concentration" if is_table else "concentration"
    n, S = statistics(data, np.arange(90) % 4)
    fitted = data.family.fit_hyper(n, S)

    def target(family):
        return family.total_log_marginal(n, S) + family.log_hyper_prior([name])

    logs = np.log(fitted.hyper_factors_[name])
    assert fitted.log_hyper_prior([name]) == pytest.approx(-0.5 * ((logs / 3.0) ** 2).sum())
    for column in range(3):
        for step in (-0.2, 0.2):
            moved = logs.copy()
            moved[column] += step
            if 1.0 <= np.exp(moved[column]) < 1e4:
                assert target(data.family._at_factor(name, moved)) < target(fitted) + 1e-3
    drawn, rng = data.family, np.random.default_rng(0)
    for _ in range(20):
        drawn = drawn.update_hyper(n, S, rng)
        assert target(drawn) < target(fitted) + 1e-3


def test_a_table_fits_its_numbers_and_its_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=80), codes(80, levels=(2, 3, 4, 2))])
    data = Dataset(X, mixed(X))
    n, S = statistics(data, np.arange(80) % 3)
    fitted = data.family.fit_hyper(n, S, names=data.family.learned_by_default)
    assert {*fitted.hyper_factors_, "gaussian_diag.alike"} == set(data.family.learned_by_default)
    assert fitted.hyper_factors_["categorical.concentration"].shape == (4,)
    assert fitted.total_log_marginal(n, S) > data.family.total_log_marginal(n, S)


def test_draws_keep_the_factor_of_each_column():
    X, _ = strains(n_columns=6, n_strains=3, n_rows=20, n_private=2)
    mixture = Mixture("categorical", n_draws=10, n_steps=20, random_state=0).fit(X.astype(int))
    hyper = mixture.posterior_.hyper
    assert {f"concentration[{column}]_factor" for column in range(6)} <= set(hyper)
    model = HyperPrior(mixture.model_, ["concentration"], weights=False)
    at = at_factors(mixture.family_, {f"concentration[{j}]": hyper[f"concentration[{j}]_factor"][0] for j in range(6)})
    np.testing.assert_allclose(at.hyper_factors_["concentration"], [hyper[f"{n}_factor"][0] for n in model.names])
    one = at_factors(mixture.family_, {"concentration[2]": 3.0})
    assert one.hyper_factors_["concentration"][2] == pytest.approx(3.0)
    np.testing.assert_allclose(one.concentration[:4], mixture.family_.concentration[:4], rtol=1e-12)
