"""A fit that was killed goes on from its folder, and ends with the bits of one that was never stopped."""

import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone

from expfam import BayesianHierarchy, GroupedMixture, Mixture, TopicModel
from expfam.errors import ArchiveError, CapabilityError
from expfam.estimators.topic_draws import drawn_topics
from expfam.fitting.kept_run import packed, seed_of_run, unpacked
from expfam.samplers import Checkpoint, HierarchicalClustering

N_ROWS = 120


def rows():
    return np.random.default_rng(0).normal(size=(N_ROWS, 4)) + 3.0 * np.repeat(np.eye(3, 4), N_ROWS // 3, axis=0)


def counts():
    rates = np.repeat([[3, 3, 0.1, 0.2, 1, 1], [0.2, 0.1, 3, 3, 1, 1]], 30, axis=0)
    return np.random.default_rng(1).poisson(rates)


def texts():
    rng = np.random.default_rng(2)
    kinds = [["bank", "loan", "rate", "fund"], ["cat", "dog", "cow", "pig"]]
    return [" ".join(rng.choice(kinds[row % 2], 8)) for row in range(30)]


def in_groups(*args, **settings):
    return GroupedMixture("gaussian_diag", *args, **settings), rows(), {"groups": np.arange(N_ROWS) % 8}


def of_rows(*args, **settings):
    return Mixture(*args, **settings), rows(), {}


def in_steps(n_merges=40, **settings):
    return HierarchicalClustering(n_merges=n_merges, **settings)


STEPS = {"n_steps": 12, "n_warmup": 6}
CASES = {
    "an open number": of_rows(),
    "three clusters": of_rows("gaussian_diag", 3),
    "full covariances": of_rows("gaussian"),
    "counts": (Mixture("multinomial"), counts(), {}),
    "draws": of_rows("gaussian_diag", n_draws=20),
    "hyper-parameters": of_rows("gaussian_diag", learn_hyper=True, n_draws=20),
    "gibbs": of_rows("gaussian_diag", sampler="gibbs", **STEPS),
    "em": of_rows("gaussian_diag", 3, sampler="em"),
    "variational": of_rows("gaussian_diag", 3, sampler="variational"),
    "fastex": of_rows("gaussian_diag", 6, sampler="fastex", **STEPS),
    "split_merge": of_rows("gaussian_diag", sampler="split_merge", **STEPS),
    "uncollapsed_gibbs": of_rows("gaussian_diag", 5, sampler="uncollapsed_gibbs", **STEPS),
    "stochastic_em": of_rows("gaussian_diag", 5, sampler="stochastic_em", **STEPS),
    "canopy": (Mixture("multinomial", 5, sampler="canopy", **STEPS), counts(), {}),
    "topics": (TopicModel(3, **STEPS), texts(), {}),
    "topics, draws kept": (TopicModel(3, n_draws=5, **STEPS), texts(), {}),
    "topics of unknown number, draws kept": (TopicModel(None, n_draws=5, **STEPS), texts(), {}),
    "topics by variational inference": (TopicModel(3, sampler="variational"), texts(), {}),
    "topics of unknown number": (TopicModel(None, **STEPS), texts(), {}),
    "their variational inference": (TopicModel(None, sampler="variational", n_steps=12), texts(), {}),
    "groups": in_groups(3),
    "groups by variational inference": in_groups(3, sampler="variational"),
    "groups, unknown number": in_groups(None, **STEPS),
    "their variational inference, unknown number": in_groups(None, sampler="variational", n_steps=12),
}


class Killed(Exception):
    pass


def killer(n_steps):
    """Return a callback that ends a fit by an error in its step of this number."""
    left = iter(range(n_steps - 1, -1, -1))

    def callback(info, state):
        if not next(left):
            raise Killed
        return False

    return callback


def values_of(model):
    """Return all results of a fit as arrays by name, without times, which no two runs share."""
    found = {}
    for name, value in vars(model).items():
        if name.endswith("_") and isinstance(value, (np.ndarray, sparse.sparray, float, int, str)):
            found[name] = value.toarray() if sparse.issparse(value) else np.asarray(value)
    trace = model.trace_.to_frame()
    found |= {f"trace {name}": trace[name].to_numpy() for name in trace if not name.startswith("seconds")}
    if isinstance(model, TopicModel):
        for place, draw in enumerate(drawn_topics(model)):
            found |= {f"topics {place} {name}": np.asarray(getattr(draw, name)) for name in ("alpha", "eta")}
            found[f"topics {place}"] = draw.counts.toarray()
    for name, value in vars(model).get("_draws", {}).items():
        if name != "seconds":
            parts = value if isinstance(value, dict) else {"": value}
            found |= {f"draws {name} {part}": np.asarray(array) for part, array in parts.items()}
    return found


def assert_same(first, second):
    first, second = values_of(first), values_of(second)
    assert first.keys() == second.keys()
    for name in first:
        np.testing.assert_array_equal(first[name], second[name], err_msg=name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_a_fit_that_was_ended_goes_on_bit_for_bit(case, tmp_path):
    model, X, given = CASES[case]
    model = clone(model).set_params(random_state=3)
    whole = clone(model).fit(X, **given)
    n_steps, n_ended = len(whole.trace_), 0
    for at in sorted({max(1, n_steps // 3), n_steps}):
        run, seen = tmp_path / f"run{at}", []
        with pytest.raises(Killed):
            clone(model).set_params(callbacks=[killer(at)]).fit(X, **given, resume=Checkpoint(run, every_seconds=0))
        counter = clone(model).set_params(callbacks=[lambda info, state, seen=seen: seen.append(info.step)])
        again = counter.fit(X, **given, resume=run)
        assert_same(whole, again)
        if at > 2:  # the step that was ended is made again, those before it are not
            assert len(seen) == n_steps - at + 1
            n_ended += 1
    assert n_ended or n_steps <= 2


def test_a_run_that_has_ended_is_read_back(tmp_path):
    run, seen = tmp_path / "run", []
    model = Mixture("gaussian_diag", 3, random_state=1)
    whole = clone(model).fit(rows(), resume=run)
    again = clone(model).set_params(callbacks=[lambda info, state: seen.append(info)]).fit(rows(), resume=run)
    assert_same(whole, again)
    assert_same(whole, clone(model).fit(rows()))
    assert seen == []


def test_a_fit_without_a_seed_goes_on_with_the_seed_of_its_run(tmp_path):
    run = Checkpoint(tmp_path / "run", every_seconds=0)
    assert seed_of_run(run) is None
    with pytest.raises(Killed):
        Mixture("gaussian_diag", 3, callbacks=[killer(4)]).fit(rows(), resume=run)
    seed = seed_of_run(run)
    assert_same(
        Mixture("gaussian_diag", 3).fit(rows(), resume=run), Mixture("gaussian_diag", 3, random_state=seed).fit(rows())
    )


def test_threads_and_bars_may_change_between(tmp_path):
    run = Checkpoint(tmp_path / "run", every_seconds=0)
    model = Mixture("gaussian_diag", 3, random_state=1, n_threads=1)
    with pytest.raises(Killed):
        clone(model).set_params(callbacks=[killer(5)]).fit(rows(), resume=run)
    assert_same(clone(model).fit(rows()), clone(model).set_params(n_threads=2).fit(rows(), resume=run))


SCRIPT = """
import sys
import numpy as np
from expfam import {name}
from expfam.samplers import Checkpoint

X = np.load(sys.argv[1])
given = {given}

def tell(info, state):
    if info.step == 5:
        print("five", flush=True)
        sys.stdin.read()  # until the process is killed

model = {model}.set_params(callbacks=[tell])
model.fit(X, **given, resume=Checkpoint(sys.argv[2], every_seconds=0))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no such signal on this system")
@pytest.mark.parametrize(
    ("model", "given"),
    [
        (Mixture(family="gaussian_diag", random_state=4), "{}"),
        (GroupedMixture(family="gaussian_diag", n_components=3, random_state=4), "{'groups': np.arange(len(X)) % 8}"),
        (TopicModel(n_components=2, n_steps=20, random_state=4), "{}"),
    ],
    ids=["rows", "groups", "topics"],
)
def test_a_process_that_was_killed_goes_on(model, given, tmp_path):
    X = counts() if isinstance(model, TopicModel) else rows()
    np.save(tmp_path / "x.npy", X)
    script = SCRIPT.format(name=type(model).__name__, model=repr(model), given=given)
    command = [sys.executable, "-c", script, tmp_path / "x.npy", tmp_path / "run"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment, "cwd": tmp_path}
    with subprocess.Popen(list(map(str, command)), text=True, **pipes) as process:
        assert process.stdout.readline() == "five\n"
        process.kill()
        assert process.wait() == -signal.SIGKILL
    options = eval(given, {"np": np, "X": X})
    again, seen = clone(model), []
    again.set_params(callbacks=[lambda info, state: seen.append(info.step)]).fit(X, **options, resume=tmp_path / "run")
    assert seen[0] == 5
    assert_same(clone(model).fit(X, **options), again)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"X": rows() + 1.0}, "its data differs"),
        (
            {"n_components": 4},
            r"its estimator is Mixture\(family='gaussian_diag', n_components=3\), that of this fit is",
        ),
        ({"random_state": 2}, "its seed is 1, that of this fit is 2"),
    ],
)
def test_the_run_of_another_fit_is_refused(other, message, tmp_path):
    model = Mixture("gaussian_diag", 3, random_state=1)
    clone(model).fit(rows(), resume=tmp_path / "run")
    X = other.pop("X", rows())
    with pytest.raises(ArchiveError, match=message):
        clone(model).set_params(**other).fit(X, resume=tmp_path / "run")


def test_folders_of_other_things_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(ArchiveError, match="holds other files and no run: give a new name"):
            Mixture("gaussian_diag", 3, random_state=1).fit(rows(), resume=path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_altered_parts_are_refused(tmp_path):
    model, run = Mixture("gaussian_diag", 3, random_state=1), tmp_path / "run"
    clone(model).fit(rows(), resume=run)
    file = run / "part2" / "arrays.npz"
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ArchiveError, match="part2"):
        clone(model).fit(rows(), resume=run)


def test_several_chains_are_not_kept(tmp_path):
    with pytest.raises(CapabilityError, match=r"a run of 2 chains is not kept: write Mixture\(.*n_chains=1\)"):
        Mixture("gaussian_diag", 3, n_chains=2).fit(rows(), resume=tmp_path / "run")
    assert not (tmp_path / "run").exists()


TREES = {
    "one order": (BayesianHierarchy("gaussian_diag", sampler=in_steps(order="odds")), rows(), {}),
    "the best of three trees": (BayesianHierarchy("gaussian_diag", sampler=in_steps()), rows(), {}),
    "an index of words": (BayesianHierarchy("multinomial", sampler=in_steps()), sparse.csr_array(counts()), {}),
    "neighbours": (BayesianHierarchy("gaussian_diag", sampler=in_steps(candidates="knn")), rows(), {}),
    "clusters as leaves": (BayesianHierarchy("gaussian_diag", leaves="clusters", sampler=in_steps(1)), rows(), {}),
    "links": (BayesianHierarchy("gaussian_diag", sampler=in_steps()), rows(), {"links": np.arange(N_ROWS) // 2}),
    "tuned, within a limit": (
        BayesianHierarchy("gaussian_diag", alpha="auto", learn_hyper=True, sampler=in_steps(), time_limit="1h"),
        rows(),
        {},
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", TREES)
def test_a_tree_that_was_ended_goes_on_bit_for_bit(case, tmp_path):
    model, X, given = TREES[case]
    model, seen = clone(model).set_params(random_state=3), []
    whole = clone(model).set_params(callbacks=[lambda info, state: seen.append(info.step)]).fit(X, **given)
    n_steps = len(seen)
    assert n_steps > 1
    for at in sorted({2, n_steps}):  # in the first tree, and in the last one
        run, left = tmp_path / f"run{at}", []
        with pytest.raises(Killed):
            clone(model).set_params(callbacks=[killer(at)]).fit(X, **given, resume=Checkpoint(run, every_seconds=0))
        again = clone(model).set_params(callbacks=[lambda info, state, left=left: left.append(info.step)])
        again.fit(X, **given, resume=run)
        assert len(left) == n_steps - at + 1
        assert (again.order_, again.alpha_, again.log_evidence_) == (whole.order_, whole.alpha_, whole.log_evidence_)
        # the work, not the result: bounds that are made anew may leave out other pairs
        assert again.n_scores_ == pytest.approx(whole.n_scores_, rel=0.01)
        for name in ("children_", "log_odds_", "log_weight_", "counts_", "leaf_", "labels_", "probabilities_"):
            np.testing.assert_array_equal(getattr(again, name), getattr(whole, name), err_msg=name)
        made = list(left)
        again.fit(X, **given, resume=run)  # is read back
        assert left == made
        np.testing.assert_array_equal(again.children_, whole.children_)


def test_a_tree_over_other_pairs_or_leaves_is_refused(tmp_path):
    near, far = (sparse.csr_array(np.eye(N_ROWS, k=k) + np.eye(N_ROWS, k=-k)) for k in (1, 1))
    far.indices[[0, -1]] = 5
    trees = [BayesianHierarchy("gaussian_diag", sampler=in_steps(candidates=graph)) for graph in (near, far)]
    trees[0].fit(rows(), resume=tmp_path / "pairs")
    with pytest.raises(ArchiveError, match="its graph differs"):
        trees[1].fit(rows(), resume=tmp_path / "pairs")
    tree = BayesianHierarchy("gaussian_diag").fit(rows(), resume=tmp_path / "leaves")
    with pytest.raises(ArchiveError, match=r"its start differs"):
        tree.fit(rows(), links=np.arange(N_ROWS) // 3, resume=tmp_path / "leaves")


def test_values_of_callbacks_are_kept_as_they_are():
    values = {"a": None, "b": True, "c": 3, "d": -np.inf, "e": [1.5, np.float64(2.0)], "f": [], "g": (1, None)}
    found = unpacked(packed({**values, "rule": print}))
    assert found == values
    assert type(found["b"]) is bool
    assert type(found["c"]) is int
    arrays = unpacked(packed({"x": np.arange(3), "y": sparse.csr_array(np.eye(2)), "z": [np.ones(2), 1.0]}))
    np.testing.assert_array_equal(arrays["x"], np.arange(3))
    np.testing.assert_array_equal(arrays["y"].toarray(), np.eye(2))
    np.testing.assert_array_equal(arrays["z"][0], np.ones(2))
