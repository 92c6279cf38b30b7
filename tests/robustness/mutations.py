"""Arrays of checkpoints and saved models, altered in one place: what `test_mutations.py` reads back.

`python mutations.py FIRST STOP CASE...` reads the mutants of these cases in this process and prints a line for each,
before and after: a child that dies or hangs has named the mutant.
"""

import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from killed_runs import RUNS, started
from scipy import sparse

import expfam as ef
from expfam.archive import read_archive, write_archive
from expfam.errors import ArchiveError, ExpFamError
from expfam.samplers import (
    CollapsedGibbs,
    CollapsedMetropolis,
    GroupedGibbs,
    GroupedVariational,
    HierarchicalClustering,
    Memoized,
    SparseVariational,
    Stochastic,
    TableProposal,
    TopicGibbs,
    TopicVariational,
    UncollapsedGibbs,
    UncollapsedMetropolis,
)
from expfam.samplers.chain.callbacks import Checkpoint, restore_checkpoint
from expfam.samplers.chain.trace import Trace

N = 60
_rng = np.random.default_rng(0)
COUNTS = _rng.poisson(_rng.gamma(1.0, 3.0, size=(4, 6))[_rng.integers(4, size=N)]) + 1
REAL = _rng.normal(size=(N, 3)) + 4.0 * _rng.normal(size=(4, 3))[_rng.integers(4, size=N)]
CODES = _rng.integers(0, 3, (N, 4))
GROUPS = np.arange(N) % 5
N_STEPS = 3

# ---- what is altered -------------------------------------------------------------------------------------------------

EXTREMES = [-1, -(2**31), 2**31 - 1, 2**62, -(2**62), 1_000_000, 7]
FLOATS = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e300, -1e300, 1e-300]


def places(arrays, at=()):
    """Keys of all arrays, in nested dicts."""
    for name, value in arrays.items():
        if isinstance(value, dict):
            yield (*at, name)
            yield from places(value, (*at, name))
        else:
            yield (*at, name)


def at_place(arrays, place):
    for name in place:
        arrays = arrays[name]
    return arrays


def with_value(arrays, place, value):
    """A copy of the nested dicts with another value at a place; None deletes it."""
    copy, (name, *rest) = dict(arrays), place
    if rest:
        copy[name] = with_value(arrays[name], rest, value)
    elif value is None:
        del copy[name]
    else:
        copy[name] = value
    return copy


def altered(value, other, rng):
    """One alteration of an array; None where it is left out."""
    ways = [one_number, all_numbers, one_number, one_number, wrong_shape, truncated, wrong_type, permuted]
    ways += [lambda value, rng: None, lambda value, rng: other]
    way = ways[rng.integers(len(ways))]
    if isinstance(value, dict) or (value.dtype.kind not in "biuf" and way in ways[:8]):
        return [None, other][rng.integers(2)]
    if sparse.issparse(value) and way in ways[:8]:
        return altered_csr(value, rng)
    return way(value, rng)


def altered_csr(value, rng):
    copy = sparse.csr_array(value, copy=True)
    way = rng.integers(3)
    if way == 0 and copy.nnz:
        copy.data = one_number(copy.data, rng)
        return copy
    return copy[:-1] if way == 1 else sparse.csr_array(copy.toarray()[:, :-1])


def extreme(value, rng):
    if value.dtype.kind == "f":
        return FLOATS[rng.integers(len(FLOATS))]
    info = np.iinfo(value.dtype if value.dtype.kind in "iu" else np.int8)
    near = [value.size, value.size + 1, int(value.max(initial=0)) + 1, int(value.max(initial=0)) + rng.integers(9)]
    picked = [*EXTREMES, *near][rng.integers(len(EXTREMES) + len(near))]
    return min(max(int(picked), info.min), info.max)


def one_number(value, rng):
    copy = np.array(value)
    if copy.size:
        copy[np.unravel_index(rng.integers(copy.size), copy.shape)] = extreme(copy, rng)
    return copy


def all_numbers(value, rng):
    return np.full(np.shape(value), extreme(np.asarray(value), rng), dtype=np.asarray(value).dtype)


def wrong_shape(value, rng):
    ways = [
        value[None],
        value.ravel(),
        np.concatenate([value.ravel(), value.ravel()[:1]]),
        value.reshape(-1, 1),
        value.T,
    ]
    return ways[rng.integers(len(ways))]


def truncated(value, rng):
    value = np.asarray(value)
    if not value.ndim:
        return np.zeros(0, dtype=value.dtype)
    return value[: rng.integers(len(value) + 1)] if rng.random() < 0.7 else np.repeat(value, 2, axis=0)


def wrong_type(value, rng):
    types = ["<f8", "<f4", "<i8", "<i4", "<u8", "|i1", "|b1", "<U3"]
    with np.errstate(all="ignore"):
        return np.asarray(value).astype(types[rng.integers(len(types))])


def permuted(value, rng):
    copy = np.array(value)
    return rng.permutation(copy.ravel()).reshape(copy.shape)


def mutant(arrays, seed):
    """Arrays with one or two places altered, and what was altered."""
    rng = np.random.default_rng(seed)
    told = []
    for _ in range(1 + (rng.random() < 0.2)):
        found = list(places(arrays))
        place, other = found[rng.integers(len(found))], found[rng.integers(len(found))]
        value = altered(at_place(arrays, place), at_place(arrays, other), rng)
        told.append("/".join(place))
        arrays = with_value(arrays, place, value)
        if not arrays:
            break
    return arrays, told


# ---- cases -----------------------------------------------------------------------------------------------------------

FINITE = ef.SymmetricDirichlet(6)
KERNELS = {
    "categorical": (CollapsedGibbs(), ef.Categorical(), ef.PitmanYor(), CODES),
    "gaussian": (CollapsedGibbs(), ef.Gaussian(), FINITE, REAL),
    "sparse_multinomial": (CollapsedGibbs(), ef.Multinomial(), FINITE, sparse.csr_array(COUNTS)),
    "tree": (UncollapsedGibbs(draw="tree"), ef.Gaussian(), FINITE, REAL),
    "rejection": (UncollapsedGibbs(draw="rejection"), ef.Multinomial(), FINITE, sparse.csr_array(COUNTS)),
    "table": (CollapsedMetropolis(TableProposal()), ef.Poisson(), ef.PitmanYor(), COUNTS),
    "frozen": (CollapsedMetropolis(TableProposal(), mode="frozen"), ef.Poisson(), FINITE, COUNTS),
    "prototype": (UncollapsedMetropolis(refresh="never"), ef.Gaussian(), FINITE, REAL),
    "prototype_counts": (UncollapsedMetropolis(refresh=3), ef.Poisson(), FINITE, COUNTS),
    "narrow": (SparseVariational(2, n_candidates=3), ef.Poisson(), FINITE, COUNTS),
    "hierarchy_counts": (HierarchicalClustering(n_merges=9), ef.Multinomial(), ef.PitmanYor(discount=0.0), COUNTS),
    "hierarchy_graph": (
        HierarchicalClustering(n_merges=9, candidates="knn", n_neighbors=3),
        ef.Gaussian(),
        ef.PitmanYor(discount=0.0),
        REAL,
    ),
}
ADMIXTURES = {
    "topics_gibbs": (TopicGibbs(), ef.Multinomial(0.1), {}),
    "topics_memoized": (TopicVariational(schedule=Memoized(3), local="dense"), ef.Multinomial(0.1), {}),
    "topics_sparse": (TopicVariational(schedule=Memoized(3), n_active=2), ef.Multinomial(0.1), {}),
    "topics_stochastic": (TopicVariational(schedule=Stochastic(20)), ef.Multinomial(0.1), {}),
    "grouped_gibbs": (GroupedGibbs(), ef.Poisson(), {"groups": GROUPS}),
    "grouped_variational": (GroupedVariational(), ef.Poisson(), {"groups": GROUPS}),
    "grouped_memoized": (GroupedVariational(schedule=Memoized(2)), ef.Poisson(), {"groups": GROUPS}),
}


def fitted(name):
    """An estimator with all that its file can hold."""
    chunks = [COUNTS[:30], COUNTS[30:]]
    if name == "mixture":
        return ef.Mixture("gaussian", 3, n_steps=2, random_state=0).fit(REAL)
    if name == "mixture_diagonal":
        return ef.Mixture("gaussian_diag", 3, n_steps=2, random_state=0).fit(REAL)
    if name == "mixture_spherical":
        return ef.Mixture("gaussian_spherical", 3, n_steps=2, random_state=0).fit(REAL)
    if name == "mixture_sparse":
        return ef.Mixture("multinomial", 3, n_steps=2, random_state=0).fit(sparse.csr_array(COUNTS))
    if name == "mixture_codes":
        return ef.Mixture("categorical", n_steps=2, random_state=0).fit(CODES)
    if name == "mixture_stream":
        kernel = SparseVariational(2, schedule=Memoized())
        model = ef.Mixture("poisson", 3, sampler=kernel, random_state=0).partial_fit(chunks[0], batch=0)
        return model.partial_fit(chunks[1], batch=1)
    if name == "topic_model":
        return ef.TopicModel(3, n_steps=3, random_state=0).fit(COUNTS)
    if name == "topic_stream":
        model = ef.TopicModel(
            3, sampler=TopicVariational(local="dense", schedule=Memoized()), random_state=0
        ).partial_fit(chunks[0], batch=0)
        return model.partial_fit(chunks[1], batch=1)
    if name == "grouped":
        return ef.GroupedMixture("poisson", 3, n_steps=2, n_warmup=1, random_state=0).fit(COUNTS, groups=GROUPS)
    if name == "grouped_stream":
        model = ef.GroupedMixture("poisson", 3, sampler=GroupedVariational(schedule=Memoized()), random_state=0)
        model.partial_fit(chunks[0], groups=GROUPS[:30], batch=0)
        return model.partial_fit(chunks[1], groups=GROUPS[30:], batch=1)
    return ef.BayesianHierarchy("gaussian_diag" if name == "bayesian_hierarchy" else "poisson").fit(
        REAL if name == "bayesian_hierarchy" else sparse.csr_array(COUNTS)
    )


ESTIMATORS = [
    *("mixture", "mixture_diagonal", "mixture_spherical", "mixture_sparse", "mixture_codes", "mixture_stream"),
    *("topic_model", "topic_stream", "grouped", "grouped_stream", "bayesian_hierarchy", "bayesian_hierarchy_counts"),
]
CASES = [*RUNS, *KERNELS, *ADMIXTURES, *ESTIMATORS]


def start(name):
    """Kernel and state at the start."""
    if name in RUNS:
        return RUNS[name][0], started(name)
    if name in KERNELS:
        kernel, family, weights, X = KERNELS[name]
        return kernel, kernel.init(ef.MixtureModel(family, weights), X, seed=3)
    kernel, family, groups = ADMIXTURES[name]
    data = ef.Dataset(COUNTS, family, **groups)
    return kernel, kernel.init(ef.AdmixtureModel(data.family, 3, alpha=0.5), data, seed=3)


class Run:
    """Checkpoints of one kernel."""

    def __init__(self, name, folder):
        self.kernel, state = start(name)
        self.path = Path(folder, "run")
        self.trace = Trace(keep_every=1)
        for _ in range(N_STEPS):
            info = self.kernel.step(state)
            self.trace.append(info, state)
        Checkpoint(self.path, trace=self.trace).write(state)
        self.name = name

    def use(self):
        kernel, state = start(self.name)
        trace = Trace()
        before = state.labels.copy()
        try:
            restore_checkpoint(self.path, state, trace=trace)
        except ArchiveError:
            assert np.array_equal(state.labels, before), "a refused checkpoint has changed the state"
            kernel.step(state)
            raise
        for _ in range(2):
            kernel.step(state)
        _ = getattr(state, "partition", None), state.labels, state.log_joint, len(trace)
        state.to_arrays()


class Saved:
    """The file of one estimator."""

    def __init__(self, name, folder):
        self.model = fitted(name)
        self.path = Path(folder, "model")
        self.model.save(self.path, **({"labels": True} if type(self.model) in (ef.Mixture, ef.GroupedMixture) else {}))
        self.X = REAL if self.model.n_features_in_ == 3 else CODES if name == "mixture_codes" else COUNTS
        self.grouped = {"groups": GROUPS} if isinstance(self.model, ef.GroupedMixture) else {}

    def use(self):
        model = type(self.model).load(self.path)
        for method in ("predict", "predict_proba", "score_samples", "transform", "linkage_matrix", "to_newick"):
            if hasattr(model, method):
                takes = () if method in ("linkage_matrix", "to_newick") else (self.X,)
                getattr(model, method)(*takes, **(self.grouped if takes else {}))
        if hasattr(model, "stream_"):
            model.partial_fit(self.X[:30], **({"groups": GROUPS[:30]} if self.grouped else {}), batch=0)
        if isinstance(model, ef.BayesianHierarchy):
            model.cut(n_clusters=3) if hasattr(model, "cut") and callable(model.cut) else None
        model.save(self.path.with_name("again"))


def judged(case, seed):
    """How the mutant of that seed ends: "refused", "taken" or the error that got out."""
    header, arrays = case.original
    changed, told = mutant(arrays, seed)
    write_archive(case.path, case.kind, header=header, arrays=changed)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            case.use()
    except ArchiveError:
        return "refused", told
    except (ExpFamError, FloatingPointError) as error:
        return f"later {type(error).__name__}: {error}", told
    except Exception as error:
        return f"error {type(error).__name__}: {error}", told
    return "taken", told


def opened(name, folder):
    case = Saved(name, folder) if name in ESTIMATORS else Run(name, folder)
    case.kind = json.loads((case.path / "header.json").read_text())["kind"]
    case.original = read_archive(case.path, case.kind)
    case.use()  # what is not altered is taken
    return case


def main(first, stop, *names):
    os.fsync = lambda descriptor: None  # nothing here outlives the machine
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            case = opened(name, folder)
            for seed in range(int(first), int(stop)):
                print(name, seed, end=" ", flush=True)
                print(json.dumps(judged(case, seed)), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
