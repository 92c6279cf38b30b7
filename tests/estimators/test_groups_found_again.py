"""`coarsen()` without a wish: the groups that halves of the rows find again."""

import copy

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.metrics import adjusted_rand_score

from expfam import DiagonalGaussian, DirichletProcess, Mixture, MixtureModel, Multinomial
from expfam.coarsening.curve import CoarseningCurve, curve_of
from expfam.coarsening.half_fits import ComparedModel, half_fits
from expfam.coarsening.overlapping import overlapping_groups
from expfam.coarsening.recognised_groups import models_compared
from expfam.coarsening.rows import some_rows
from expfam.errors import DataError
from expfam.estimators.loaded import rows_of_fit
from expfam.model.data import Dataset


def rings(seed=0, n=400):
    """Rows on four rings, each of which a mixture of ellipses needs several clusters for."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(4), n)
    turn, radius = rng.uniform(0.0, 2.0 * np.pi, size=4 * n), rng.normal(6.0, 0.4, size=4 * n)
    X = radius[:, None] * np.stack([np.cos(turn), np.sin(turn)], axis=1)
    return X + 40.0 * np.stack([group % 2, group // 2], axis=1), group


def themes(seed=0):
    """Documents of four themes, each with sub-themes that share half of its words."""
    rng = np.random.default_rng(seed)
    group, sub = np.arange(480) % 4, np.arange(480) // 4 % 3
    own = rng.dirichlet(np.full(25, 0.5), size=4)
    p = np.zeros((480, 160))
    for row in range(480):
        p[row, 25 * group[row] : 25 * group[row] + 25] = 0.6 * own[group[row]]
        at = 100 + 5 * (3 * group[row] + sub[row])
        p[row, at : at + 5] = 0.08
    return np.array([rng.multinomial(120, row / row.sum()) for row in p]), group, sub


@pytest.fixture(scope="module")
def fitted():
    X, group = rings()
    return Mixture("gaussian_diag", random_state=0).fit(X), X, group


def test_pieces_of_groups_are_put_together(fitted):
    mixture, _, group = fitted
    assert mixture.n_components_ > 12
    coarse = mixture.coarsen()
    assert coarse.n_components_ == 4
    assert adjusted_rand_score(group, coarse.labels_) == 1.0
    assert coarse.cluster_sizes_.tolist() == [400] * 4
    assert coarse.log_joint_ == pytest.approx(mixture.coarsening_curve_.log_joint[mixture.coarsening_curve_.tree][3])
    assert mixture.n_components_ > 12  # the fit stays


def test_sub_themes_that_all_halves_find_are_the_answer():
    X, group, sub = themes()
    mixture = Mixture("multinomial", random_state=0).fit(X)
    assert mixture.coarsening_curve_.agreement["cost"][11] > 0.99
    assert adjusted_rand_score(3 * group + sub, mixture.coarsen().labels_) > 0.99
    assert adjusted_rand_score(group, mixture.coarsen(n_clusters=4).labels_) > 0.99


def compared_models(mixture):
    return models_of(mixture, rows_of_fit(mixture).data)


def models_of(mixture, data):
    is_left = isinstance(mixture.family, str) and mixture.family == "auto"
    return models_compared(mixture.model_, data, mixture._asked(), is_left=is_left, seed=0)


def test_every_family_votes_where_the_family_is_left():
    X, group = rings()
    mixture = Mixture(random_state=0).fit(X)
    names = [one.model.family.name for one in compared_models(mixture)]
    assert set(names) == {"gaussian", "gaussian_diag"}
    named = Mixture("gaussian_diag", random_state=0).fit(X)
    assert len(compared_models(named)) == 1
    assert adjusted_rand_score(group, mixture.coarsen().labels_) == 1.0


def test_halves_see_and_learn_what_the_fit_has_seen_and_learned(tmp_path):
    X, digits = load_digits(return_X_y=True)
    X, digits = X[:600, X[:600].std(axis=0) > 0.0], digits[:600]
    mixture = Mixture(random_state=0).fit(X)
    kept = rows_of_fit(mixture).data
    ((model, seen, learned, adapts),) = models_of(mixture, kept)
    assert (model.family, learned, adapts) == (mixture.family_, ("mean_strength", "rate", "alike"), False)
    assert len(np.unique(seen.X)) > 10 * len(np.unique(kept.X)) == 10 * len(np.unique(X))
    assert adjusted_rand_score(digits, mixture.coarsen().labels_) > 0.5
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert models_of(loaded, kept)[0][2:] == (learned, adapts)
    for family, of_fit in (("gaussian_diag", learned), (mixture.family_, ())):
        named = Mixture(family, random_state=0).fit(X)
        assert models_of(named, kept)[0].learned == of_fit


@pytest.mark.parametrize(("n_rows", "n_fits"), [(1000, 8), (1001, 4)])
def test_many_rows_are_split_less_often(n_rows, n_fits):
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(n_rows, 1)) + 9.0 * (np.arange(n_rows) % 2)[:, None], DiagonalGaussian())
    model = ComparedModel(MixtureModel(data.family, DirichletProcess()), data, (), False)
    found = half_fits([model], seed=0, n_threads=None)
    assert len(found) == n_fits
    assert {len(fit.labels) for fit in found} == {n_rows}


def test_each_half_learns_the_hyper_parameters_that_are_named():
    rng = np.random.default_rng(0)
    data = Dataset(rng.normal(size=(120, 2)) + 9.0 * (np.arange(120) % 2)[:, None], DiagonalGaussian(rate=40.0))
    model = MixtureModel(data.family, DirichletProcess())
    for learned in ((), ("rate",)):
        for fit in half_fits([ComparedModel(model, data, learned, False)], seed=0, n_threads=1):
            has_learned = not np.array_equal(fit.model.family.rate, model.family.rate)
            assert has_learned == bool(learned)


def test_a_fit_on_which_halves_agree_stays():
    rng = np.random.default_rng(0)
    group = np.arange(300) % 5
    centres = 30.0 * np.eye(5, 3)  # the last two are the same
    mixture = Mixture("gaussian_diag", random_state=0).fit(rng.normal(size=(300, 3)) + centres[group])
    assert mixture.n_components_ == 4
    curve = mixture.coarsening_curve_
    assert curve.own_agreement > 0.99
    assert curve.n_clusters == mixture.n_components_
    np.testing.assert_array_equal(mixture.coarsen().labels_, mixture.labels_)
    assert "on which halves of the data agree" in mixture.summary()


def test_the_answer_does_not_depend_on_threads(fitted):
    X = fitted[1]
    curves = [Mixture("gaussian_diag", random_state=3, n_threads=n).fit(X).coarsening_curve_ for n in (1, 3)]
    for key in ("agreement", "spread", "score"):
        for tree in ("cost", "known"):
            np.testing.assert_array_equal(*(getattr(curve, key)[tree] for curve in curves))


def test_the_curve_is_made_once_and_told(fitted):
    mixture = fitted[0]
    curve = mixture.coarsening_curve_
    assert isinstance(curve, CoarseningCurve)
    assert mixture.coarsening_curve_ is curve
    K = mixture.n_components_
    frame = curve.frame()
    assert len(frame) == 2 * K
    assert frame["is_answer"].sum() == 1
    row = frame[frame["is_answer"]].iloc[0]
    assert (row["n_clusters"], row["largest"], row["smallest"]) == (4, 400, 400)
    assert f"{K} clusters, of which halves of the data agree on 4: coarsen()" in mixture.summary()
    assert curve.peaks(1) == [(curve.tree, 4, curve.score[curve.tree][3])]
    assert curve.sizes_of("cost", 1).tolist() == [1600]
    falls = np.maximum.accumulate(mixture.log_joint_ - curve.log_joint["cost"][::-1][1:])
    np.testing.assert_allclose(np.maximum(falls, 0.0), mixture.coarsening_[:, 2], atol=1e-6)


def test_trees_and_numbers_can_be_asked_for(fitted):
    mixture, X, group = fitted
    known = mixture.coarsen(n_clusters=4, tree="known")
    assert adjusted_rand_score(group, known.labels_) == 1.0
    np.testing.assert_array_equal(
        mixture.coarsen(n_clusters=3, tree="cost").labels_, mixture.coarsen(n_clusters=3).labels_
    )
    assert mixture.coarsen(tree="known").n_components_ == mixture.coarsening_curve_.best_of("known")
    given = mixture.coarsen(X=X[::2])
    assert adjusted_rand_score(group[::2], given.labels_) == 1.0


def test_other_models_need_rows(fitted, tmp_path):
    mixture, X, group = fitted
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    for other in (loaded, copy.copy(loaded), mixture.coarsen(n_clusters=5)):
        with pytest.raises(DataError, match=r"holds none, because it was loaded.*: write coarsen\(X=X\)"):
            other.coarsen()
        assert not hasattr(other, "labels_") or len(other.labels_) == len(X)
        assert adjusted_rand_score(group, other.coarsen(X=X).labels_) == 1.0
    stream = Mixture("gaussian_diag", 8, sampler="variational", random_state=0).fit_chunks([X[::2], X[1::2]])
    with pytest.raises(DataError, match="learned from chunks"):
        stream.coarsen()
    assert adjusted_rand_score(group, stream.coarsen(X=X).labels_) == 1.0


def test_classes_stay_apart():
    X, group = rings()
    y = np.where(np.arange(len(X)) % 10 == 0, np.array([0, 1, 2, 2])[group], -1)
    y[group == 3] = -1
    mixture = Mixture("gaussian_diag", labels="classes", random_state=0).fit(X, y)
    coarse = mixture.coarsen()
    assert set(coarse.cluster_classes_) >= {0, 1, 2}
    for k in range(coarse.n_components_):
        assert len(set(y[coarse.labels_ == k]) - {-1}) <= 1


def test_unfitting_wishes_are_named(fitted):
    mixture = fitted[0]
    with pytest.raises(ValueError, match="tree must be"):
        mixture.coarsen(n_clusters=3, tree="odds")
    with pytest.raises(ValueError, match=r"got robust=0\.5 too: write coarsen\(robust=0\.5\)"):
        mixture.coarsen(robust=0.5, tree="known")
    for wrong in (0, 1, -0.5, np.nan, True, "0.05"):
        with pytest.raises(ValueError, match="overlap must be a number above 0 and below 1"):
            mixture.coarsen(overlap=wrong)
    with pytest.raises(DataError, match="halves of 2 rows tell nothing"):
        mixture.coarsen(X=fitted[1][:2])


# ---- overlap ---------------------------------------------------------------------------------------------------------


def test_clusters_that_share_rows_are_merged(fitted):
    mixture, _, group = fitted
    coarse = mixture.coarsen(overlap=0.01)
    assert 4 <= coarse.n_components_ < mixture.n_components_
    assert all(len(set(group[coarse.labels_ == k])) == 1 for k in range(coarse.n_components_))
    n_left = [mixture.coarsen(overlap=share).n_components_ for share in (0.001, 0.01, 0.1, 0.5)]
    assert n_left == sorted(n_left)
    assert n_left[-1] == mixture.n_components_


def test_shares_of_a_union_are_those_of_its_rows():
    mass = np.array([[60.0, 30.0, 10.0], [30.0, 60.0, 10.0], [4.0, 4.0, 92.0]])
    assert overlapping_groups(mass, 0.2).tolist() == [0, 0, 1]
    assert overlapping_groups(mass, 0.09).tolist() == [0, 0, 0]  # a tenth of the union, 8 % of the third
    assert overlapping_groups(mass, 0.09, np.array([0, 0, 1])).tolist() == [0, 0, 1]
    assert overlapping_groups(mass, 0.2, np.array([0, 1, 0])).tolist() == [0, 1, 2]


# ---- rows and curves -------------------------------------------------------------------------------------------------


def test_kept_rows_are_a_copy_with_a_row_of_each_cluster():
    X = np.arange(12000.0)[:, None]
    labels = np.zeros(12000, dtype=int)
    labels[[5, 7]] = 1, 2
    data = Dataset(X, Mixture("gaussian_diag")._family())
    rows = some_rows(data, labels, seed=0)
    assert set(rows.labels) == {0, 1, 2}
    assert 5000 <= rows.data.n_rows <= 5002
    assert not np.shares_memory(rows.data.X, data.X)


def test_wide_rows_are_fewer(monkeypatch):
    data = Dataset(np.random.default_rng(0).normal(size=(3000, 4)), Mixture("gaussian_diag")._family())
    monkeypatch.setattr("expfam.coarsening.rows._MOST_BYTES", 32 * 700)
    assert some_rows(data, np.zeros(3000, dtype=int), seed=0).data.n_rows == 700
    monkeypatch.setattr("expfam.coarsening.rows._MOST_BYTES", 1)
    assert some_rows(data, np.zeros(3000, dtype=int), seed=0).data.n_rows == 500


def test_rows_go_with_their_clusters():
    X, _ = rings(n=30)
    mixture = Mixture("gaussian_diag", 4, random_state=0).fit(X)
    assert rows_of_fit(mixture) is not None
    mixture.set_params(sampler="variational").partial_fit(X)
    assert rows_of_fit(mixture) is None


def test_rows_of_no_weight_have_no_part():
    group = np.arange(400) % 4
    X = np.random.default_rng(0).normal(size=(400, 2)) + 30.0 * np.stack([group % 2, group // 2], axis=1)
    weight = np.where(np.arange(400) % 3 == 0, 0.0, 2.0)
    mixture = Mixture("gaussian_diag", 6, sampler="em", random_state=0).fit(X, sample_weight=weight)
    rows = rows_of_fit(mixture)
    assert rows.data.n_rows == 266
    assert (rows.data.weight == 2.0).all()
    coarse = mixture.coarsen(n_clusters=4, tree="known")
    assert adjusted_rand_score(group, coarse.labels_) == 1.0


def test_the_factor_and_the_fewest_groups():
    tree = np.array([[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 2.0, 3.0]])
    table = np.array([[30.0, 0.0], [20.0, 0.0], [0.0, 50.0]])
    half = {"cost": np.array([[0.0, 1.0, 1.0, 2.0]])}
    none = {"cost": np.zeros(3)}
    options = {"is_own": [True, True], "sizes": np.array([30, 20, 50]), "log_joint": none}
    curve = curve_of({"cost": tree}, [table] * 2, [half] * 2, **options)
    assert curve.agreement["cost"][:2].tolist() == [1.0, 1.0]
    assert curve.score["cost"][:2].tolist() == [0.0, 0.75]
    assert (curve.n_clusters, curve.best_of("cost")) == (2, 2)
    assert curve.own_agreement == pytest.approx(
        adjusted_rand_score([0] * 30 + [1] * 20 + [2] * 50, [0] * 50 + [1] * 50)
    )
    assert curve_of({"cost": tree}, [table] * 2, [half] * 2, **options, fewest=3).n_clusters == 3


TWO, THREE = np.array([[0.0, 1.0, 1.0, 2.0]]), np.array([[0.0, 1.0, 1.0, 2.0], [2.0, 3.0, 2.0, 3.0]])
SIX = np.array([[0.0, 1, 1, 2], [2, 3, 1, 2], [4, 5, 1, 2], [6, 7, 2, 4], [8, 9, 3, 6]], dtype=float)  # pairs of THREE
JOINED, APART = np.array([[30.0, 0.0], [20.0, 0.0], [0.0, 50.0]]), np.diag([30.0, 20.0, 50.0])


def curve_of_halves(tree, shared):
    """The curve of a fit over halves whose clusters share these numbers of rows with those of the fit."""
    options = {"log_joint": {"cost": np.zeros(len(tree) + 1)}, "sizes": shared[0].sum(axis=1)}
    half_trees = [{"cost": TWO if table.shape[1] == 2 else THREE} for table in shared]
    return curve_of({"cost": tree}, shared, half_trees, is_own=[True] * len(shared), **options)


def test_few_clusters_are_merged_where_the_gain_is_clear():
    assert curve_of_halves(THREE, [JOINED] * 4).n_clusters == 2
    doubtful = curve_of_halves(THREE, [JOINED, JOINED, APART, JOINED])
    assert (doubtful.best_of("cost"), doubtful.n_clusters) == (2, 3)
    pieces = [table.repeat(2, axis=0) / 2 for table in (JOINED, JOINED, APART, JOINED)]
    assert curve_of_halves(SIX, pieces).n_clusters == 2  # of more than five clusters the highest score is the answer


def test_a_fit_whose_halves_agree_on_nothing_stays():
    noise = np.random.default_rng(0).poisson(20.0, size=(3, 6, 2)).astype(float)
    noise *= noise[0].sum(axis=1, keepdims=True) / noise.sum(axis=2, keepdims=True)
    curve = curve_of_halves(SIX, list(noise))
    assert curve.best_of("cost") < 6
    assert curve.agreement["cost"][1:].max() < 1 / 3
    assert curve.n_clusters == 6


def test_a_model_of_one_cluster_stays():
    X = np.random.default_rng(0).poisson(3.0, size=(60, 2)) + 1
    mixture = Mixture(Multinomial(), 1, random_state=0).fit(X)
    assert mixture.coarsen().n_components_ == 1


def test_halves_of_short_texts_of_many_kinds_are_no_large_cluster():
    """The search alone leaves half of them in one cluster, and halves would agree on a few groups of everything."""
    rng, V = np.random.default_rng(0), 6000
    common = 1.0 / np.arange(5, V + 5)
    kinds = np.tile(0.7 * common / common.sum(), (60, 1))
    for kind in kinds:
        kind[rng.integers(0, V, 10)] += 0.03
    kinds /= kinds.sum(axis=1, keepdims=True)
    classes = rng.choice(60, 1200, p=rng.dirichlet(np.ones(60)))
    X = sparse.csr_array(np.array([rng.multinomial(25, kinds[k]) for k in classes]))
    data = Dataset(X, Multinomial())
    model = ComparedModel(MixtureModel(data.family, DirichletProcess()), data, (), False)
    for half in half_fits([model], seed=0, n_threads=1)[:2]:
        assert np.bincount(half.labels).max() < 300  # 515 and 574 without sweeps
        assert adjusted_rand_score(classes, half.labels) > 0.4  # .20 and .24
