"""Variational rows in groups of unknown number: bound, moves, and bits."""

import numpy as np
import pytest
from franchise_slow import all_labels, log_joints
from franchises import ALPHA, GAMMA, ROWS, Tiny
from grouped_process_by_terms import bound
from process_by_terms import ProcessReference
from scipy.special import logsumexp

from expfam import (
    AdmixtureModel,
    Columns,
    Dataset,
    DiagonalGaussian,
    Gaussian,
    HierarchicalProcess,
    Multinomial,
    Poisson,
)
from expfam.errors import ArchiveError, CapabilityError, DataError
from expfam.model.known import Known
from expfam.samplers import GroupedProcessVariational, sample
from expfam.samplers.nonparametric import variational_moves
from expfam.samplers.nonparametric.group_allocation import GroupAllocation
from expfam.samplers.nonparametric.variational_moves import try_births, try_deletions, try_merges

EXACT = {"dtype": "float64", "tol": 1e-6}
QUIET = {"merge": False, "n_deletions": 0, "n_births": 0}
CENTRES = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
RATES = np.array([[1.0, 20.0, 3.0], [20.0, 1.0, 3.0], [5.0, 5.0, 30.0], [40.0, 40.0, 1.0]])


def patients(n_groups=15, n_each=20, seed=0):
    """Rows of four clusters, their groups and clusters."""
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(4, 0.5), size=n_groups)
    of_row = np.repeat(np.arange(n_groups), n_each)
    kind = np.array([rng.choice(4, p=shares[g]) for g in of_row])
    return rng, of_row, kind


def classes_of_some(kind):
    """Classes of every tenth row of two clusters, and of two rows that are unlike them."""
    classes = np.where((kind < 2) & (np.arange(len(kind)) % 10 == 0), kind, -1)
    classes[np.flatnonzero(kind == 2)[0]], classes[np.flatnonzero(kind == 0)[1]] = 0, 1
    return classes


def made(family="diagonal", weight=None, *, is_known=False, **options):
    rng, of_row, kind = patients(**options)
    cells = CENTRES[kind] + rng.normal(size=(len(kind), 2))
    counts = rng.poisson(RATES[kind])
    if family == "table":
        X, owner = np.column_stack([cells, counts]), Columns([(DiagonalGaussian(), (0, 1)), (Poisson(), (2, 3, 4))])
    else:
        X, owner = {
            "diagonal": (cells, DiagonalGaussian()),
            "full": (cells, Gaussian()),
            "poisson": (counts, Poisson(shape=1.0, rate=0.1)),
            "words": (counts, Multinomial(0.5)),
        }[family]
    known = Known(classes_of_some(kind)) if is_known else None
    return Dataset(X, owner, groups=of_row, weight=weight, known=known)


def begun(data=None, *, n_clusters=8, start="random", seed=0, **settings):
    data = made() if data is None else data
    kernel = GroupedProcessVariational(**{**EXACT, **settings})
    model = HierarchicalProcess(data.family, 1.3, 0.8, n_known=0 if data.known is None else 2)
    return kernel, kernel.init(model, data, seed=seed, n_clusters=n_clusters, start=start)


def by_terms(state, rows, indices, values):
    """The bound of responsibilities (m, L) of all rows."""
    data, q = state.data, state.sticks
    r = np.zeros((data.n_rows, state.K))
    for row, ks, vs in zip(rows, indices, values):
        r[row, ks[vs > 0]] = vs[vs > 0]
    phi = np.asarray(
        data.rows_of_statistics() if hasattr(data, "rows_of_statistics") else data.family.sufficient_statistics(data.X)
    )

    def evidence(k, weights):
        return float(data.family.log_marginal(np.array([weights.sum()]), (weights @ phi)[None])[0])

    weight = np.ones(data.n_rows) if data.weight is None else data.weight
    return bound(
        ProcessReference(q.mean, q.size, q.alpha, q.gamma, np.ones(1), q.n_known),
        data.groups.of_row,
        weight,
        r,
        evidence,
    )


def assert_known(data, rows, indices, values):
    """Known rows have all of their responsibility in the cluster of their class."""
    classes = data.known.classes[rows]
    assert (classes >= 0).sum() > 10
    own = np.where(indices == classes[:, None], values, 0.0).sum(axis=1)
    np.testing.assert_array_equal(own[classes >= 0], 1.0)


# ---- the bound -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_active", [1, 2, 4, None])
@pytest.mark.parametrize("family", ["diagonal", "poisson"])
@pytest.mark.parametrize(("weighted", "is_known"), [(False, False), (True, False), (True, True)])
def test_the_bound_is_what_the_reference_says_of_the_responsibilities(family, n_active, weighted, is_known):
    weight = np.random.default_rng(1).uniform(0.2, 2.0, 300) if weighted else None
    _, state = begun(made(family, weight, is_known=is_known), n_active=n_active, **QUIET)
    for _ in range(3):
        state.make_pass()
    kept = state.kept_rows
    state.update()
    np.testing.assert_allclose(state.compute_log_joint(), by_terms(state, *kept), rtol=1e-10)
    state.check()
    if is_known:
        assert_known(state.data, *kept)


@pytest.mark.parametrize("n_clusters", [1, 2, 3])
@pytest.mark.parametrize("name", ROWS)
def test_the_bound_is_below_the_enumerated_evidence(name, n_clusters):
    tiny = Tiny(name)
    evidence = logsumexp(log_joints(tiny.model, tiny.evidence, tiny.groups))
    data = Dataset(tiny.X, tiny.model.family, groups=tiny.groups)
    kernel = GroupedProcessVariational(learn_alpha=False, **EXACT)
    state = kernel.init(tiny.model, data, seed=0, start=np.arange(6) % n_clusters)
    priors = tiny.model.alpha + tiny.model.gamma  # of the concentrations, which the bound holds and evidence does not
    found = [kernel.step(state).objective + priors for _ in range(20)]
    assert max(found) < evidence
    assert found[-1] > evidence - 4.0


@pytest.mark.parametrize("name", ROWS)
def test_so_it_is_beside_known_rows(name):
    family, X, groups = ROWS[name]
    family, classes = family.bind(X), np.array([0, -1, 1, -1, -1, -1])
    data = Dataset(X, family, groups=groups, known=Known(classes))
    model = HierarchicalProcess(family, ALPHA, GAMMA, n_known=2)
    evidence = logsumexp([model.log_joint(data, labels) for labels in all_labels(6, 2, classes)])
    kernel = GroupedProcessVariational(learn_alpha=False, **EXACT)
    state = kernel.init(model, data, seed=0, start=np.maximum(classes, 0))
    found = [kernel.step(state).objective + ALPHA + GAMMA for _ in range(20)]
    assert max(found) < evidence
    assert found[-1] > evidence - 4.0


@pytest.mark.parametrize(
    ("family", "is_known"),
    [("diagonal", False), ("full", True), ("poisson", False), ("words", False), ("table", True)],
)
@pytest.mark.parametrize(("dtype", "slack"), [("float64", 1e-10), ("float32", 1e-6)])
def test_no_step_lowers_the_bound(family, is_known, dtype, slack):
    kernel, state = begun(made(family, is_known=is_known), dtype=dtype, n_clusters=12)
    found, n_accepted = [state.log_joint], 0
    for _ in range(15):
        info = kernel.step(state)
        n_accepted += info.accepted
        found.append(info.objective)
        np.testing.assert_allclose(state.log_joint, state.compute_log_joint(), rtol=1e-9)
        state.check()
    assert n_accepted > 2
    assert (np.diff(found) >= -slack * abs(found[0])).all()


# ---- moves -----------------------------------------------------------------------------------------------------------

MOVES = {
    "merge": lambda allocation, rng: try_merges(allocation),
    "delete": lambda allocation, rng: try_deletions(allocation, 8, rng),
    "birth": lambda allocation, rng: try_births(allocation, 6, rng),
}


def settled(n_clusters, *, is_known=False, **settings):
    kernel, state = begun(made(is_known=is_known), n_clusters=n_clusters, **QUIET, **settings)
    for _ in range(5):
        kernel.step(state)
    state.make_pass()
    return state


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize(("name", "n_clusters"), [("merge", 14), ("delete", 14), ("birth", 2)])
def test_moves_are_accepted_only_where_the_bound_from_nothing_rises(name, n_clusters, is_known):
    state = settled(n_clusters, is_known=is_known)
    allocation = GroupAllocation(state)
    before, K, rest = state.log_joint, state.K, state.log_joint - allocation.bound  # what no move changes
    n_tried, n_accepted = MOVES[name](allocation, np.random.default_rng(0))
    assert 0 < n_accepted <= n_tried
    judged = allocation.bound
    state.take_moves(allocation)
    state.check()
    assert state.K == len(allocation.columns) == K + (n_accepted if name == "birth" else -n_accepted)
    R = allocation.by_row()
    rows, values = np.arange(R.shape[0]), R.toarray()
    indices = np.tile(np.arange(state.K), (len(rows), 1))
    from_nothing = by_terms(state, rows, indices, values)
    np.testing.assert_allclose(state.log_joint, from_nothing, rtol=1e-10)
    assert state.log_joint >= judged + rest - 1e-9 * abs(rest)
    assert from_nothing > before
    if is_known:
        assert_known(state.data, rows, indices, values)


@pytest.mark.parametrize(("name", "n_clusters"), [("merge", 4), ("delete", 4), ("birth", 4)])
def test_moves_that_nobody_judges_are_seen(name, n_clusters, monkeypatch):
    kernel, state = begun(n_clusters=8)
    sample(kernel, state, 12)
    assert state.K == 4
    state.make_pass()
    before = state.log_joint
    monkeypatch.setattr(variational_moves, "_GAIN", -1e9)
    monkeypatch.setattr(variational_moves, "_HOPELESS", np.inf)
    allocation = GroupAllocation(state)
    assert MOVES[name](allocation, np.random.default_rng(0))[1] > 0
    state.take_moves(allocation)
    assert state.log_joint < before - 10.0


def test_an_allocation_that_no_move_changed_is_the_state():
    state = settled(7)
    before, n = state.log_joint, state.n.copy()
    allocation = GroupAllocation(state)
    state.take_moves(allocation)
    np.testing.assert_allclose(state.n, n, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(state.log_joint, before, rtol=1e-10)


@pytest.mark.parametrize("n_clusters", [1, 4, 20])
@pytest.mark.parametrize("family", ["diagonal", "poisson", "table"])
def test_the_planted_number_is_found_from_one_cluster_and_from_many(family, n_clusters):
    data, kind = made(family, n_each=30), patients(n_each=30)[2]
    kernel, state = begun(data, n_clusters=n_clusters, dtype="float32", tol=0.05)
    sample(kernel, state, 40)
    assert state.n_clusters == state.K == 4
    table = np.zeros((4, 4))
    np.add.at(table, (kind, state.labels), 1)
    assert table.max(axis=1).sum() > 0.97 * len(kind)
    assert state.converged


def test_known_clusters_are_there_whatever_the_rows():
    rng = np.random.default_rng(0)
    X, classes = rng.poisson([[2.0], [90.0]] * 30), np.full(60, -1)
    classes[:4:2] = 1  # no row is known of class 0
    data = Dataset(X, Poisson(), groups=np.arange(60) % 4, known=Known(classes, n_classes=2))
    kernel = GroupedProcessVariational(**EXACT)
    state = kernel.init(HierarchicalProcess(data.family, n_known=2), data, seed=0, n_clusters=9)
    sample(kernel, state, 20)
    assert state.sticks.n_known == state.process.n_known == 2
    np.testing.assert_array_equal(state.labels[:4:2], 1)
    assert state.K in (2, 3)
    np.testing.assert_allclose(state.n.sum(), 60.0)
    other = kernel.init(HierarchicalProcess(data.family, n_known=2), data, seed=0, n_clusters=4)
    other.from_arrays(state.to_arrays())
    assert kernel.step(state).objective == kernel.step(other).objective
    assert other.sticks.n_known == 2


# ---- runs ------------------------------------------------------------------------------------------------------------


def test_weights_are_repeated_rows():
    data, family = made("poisson", n_groups=6), Poisson(shape=1.0, rate=0.1)
    start = np.arange(data.n_rows) % 5
    doubled = Dataset(data.X, family, groups=data.groups.of_row, weight=np.full(data.n_rows, 2.0))
    repeated = Dataset(np.repeat(data.X, 2, axis=0), family, groups=np.repeat(data.groups.of_row, 2))
    kernel, weighted = begun(doubled, start=start, **QUIET)
    _, twice = begun(repeated, start=np.repeat(start, 2), **QUIET)
    for _ in range(6):
        np.testing.assert_allclose(kernel.step(weighted).objective, kernel.step(twice).objective, rtol=1e-8)


def test_the_result_does_not_depend_on_threads_but_on_the_seed():
    states = []
    for seed, n_threads in ((0, 1), (0, 2), (1, 1)):
        kernel, state = begun(n_clusters=12, seed=seed, n_threads=n_threads)
        sample(kernel, state, 5)
        states.append(state)
    assert np.array_equal(states[0].S, states[1].S)
    assert states[0].log_joint == states[1].log_joint
    assert states[0].log_joint != states[2].log_joint


def test_a_run_goes_on_from_its_arrays_to_the_bit():
    kernel, state = begun(n_clusters=12)
    sample(kernel, state, 3)
    _, other = begun(n_clusters=6)
    assert other.K != state.K
    arrays = state.to_arrays()
    other.from_arrays(arrays)
    for _ in range(3):
        assert kernel.step(state).objective == kernel.step(other).objective
    assert np.array_equal(state.S, other.S)
    with pytest.raises(ArchiveError, match="below 1"):
        other.from_arrays(arrays | {"sticks": np.ones_like(arrays["sticks"])})


def test_another_model_is_taken():
    _, state = begun()
    state.set_model(HierarchicalProcess(state.model.family, 2.0, 3.0))
    assert (state.process.alpha, state.process.gamma) == (2.0, 3.0)
    np.testing.assert_allclose(state.model.pseudocounts, 2.0 * state.sticks.beta[:-1])
    np.testing.assert_allclose(state.log_joint, state.compute_log_joint())


def test_what_it_cannot_do_is_refused():
    data, kernel = made(), GroupedProcessVariational()
    with pytest.raises(CapabilityError, match=r"works on a HierarchicalProcess.*GroupedProcessVariational\(\)\.init"):
        kernel.init(AdmixtureModel(data.family, 3), data)
    with pytest.raises(DataError, match=r"2 classes are known.*write HierarchicalProcess\(data.family, n_known=2\)"):
        kernel.init(HierarchicalProcess(data.family), made(is_known=True))
    with pytest.raises(CapabilityError, match="needs the group of each row"):
        kernel.init(HierarchicalProcess(data.family), Dataset(data.X, data.family))
    with pytest.raises(CapabilityError, match="needs all rows at once"):
        kernel.stream(HierarchicalProcess(data.family), data)
