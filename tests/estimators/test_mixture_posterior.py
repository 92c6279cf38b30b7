"""Kept draws of a mixture, the posterior they make, and partitions searched from them."""

import numpy as np
import pytest
from arviz_groups import skip_without_arviz
from sklearn.datasets import load_iris

from expfam import Mixture, variation_of_information
from expfam.errors import ArchiveError, ResourceError
from expfam.estimators.mixture_plan import most_draws

X = load_iris().data


@pytest.fixture(scope="module")
def mixture():
    return Mixture("gaussian", 3, n_draws=40, n_steps=80, n_warmup=20, random_state=0).fit(X)


def test_draws_are_kept_of_steps_after_the_warm_up(mixture):
    posterior, trace = mixture.posterior_, mixture.trace_
    assert posterior.n_draws == 40
    assert (np.diff(trace.kept_steps) == 2).all()
    assert trace.kept_steps[0] > trace.n_warmup
    np.testing.assert_array_equal(posterior.log_joint, trace.column("objective")[trace.kept_steps - 1])
    np.testing.assert_array_equal(posterior.n_clusters, trace.column("n_clusters")[trace.kept_steps - 1])
    for one, other in zip(posterior.draws(), trace.partitions):
        assert variation_of_information(one, other) == 0
    assert posterior.draws().dtype == trace.partitions.dtype == np.uint8


def test_the_readings_are_about_the_labels(mixture):
    posterior = mixture.posterior_
    np.testing.assert_array_equal(posterior.point, mixture.labels_)
    assert posterior.between.shape == (3, 3)
    assert posterior is mixture.posterior_
    assert posterior.parameters(X)["mean"].mean.shape == (3, 4)


def test_keeping_draws_does_not_change_the_fit():
    """With hyper-parameters that are not learned; else those are drawn together with the partition."""
    options = {"n_steps": 12, "n_warmup": 4, "random_state": 1, "learn_hyper": False}
    plain, kept = (Mixture("gaussian", **options, n_draws=n).fit(X) for n in ("auto", 6))
    np.testing.assert_array_equal(plain.labels_, kept.labels_)
    assert plain.trace_.n_kept == 0
    assert kept.posterior_.n_draws == 6


@pytest.mark.parametrize("partition", ["vi", "binder", "omari", "point"])
def test_the_partition_is_that_of_a_search(partition):
    mixture = Mixture("gaussian", 3, partition=partition, n_steps=30, n_warmup=10, random_state=0).fit(X)
    loss = "vi" if partition == "point" else partition
    posterior = mixture.posterior_
    np.testing.assert_array_equal(posterior.labels(loss, n_starts=4, max_clusters=3), mixture.labels_)
    best = posterior.expected_loss(mixture.labels_, loss)
    assert all(best <= posterior.expected_loss(z, loss) + 1e-12 for z in posterior.draws())
    np.testing.assert_array_equal(mixture.cluster_sizes_, np.bincount(mixture.labels_))


def test_steps_left_to_the_rule_are_a_warm_up_before_the_draws():
    mixture = Mixture("gaussian", partition="vi", n_draws=25, random_state=0).fit(X)
    assert mixture.converged_
    assert len(mixture.trace_) - mixture.trace_.n_warmup == 100
    assert mixture.posterior_.n_draws == 25
    assert mixture.trace_.n_warmup > 20


def test_auto_keeps_as_many_as_fit():
    few = Mixture("gaussian", 3, partition="vi", n_steps=5, n_warmup=2, random_state=0).fit(X)
    assert few.posterior_.n_draws == 5
    assert [most_draws(few, n) for n in (10**5, 10**6, 10**8)] == [400, 100, 20]
    assert most_draws(Mixture(partition="mode"), 10**8) == 0
    assert most_draws(Mixture(n_draws=7), 10**8) == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, r"write Mixture\(.*n_draws=100.*\), or Mixture\(.*partition='vi'.*\)"),
        ({"n_draws": 0}, "n_draws=100"),
        ({"sampler": "em", "n_components": 3}, "soft labels.*predict_proba.*'gibbs'"),
        ({"sampler": "variational", "n_components": 3}, "soft labels.*predict_proba"),
        ({"sampler": "em", "n_components": 3, "partition": "vi"}, "soft labels"),
    ],
)
def test_without_draws_the_message_says_what_to_do(settings, message):
    mixture = Mixture("gaussian", random_state=0, **settings).fit(X)
    with pytest.raises(AttributeError, match=message):
        _ = mixture.posterior_
    assert not hasattr(mixture, "posterior_")


@pytest.mark.parametrize("n_draws", [-1, 2.5, True, "many"])
def test_a_number_of_draws_that_is_none_is_refused(n_draws):
    with pytest.raises(ValueError, match="Mixture: n_draws must be 'auto' or an integer of at least 0"):
        Mixture("gaussian", n_draws=n_draws).fit(X)


def test_a_searched_partition_without_draws_is_refused():
    with pytest.raises(ValueError, match="partition='vi' needs draws; got n_draws=0: write Mixture"):
        Mixture("gaussian", partition="vi", n_draws=0).fit(X)


def test_another_fit_drops_the_draws():
    mixture = Mixture("gaussian", 3, n_draws=5, n_steps=5, n_warmup=2, random_state=0).fit(X)
    assert mixture.posterior_.n_draws == 5
    with pytest.raises(AttributeError, match="no draws were kept"):
        _ = mixture.set_params(n_draws=0).fit(X[:100]).posterior_


def test_the_forecast_of_memory_counts_the_draws():
    with pytest.raises(ResourceError, match=r"labels 1.* GB"):
        Mixture("gaussian", 3, n_draws=2_500_000, memory_limit="500MB").fit(X)


def test_draws_are_saved_with_the_labels(mixture, tmp_path):
    mixture.save(tmp_path / "with", labels=True)
    loaded = Mixture.load(tmp_path / "with")
    np.testing.assert_array_equal(loaded.posterior_.draws(), mixture.posterior_.draws())
    np.testing.assert_array_equal(loaded.posterior_.certainty, mixture.posterior_.certainty)
    np.testing.assert_array_equal(loaded.posterior_.log_joint, mixture.posterior_.log_joint)
    mean, again = (one.posterior_.parameters(X)["mean"].mean for one in (mixture, loaded))
    np.testing.assert_allclose(mean, again)
    mixture.save(tmp_path / "without")
    with pytest.raises(AttributeError, match=r"write model.save\(path, labels=True"):
        _ = Mixture.load(tmp_path / "without").posterior_


def test_altered_draws_are_refused(mixture, tmp_path):
    kept = mixture._draws["draws"]
    try:
        for wrong in (kept[:, :-1], kept.astype(np.int64) - 1, kept.astype(float)):
            mixture._draws["draws"] = wrong
            mixture.save(tmp_path / "m", labels=True)
            with pytest.raises(ArchiveError, match="draws"):
                Mixture.load(tmp_path / "m")
    finally:
        mixture._draws["draws"] = kept


def test_a_posterior_for_arviz(mixture):
    skip_without_arviz()
    tree = mixture.posterior_.to_arviz(pairs=4)
    assert set(tree["sample_stats"].data_vars) == {"lp", "acceptance_rate", "seconds"}
    assert dict(tree["posterior"].sizes) == {"chain": 1, "draw": 40, "pair": 4}
