"""What `Mixture` does where the user leaves it to it."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from expfam import DiagonalGaussian, Family, Gaussian, Mixture, SymmetricDirichlet
from expfam.errors import DataWarning
from expfam.fitting import automatic
from expfam.fitting.automatic import has_small_clusters
from expfam.fitting.few_rows import warn_of_crumbs
from expfam.fitting.phases import MOST_STEPS, automatic_phases, distinct_kernels, planned_phases
from expfam.samplers import CollapsedGibbs, Cycle, SplitMerge
from expfam.samplers.geometry.hash_tables import HashTables
from expfam.samplers.warm_starts.search import _Search as Search


def blobs(n=600, K=8, d=3, *, spread=3.0, seed=0):
    rng = np.random.default_rng(seed)
    classes = rng.integers(K, size=n)
    return spread * rng.normal(size=(K, d))[classes] + rng.normal(size=(n, d)) * 0.5, classes


class Slow(Family):
    """Poisson written in NumPy, with or without the draw of parameters."""

    support = "counts"

    def sufficient_statistics(self, X):
        return np.asarray(X, dtype=np.float64)

    def log_base(self, X):
        return np.zeros(X.shape[0])

    def log_marginal(self, n, S):
        from scipy.special import gammaln

        return (gammaln(1.0 + S) - (1.0 + S) * np.log(1.0 + n)[:, None]).sum(axis=1)


# ---- the number of clusters, and labels ----------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gaussian", "gaussian_diag"])
@pytest.mark.parametrize("seed", range(3))
def test_as_many_clusters_as_were_asked_for(family, seed):
    X, classes = blobs(seed=seed)
    mixture = Mixture(family, 8, random_state=seed).fit(X)
    assert mixture.n_components_ == 8
    assert adjusted_rand_score(classes, mixture.labels_) > 0.95


@pytest.mark.parametrize(("family", "K"), [("gaussian", 8), ("gaussian_diag", None), ("poisson", 3)])
def test_labels_are_those_of_predict(family, K):
    X, _ = blobs()
    X = np.rint(np.abs(X)) if family == "poisson" else X
    mixture = Mixture(family, K, random_state=0).fit(X)
    assert np.array_equal(mixture.labels_, mixture.predict(X))


def test_labels_do_not_depend_on_threads():
    X, _ = blobs(n=3000)
    one, two = (Mixture("gaussian", 8, random_state=0, n_threads=n).fit(X) for n in (1, 2))
    assert np.array_equal(one.labels_, two.labels_)
    assert one.n_iter_ == two.n_iter_


def test_many_rows_are_searched_on_a_sample():
    X, classes = blobs(n=21_000)
    mixture = Mixture(n_components=8, random_state=0).fit(X)
    assert adjusted_rand_score(classes, mixture.labels_) > 0.95
    assert mixture.n_iter_ <= 6  # steps over all rows
    assert np.array_equal(mixture.labels_, mixture.predict(X))
    two = Mixture(n_components=8, random_state=0, n_threads=2).fit(X)
    assert np.array_equal(mixture.labels_, two.labels_)


@pytest.mark.parametrize("partition", ["mode", "vi", "point", "last"])
def test_partitions_by_name(partition):
    X, classes = blobs()
    mixture = Mixture(n_components=8, partition=partition, random_state=0).fit(X)
    assert adjusted_rand_score(classes, mixture.labels_) > 0.9
    assert (mixture.trace_.n_kept > 0) == (partition in ("vi", "point"))  # others keep no draws


def test_an_unknown_partition_is_refused_before_any_work():
    with pytest.raises(ValueError, match="partition must be 'mode', 'vi', 'point', 'binder', 'omari' or 'last'"):
        Mixture(partition="best").fit(blobs()[0])


def test_the_number_of_starts_is_no_setting():
    with pytest.raises(TypeError, match=r"no keyword 'n_init': write Mixture\(n_components=3, start='auto'\)"):
        Mixture(n_components=3, n_init=10)


def test_splits_and_merges_over_all_rows_are_for_an_open_number_of_clusters():
    """The sample had rows enough to find as many clusters as were asked for; an open number may grow with the rows."""
    kernel = Cycle(SplitMerge(), CollapsedGibbs())
    (given,) = automatic_phases(kernel, ["rate"], 10**6, is_sampled=True)
    (open_number,) = automatic_phases(kernel, ["rate"], 10**6, is_sampled=True, is_open=True)
    assert given.kernel is kernel.kernels[1]
    assert open_number.kernel is kernel


def _kernels(mixture, X):
    """Classes of the kernels of all phases where the start was searched."""
    phases = planned_phases(mixture.plan_fit(X), is_searched=True)
    return {type(kernel).__name__ for kernel in distinct_kernels(phases)} - {"UpdateHyper"}


@pytest.mark.parametrize(
    ("n", "settings", "has_moves"),
    [
        (150, {}, False),
        (150, {"n_components": 4}, True),
        (150, {"n_components": None}, True),
        (1000, {}, True),
        (150, {"n_draws": 50}, True),  # draws are of the whole posterior
        (150, {"partition": "vi"}, True),
        (150, {"n_chains": 2}, True),
        (150, {"sampler": Cycle(SplitMerge(), CollapsedGibbs())}, True),  # what was named is not replaced
    ],
)
def test_few_rows_in_few_clusters_are_exchanged_at_the_end_alone(n, settings, has_moves):
    """Exchanges look at nearly all splits and merges of so few; anchors of moves cost more than the sweeps."""
    mixture = Mixture(**{"n_components": 3, "random_state": 0, **settings})
    kernels = _kernels(mixture, blobs(n=n, K=3)[0])
    assert ("SplitMerge" in kernels) == has_moves
    assert "CollapsedGibbs" in kernels


def test_known_rows_are_split_and_merged_by_moves():
    X, classes = blobs(n=150, K=3)
    mixture = Mixture(n_components=3, labels="clusters", random_state=0)
    known = np.where(np.arange(150) < 9, classes, -1)
    phases = planned_phases(mixture.plan_fit(X, known), is_searched=True)
    assert any(isinstance(kernel, SplitMerge) for kernel in distinct_kernels(phases))


def test_rows_of_a_given_number_of_clusters_are_settled_sooner():
    kernel = Cycle(SplitMerge(), CollapsedGibbs())
    rules = [automatic_phases(kernel, [], 1000, is_open=is_open)[-1].rule for is_open in (1, 0)]
    assert [rule.window for rule in rules] == [5, 2]
    assert [rule.least_gain for rule in rules] == [0.5, 1.0]


def test_a_chain_of_many_rows_that_begins_at_a_mode_is_short():
    kernel = Cycle(SplitMerge(), CollapsedGibbs())
    few, many = (automatic_phases(kernel, ["rate"], n, is_mode=True) for n in (6000, 6001))
    assert [phase.n_steps for phase in few] == [2, 15, 100]
    assert [phase.n_steps for phase in many] == [15, 100]  # no random labels are swept first
    assert [phase.rule.window for phase in many] == [1, 1]
    assert [phase.rule.window for phase in few[1:]] == [2, 2]
    # the level that learning has reached counts: the steps after it end with the first one that does not rise
    assert many[0].rule is many[1].rule
    assert few[1].rule is not few[2].rule


@pytest.mark.filterwarnings("ignore:.*clusters that overlap")  # so they do
@pytest.mark.parametrize(
    ("n", "spread", "expected"), [(6500, 9.0, []), (2500, 9.0, [["chain"]]), (6500, 0.8, [["chain", "start"]])]
)
def test_em_at_the_end_runs_from_partitions_that_differ(monkeypatch, n, spread, expected):
    """Of many rows it runs only if some have moved: then some lie between clusters."""
    asked, race = [], automatic.best_by_em
    monkeypatch.setattr(
        automatic, "best_by_em", lambda *args, **named: asked.append(list(args[2])) or race(*args, **named)
    )
    X, classes = blobs(n=n, K=4, spread=spread, seed=3)
    mixture = Mixture("gaussian_diag", 4, random_state=0).fit(X)
    assert asked == expected
    assert adjusted_rand_score(classes, mixture.labels_) > (0.999 if spread > 1.0 else 0.3)


def test_hash_tables_are_made_once_for_all_phases(monkeypatch):
    """Learning adds its update to the kernels of the cycle, so that the others keep their places and their objects."""
    made, keys = [], HashTables.keys
    monkeypatch.setattr(
        HashTables, "keys", lambda self, data, **options: made.append(data) or keys(self, data, **options)
    )
    monkeypatch.setattr(Search, "_settled", lambda self: None)  # a search makes steps with tables of its own
    mixture = Mixture("gaussian_diag", 8, random_state=0).fit(blobs(n=900)[0])
    assert mixture.n_iter_ > 6
    assert len(made) == 1


# ---- when a run ends -----------------------------------------------------------------------------------------------


def test_a_run_ends_when_it_is_done():
    mixture = Mixture("gaussian_diag", 8, random_state=0).fit(blobs()[0])
    assert mixture.converged_
    assert 6 <= mixture.n_iter_ < 60
    assert mixture.n_init_chosen_ in ("lloyd 1", "lloyd 2", "lloyd 3", "raw", "white", "column", "free")


def test_a_number_of_steps_is_kept():
    mixture = Mixture("gaussian_diag", 8, n_steps=40, random_state=0).fit(blobs()[0])
    assert (mixture.n_iter_, mixture.trace_.n_warmup) == (80, 40)
    mixture = Mixture("gaussian_diag", 8, n_steps=40, n_warmup=3, random_state=0).fit(blobs()[0])
    assert (mixture.n_iter_, mixture.trace_.n_warmup) == (43, 3)


def test_the_rule_has_its_own_limit_whatever_the_warm_up(monkeypatch):
    monkeypatch.setattr("expfam.samplers.chain.callbacks.Plateau.__call__", lambda self, info, state: False)
    with pytest.warns(ConvergenceWarning, match="still rising after 100 steps"):
        mixture = Mixture("gaussian_diag", 3, n_warmup=4, random_state=0).fit(blobs(n=100, K=3)[0])
    assert (mixture.n_iter_, mixture.trace_.n_warmup) == (104, 4)


def test_an_interrupt_of_the_steps_on_a_sample_ends_the_fit(monkeypatch):
    """No row outside the sample has a label then: there is nothing to go on with."""
    steps = CollapsedGibbs.step

    def step(self, state):
        if state.data.n_rows == 20_160 and state.n_steps > 4:
            raise KeyboardInterrupt
        return steps(self, state)

    monkeypatch.setattr(CollapsedGibbs, "step", step)
    with pytest.raises(KeyboardInterrupt):
        Mixture(n_components=8, random_state=0).fit(blobs(n=21_000)[0])


def test_a_run_that_is_cut_says_so(monkeypatch):
    monkeypatch.setattr("expfam.samplers.chain.callbacks.Plateau.__call__", lambda self, info, state: False)
    with pytest.warns(ConvergenceWarning, match=f"still rising after {MOST_STEPS} steps; set n_steps"):
        mixture = Mixture("gaussian_diag", 3, random_state=0).fit(blobs(n=100, K=3)[0])
    assert not mixture.converged_


@pytest.mark.parametrize("rows", [[[0.0], [1.0]], [[0.0, 1.0], [2.0, 0.0], [5.0, 5.0]]])
def test_few_rows_whose_clusters_still_change_are_not_said_to_rise(rows):
    for seed in range(4):
        with warnings.catch_warnings():
            warnings.simplefilter("error", ConvergenceWarning)
            warnings.filterwarnings("ignore", message=".*parameters of a full")
            assert Mixture("gaussian", random_state=seed).fit(rows).converged_


def test_optimisers_say_whether_they_have_converged():
    X, _ = blobs()
    assert Mixture("gaussian_diag", 8, sampler="em", random_state=0).fit(X).converged_
    assert not Mixture("gaussian_diag", 8, sampler="em", n_steps=1, n_warmup=0, random_state=0).fit(X).converged_


@pytest.mark.parametrize("sampler", ["gibbs", "uncollapsed_gibbs", "fastex"])
def test_a_named_sampler_makes_all_its_steps(sampler):
    mixture = Mixture("gaussian_diag", 8, sampler=sampler, random_state=0).fit(blobs()[0])
    assert mixture.n_iter_ == 100
    assert mixture.n_components_ == 8  # from the same start
    assert mixture.n_init_chosen_ is not None


# ---- what the user gives is used -----------------------------------------------------------------------------------


def test_a_given_start_is_never_replaced():
    X, classes = blobs()
    seen = []
    mixture = Mixture(
        "gaussian_diag",
        8,
        start=classes,
        n_steps=0,
        n_warmup=0,
        partition="last",
        callbacks=[lambda info, state: seen.append(info)],
    ).fit(X)
    assert mixture.n_init_chosen_ is None
    assert not seen
    assert adjusted_rand_score(classes, mixture.labels_) == 1.0


def test_the_earlier_defaults_are_still_there():
    """The chain of single-row Gibbs sweeps from k-means++ seeds, as it was before starts were searched."""
    X, _ = blobs()
    mixture = Mixture(
        "gaussian_diag",
        weights=SymmetricDirichlet(8),
        n_steps=50,
        n_warmup=50,
        partition="last",
        learn_hyper=False,
        start="kmeans++",
        sampler="gibbs",
        random_state=3,
    ).fit(X)
    kernel = CollapsedGibbs()
    state = kernel.init(mixture.model_, X, seed=3, start="kmeans++")
    for _ in range(100):
        kernel.step(state)
    assert np.array_equal(mixture.labels_, state.partition)


def test_a_given_scale_is_not_adapted():
    X, _ = blobs()
    scale = np.diag([0.5, 1.0, 2.0])
    mixture = Mixture(Gaussian(scale=scale), 8, learn_hyper=False, random_state=0).fit(X)
    assert np.array_equal(mixture.family_.scale, scale)
    adapted = Mixture(Gaussian(), 8, learn_hyper=False, random_state=0).fit(X)
    assert not np.allclose(adapted.family_.scale, np.diag(np.diag(adapted.family_.scale)))


def test_alpha_is_one_on_real_values_and_small_on_counts():
    X, _ = blobs()
    assert Mixture(n_components=4).fit(X).model_.weights.alpha == 1.0
    assert Mixture("poisson", 4).fit(np.rint(np.abs(X))).model_.weights.alpha is None  # 1/K


# ---- kernels that are chosen ---------------------------------------------------------------------------------------


def kernel_of(family, X, K=4):
    return Mixture(family, K).plan_fit(X).kernel


def test_splits_and_merges_are_part_of_every_default():
    X, _ = blobs()
    for K in (None, 8):
        moves, sweeps = kernel_of("gaussian", X, K).kernels
        assert isinstance(moves, SplitMerge)
        assert isinstance(sweeps, CollapsedGibbs)
    few, many = (kernel_of("gaussian", np.repeat(X, n, axis=0)).kernels[0] for n in (1, 2))
    assert (few.every, few.n_moves) == (5, 42)
    free = kernel_of("gaussian", X, None).kernels[0]
    assert (free.every, free.n_moves) == (5, "auto")
    assert (many.every, many.n_moves) == ("auto", "auto")


def test_a_family_in_numpy_gets_a_sampler_that_is_quick():
    X = np.random.default_rng(0).poisson(3.0, size=(600, 2))
    assert type(kernel_of(Slow(), X[:100])).__name__ == "Cycle"
    assert type(kernel_of("exponential", X)).__name__ == "UncollapsedGibbs"
    for compiled in ("bernoulli", "negative_binomial"):
        assert type(kernel_of(compiled, np.minimum(X, 1))).__name__ == "Cycle"


# ---- warnings ------------------------------------------------------------------------------------------------------


def test_too_few_rows_for_full_covariances_are_named():
    X, classes = blobs(n=60, K=3, d=8)
    with pytest.warns(DataWarning, match="20 rows a cluster for 44 parameters.*gaussian_diag") as warned:
        mixture = Mixture("gaussian", 3, random_state=0).fit(X)
    assert Path(warned[0].filename).name == Path(__file__).name
    line = re.search(r"Write (Mixture\(.*?\)), or", str(warned[0].message))[1]
    assert line == "Mixture(family='gaussian_diag', n_components=3, random_state=0)"
    assert mixture.n_components_ == 3
    assert mixture.n_iter_ == 0
    assert mixture.converged_
    assert adjusted_rand_score(classes, mixture.labels_) > 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Mixture("gaussian_diag", 3, random_state=0).fit(X)


@pytest.mark.parametrize(("n", "K"), [(1, 1), (3, 3), (5, 5), (5, 3)])
def test_nothing_is_said_of_fewer_than_two_rows_a_cluster(n, K):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        Mixture("gaussian", K, random_state=0).fit(np.arange(2.0 * n).reshape(n, 2) ** 2)
    assert not any("rows a cluster" in str(one.message) for one in told)


def test_crumbs_are_named():
    X = np.random.default_rng(0).normal(size=(400, 22))
    mixture = Mixture("gaussian", random_state=0).fit(X)
    with pytest.warns(DataWarning, match="40 clusters of fewer than 22 rows hold 50% of the rows.*coarsen"):
        warn_of_crumbs(mixture._asked(), mixture.model_, np.array([200] + [5] * 40))
    with pytest.warns(DataWarning, match=r"coarsen\(\) merges them$"):
        warn_of_crumbs(mixture._asked(), mixture.model_, np.array([200] + [5] * 40), is_chosen=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_crumbs(mixture._asked(), mixture.model_, np.array([395, 5]))
        warn_of_crumbs(mixture._asked(), Mixture(DiagonalGaussian()).fit(X).model_, np.array([200] + [5] * 40))


def test_many_small_clusters_of_a_sample_are_not_split_further():
    assert has_small_clusters(np.arange(21), 1000)
    assert not has_small_clusters(np.arange(20), 1000)


@pytest.mark.parametrize(("d", "seed"), [(1, 5), (2, 3), (3, 8)])
def test_a_run_that_ends_settled_has_converged_however_its_steps_ended(d, seed):
    """Chains of one blob open and close clusters for ever; the end is one cluster that nothing improves."""
    X = np.random.default_rng(seed).normal(size=(30, d))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        mixture = Mixture(random_state=seed).fit(X)
    assert mixture.n_components_ == 1
    assert mixture.converged_
