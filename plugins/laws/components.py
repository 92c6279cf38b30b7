"""Laws of components, tried through the C struct of compiled owners and of the generic one.

The reference holds memberships as whole numbers and computes (n, S) from them, so it never drifts. Log probabilities
come from the family's own `log_marginal`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ExpFamError
from expfam.families.components import Components
from expfam.model.data import Dataset
from expfam.plugins.laws import families  # noqa: F401  (its laws come first in reports)
from expfam.plugins.laws.data_case import Inapplicable, agree, changed, law

if TYPE_CHECKING:
    from expfam.plugins.laws.data_case import Case

_SLOTS = 6
_OPERATIONS = 2000
_LAYOUTS = ("features", "clusters")


class _Reference:
    """Clusters as a matrix of memberships, with the operations of components."""

    def __init__(self, family, phi, capacity):
        self.family, self.phi = family, phi
        self.W = np.zeros((capacity, phi.shape[0]), dtype=np.int64)

    def members(self, k):
        return np.flatnonzero(self.W[k])

    def evidence(self, W):
        W = np.atleast_2d(W)
        n = W.sum(axis=1).astype(np.float64)
        return np.where(n > 0, self.family.log_marginal(n, (W @ self.phi).astype(np.float64)), 0.0)


class _Pair:
    """Components and their reference, changed in parallel and compared."""

    def __init__(self, case, layout, *, X=None, capacity=_SLOTS):
        self.case, self.layout = case, layout
        self.data = Dataset(case.X if X is None else X, case.family)
        self.components = Components(case.family, self.data, capacity, layout=layout)
        self.reference = _Reference(case.family, case.phi, capacity)

    def fresh(self, capacity=1):
        return Components(self.case.family, self.data, capacity, layout=self.layout)

    # ---- changing

    def change(self, operation, *arguments):
        getattr(self.components, operation)(*arguments)
        W = self.reference.W
        k, last = arguments[0], arguments[-1]
        if operation == "add":
            W[last, k] += 1
        elif operation == "remove":
            W[last, k] -= 1
        elif operation == "absorb":
            W[k] += W[last]
            W[last] = 0
        elif operation == "subtract":
            W[k] -= W[last]
        elif operation == "clear":
            W[k] = 0
        elif operation == "swap":
            W[[k, last]] = W[[last, k]]

    def wander(self, rng, operations, *, each=None, every=100):
        """Apply random operations; call `each` after every `every` of them."""
        N, K = self.data.n_rows, self.reference.W.shape[0]
        done = 0
        while done < operations:
            before = done
            k, l = rng.choice(K, size=2, replace=False)
            kind = rng.random()
            held = self.reference.members(k)
            if kind < 0.50:
                self.change("add", int(rng.integers(N)), k)
            elif kind < 0.88 and held.size:
                self.change("remove", int(rng.choice(held)), k)
            elif kind < 0.91:
                self.change("absorb", k, l)
            elif kind < 0.95 and held.size > 1:
                done += self.split(rng, k, l)
            elif kind < 0.96:
                self.change("clear", k)
            else:
                self.change("swap", k, l)
            done += 1
            if each and before // every != done // every:
                each()

    def split(self, rng, k, l):
        """Move part of cluster k to the emptied slot l, as split moves do."""
        part = self.reference.members(k)
        part = part[rng.random(part.size) < 0.5]
        self.components.set_members(part, l)
        W = self.reference.W
        W[l] = 0
        W[l, part] = 1
        rest = self.reference.evidence(W[k] - W[l])[0]
        agree(self.components.log_remainder(k, l), rest, "log_remainder", rel=1e-9, abs=1e-9)
        self.change("subtract", k, l)
        return part.size + 1

    def fill(self, rng, operations=60):
        """Make some clusters by random operations and return self."""
        self.wander(rng, operations)
        for i in rng.integers(self.data.n_rows, size=8):
            self.change("add", int(i), 0)
        return self

    # ---- comparing

    def compare(self, rng, what="", *, tolerance=1e-9):
        """Compare every reading function with NumPy, which computes all that is expected at once."""
        components, K = self.components, self.reference.W.shape[0]
        close = {"rel": tolerance, "abs": tolerance}
        everything, some = np.arange(K), rng.permutation(K)[:3]
        rows = rng.integers(self.data.n_rows, size=3).tolist()
        held = [(k, int(rng.choice(members))) for k in range(K) if (members := self.reference.members(k)).size]
        k, others = int(some[0]), everything[everything != some[0]]
        A, left, joined, *after = self._expected(rows, held, k)
        agree(components.log_marginal()[:K], A, f"log_marginal{what}", **close)
        agree(components.log_marginal(some), A[some], f"log_marginal of some slots{what}", **close)
        for i, with_it in zip(rows, after):
            expected = with_it - A
            agree(components.log_predictive(i)[:K], expected, f"log_predictive{what}", **close)
            agree(components.log_predictive(i, some), expected[some], f"log_predictive of some slots{what}", **close)
        for (slot, i), rest in zip(held, left):
            agree(components.log_predictive_self(i, slot), A[slot] - rest, f"log_predictive_self{what}", **close)
        agree(components.log_merged(k, others), joined[others], f"log_merged{what}", **close)
        for slots in (others, others[:2]):
            found = components.log_joint_predictive(k, slots)
            agree(found, (joined - A)[slots], f"log_joint_predictive{what}", **close)
        n, S = components.export()
        agree(n[:K], self.reference.W.sum(axis=1), f"exported n{what}")
        S = S.toarray() if sparse.issparse(S) else S
        agree(
            S[:K],
            self.reference.W @ self.case.phi,
            f"exported S{what}",
            rel=1e-9,
            abs=1e-9 * (1 + np.abs(self.case.phi).max()),
        )

    def _expected(self, rows, held, k):
        """Return evidences of slots, of slots without a row, of unions with slot k, with each row."""
        W = self.reference.W
        slots = [slot for slot, _ in held]
        left, after = W[slots], np.repeat(W[None], len(rows), axis=0)
        left[np.arange(len(held)), [i for _, i in held]] -= 1
        after[np.arange(len(rows)), :, rows] += 1
        parts = [W, left, W + W[k], *after]
        ends = np.cumsum([len(part) for part in parts])[:-1]
        return np.split(self.reference.evidence(np.concatenate(parts)), ends)


def _each_layout(case):
    for layout in _LAYOUTS:
        yield f", layout {layout!r}", _Pair(case, layout)


@law()
def components_are_numpy(case: Case) -> None:
    """Components equal NumPy during 2000 random changes; emptied slots are exactly empty."""
    for what, pair in _each_layout(case):
        rng = case.rng("components" + what)
        pair.compare(rng, " of empty slots" + what)
        pair.wander(rng, _OPERATIONS // 2, each=lambda p=pair, r=rng, w=what: p.compare(r, w))
        _drain(pair, rng, what)


def _drain(pair, rng, what):
    components, reference, K = pair.components, pair.reference, pair.reference.W.shape[0]
    for k in range(K):
        members = np.repeat(np.arange(reference.W.shape[1]), reference.W[k])
        for i in rng.permutation(members):
            pair.change("remove", int(i), k)
    n, S = components.export()
    S = S.toarray() if sparse.issparse(S) else S
    assert (n == 0).all(), f"n is not exactly 0 in drained slots{what}"
    assert (S == 0).all(), f"S is not exactly 0 in drained slots{what}: {np.abs(S).max():.3g} is left"
    fresh = pair.fresh(K)
    assert np.array_equal(components.log_marginal()[:K], fresh.log_marginal()[:K]), f"drained A differs from 0{what}"
    for i in range(min(5, pair.data.n_rows)):
        assert np.array_equal(components.log_predictive(i)[:K], fresh.log_predictive(i)[:K]), (
            f"the predictive of drained slots is not the prior's, bit for bit{what}"
        )


@law()
def components_read_every_kind_of_data(case: Case) -> None:
    """Components read float32, float64, dense and CSR data of all types as NumPy does."""
    X = case.X.toarray() if sparse.issparse(case.X) else np.asarray(case.X)
    forms = {"float64": X}
    if np.array_equal(X, X.astype(np.float32)):
        forms["float32"] = X.astype(np.float32)
    _read_forms(case, forms)
    if case.family.accepts_sparse:
        _read_forms(case.sparse(), _sparse_forms(X))


def _sparse_forms(X):
    csr = sparse.csr_array(X)
    kinds = [kind for kind in (np.float64, np.float32, np.int64, np.int32) if np.array_equal(X, X.astype(kind))]
    forms = {f"CSR of {np.dtype(kind).name}": csr.astype(kind) for kind in kinds}
    wide = csr.copy()
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return {**forms, "CSR with int64 indices": wide}


def _read_forms(case, forms):
    for layout in _LAYOUTS:
        for name, form in forms.items():
            rng = case.rng(f"kind {name}")
            pair = _Pair(case, layout, X=form).fill(rng)
            pair.compare(rng, f" over {name}, layout {layout!r}")


@law()
def components_keep_to_their_work_buffer(case: Case) -> None:
    """No reading function writes behind the work_size doubles that it asked for."""
    for what, pair in _each_layout(case):
        rng = case.rng("work" + what)
        pair.fill(rng)
        sentinels = pair.components.watch_work()
        pair.compare(rng, what)
        assert np.isnan(sentinels).all(), f"a function writes behind its work buffer{what}"


@law()
def refused_calls_change_nothing(case: Case) -> None:
    """Calls on an empty slot, or with one slot twice, are refused and change nothing."""
    for what, pair in _each_layout(case):
        rng = case.rng("refused" + what)
        components = pair.fill(rng).components
        pair.change("clear", 1)
        before = components.to_arrays()
        calls = {
            "remove from an empty slot": (components.remove, 0, 1),
            "log_predictive_self in an empty slot": (components.log_predictive_self, 0, 1),
            "subtract more than there is": (components.subtract, 1, 0),
            "log_remainder of more than there is": (components.log_remainder, 1, 0),
            "absorb a slot into itself": (components.absorb, 0, 0),
            "subtract a slot from itself": (components.subtract, 0, 0),
        }
        for name, (function, *arguments) in calls.items():
            try:
                function(*arguments)
            except ExpFamError as error:
                assert case.family.name in str(error), f"the error does not name the family: {error}"
            else:
                raise AssertionError(f"{name} was not refused{what}")
            _same_arrays(components.to_arrays(), before, f"{name} changed something{what}")
        pair.compare(rng, " after refused calls" + what)


def _same_arrays(found, expected, what):
    assert set(found) == set(expected), f"{what}: {sorted(set(found) ^ set(expected))}"
    for name, array in expected.items():
        assert np.array_equal(np.asarray(found[name]), np.asarray(array), equal_nan=True), f"{what}: {name}"


@law()
def components_restore_bit_for_bit(case: Case) -> None:
    """Components restored from to_arrays give the same bits in 500 later calls."""
    for what, pair in _each_layout(case):
        rng = case.rng("restore" + what)
        pair.wander(rng, 300)
        arrays = {name: np.array(array) for name, array in pair.components.to_arrays().items()}
        assert all(array.dtype != object for array in arrays.values()), f"to_arrays holds objects{what}"
        original, twin = pair.components, pair.fresh()
        twin.from_arrays(arrays)
        assert twin.capacity >= pair.reference.W.shape[0], f"capacity {twin.capacity} after from_arrays{what}"
        for seed, components in ((1, original), (1, twin)):
            trail = _trail(components, pair, np.random.default_rng(seed))
            if components is original:
                expected = trail
        assert np.array_equal(trail, expected), f"restored components give other bits{what}"


def _trail(components, pair, rng):
    """Return the results of 500 calls, which are the same calls for the same generator."""
    K, N = pair.reference.W.shape
    W, out = pair.reference.W.copy(), []
    for _ in range(125):
        k, l = (int(x) for x in rng.choice(K, size=2, replace=False))
        i = int(rng.integers(N))
        held = np.flatnonzero(W[k])
        if rng.random() < 0.4 and held.size:
            j = int(rng.choice(held))
            out.append(components.log_predictive_self(j, k))
            components.remove(j, k)
            W[k, j] -= 1
        elif rng.random() < 0.1:
            components.swap(k, l)
            W[[k, l]] = W[[l, k]]
        else:
            components.add(i, k)
            W[k, i] += 1
        out.extend(components.log_predictive(i)[:K])
        out.extend(components.log_marginal()[:K])
        out.extend(components.log_merged(k, [l]))
    return np.array(out)


@law()
def components_grow_and_reload(case: Case) -> None:
    """reserve keeps the clusters; load after export, and refresh, give the same clusters."""
    for what, pair in _each_layout(case):
        rng = case.rng("grow" + what)
        components, K = pair.fill(rng).components, pair.reference.W.shape[0]
        kept = components.log_marginal()[:K]
        components.reserve(2 * K + 1)
        assert components.capacity >= 2 * K + 1, (
            f"reserve({2 * K + 1}) gave {counted(components.capacity, 'slot')}{what}"
        )
        assert np.array_equal(components.log_marginal()[:K], kept), f"reserve changed A{what}"
        assert (components.log_marginal()[K:] == 0).all(), f"new slots are not empty{what}"
        components.add(0, 2 * K)
        components.clear(2 * K)
        pair.compare(rng, " after reserve" + what)
        n, S = components.export()
        pair.components = pair.fresh(2 * K + 1)
        pair.components.load(n, S)
        pair.compare(rng, " after load" + what)
        other = sparse.csr_array(S) if not sparse.issparse(S) else S.toarray()
        pair.components.load(n[:K], other[:K])
        pair.compare(rng, " after load of S in another format" + what)
        labels = rng.integers(-1, K, size=pair.data.n_rows).astype(np.int32)
        pair.components.refresh(labels)
        pair.reference.W[:] = labels == np.arange(K)[:, None]
        pair.compare(rng, " after refresh" + what)


@law()
def components_follow_hyper_parameters(case: Case) -> None:
    """rebind keeps the statistics and scores with the new hyper-parameters."""
    if not case.family.hyper:
        raise Inapplicable(f"{case.family.name} declares no hyper-parameter to change")
    for what, pair in _each_layout(case):
        rng = case.rng("rebind" + what)
        pair.fill(rng)
        for name in case.family.hyper:
            other = case.family.with_hyper(**{name: changed(case.family, name, 1.5)})
            pair.components.rebind(other)
            pair.reference.family = other
            pair.compare(rng, f" after rebinding {name}{what}")
            pair.change("add", 0, 2)
            pair.compare(rng, f" after rebinding {name} and a change{what}")


@law()
def components_read_other_data(case: Case) -> None:
    """set_data keeps the statistics and scores the rows of other data."""
    for what, pair in _each_layout(case):
        if not pair.components.can_set_data:
            raise Inapplicable(f"components of {case.family.name} have no set_data")
        rng = case.rng("other data" + what)
        components, K, N = pair.fill(rng).components, pair.reference.W.shape[0], pair.data.n_rows
        before = components.log_predictive_block(0, N, K)
        for rows in (np.arange(N)[::-1], np.arange(N // 2 + 1)):
            components.set_data(Dataset(pair.data.X[rows], case.family))
            found = components.log_predictive_block(0, len(rows), K)
            assert np.array_equal(found, before[rows]), f"rows read by set_data have other predictives{what}"
        components.set_data(pair.data)
        pair.change("add", 0, 2)
        pair.compare(rng, f" after reading other data and a change{what}")


@law()
def growth_bounds_densities(case: Case) -> None:
    """After a merge, no datum has a log density above the growth line of its cluster."""
    for what, pair in _each_layout(case):
        if getattr(pair.components.owner, "growth", None) is None:
            raise Inapplicable(f"components of {case.family.name} have no bounds of growth")
        components, rows = pair.fill(case.rng("growth" + what)).components, range(pair.data.n_rows)
        for l in np.flatnonzero(pair.reference.W.any(axis=1))[1:]:
            before = np.array([components.log_predictive(i, [0])[0] for i in rows])
            lines = [components.growth_line(0, int(l), depth) for depth in np.quantile(before, [0.0, 0.5, 1.0])]
            pair.change("absorb", 0, int(l))
            after = np.array([components.log_predictive(i, [0])[0] for i in rows])
            for slope, level in lines:
                assert 0 <= slope < 1, f"slope {slope} of a line of growth{what}"
                above = after - ((1 - slope) * before + level)
                worst = int(above.argmax())
                assert above[worst] <= 1e-9 * (1 + abs(after[worst])), (
                    f"slot 0 took in slot {l}: datum {worst} lies {above[worst]:.3g} nats above the line{what}"
                )


@law()
def components_read_in_blocks_and_threads(case: Case) -> None:
    """Blocks of predictives, also in two threads, equal single calls bit for bit."""
    from concurrent.futures import ThreadPoolExecutor

    for what, pair in _each_layout(case):
        components, K, N = pair.fill(case.rng("blocks" + what)).components, pair.reference.W.shape[0], pair.data.n_rows
        single = np.stack([components.log_predictive(i)[:K] for i in range(N)])
        bounds = [(0, N // 2), (N // 2, N)]
        with ThreadPoolExecutor(1 if components.needs_gil else 2) as pool:
            futures = [pool.submit(components.log_predictive_block, start, stop, K) for start, stop in bounds]
            blocks = [future.result() for future in futures]
        assert np.array_equal(np.concatenate(blocks), single), f"blocks of predictives differ from single calls{what}"
