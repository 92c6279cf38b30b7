"""`GroupedMixture(sampler="uncollapsed_gibbs")`: rows in groups on threads, their clusters counted or not."""

import numpy as np
import pytest
from scipy import sparse

from expfam import GroupedMixture
from expfam.errors import CapabilityError, ResourceError
from expfam.samplers import GroupedUncollapsedGibbs
from expfam.samplers.chain.callbacks import Checkpoint

QUICK = {"n_steps": 12, "n_warmup": 12, "sampler": "uncollapsed_gibbs", "random_state": 0}
LEARNED = ("n_", "S_", "alpha_", "log_joint_", "labels_", "probabilities_", "group_weights_")


def planted_rows(K, n_rows, seed, n_groups=30):
    rng = np.random.default_rng(seed)
    shares, groups = rng.dirichlet(np.full(K, 0.5), size=n_groups), rng.integers(n_groups, size=n_rows)
    z = np.array([rng.choice(K, p=shares[g]) for g in groups])
    return rng.normal(0.0, 12.0, size=(K, 3))[z] + rng.normal(size=(n_rows, 3)), groups, z


@pytest.fixture(scope="module")
def few():
    return planted_rows(4, 600, 0)


def bits(mixture):
    found = [np.asarray(getattr(mixture, name)).tobytes() for name in LEARNED]
    return (*found, mixture.trace_.column("objective").tobytes())


def is_same(labels, z):
    """Tell whether two partitions are equal."""
    return len(set(zip(labels.tolist(), z.tolist()))) == len(set(z.tolist())) == len(set(labels.tolist()))


@pytest.mark.parametrize("n_components", [4, None])
def test_threads_do_not_matter(few, n_components, monkeypatch):
    monkeypatch.setattr("expfam.samplers.shards.grouped_gibbs._TILE", 64)
    X, groups, z = few
    mixtures = [
        GroupedMixture("gaussian_diag", n_components, n_threads=n, **QUICK).fit(X, groups=groups) for n in (1, 2, 3)
    ]
    assert len({bits(mixture) for mixture in mixtures}) == 1
    own = GroupedMixture("gaussian_diag", n_components, **QUICK | {"sampler": GroupedUncollapsedGibbs(n_threads=2)})
    assert bits(own.fit(X, groups=groups)) == bits(mixtures[0])
    assert is_same(mixtures[0].labels_, z)
    assert mixtures[0].trace_.column("n_large")[-1] == 4
    other = GroupedMixture("gaussian_diag", n_components, **QUICK | {"random_state": 1}).fit(X, groups=groups)
    assert bits(other) != bits(mixtures[0])


@pytest.mark.parametrize("family", ["gaussian_diag", "poisson"])
def test_an_unknown_number_of_clusters_is_found(family):
    X, groups, z = planted_rows(20, 1500, 3)
    if family == "poisson":
        rng = np.random.default_rng(0)
        X = rng.poisson(rng.gamma(0.5, 20.0, size=(20, 12))[z])
    mixture = GroupedMixture(family, None, **QUICK).fit(X, groups=groups)
    assert len(mixture.n_) in (19, 20, 21)
    assert len(set(zip(mixture.labels_.tolist(), z.tolist()))) <= 30
    assert (np.diff(mixture.n_) <= 0).all()
    np.testing.assert_allclose(mixture.beta_.sum() + mixture.rest_, 1.0, rtol=1e-12)
    np.testing.assert_allclose(mixture.group_weights_.sum(axis=1), 1.0)
    collapsed = GroupedMixture(family, None, **QUICK | {"sampler": "gibbs"}).fit(X, groups=groups)
    assert mixture.score(X, groups=groups) == pytest.approx(collapsed.score(X, groups=groups), abs=0.02)


def test_a_start_looks_at_some_of_many_rows(few, monkeypatch):
    monkeypatch.setattr("expfam.estimators.group_places._SAMPLED_ROWS", 200)
    X, groups, z = few
    assert is_same(GroupedMixture("gaussian_diag", None, **QUICK).fit(X, groups=groups).labels_, z)
    counts = np.random.default_rng(0).poisson(np.array([[9, 0.1], [0.1, 9], [5, 40], [60, 3]])[z])
    mixture = GroupedMixture("poisson", None, **QUICK).fit(sparse.csr_array(counts), groups=groups)
    dense = GroupedMixture("poisson", None, **QUICK).fit(counts, groups=groups)
    assert mixture.n_clusters_ == dense.n_clusters_ == 4


def test_results_survive_a_file(few, tmp_path):
    X, groups, _ = few
    names = np.array([f"patient {g}" for g in groups], dtype=object)
    for n_components in (4, None):
        mixture = GroupedMixture("gaussian_diag", n_components, **QUICK).fit(X, groups=names)
        mixture.save(tmp_path / f"mixture-{n_components}")
        again = GroupedMixture.load(tmp_path / f"mixture-{n_components}")
        np.testing.assert_array_equal(again.predict(X, groups), mixture.predict(X, groups))
        assert again.sampler == "uncollapsed_gibbs"
        assert again.group_names_[0] == "patient 0"
    np.testing.assert_allclose(mixture.transform(X, groups, rest=True).sum(axis=1), 1.0)


class Until:
    """Callback that ends a run by an error, after some steps."""

    def __init__(self, n_steps):
        self.n_steps = n_steps

    def __call__(self, info, state):
        if info.step == self.n_steps:
            raise RuntimeError("ended")
        return False


@pytest.mark.parametrize("n_components", [4, None])
@pytest.mark.parametrize("last", [5, 17])
def test_a_fit_goes_on_bit_for_bit(few, n_components, last, tmp_path):
    X, groups, _ = few
    whole = GroupedMixture("gaussian_diag", n_components, **QUICK).fit(X, groups=groups)
    kept = Checkpoint(tmp_path / "run", every_seconds=0)
    with pytest.raises(RuntimeError, match="ended"):
        GroupedMixture("gaussian_diag", n_components, callbacks=[Until(last)], **QUICK).fit(
            X, groups=groups, resume=kept
        )
    again = GroupedMixture("gaussian_diag", n_components, n_threads=2, **QUICK)
    assert bits(again.fit(X, groups=groups, resume=tmp_path / "run")) == bits(whole)


def test_settings_reach_the_sampler(few):
    X, groups, z = few
    held = GroupedMixture("gaussian_diag", None, alpha=0.7, **QUICK).fit(X, groups=groups)
    assert (held.concentration_, held.gamma_) == (pytest.approx(0.7), pytest.approx(1.0))
    given = GroupedMixture("gaussian_diag", 4, alpha=[0.1, 0.2, 0.3, 0.4], **QUICK).fit(X, groups=groups)
    assert given.alpha_.tolist() == pytest.approx([0.1, 0.2, 0.3, 0.4])
    started = GroupedMixture("gaussian_diag", None, start=z, **QUICK).fit(X, groups=groups)
    assert is_same(started.labels_, z)
    named = GroupedMixture("gaussian_diag", 4, start="kmeans++", time_limit="10min", **QUICK).fit(X, groups=groups)
    assert len(named.trace_) == 24


def test_what_is_refused_has_a_line_to_type(few):
    X, groups, z = few
    for n_components in (4, None):
        mixture = GroupedMixture("gaussian_diag", n_components, **QUICK)
        line = r"(write|type) GroupedMixture\(family='gaussian_diag', n_components=(4|10|None).*sampler='\w+'.*fit\(X"
        with pytest.raises(CapabilityError, match=line):
            mixture.fit(X, groups=groups, sample_weight=np.full(len(X), 0.5))
        links = np.where(np.arange(len(X)) < 2, 0, -1)
        with pytest.raises(CapabilityError, match=r"GroupedMixture\(.*sampler='gibbs'"):
            mixture.fit(X, groups=groups, links=links)
        known = np.where(np.arange(len(X)) < 9, z, -1)
        with pytest.raises(CapabilityError, match=r"labels='clusters'.*GroupedMixture\(.*sampler='gibbs'"):
            GroupedMixture("gaussian_diag", n_components, labels="clusters", **QUICK).fit(X, known, groups=groups)
        with pytest.raises(AttributeError, match=r"write GroupedMixture\(.*sampler='variational'"):
            mixture.partial_fit(X, groups=groups)
        with pytest.raises(ResourceError, match="memory"):
            GroupedMixture("gaussian_diag", n_components, memory_limit="10KB", **QUICK).fit(X, groups=groups)
