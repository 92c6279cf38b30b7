"""The engine and the mixture of a Dask cluster: the same labels for any chunks, also if workers are killed."""

import os
import random
import signal
import subprocess
import sys
import threading
import tracemalloc

import dask
import dask.array as da
import numpy as np
import pyarrow as pa
import pytest
from dask.delayed import Delayed
from lost_workers import Killer, Until, processes
from pyarrow import parquet
from scipy import sparse

from expfam import Dataset, DiagonalGaussian, MixtureModel, PitmanYor, SymmetricDirichlet
from expfam import Mixture as LocalMixture
from expfam.dask import Mixture, likeness
from expfam.engines import DaskEngine, cut_rows, watch
from expfam.errors import (
    ArchiveError,
    CapabilityError,
    DataError,
    DataTypeError,
    EngineError,
    ExactnessWarning,
    ResourceError,
)
from expfam.plugins.conformance import check_engine
from expfam.plugins.laws.engines import ENGINE_LAWS, Tally
from expfam.samplers import ExpectationMaximization, ShardedState, sample

RNG = np.random.default_rng(6)
X = RNG.normal(size=(1500, 2)) + 5.0 * RNG.integers(0, 3, (1500, 1))
COUNTS = 1.0 + RNG.poisson(RNG.choice([0.2, 6.0], size=(1500, 1)), size=(1500, 5))
SETTINGS = {"n_steps": 10, "random_state": 0}


@pytest.fixture(scope="module")
def labels(client):
    """Labels of one chunk, without a loss."""
    return (
        Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(da.from_array(X, chunks=(1500, 2))).labels_.compute()
    )


@pytest.mark.parametrize("law", ENGINE_LAWS)
def test_laws(client, law):
    check_engine(lambda: DaskEngine(client), only=[law])


# ---- collections, files ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [(1, 2), (512, 2), (400, 1), ((7, 0, 1000, 493), 2)])
def test_chunks_do_not_matter(client, labels, chunks):
    if chunks == (1, 2):
        chunks = ((1, 1, 1498), 2)
    mixture = Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(da.from_array(X, chunks=chunks))
    np.testing.assert_array_equal(mixture.labels_.compute(), labels)
    assert mixture.labels_.dtype == np.int32
    np.testing.assert_array_equal(mixture.cluster_sizes_, np.bincount(labels, minlength=6))


def test_files_and_arrays_give_the_labels_of_collections(client, labels, tmp_path):
    np.save(tmp_path / "a.npy", X[:600])
    np.save(tmp_path / "b.npy", X[600:])
    table = pa.table({"u": X[:, 0], "w": np.zeros(len(X)), "v": X[:, 1]})
    parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=400)
    mixture = Mixture("gaussian_diag", 6, client=client, **SETTINGS)
    for rows, options in (
        ([tmp_path / "a.npy", str(tmp_path / "b.npy")], {}),
        (tmp_path / "rows.parquet", {"columns": ["u", "v"]}),
        (X, {}),
    ):
        np.testing.assert_array_equal(mixture.fit(rows, **options).labels_.compute(), labels)


def test_delayed_blocks_and_futures_give_the_labels_of_collections(client, labels):
    mixture = Mixture("gaussian_diag", 6, client=client, **SETTINGS)
    blocks = [dask.delayed(X[a:b]) for a, b in ((0, 10), (10, 10), (10, 900), (900, 1500))]
    np.testing.assert_array_equal(mixture.fit(blocks).labels_.compute(), labels)
    np.testing.assert_array_equal(mixture.fit(client.scatter([X[:800], X[800:]])).labels_.compute(), labels)
    weighted = Mixture("gaussian_diag", 6, sampler="em", n_steps=3, random_state=0, client=client)
    assert weighted.fit(blocks, sample_weight=np.full(1500, 2.0)).n_.sum() == 3000.0
    with pytest.raises(DataError, match=r"block 1 has shape \(3,\).*write fit\(\[block\.reshape"):
        mixture.fit([blocks[0], dask.delayed(np.zeros(3))])


def test_sparse_blocks(client):
    dense = Mixture("multinomial", 4, client=client, **SETTINGS).fit(da.from_array(COUNTS, chunks=(400, 5)))
    blocks = da.from_array(COUNTS, chunks=(700, 5)).map_blocks(sparse.csr_array)
    rows = Mixture("multinomial", 4, client=client, **SETTINGS).fit(blocks)
    assert sparse.issparse(rows.S_)
    np.testing.assert_array_equal(rows.cluster_sizes_, dense.cluster_sizes_)
    np.testing.assert_array_equal(rows.labels_.compute(), dense.labels_.compute())


def test_unknown_lengths(client, labels):
    rows = da.from_array(X, chunks=(500, 2))
    unknown = rows[rows[:, 0] > -100.0]
    assert np.isnan(unknown.shape[0])
    mixture = Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(unknown)
    np.testing.assert_array_equal(mixture.labels_.compute(), labels)


# ---- an open number of clusters --------------------------------------------------------------------------------------


def test_an_open_number_of_clusters_is_found(client, tmp_path, monkeypatch):
    settings = {"n_steps": 20, "random_state": 0, "client": client}
    rows = X + 20.0 * (np.arange(1500) % 2)[:, None]
    mixture = Mixture("gaussian_diag", **settings).fit(da.from_array(rows, chunks=(1500, 2)))
    labels = mixture.labels_.compute()
    assert np.count_nonzero(mixture.n_ > 20) == 6
    np.testing.assert_array_equal(mixture.n_, np.bincount(labels, minlength=mixture.n_.size))
    assert mixture.log_joint_ == pytest.approx(mixture.trace_.column("objective")[10:].max(), rel=1e-12)
    assert mixture.predict(rows).max() < mixture.to_local().n_.size == np.count_nonzero(mixture.n_)
    monkeypatch.setattr("expfam.dask.mixture._SAMPLED_ROWS", 300)  # the other rows join their most probable cluster
    few = Mixture("gaussian_diag", **settings).fit(da.from_array(rows, chunks=(900, 2)))
    assert np.count_nonzero(few.n_ > 20) == 6
    monkeypatch.undo()
    cut = da.from_array(rows, chunks=((1, 700, 799), 2))  # labels of other chunks go on over others again
    Mixture("gaussian_diag", **settings | {"n_steps": 14}).fit(cut, checkpoint=tmp_path / "run")
    rest = Mixture("gaussian_diag", **settings).fit(da.from_array(rows, chunks=(512, 2)), resume=tmp_path / "run")
    np.testing.assert_array_equal(rest.labels_.compute(), labels)


@pytest.mark.parametrize("order", ["sides", "divide"])
def test_a_worker_killed_during_a_split_changes_no_label(client, order, monkeypatch):
    """It dies when the rows are asked for their sides, or told to move."""
    settings = {"n_steps": 5, "start": "one", "random_state": 0, "client": client}
    whole = Mixture("gaussian_diag", **settings).fit(da.from_array(X, chunks=(1500, 2)))
    assert np.count_nonzero(whole.n_ > 20) == 3
    labels = whole.labels_.compute()  # they are kept by the workers alone
    right, killed = getattr(ShardedState, order), []

    def after_a_death(state, *values):
        if not killed:
            killed.append(processes(client)[0])
            os.kill(killed[0], signal.SIGKILL)
        return right(state, *values)

    monkeypatch.setattr(ShardedState, order, after_a_death)
    mixture = Mixture("gaussian_diag", **settings).fit(da.from_array(X, chunks=(400, 2)))
    assert killed
    assert mixture.n_lost_ >= 1
    np.testing.assert_array_equal(mixture.labels_.compute(), labels)


def test_the_scheduler_keeps_no_task_of_past_sweeps(client):
    n_tasks = {}

    def count(info, state):
        if info.step in (20, 200):
            n_tasks[info.step] = client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks))

    settings = {"n_steps": 200, "learn_hyper": False, "random_state": 0, "client": client}
    Mixture("gaussian_diag", 6, callbacks=[count], **settings).fit(da.from_array(X[:600], chunks=(300, 2)))
    assert n_tasks[200] <= n_tasks[20] + 2  # those of the last order may not have been forgotten yet


def test_the_client_keeps_as_much_for_many_rows_as_for_few(client):
    """Changes that lost parts repeat, and futures of rows: as many bytes for thirty times the rows."""
    kept = []

    def count(info, state):
        if info.step == 6:
            engine = state.data.engine
            assert all(isinstance(part.source, Delayed) for part in engine.parts)  # no rows
            kept.append(sum(len(entry.call) for entry in engine._journal.entries))
            assert engine._journal.saved is None
            assert all(entry.by_part is None for entry in engine._journal.entries)

    settings = {"n_steps": 6, "start": "random", "learn_hyper": False, "random_state": 0, "client": client}
    for n_rows in (2_000, 60_000):
        rows = da.random.default_rng(1).normal(size=(n_rows, 2), chunks=(n_rows // 4, 2))
        Mixture("gaussian_diag", 6, callbacks=[count], **settings).fit(rows)
    assert kept[1] <= kept[0] + 100  # numbers of more digits
    assert kept[1] < 60_000


def test_client_and_scheduler_need_as_many_bytes_for_many_rows_as_for_few(client):
    """Scheduler and client are in this process; a number a row would be seen."""
    settings = {"n_steps": 6, "start": "random", "random_state": 0, "client": client}

    def peak(n_rows):
        rows = da.random.default_rng(1).normal(size=(n_rows, 2), chunks=(n_rows // 4, 2))
        tracemalloc.start()
        try:
            Mixture("gaussian_diag", 6, **settings).fit(rows)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(4_000)  # modules are imported
    few, many = peak(4_000), peak(1_200_000)
    assert many < few + 2_000_000, (few, many)  # labels alone are 4,800,000 bytes


# ---- soft labels and weights of rows ---------------------------------------------------------------------------------


def test_em_gives_the_labels_of_one_machine_for_any_chunks(client, tmp_path):
    times = (np.arange(1500) % 3).astype(float)
    np.save(tmp_path / "rows.npy", X)
    for weight in (None, times):
        data = Dataset(X, DiagonalGaussian(), weight=weight)
        kernel = ExpectationMaximization()
        state = kernel.init(MixtureModel(data.family, SymmetricDirichlet(12)), data, seed=0)
        trace = sample(kernel, state, 40)
        counts = np.bincount(state.labels, weights=weight, minlength=12)
        as_array = weight if weight is None else da.from_array(weight, chunks=600)
        for rows, of_rows in (
            (da.from_array(X, chunks=(1500, 2)), weight),
            (da.from_array(X, chunks=((7, 0, 1000, 493), 2)), as_array),
            (X, as_array),
            (tmp_path / "rows.npy", weight),
        ):
            settings = {"weights": SymmetricDirichlet(12), "sampler": "em", "n_steps": 40, "random_state": 0}
            mixture = Mixture("gaussian_diag", client=client, **settings)
            mixture.fit(rows, sample_weight=of_rows)
            np.testing.assert_array_equal(mixture.labels_.compute(), state.labels)
            np.testing.assert_array_equal(mixture.trace_.column("objective"), trace.column("objective"))
            np.testing.assert_array_equal(mixture.n_, counts)
            assert mixture.cluster_sizes_.dtype == (np.int64 if weight is None else np.float64)
            assert mixture.predict(X).shape == (1500,)


def test_em_goes_on_from_a_checkpoint_over_other_chunks(client, tmp_path):
    settings = {"sampler": "em", "random_state": 0, "client": client}
    whole = Mixture("gaussian_diag", 12, n_steps=9, **settings).fit(da.from_array(X, chunks=(700, 2)))
    Mixture("gaussian_diag", 12, n_steps=4, **settings).fit(X, checkpoint=tmp_path / "run")
    rest = Mixture("gaussian_diag", 12, n_steps=9, **settings)
    rest.fit(da.from_array(X, chunks=(300, 2)), resume=tmp_path / "run")
    np.testing.assert_array_equal(rest.labels_.compute(), whole.labels_.compute())
    np.testing.assert_array_equal(rest.trace_.column("objective"), whole.trace_.column("objective"))


# ---- results ---------------------------------------------------------------------------------------------------------


def test_results_are_those_of_a_local_mixture(client, tmp_path):
    rows = da.from_array(X, chunks=(500, 2))
    mixture = Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(rows)
    local = mixture.to_local()
    local.save(tmp_path / "model.npz")
    local = LocalMixture.load(tmp_path / "model.npz")
    for method in ("predict", "predict_proba", "predict_log_proba", "score_samples"):
        lazy = getattr(mixture, method)(rows)
        assert isinstance(lazy, da.Array)
        found = lazy.compute()
        assert found.shape == lazy.shape
        np.testing.assert_array_equal(found, getattr(local, method)(X))
        np.testing.assert_array_equal(found, getattr(mixture, method)(X))
    assert local.n_.sum() == 1500
    assert local.log_joint_ == mixture.log_joint_ == mixture.trace_.column("objective")[5:].max()


def test_the_labels_are_those_of_the_statistics(client):
    mixture = Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(da.from_array(X, chunks=(500, 2)))
    found = mixture.labels_.compute()
    sums = np.array([X[found == k].sum(axis=0) for k in range(6)])
    centre = mixture.model_.family.center_
    np.testing.assert_allclose(mixture.S_[:, :2], sums - mixture.n_[:, None] * centre, atol=1e-8)


# ---- refused ---------------------------------------------------------------------------------------------------------


def test_what_cannot_be_done_is_refused_with_a_way_on(client):
    rows = da.from_array(X, chunks=(500, 2))
    with pytest.raises(CapabilityError, match=r"StochasticEM does not find.*n_components=50.*'uncollapsed_gibbs'"):
        Mixture("gaussian_diag", sampler="stochastic_em", client=client).fit(rows)
    with pytest.raises(CapabilityError, match=r"write Mixture\(.*weights=DirichletProcess\(alpha=2\.0\)"):
        Mixture("gaussian_diag", weights=PitmanYor(2.0, 0.2), client=client).fit(rows)
    with pytest.raises(CapabilityError, match=r"CollapsedGibbs cannot run on data in parts.*write UncollapsedGibbs"):
        Mixture("gaussian_diag", 6, sampler="gibbs", client=client).fit(rows)
    with pytest.raises(DataError, match="two dimensions"):
        Mixture("gaussian_diag", 6, client=client).fit(rows[:, 0])
    with pytest.raises(DataTypeError, match="a dask array or frame"):
        Mixture("gaussian_diag", 6, client=client).fit(3)
    with pytest.raises(DataError, match="for Parquet files"):
        Mixture("gaussian_diag", 6, client=client).fit(rows, columns=["a"])
    weight = np.ones(1500)
    with pytest.raises(CapabilityError, match=r"UncollapsedGibbs cannot use weights.*write ExpectationMaximization"):
        Mixture("gaussian_diag", 6, learn_hyper=False, client=client).fit(rows, sample_weight=weight)
    with pytest.raises(DataError, match=r"one number for each of 1500 rows; got shape \(3,\).*sample_weight=w"):
        Mixture("gaussian_diag", 6, sampler="em", client=client).fit(rows, sample_weight=[1, 2, 3])
    with pytest.raises(CapabilityError, match=r"write Mixture\(.*learn_hyper=False"):
        Mixture("gaussian_diag", 6, sampler="em", learn_hyper=True, client=client).fit(rows)
    with pytest.raises(CapabilityError, match="not fitted"):
        Mixture("gaussian_diag", 6).predict(X)


def test_a_frame_with_text_is_refused_with_its_columns(client):
    class Frame:
        dtypes = {"age": np.dtype(float), "town": np.dtype(object)}  # noqa: RUF012

        def to_dask_array(self, lengths):
            raise AssertionError("the frame was read")

    with pytest.raises(DataTypeError, match=r"columns \['town'\] hold no numbers.*fit\(X\.select_dtypes\('number'\)\)"):
        Mixture("gaussian_diag", 6, client=client).fit(Frame())


def test_rows_that_no_worker_can_hold_are_refused_before_any_work(client):
    def never(block):
        raise AssertionError("a block was made")

    rows = da.zeros((10**10, 16), chunks=(10**7, 16)).map_blocks(never, dtype=float, meta=np.empty((0, 0)))
    with pytest.raises(ResourceError, match=r"each of 2 workers needs about .* rows 640 GB.*Client\(n_workers=\d+\)"):
        Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(rows)


def test_an_error_in_a_part_names_it(client):
    bad = X.copy()
    bad[1200, 1] = np.nan
    with pytest.raises(DataError) as caught:
        Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(da.from_array(bad, chunks=(500, 2)))
    assert "NaN" in str(caught.value) or "nan" in str(caught.value)


# ---- losses ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_workers", [1, 2])
def test_killed_workers_change_no_label(client, labels, n_workers):
    step = random.randint(1, 9)
    print(f"killed after step {step}")
    killer = Killer(client, step, n_workers)
    mixture = Mixture("gaussian_diag", 6, client=client, callbacks=[killer], **SETTINGS)
    mixture.fit(da.from_array(X, chunks=(400, 2)))
    assert mixture.n_lost_ >= 1
    np.testing.assert_array_equal(mixture.labels_.compute(), labels)


def test_workers_killed_within_a_step_and_during_the_replay_change_no_label(client, labels):
    """The second one dies while others make its parts, and those of the first, again."""
    seconds = [random.uniform(0.0, 0.05), random.uniform(0.2, 2.0)]
    print(f"killed {seconds} s after the step before")
    timers = []

    def kill(info, state):
        if info.step == 8 and not timers:
            pids = processes(client)[:2]
            timers.extend(threading.Timer(after, os.kill, (pid, signal.SIGKILL)) for after, pid in zip(seconds, pids))
            for timer in timers:
                timer.start()

    mixture = Mixture("gaussian_diag", 6, client=client, callbacks=[kill], **{**SETTINGS, "n_steps": 60})
    rows = da.from_array(X, chunks=(400, 2))
    mixture.fit(rows)
    for timer in timers:
        timer.join()
    found = mixture.labels_.compute()
    assert mixture.n_lost_ >= 1
    whole = Mixture("gaussian_diag", 6, client=client, **{**SETTINGS, "n_steps": 60}).fit(rows)
    np.testing.assert_array_equal(found, whole.labels_.compute())


def test_workers_that_compute_other_bits_are_named(client, monkeypatch):
    monkeypatch.setattr(likeness, "hash_of_scores", os.getpid)
    with pytest.warns(ExactnessWarning, match=r"worker.* other bits than the others: tcp://.*EXPFAM_ISA=base"):
        Mixture("gaussian_diag", 2, client=client, n_steps=2, random_state=0).fit(da.from_array(X, chunks=(400, 2)))


def test_em_of_killed_workers_gives_the_same_labels(client):
    """Borrowed rows are sent again too."""
    settings = {"sampler": "em", "n_steps": 8, "random_state": 0, "client": client}
    rows = da.random.default_rng(1).normal(size=(3000, 2), chunks=(500, 2))
    whole = Mixture("gaussian_diag", 12, **settings).fit(rows).labels_.compute()
    mixture = Mixture("gaussian_diag", 12, callbacks=[Killer(client, random.randint(1, 7), 1)], **settings).fit(rows)
    assert mixture.n_lost_ >= 1
    np.testing.assert_array_equal(mixture.labels_.compute(), whole)


def test_a_stopped_worker_is_named_and_the_run_goes_on(client, labels, monkeypatch):
    monkeypatch.setattr(watch, "LEAST_SECONDS", 0.2)

    def stop(info, state):
        if info.step == 5:
            pid = processes(client)[0]
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(5.0, os.kill, (pid, signal.SIGCONT)).start()

    mixture = Mixture("gaussian_diag", 6, client=client, callbacks=[stop], **SETTINGS)
    with pytest.warns(UserWarning, match=r"has waited .* for the worker tcp://.*goes on when that answers"):
        mixture.fit(da.from_array(X, chunks=(400, 2)))
    assert mixture.n_lost_ == 0
    np.testing.assert_array_equal(mixture.labels_.compute(), labels)


def test_a_run_goes_on_over_other_chunks(client, labels, tmp_path):
    path = tmp_path / "run"
    first = Mixture("gaussian_diag", 6, client=client, callbacks=[Until(7)], **SETTINGS)
    first.fit(da.from_array(X, chunks=(400, 2)), checkpoint=path)
    assert len(first.trace_) == 7
    mixture = Mixture("gaussian_diag", 6, client=client, n_steps=10)  # the seed is that of the checkpoint
    mixture.fit(da.from_array(X, chunks=((100, 1400), 2)), resume=path)
    assert len(mixture.trace_) == 10
    np.testing.assert_array_equal(mixture.labels_.compute(), labels)
    with pytest.raises(ArchiveError, match=r"earlier run: write resume="):
        first.fit(X, checkpoint=path)
    with pytest.raises(ArchiveError, match=r"of n_clusters 6, the run of 5"):
        Mixture("gaussian_diag", 5, client=client, **SETTINGS).fit(X, resume=path)


class KillWhileWriting:
    """Callback that kills a worker a moment after a step, while checkpoints are written."""

    def __init__(self, client, delay):
        self.client, self.delay, self.is_done = client, delay, False

    def __call__(self, info, state):
        if info.step == 5 and not self.is_done:
            self.is_done = True
            pid = processes(self.client)[0]
            threading.Timer(self.delay, os.kill, (pid, signal.SIGKILL)).start()


def test_a_worker_killed_during_a_checkpoint_changes_no_label(client, labels, tmp_path):
    delay = random.uniform(0.0, 0.05)
    print(f"killed {delay} seconds after a step, while checkpoints are written")
    killer = KillWhileWriting(client, delay)
    mixture = Mixture("gaussian_diag", 6, client=client, callbacks=[killer], **SETTINGS)
    mixture.fit(da.from_array(X, chunks=(400, 2)), checkpoint=tmp_path / "run", every_seconds=0.0)
    np.testing.assert_array_equal(mixture.labels_.compute(), labels)
    again = Mixture("gaussian_diag", 6, client=client, **SETTINGS).fit(X, resume=tmp_path / "run")
    np.testing.assert_array_equal(again.labels_.compute(), labels)


def test_too_many_losses_end_the_run(client):
    killer = Killer(client, 3, 2)
    with DaskEngine(client, max_lost=0) as engine:
        engine.place(cut_rows(X, 2), Tally)
        killer(type("Info", (), {"step": 3}), None)
        with pytest.raises(EngineError, match=r"workers were lost 1 time,.*max_lost=4"):
            engine.change("add", 1.0)


def test_without_dask_the_line_to_install_it_is_named():
    code = "import sys; sys.modules['distributed'] = None; import expfam.dask"
    done = subprocess.run([sys.executable, "-c", code], cwd=sys.prefix, capture_output=True, text=True, check=False)
    assert "pip install 'expfam[dask]'" in done.stderr
