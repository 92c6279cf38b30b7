"""Splits and merges whose rows are independent: exact, and those of a plain reference, for any number of parts."""

from functools import partial

import numpy as np
import pytest
from enumeration import canonical, exact_posterior
from scipy import sparse
from scipy.special import gammaln
from shards_data import BOUNDS, DATA, REAL, UnitNormal, cut
from tiny import FAMILIES
from visits import LIMIT, visited, worst_t

from expfam import Dataset, DiagonalGaussian, DirichletProcess, MixtureModel, Poisson, SymmetricDirichlet
from expfam.errors import CapabilityError
from expfam.families.base import Family
from expfam.samplers import CollapsedGibbs, Cycle, FrozenSplitMerge, ShardedData, UncollapsedGibbs, UncollapsedState
from expfam.samplers.shards import split_merge
from expfam.samplers.states.divisions import Division, divided_labels, sides_of
from expfam.structures.ground.rng import generator, log_uniforms

pytestmark = pytest.mark.filterwarnings("ignore:.*rows? (is|are) empty")
SLICES = UncollapsedGibbs(sticks="slice")
WEIGHTS = DirichletProcess(alpha=0.9)
ALONE = FrozenSplitMerge(n_moves=2, n_merges=4)


def chain(kernel, family, X, bounds=None, n_steps=1000, weights=WEIGHTS):
    """Partitions that a chain visits; without bounds on one machine."""
    family = family.bind(X)
    data = X if bounds is None else ShardedData(cut(X, bounds), family)
    state = kernel.init(MixtureModel(family, weights), data, seed=4, start="one")
    return visited(kernel, state, n_steps), state


@pytest.fixture
def often(monkeypatch):
    """Near anchors split often, so that few steps visit all partitions by each law."""
    monkeypatch.setattr(split_merge, "_NEAR_SHARE", 0.6)


# ---- enumerated ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["poisson", "multinomial", "gaussian", "gaussian_diag", "bernoulli"])
def test_visits_are_those_of_the_posterior(name, often):
    family, X = FAMILIES[name]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    seen, _ = chain(ALONE, family, X, [2])
    assert worst_t(seen, partitions, pi) < LIMIT
    frequency = np.bincount([partitions.index(p) for p in seen], minlength=len(partitions)) / len(seen)
    assert 0.5 * np.abs(frequency - pi).sum() < 0.12
    for bounds in (None, [], [1, 4]):
        assert chain(ALONE, family, X, bounds, n_steps=60)[0] == seen[:60]


@pytest.mark.parametrize(("n_moves", "n_merges"), [(3, 0), (1, 4)])
@pytest.mark.parametrize("n_sampled", [3, 20_000])
def test_each_law_is_exact_with_sweeps(n_moves, n_merges, n_sampled, often, monkeypatch):
    """Of a sample of three rows some are anchors, the others are drawn by the parts."""
    monkeypatch.setattr(split_merge, "_SAMPLED_ROWS", n_sampled)
    family, X = FAMILIES["gaussian_diag"]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    kernel = Cycle(FrozenSplitMerge(n_moves=n_moves, n_merges=n_merges), SLICES)
    seen, _ = chain(kernel, family, X, [1, 3])
    assert worst_t(seen, partitions, pi) < LIMIT
    assert chain(kernel, family, X, n_steps=60)[0] == seen[:60]


@pytest.mark.parametrize("kernel", [ALONE, Cycle(UncollapsedGibbs(), ALONE)])
def test_a_given_number_of_components(kernel, often):
    family, X = FAMILIES["poisson"]
    weights = SymmetricDirichlet(3, alpha=0.6)
    partitions, pi = exact_posterior(MixtureModel(family, weights), X)
    seen, _ = chain(kernel, family, X, [2], weights=weights)
    assert worst_t(seen, partitions, pi) < LIMIT


def test_moves_take_turns_with_collapsed_sweeps(often):
    family, X = FAMILIES["gaussian_diag"]
    partitions, pi = exact_posterior(MixtureModel(family, WEIGHTS), X)
    seen, _ = chain(Cycle(CollapsedGibbs(), ALONE), family, X)
    assert worst_t(seen, partitions, pi) < LIMIT


# ---- the plain reference ---------------------------------------------------------------------------------------------


class Reference:
    """The moves one after the other, on labels of all rows, from the definitions alone."""

    def __init__(self, model, X, labels, seed, step):
        self.model, self.labels, self.seed, self.step = model, labels.copy(), seed, step
        data = Dataset(X, model.family)
        self.phi = np.asarray(data.phi(0, data.n_rows))

    def log_joint(self, labels):
        n = np.unique(labels, return_counts=True)[1].astype(float)
        S = np.stack([self.phi[labels == k].sum(axis=0) for k in np.unique(labels)])
        return self.model.weights.log_prior(n.astype(int)) + self.model.family.log_marginal(n, S).sum()

    def odds(self, n, S):
        Theta, G = self.model.family.expected_natural(n, S)
        c = self.model.weights.offset
        return lambda rows: np.clip(
            self.phi[rows] @ (Theta[0] - Theta[1]) + (G[1] - G[0] + np.log((n[0] + c) / (n[1] + c))), -600, 600
        )

    def statistics(self, rows, sides):
        n = np.array([np.sum(sides == s) for s in (0, 1)], dtype=float)
        return n, np.stack([self.phi[rows[sides == s]].sum(axis=0) for s in (0, 1)])

    def divided(self, move, sampled, members, forced):
        """Draw or score the sides of the members of a cluster; return them and log q."""
        u, v = sampled[[move.first, move.second]]
        sides = {int(u): 0, int(v): 1}
        log_q = 0.0
        inner = np.array([r for r in sampled if r in set(members.tolist())])
        draws = log_uniforms(self.seed, "side", move.number << 40, len(self.labels), self.step)

        def settle(rows, x, log_u):
            nonlocal log_q
            for row, odds, draw in zip(rows.tolist(), x.tolist(), log_u.tolist()):
                side = int(draw > -np.log1p(np.exp(-odds))) if forced is None else forced[row]
                sides[row] = side
                log_q -= np.log1p(np.exp(-odds if side == 0 else odds))

        if move.law == "pass":
            rng = generator(self.seed, "order", unit=move.number, step=self.step)
            others = inner[(inner != u) & (inner != v)]
            order = np.append([u, v], others[rng.permutation(others.size)])
            log_u, start = np.log1p(-rng.random(order.size)), 2
            while start < order.size:
                stop = min(order.size, start + max(1, start // 8))
                x = self.odds(*self.statistics(order[:start], np.array([sides[r] for r in order[:start].tolist()])))
                settle(order[start:stop], x(order[start:stop]), log_u[start:stop])
                start = stop
            x = self.odds(*self.statistics(order, np.array([sides[r] for r in order.tolist()])))
        elif move.law == "frozen":
            x = self.odds(*self.statistics(np.array([u, v]), np.array([0, 1])))
            for _ in range(2):
                hard = (x(inner) < 0).astype(int)
                hard[inner == u], hard[inner == v] = 0, 1
                x = self.odds(*self.statistics(inner, hard))
        else:

            def x(rows):
                return np.full(rows.size, move.log_odds)

        rest = np.array([r for r in members.tolist() if r not in sides], dtype=int)
        settle(rest, x(rest), draws[rest])
        found = np.array([sides[r] for r in members.tolist()])
        if move.law == "urn":
            a, c = np.array([np.sum(found == s) for s in (0, 1)]), self.model.weights.offset
            log_q = gammaln(a + c).sum() - gammaln(a.sum() + 2 * c) - 2 * gammaln(1 + c) + gammaln(2 + 2 * c)
        return found, log_q + (0.0 if move.law == "frozen" else np.log(split_merge._NEAR_SHARE))

    def make(self, moves, sampled):
        for move in moves:
            a, b = self.labels[sampled[[move.first, move.second]]]
            members = np.flatnonzero((self.labels == a) | (self.labels == b))
            if a == b:
                if move.law != "frozen" and move.log_try >= np.log(split_merge._NEAR_SHARE):
                    continue
                sides, log_q = self.divided(move, sampled, members, None)
                new = self.labels.copy()
                new[members[sides == 1]] = self.labels.max() + 1
                if move.log_u < self.log_joint(new) - self.log_joint(self.labels) - log_q:
                    self.labels = new
            else:
                _, log_q = self.divided(move, sampled, members, (self.labels == b).astype(int))
                new = np.where(self.labels == b, a, self.labels)
                if move.log_u < self.log_joint(new) - self.log_joint(self.labels) + log_q:
                    self.labels = new


@pytest.mark.parametrize("weights", [DirichletProcess(2.0), SymmetricDirichlet(6, alpha=0.5)])
@pytest.mark.parametrize("n_sampled", [25, 20_000])
@pytest.mark.parametrize("name", ["diagonal", "multinomial", "bernoulli_sparse"])
def test_moves_are_those_of_the_plain_reference(name, n_sampled, weights, often, monkeypatch):
    monkeypatch.setattr(split_merge, "_SAMPLED_ROWS", n_sampled)
    family, X = DATA[name]
    X = X[:90]
    family = family.bind(X)
    model, kernel = MixtureModel(family, weights), FrozenSplitMerge(n_moves=6, n_merges=30)
    state = kernel.init(model, ShardedData(cut(X, [20, 21, 60]), family), seed=5, start="random", n_clusters=6)
    changed = 0
    for _ in range(25):
        sample = split_merge.SampledRows(state)
        reference = Reference(model, X, state.labels, state.seed, state.n_steps)
        reference.make(split_merge._drawn_moves(state, sample, 6, 30), sample.numbers)
        info = kernel.step(state)
        assert canonical(state.labels) == canonical(reference.labels)
        changed += info.extra["splits_accepted"] > 0
        changed += info.extra["merges_accepted"] > 0
    assert changed > 5
    state.check()


# ---- the ratio of every move, and wrong ones -------------------------------------------------------------------------


def without_log_q(step, move, n_one, ones, log_q):
    """A split as if its sides had come with certainty."""
    return RIGHT_RATIO(step, move, n_one, ones, 0.0 if move.law != "urn" else log_q)


def without_prior(step, n_a, n_b, n_clusters):
    """Evidences alone."""
    return 0.0


def without_urn(*sizes):
    """Urns whose sides come with certainty."""
    return 0.0


def sides_that_are_not_forced(step, move, members):
    """A merge whose reverse draws sides and scores these, not those of the clusters."""
    wrong = split_merge._Move(move.number, move.first, move.second, "pass", move.log_u, 0.0, 0.0, (0, 0))
    return RIGHT_PASS(step, wrong, members)


def share_of_splits_alone(move):
    """Splits of near anchors that are tried less often than the ratio says."""
    return np.log(split_merge._NEAR_SHARE) if move.is_split and move.odds is None else 0.0


RIGHT_RATIO, RIGHT_PASS = split_merge._Step._log_ratio, split_merge._Step._pass
WRONG = {
    "no_log_q_of_a_split": (split_merge._Step, "_log_ratio", without_log_q),
    "no_prior": (split_merge._Step, "_log_prior", without_prior),
    "no_log_q_of_urns": (split_merge, "urn_log_q", without_urn),
    "reverse_of_other_sides": (split_merge._Step, "_pass", sides_that_are_not_forced),
    "no_share_in_the_ratio": (split_merge, "_log_share", share_of_splits_alone),
}


def recorded(ratios, move, log_ratio):
    """Accept a move, and note its log ratio."""
    ratios.append(log_ratio)
    return True


def largest_gap(weights):
    """Largest error of the log ratios of splits and of the merges that undo them, against the definitions."""
    X = REAL[:40]
    family = DiagonalGaussian().bind(X)
    model, gaps, laws = MixtureModel(family, weights), [], set()
    for seed in range(12):
        data = ShardedData(cut(X, [7, 30]), family)
        state = ALONE.init(model, data, seed=seed, start="random", n_clusters=3)
        sample = split_merge.SampledRows(state)
        for move in split_merge._drawn_moves(state, sample, 4, 8):
            before, ratios = state.labels, []
            move.log_u = move.log_try = -np.inf
            for _ in range(2):  # a split and the merge that undoes it, or the reverse
                step = split_merge._Step(state, sample, 2)
                step._accepts = partial(recorded, ratios)
                step.make([move])
                if len(ratios) == 1:
                    after = state.labels
            whole, divided = (before, after) if len(set(after)) > len(set(before)) else (after, before)
            reference = Reference(model, X, divided, state.seed, state.n_steps)
            members = members_of(divided, sample.numbers[[move.first, move.second]])
            _, log_q = reference.divided(move, sample.numbers, *members)
            expected = reference.log_joint(divided) - reference.log_joint(whole) - log_q
            if divided is after:  # the merge has brought the first labels back
                assert canonical(state.labels) == canonical(before)
                gaps.extend([abs(ratios[0] - expected), abs(ratios[1] + expected)])
            else:
                gaps.append(abs(ratios[0] + expected))
            laws.add((move.law, divided is after))
    assert laws == {(law, is_split) for law in ("frozen", "pass", "urn") for is_split in (False, True)}
    return max(gaps)


def members_of(labels, anchors):
    """Rows of the clusters of two anchors, and the side of each row."""
    a, b = labels[anchors]
    return np.flatnonzero((labels == a) | (labels == b)), (labels == b).astype(int)


@pytest.mark.parametrize("weights", [DirichletProcess(0.7), SymmetricDirichlet(9, alpha=0.4)])
def test_ratios_are_those_of_the_definitions(weights, often):
    assert largest_gap(weights) < 1e-8


@pytest.mark.parametrize("name", WRONG)
def test_wrong_moves_are_found_out(name, often, monkeypatch):
    monkeypatch.setattr(*WRONG[name])
    assert largest_gap(DirichletProcess(0.7)) > 0.1


def test_rows_draw_the_sides_that_their_log_odds_say():
    X = np.repeat([[0.0], [1.0]], 20_000, axis=0)
    data = Dataset(X, UnitNormal())
    odds, seen = np.array([-1.2, 0.7]), []
    for number in (0, 1):
        division = Division(
            *(np.array([0], dtype=np.int32), np.array([-1], dtype=np.int8)),
            *(np.array([[odds[1] - odds[0]]]), odds[:1], np.array([3, 9]), np.array([0, 1], dtype=np.int8)),
            *(np.array([number]), 40_000, 5, 2),
        )
        labels = np.zeros(40_000, dtype=np.int32)
        seen.append(divided_labels(data, labels, division, np.zeros(1, dtype=np.int32), np.ones(1, dtype=np.int32)))
        sides = sides_of(data, labels, division, data.scale)
        assert sides.sums.n[0] == seen[-1].sum()
        p = 1.0 / (1.0 + np.exp(odds))
        is_one = seen[-1].reshape(2, -1)
        assert (abs(is_one.mean(axis=1) - p) < 5.0 * np.sqrt(p * (1.0 - p) / 20_000)).all()
        log_q = np.where(is_one == 1, np.log(p)[:, None], np.log1p(-p)[:, None])
        log_q[0, [3, 9]] = 0.0
        np.testing.assert_allclose(sides.log_q(), log_q.sum(), rtol=1e-13)
        assert seen[-1][[3, 9]].tolist() == [0, 1]
    own = [labels.reshape(2, -1) for labels in seen]
    assert max(abs(np.corrcoef(own[0][i], own[1][i])[0, 1]) for i in (0, 1)) < 0.04  # moves have their own numbers


# ---- bits ------------------------------------------------------------------------------------------------------------


def bits(state):
    """All numbers of a state."""
    S = state.S.toarray() if sparse.issparse(state.S) else state.S
    return state.labels.tobytes(), state.n.tobytes(), S.tobytes(), state.K, state.log_joint


@pytest.mark.parametrize("name", DATA)
def test_any_parts_and_one_machine_give_the_same_bits(name, monkeypatch):
    monkeypatch.setattr(split_merge, "_SAMPLED_ROWS", 200)
    family, X = DATA[name]
    family = family.bind(X)
    model, kernel = MixtureModel(family, DirichletProcess()), Cycle(FrozenSplitMerge(n_merges=24), SLICES)
    found, accepted = [], 0
    for data in (X, *(ShardedData(cut(X, bounds), family) for bounds in ([], *BOUNDS.values()))):
        state = kernel.init(model, data, seed=3, start="random", n_clusters=12)
        for _ in range(3):
            moves = kernel.step(state).extra["parts"][0]
            accepted += moves.accepted
        state.check()
        found.append(bits(state))
    assert all(other == found[0] for other in found)
    assert accepted > 0


def test_a_chain_goes_on_from_its_arrays():
    family = DiagonalGaussian().bind(REAL)
    model, kernel = MixtureModel(family, DirichletProcess()), Cycle(FrozenSplitMerge(), SLICES)
    state = kernel.init(model, REAL, seed=1, start="one")
    for _ in range(3):
        kernel.step(state)
    there = kernel.init(model, ShardedData(cut(REAL, [130]), family), seed=1, start="one")
    there.from_arrays(state.to_arrays())
    for _ in range(3):
        kernel.step(state)
        kernel.step(there)
    assert bits(state) == bits(there)


def test_the_number_of_clusters_does_not_depend_on_the_start():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4)) + 8.0 * rng.normal(size=(8, 4))[rng.integers(0, 8, 2000)]
    family = DiagonalGaussian().bind(X)
    model, kernel = MixtureModel(family, DirichletProcess()), Cycle(FrozenSplitMerge(), SLICES)
    for start, n_clusters in (("one", 1), ("kmeans++", 24)):
        found = []
        for each in (kernel, SLICES):
            state = each.init(model, X, seed=2, start=start, n_clusters=n_clusters)
            for _ in range(30):
                each.step(state)
            found.append(np.count_nonzero(state.n > 20))
        assert found[0] == 8
        assert found[1] != 8


# ---- refused ---------------------------------------------------------------------------------------------------------


class NoMeans(UnitNormal):
    """A family without expected parameters."""

    expected_natural = Family.expected_natural


def test_what_moves_cannot_do_is_refused_with_a_line_to_type():
    with pytest.raises(CapabilityError, match=r"FrozenSplitMerge needs expected_natural\(\)"):
        ALONE.init(MixtureModel(NoMeans(), WEIGHTS), REAL, seed=0)
    model = MixtureModel(Poisson(), WEIGHTS)
    closed = UncollapsedGibbs()
    with pytest.raises(CapabilityError, match=r"write UncollapsedGibbs\(sticks='slice'\) in the place"):
        chain(Cycle(closed, ALONE), Poisson(), np.array([[0], [1], [40]]), n_steps=1)
    data = Dataset([[0], [1], [40]], Poisson())
    state = UncollapsedState(model.bind(data), data, [0, 1, 1], n_clusters=9, seed=0)
    with pytest.raises(CapabilityError, match=r"write Cycle\(FrozenSplitMerge\(\), UncollapsedGibbs\(sticks='slice'\)"):
        ALONE.step(state)


def test_a_single_row_has_no_moves():
    seen, state = chain(ALONE, Poisson(), np.array([[3]]), n_steps=2)
    assert seen == [(0,), (0,)]
    assert state.n_clusters == 1
