"""The family of real columns by held-out rows: recognised where it matters, stable, kept in files, and told."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_iris
from sklearn.decomposition import TruncatedSVD
from sklearn.metrics import adjusted_rand_score

from expfam import (
    DiagonalGaussian,
    DirichletProcess,
    Gaussian,
    GroupedMixture,
    Mixture,
    SphericalGaussian,
    SymmetricDirichlet,
)
from expfam.fitting.chosen_family import chosen_family

RNG = np.random.default_rng(0)
SKEWED = RNG.normal(size=(300, 3)) @ np.array([[2.0, 1.8, 0.0], [0.0, 0.3, 0.0], [0.0, 0.0, 1.0]])
GROUPS = np.repeat([0, 1, 2], 100)
SKEWED += 6.0 * np.eye(3)[GROUPS]
PLAIN = RNG.normal(size=(300, 3)) * [1.0, 4.0, 0.5] + 9.0 * np.eye(3)[GROUPS]
EQUAL = RNG.normal(size=(300, 80)) + 1.5 * RNG.normal(size=(3, 80))[GROUPS]
UNEQUAL = (RNG.normal(size=(300, 80)) + 1.5 * RNG.normal(size=(3, 80))[GROUPS]) * RNG.uniform(0.2, 5.0, 80)


def chosen(X, weights=None, sample_weight=None, **options):
    options = {"seed": 0, "n_threads": None, **options}
    return chosen_family(X, DirichletProcess() if weights is None else weights, sample_weight, **options)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("X", "expected"),
    [(SKEWED, Gaussian), (PLAIN, DiagonalGaussian), (EQUAL, SphericalGaussian), (UNEQUAL, DiagonalGaussian)],
    ids=["skewed", "plain", "equal", "unequal"],
)
def test_the_family_of_the_data_is_chosen(X, expected, seed):
    assert type(chosen(X, seed=seed).family) is expected
    assert type(chosen(X, SymmetricDirichlet(3, 1.0), seed=seed).family) is expected


def test_threads_and_units_do_not_change_the_choice():
    first = chosen(SKEWED)
    assert chosen(SKEWED, n_threads=2).scores == first.scores
    scaled = chosen(SKEWED * [1.0, 100.0, 0.01])
    assert scaled.family.name == first.family.name
    gains = [one.scores["gaussian"] - one.scores["gaussian_diag"] for one in (first, scaled)]
    assert gains[1] == pytest.approx(gains[0], rel=0.2)


def test_weights_are_multiplicities():
    """A row of weight 0 has no part in the scores: outliers without weight do not turn the choice."""
    X = np.concatenate([PLAIN, np.tile([1e3, 1e3, 1e3], (60, 1)) * RNG.normal(size=(60, 1))])
    weight = np.repeat([1.0, 0.0], [300, 60])
    assert type(chosen(X).family) is Gaussian  # the outliers lie on a line
    assert type(Mixture(n_components=3, sampler="em", random_state=0).fit(X, sample_weight=weight).family_) is (
        DiagonalGaussian
    )


@pytest.mark.parametrize("X", [SKEWED[:12], SKEWED[:, :1], np.zeros((50, 50)), RNG.normal(size=(60, 50))])
def test_nothing_is_chosen_where_there_is_nothing_to_compare(X):
    assert chosen(X) is None


def test_more_clusters_than_rows_leave_the_default():
    assert chosen(SKEWED[:30], SymmetricDirichlet(20, 1.0)) is None
    with pytest.warns(match="cluster"):
        assert type(Mixture(n_components=29, random_state=0).fit(np.round(SKEWED[:30])).family_) is DiagonalGaussian


def test_a_default_fit_takes_the_family_and_says_why(tmp_path):
    X = load_iris().data
    mixture = Mixture(random_state=0).fit(X)
    assert type(mixture.family_) is Gaussian
    assert mixture.family_scores_["gaussian"] > mixture.family_scores_["gaussian_diag"]
    assert "family gaussian: held-out rows have 0." in mixture.summary()
    assert adjusted_rand_score(load_iris().target, mixture.labels_) > 0.7
    same = Mixture("gaussian", random_state=0).fit(X)
    assert mixture.labels_.tolist() == same.labels_.tolist()
    assert not hasattr(same, "family_scores_")
    mixture.save(tmp_path / "model")
    assert Mixture.load(tmp_path / "model").family_scores_ == mixture.family_scores_
    assert not hasattr(mixture.fit(np.linspace(0.0, 1.0, 12)[:, None]), "family_scores_")  # of one column


@pytest.mark.parametrize("n_steps", [10, pytest.param("auto", marks=pytest.mark.slow)])
def test_many_columns_have_full_covariances_where_rows_suffice(n_steps):
    """The classes of digits are told by what pixels do together; 1,000 rows of 64 columns are too few to tell."""
    X, digits = load_digits(return_X_y=True)
    with pytest.warns(match=r"columns 0, 32, 39 are constant|coarsen\(\) merges them") as said:
        mixture = Mixture(n_steps=n_steps, random_state=0).fit(X)
    assert not any("does not pay" in str(each.message) for each in said)  # held-out rows have chosen already
    assert type(mixture.family_) is Gaussian
    assert sorted(mixture.family_scores_) == ["gaussian", "gaussian_diag", "gaussian_spherical"]
    assert adjusted_rand_score(digits, mixture.labels_) > 0.6
    for few in (chosen(X[:1000]), chosen(X, SymmetricDirichlet(30, 1.0))):
        assert "gaussian" not in few.scores


def embeddings(seed, n_words=12, k=15):
    """Documents of topics as unit vectors of 64 columns."""
    rng, topic = np.random.default_rng(seed), np.arange(600) % k
    p = 0.6 * rng.dirichlet(np.full(400, 0.05), size=k) + 0.4 * rng.dirichlet(np.full(400, 0.5))
    counts = np.array([rng.multinomial(n_words, p[t]) for t in topic])
    Z = TruncatedSVD(64, random_state=0).fit_transform(np.log1p(counts))
    return Z / np.linalg.norm(Z, axis=1, keepdims=True), topic


@pytest.mark.parametrize("seed", range(2))
def test_halves_choose_the_family_of_embeddings_in_a_given_number(seed, tmp_path):
    Z, topic = embeddings(seed)
    mixture = Mixture(n_components=15, random_state=0).fit(Z)
    assert type(mixture.family_) is SphericalGaussian
    agreement = mixture.family_agreement_
    assert agreement["gaussian_spherical"] > agreement["gaussian_diag"] + 0.1
    assert not hasattr(mixture, "family_scores_")
    found = adjusted_rand_score(topic, mixture.labels_)
    diagonal = adjusted_rand_score(topic, Mixture("gaussian_diag", 15, random_state=0).fit(Z).labels_)
    kmeans = adjusted_rand_score(topic, KMeans(15, n_init=3, random_state=0).fit_predict(Z))
    assert found > max(diagonal + 0.1, kmeans - 0.02)
    line = "family gaussian_spherical: halves of the rows agree by 0."
    assert line in mixture.summary()
    mixture.save(tmp_path / "model")
    loaded = Mixture.load(tmp_path / "model")
    assert loaded.family_agreement_ == agreement
    assert line in loaded.summary()
    again = mixture.set_params(n_components=3).fit(PLAIN)
    assert not hasattr(again, "family_agreement_")


def test_halves_do_not_choose_spreads_that_clusters_share_where_they_differ():
    rng, group = np.random.default_rng(0), np.arange(600) % 5
    spread = np.exp(0.7 * rng.normal(size=(5, 80)))[group]
    X = 0.5 * rng.normal(size=(5, 80))[group] + spread * rng.normal(size=(600, 80))
    choice = chosen(X, SymmetricDirichlet(5, 1.0))
    assert type(choice.family) is DiagonalGaussian
    assert choice.agreement["gaussian_diag"] > 0.9 > choice.agreement["gaussian_spherical"]


def test_frames_of_floats_are_as_arrays():
    pandas = pytest.importorskip("pandas")
    array = Mixture(random_state=0).fit(SKEWED)
    frame = Mixture(random_state=0).fit(pandas.DataFrame(SKEWED, columns=["a", "b", "c"]))
    assert type(frame.family_) is Gaussian
    assert frame.labels_.tolist() == array.labels_.tolist()


def test_groups_of_rows_choose_too_and_chunks_do_not():
    grouped = GroupedMixture(n_components=3, n_steps=5, random_state=0).fit(SKEWED, np.arange(300) % 10)
    assert type(grouped.family_) is Gaussian
    chunks = Mixture(n_components=3, sampler="variational", random_state=0).partial_fit(SKEWED)
    assert type(chunks.family_) is DiagonalGaussian


def test_holes_in_new_rows_are_integrated_out_and_filled():
    mixture = Mixture(random_state=0).fit(SKEWED)
    holes = SKEWED.copy()
    holes[::3, 0] = np.nan
    assert adjusted_rand_score(mixture.predict(holes), mixture.labels_) > 0.8
    lines = SKEWED - 6.0 * np.eye(3)[GROUPS]  # one group, whose first column follows the second one
    holes = lines.copy()
    holes[::3, 0] = np.nan
    errors = [
        np.sqrt(np.mean((Mixture(family, 1, random_state=0).fit(lines).impute(holes) - lines) ** 2))
        for family in ("auto", "gaussian_diag")
    ]
    assert errors[0] < 0.3 * errors[1]


def test_data_that_no_family_takes_get_the_error_of_the_fit():
    X = SKEWED.copy()
    X[4, 1] = 1e200
    with pytest.raises(Exception, match="column 1"):
        Mixture(random_state=0).fit(X)
