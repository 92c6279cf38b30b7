"""Models and checkpoints that an earlier version of expfam wrote, and what they led to then.

`python tests/support/saved_before.py` writes them anew, to the folder of that name beside it. Do so only when a change
of the format or of the chains is meant, and say it in the CHANGELOG: the files are there to find changes that are not.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

import expfam as ef
from expfam.samplers import (
    Canopy,
    Checkpoint,
    CollapsedGibbs,
    Cycle,
    ExpectationMaximization,
    FastEx,
    GroupedGibbs,
    HierarchicalClustering,
    Memoized,
    SparseVariational,
    SplitMerge,
    TopicGibbs,
    TopicVariational,
    UncollapsedGibbs,
    UpdateHyper,
    sample,
)
from expfam.samplers.chain.callbacks import restore_checkpoint

FOLDER = Path(__file__).with_name("saved_before")
N_STEPS = 3


def real_rows():
    """Forty rows of two numbers in four places, (40, 2) float64."""
    rng = np.random.default_rng(1)
    return np.repeat([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0], [5.0, 5.0]], 10, axis=0) + rng.normal(size=(40, 2))


def count_rows():
    """Thirty documents over twelve words of three kinds, (30, 12) int64."""
    rng = np.random.default_rng(2)
    kinds = np.repeat(np.eye(3), 4, axis=1) + 0.05
    return np.vstack([rng.multinomial(20, kind / kind.sum(), size=10) for kind in kinds])


GROUPS = np.repeat(np.arange(8), 5)
ESTIMATORS = {
    "mixture": lambda: ef.Mixture(
        ef.DiagonalGaussian(), weights=ef.DirichletProcess(2.0), n_steps=10, random_state=0
    ).fit(real_rows()),
    "mixture_of_settings": lambda: ef.Mixture(
        ef.Poisson(),
        4,
        weights=ef.SymmetricDirichlet(4, alpha=0.5),
        sampler=CollapsedGibbs(order="random"),
        n_steps=10,
        random_state=0,
    ).fit(count_rows()),
    "topics": lambda: ef.TopicModel(
        3, sampler=TopicVariational(schedule=Memoized(2), local="dense"), n_steps=5, random_state=0
    ).fit(count_rows()),
    "grouped": lambda: ef.GroupedMixture(ef.DiagonalGaussian(), 4, n_steps=5, random_state=0).fit(
        real_rows(), groups=GROUPS
    ),
    "hierarchy": lambda: ef.BayesianHierarchy(ef.DiagonalGaussian()).fit(real_rows()),
}
LOADERS = {
    "mixture": ef.Mixture,
    "topics": ef.TopicModel,
    "grouped": ef.GroupedMixture,
    "hierarchy": ef.BayesianHierarchy,
}


def _mixture_of(family, weights):
    return lambda: (ef.MixtureModel(family, weights), real_rows() if family.support == "real" else count_rows())


def _grouped(model):
    data = ef.Dataset(real_rows(), model.family, groups=GROUPS)
    return model.with_family(data.family), data


_REAL = _mixture_of(ef.DiagonalGaussian(), ef.DirichletProcess(1.0))
_COUNTS = _mixture_of(ef.Multinomial(), ef.PitmanYor(1.0, 0.3))
_FINITE = _mixture_of(ef.DiagonalGaussian(), ef.SymmetricDirichlet(5, alpha=0.5))
RUNS = {
    "gibbs": (CollapsedGibbs(), _REAL),
    "fastex": (FastEx(), _COUNTS),
    "split_merge": (SplitMerge(), _REAL),
    "uncollapsed": (UncollapsedGibbs(), _FINITE),
    "canopy": (Canopy(), _FINITE),
    "em": (ExpectationMaximization(), _FINITE),
    "variational": (SparseVariational(), _FINITE),
    "cycle": (Cycle(CollapsedGibbs(), UpdateHyper()), _COUNTS),
    "hierarchy": (HierarchicalClustering(), _REAL),
    "topic_gibbs": (TopicGibbs(), lambda: (ef.AdmixtureModel(ef.Multinomial(), 3, alpha=0.5), count_rows())),
    "topic_variational": (
        TopicVariational(),
        lambda: (ef.AdmixtureModel(ef.Multinomial(), 3, alpha=0.5), count_rows()),
    ),
    "grouped_gibbs": (GroupedGibbs(), lambda: _grouped(ef.AdmixtureModel(ef.DiagonalGaussian(), 4, alpha=0.5))),
}


def begin(name):
    """Kernel of a run and its first state."""
    kernel, make = RUNS[name]
    model, X = make()
    return kernel, kernel.init(model, X, seed=3)


def end_of(kernel, state):
    """What a run comes to in a few more steps: objective and labels."""
    trace = sample(kernel, state, N_STEPS)
    return {"objective": np.array(trace.column("objective")[-1]), "labels": np.asarray(state.labels)}


def results_of(name, estimator):
    """What a loaded estimator says of the rows it was fitted to."""
    rows = count_rows() if name in ("mixture_of_settings", "topics") else real_rows()
    if name == "topics":
        return {"transformed": estimator.transform(rows)}
    if name == "grouped":
        return {"labels": estimator.predict(rows, groups=GROUPS)}
    return {"labels": estimator.predict(rows)}


def load(name):
    """Estimator from its file."""
    return LOADERS[name.partition("_of_")[0]].load(FOLDER / name)


def restored(name):
    """Kernel and state of a run from its checkpoint."""
    kernel, state = begin(name)
    restore_checkpoint(FOLDER / f"run_{name}", state)
    return kernel, state


def write():
    """All files anew."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir()
    for name, fit in ESTIMATORS.items():
        fit().save(FOLDER / name)
        np.savez(FOLDER / f"{name}.npz", **results_of(name, load(name)))
    for name in RUNS:
        kernel, state = begin(name)
        sample(kernel, state, N_STEPS)
        Checkpoint(FOLDER / f"run_{name}").write(state)
        np.savez(FOLDER / f"run_{name}.npz", **end_of(kernel, state))


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if Path(entry or ".").resolve() != Path(__file__).resolve().parents[2]]
    write()
