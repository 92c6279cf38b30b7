"""Columns, kept partitions, their thinning, and estimates from them against dense definitions."""

from types import SimpleNamespace

import numpy as np
import pytest

from expfam.model.partitions import compact_labels
from expfam.protocols import Info
from expfam.samplers.chain.trace import Trace


def info(step, objective=0.0, n_clusters=1, **extra):
    return Info(step, objective, n_clusters, 10, 4, 0.5, extra)


def filled(partitions, **options):
    trace = Trace(keep_every=1, **options)
    for t, labels in enumerate(partitions):
        trace.append(info(t + 1, n_clusters=len(set(labels))), SimpleNamespace(labels=np.array(labels, dtype=np.int32)))
    return trace


def noisy(M=12, N=60, seed=0):
    rng = np.random.default_rng(seed)
    truth = np.arange(N) % 4
    return [np.where(rng.random(N) < p, rng.integers(0, 6, N), truth) for p in np.linspace(0.05, 0.6, M)]


def vi_by_definition(a, b):
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1.0 / a.size)

    def entropy(p):
        return -(p[p > 0] * np.log(p[p > 0])).sum()

    return 2 * entropy(joint) - entropy(joint.sum(axis=0)) - entropy(joint.sum(axis=1))


def binder_by_definition(a, b):
    return ((a[:, None] == a[None]) != (b[:, None] == b[None])).mean()


def test_columns():
    trace = Trace()
    trace.append(info(2, -3.5, 7, share=0.5, name="x"), None)
    trace.append(info(4, -2.5, 6), None)
    assert len(trace) == 2
    assert trace.n_kept == 0
    assert trace.column("step").tolist() == [2, 4]
    assert trace.column("n_clusters").dtype == np.int64
    assert trace.column("objective").tolist() == [-3.5, -2.5]
    np.testing.assert_array_equal(trace.column("share"), [0.5, np.nan])
    with pytest.raises(KeyError, match="no column 'name'"):
        trace.column("name")


@pytest.mark.parametrize(("loss", "definition"), [("vi", vi_by_definition), ("binder", binder_by_definition)])
def test_losses_are_their_definitions(loss, definition):
    partitions = noisy()
    expected = [np.mean([definition(a, b) for b in partitions]) for a in partitions]
    np.testing.assert_allclose(filled(partitions).mean_losses(loss), expected, atol=1e-13)


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_point_partition_is_the_nearest_kept_one_by_first_appearance(loss):
    partitions = noisy()
    trace = filled(partitions)
    point = trace.point_partition(loss)
    best = compact_labels(partitions[int(np.argmin(trace.mean_losses(loss)))])
    np.testing.assert_array_equal(point[:, None] == point[None], best[:, None] == best[None])
    assert point.dtype == np.int32
    first = np.unique(point, return_index=True)[1]
    assert (np.diff(first) > 0).all()
    assert point[0] == 0


def test_renamed_partitions_have_no_distance():
    a = np.array([4, 4, 0, 9, 9, 9])
    assert filled([a, np.array([1, 1, 5, 0, 0, 0])]).mean_losses().tolist() == [0.0, 0.0]


def test_coclustering():
    trace = filled([[0, 0, 1, 1], [0, 1, 1, 1], [2, 2, 2, 0], [3, 1, 1, 0]])
    np.testing.assert_allclose(trace.coclustering([[0, 1], [1, 2], [0, 3], [2, 2]]), [0.5, 0.75, 0.0, 1.0])
    with pytest.raises(ValueError, match=r"\(P, 2\)"):
        trace.coclustering([0, 1])


def test_thinning_keeps_even_spacing():
    for keep_every in (1, 3):
        trace = Trace(keep_every=keep_every, max_kept=8)
        for step in range(1, 400):
            trace.append(info(step), SimpleNamespace(labels=np.zeros(3, dtype=np.int32)))
            if trace.n_kept > 1:
                gaps = np.diff(trace.kept_steps)
                assert (gaps == gaps[0]).all()
        assert 4 <= trace.n_kept <= 8
        assert trace.kept_steps[-1] > 400 - 2 * gaps[0]
    trace = Trace(keep_every=2, max_kept=5)
    for step in range(1, 100):
        trace.append(info(step), SimpleNamespace(labels=np.array([step])))
    assert trace.n_kept <= 5


def test_kept_partitions_are_copies_without_gaps():
    labels = np.array([7, 3, 7, 0], dtype=np.int32)
    trace = filled([labels])
    labels[:] = 0
    assert trace.partitions.tolist() == [[2, 1, 2, 0]]
    assert trace.partitions.dtype == np.uint8


def test_kept_partitions_have_the_least_type_that_holds_them():
    trace = filled([np.arange(300), np.zeros(300, dtype=int)])
    assert trace.partitions.dtype == np.uint16
    again = Trace()
    again.from_arrays(trace.to_arrays())
    np.testing.assert_array_equal(again.partitions, trace.partitions)
    assert filled([np.arange(256)]).partitions.dtype == np.uint8


def test_keeping_can_begin_later():
    trace = Trace(max_kept=10)
    state = SimpleNamespace(labels=np.array([0, 1]))
    for step in range(1, 6):
        trace.append(info(step), state)
    trace.keep_every = 2
    for step in range(6, 12):
        trace.append(info(step), state)
    assert trace.kept_steps.tolist() == [7, 9, 11]


@pytest.mark.parametrize("stored_at", [1, 7, 30, 31])
def test_a_stored_trace_goes_on_as_if_it_had_not_been(stored_at):
    rng = np.random.default_rng(1)
    rows = [(info(t, -t / 3, t % 5, rate=0.1 * t), rng.integers(0, 4, 20)) for t in range(1, 60)]
    whole, part = Trace(keep_every=2, max_kept=6), Trace(keep_every=2, max_kept=6)
    for step, labels in rows[:stored_at]:
        part.append(step, SimpleNamespace(labels=labels))
    copy = Trace()
    copy.from_arrays(part.to_arrays())
    for step, labels in rows:
        whole.append(step, SimpleNamespace(labels=labels))
    for step, labels in rows[stored_at:]:
        copy.append(step, SimpleNamespace(labels=labels))
    a, b = whole.to_arrays(), copy.to_arrays()
    assert set(a) == set(b)
    for name in a:
        if name == "extra":
            np.testing.assert_array_equal(a[name]["rate"], b[name]["rate"])
        else:
            np.testing.assert_array_equal(a[name], b[name])


def test_interval_of_the_number_of_clusters():
    trace = Trace()
    for step, K in enumerate([50, 40] + [3] * 5 + [4] * 80 + [5] * 10 + [9] * 5):
        trace.append(info(step + 1, n_clusters=K), None)
    assert trace.n_clusters_interval(0.9, n_warmup=2) == (4, 5)
    assert trace.n_clusters_interval(0.8, n_warmup=2) == (4, 4)
    assert trace.n_clusters_interval(1.0) == (3, 50)
    with pytest.raises(ValueError, match="no steps are left"):
        trace.n_clusters_interval(n_warmup=200)


def warmed(n_warmup, **options):
    """Eight steps of 9, 8, ... clusters, of which so many are a warm-up."""
    trace = Trace(n_warmup=n_warmup, **options)
    for step, K in enumerate(range(9, 1, -1)):
        labels = np.arange(9, dtype=np.int32) % K
        trace.append(info(step + 1, -float(K), K), SimpleNamespace(labels=labels))
    return trace


def test_no_summary_counts_the_warm_up():
    trace = warmed(5, keep_every=1)
    assert trace.n_clusters_interval(1.0) == (2, 4)
    assert trace.n_clusters_interval(1.0, n_warmup=0) == (2, 9)
    assert trace.column("n_clusters").tolist() == [9, 8, 7, 6, 5, 4, 3, 2]
    assert trace.counted("n_clusters").tolist() == [4, 3, 2]
    assert trace.kept_steps.tolist() == [6, 7, 8]
    assert trace.partitions.max(axis=1).tolist() == [3, 2, 1]
    assert trace.coclustering([[0, 3]]).tolist() == [1 / 3]  # together where there are three clusters alone
    np.testing.assert_array_equal(trace.point_partition(), filled(trace.partitions).point_partition())


@pytest.mark.parametrize("keep_every", [1, 2, 3])
def test_a_warm_up_that_is_told_afterwards_is_left_out_too(keep_every):
    later = warmed(0, keep_every=keep_every)
    later.n_warmup = 6
    assert later.n_clusters_interval(1.0) == (2, 3)
    assert (later.kept_steps > 6).all()


def test_a_run_that_ends_in_its_warm_up_reports_nothing():
    trace = warmed(20, keep_every=1)
    assert trace.n_kept == 0
    for summary in (trace.n_clusters_interval, trace.point_partition, lambda: trace.coclustering([[0, 1]])):
        with pytest.raises(ValueError, match="warm-up"):
            summary()


def test_partitions_are_evenly_spaced_from_the_end_of_the_warm_up_on():
    state = SimpleNamespace(labels=np.array([0, 1]))
    trace = Trace(n_warmup=3, keep_every=2)
    for step in range(1, 10):
        trace.append(info(step), state)
    assert trace.kept_steps.tolist() == [5, 7, 9]


@pytest.mark.parametrize("stored_at", [2, 6])
def test_a_stored_trace_keeps_its_warm_up(stored_at):
    whole, part = (Trace(n_warmup=4, keep_every=1) for _ in range(2))
    states = [(info(t, n_clusters=9 - t), SimpleNamespace(labels=np.array([0, t % 2]))) for t in range(1, 9)]
    for row in states[:stored_at]:
        part.append(*row)
    copy = Trace()
    copy.from_arrays(part.to_arrays())
    for row in states:
        whole.append(*row)
    for row in states[stored_at:]:
        copy.append(*row)
    assert copy.n_warmup == 4
    assert copy.n_clusters_interval(1.0) == whole.n_clusters_interval(1.0) == (1, 4)
    np.testing.assert_array_equal(copy.kept_steps, whole.kept_steps)


def test_arrays_of_before_the_warm_up_was_stored_are_read():
    arrays = warmed(0).to_arrays()
    del arrays["n_warmup"]
    trace = Trace()
    trace.from_arrays(arrays)
    assert (len(trace), trace.n_warmup) == (8, 0)


def test_a_run_in_two_parts_has_one_warm_up():
    from expfam import MixtureModel, Poisson, SymmetricDirichlet
    from expfam.samplers import CollapsedGibbs, sample

    kernel = CollapsedGibbs()
    state = kernel.init(MixtureModel(Poisson(), SymmetricDirichlet(4)), np.repeat([[0], [9]], 9, axis=0), seed=0)
    trace = sample(kernel, state, 3, n_warmup=5, keep_every=1)
    assert (len(trace), trace.n_kept) == (3, 0)
    sample(kernel, state, 6, trace=trace)
    assert trace.kept_steps.tolist() == [6, 7, 8, 9]
    assert len(trace.counted("n_clusters")) == 4


def test_bad_settings_are_named():
    for make, words in [
        (lambda: Trace(keep_every=0), "keep_every .* got 0"),
        (lambda: Trace(max_kept=1), "max_kept .* got 1"),
        (lambda: Trace(n_warmup=-1), "n_warmup .* got -1"),
        (lambda: Trace(n_warmup=True), "n_warmup .* got True"),
        (lambda: Trace().point_partition(), "no partition was kept"),
        (lambda: filled([[0]]).point_partition("rand"), "one of .* got 'rand'"),
        (lambda: filled([[0], [0]]).n_clusters_interval(0), "probability"),
        (lambda: filled([[0], [0, 1]]), "labels of 2 data cannot join those of 1"),
    ]:
        with pytest.raises(ValueError, match=words):
            make()
