"""Rows of `answer.py search`: a default fit of one shape, beside simple partitions and beside other tools."""

import sys
import traceback
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

sys.path.append(str(Path(__file__).resolve().parent))
sys.path.append(str(Path(__file__).resolve().parents[2] / "tests" / "support"))  # the simple partitions stand there

from answer_rivals import ari, kmeans_of, mixture_of
from answer_shapes import family_of, shapes
from dominance import WatchedMixture, dataset_of, judge, tolerance
from grouped_dominance import judge_groups

from expfam import Dataset, GroupedMixture, Mixture

CHUNKS = 4
ROWS_OF_A_GROUP = 50


class Row(NamedTuple):
    """One line of the table: a shape, a family, and whether the number of clusters is given."""

    shape: str
    family: str
    is_given: bool
    n_seeds: int

    def __str__(self):
        return f"{self.shape} {self.family} {'K given' if self.is_given else 'K open'}"


def rows_of(chosen, n_seeds):
    """Lines for the chosen shapes."""
    for shape in chosen:
        seeds = n_seeds if shape.seeds is None else min(n_seeds, shape.seeds)
        for family in shape.families:
            # a mixture of rows in groups has no open number of clusters
            for is_given in (True,) if shape.way == "groups" else (False, True):
                yield Row(shape.name, family, is_given, seeds)


def lines(rows, jobs):
    """A line of the table for each row, in order, as they come; several processes at a time for `jobs` above 1."""
    if jobs == 1:
        yield from map(line_of, rows)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(line_of, rows)


def line_of(row):
    """The line of a row; a call that raises is told and fails."""
    shape = next(shape for shape in shapes() if shape.name == row.shape)
    figures, error = [], ""
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            figures = [measured(shape, row, seed) for seed in range(row.n_seeds)]
        except Exception as raised:
            traceback.print_exc()
            error = type(raised).__name__
    return summed_up(row, shape, figures, error)


def measured(shape, row, seed):
    """Figures of one fit."""
    X, truth = shape.make(seed)
    K = shape.given if row.is_given else None
    begin = process_time()
    mixture = FITS[shape.way](family_of(row.family), K, X, seed)
    seconds = process_time() - begin
    if shape.way == "groups":
        judgement, data = judge_groups(mixture, X, groups_of(X), truth=truth, seed=seed), Dataset(X, mixture.family_)
    else:
        judgement, data = judge(mixture, X, truth=truth, seed=seed), dataset_of(mixture, X)
    labels = mixture.predict(X) if shape.way == "chunks" else mixture.labels_
    found = {"below": judgement.below, "own": judgement.own, "best": judgement.best, "s": seconds}
    found |= {"ARI": ari(truth, labels), "clusters": len(np.unique(labels))}
    found |= {"done": getattr(mixture, "converged_", None)}
    found |= kmeans_of(data, truth, K or len(np.unique(truth)), seed)
    return found | mixture_of(row.family, X, truth, K, seed)


def default_fit(family, K, X, seed):
    return WatchedMixture(family, K, random_state=seed).fit(X)


def fit_of_chunks(family, K, X, seed):
    mixture = Mixture(family, K, sampler="variational", random_state=seed)
    for chunk in np.array_split(X, CHUNKS):
        mixture.partial_fit(chunk)
    return mixture


def fit_of_groups(family, K, X, seed):
    return GroupedMixture(family, K, random_state=seed).fit(X, groups=groups_of(X))


def groups_of(X):
    return np.arange(len(X)) // ROWS_OF_A_GROUP


FITS = {"fit": default_fit, "chunks": fit_of_chunks, "groups": fit_of_groups}


def summed_up(row, shape, figures, error=""):
    """Line of the table over the figures of all seeds."""
    cells = {"row": str(row)}
    if error or not figures:
        return cells | dict.fromkeys(COLUMNS, "-") | {"reached": "NO", "of": error or "no seed"}
    worst = max(figures, key=lambda found: np.nan_to_num(found["below"], nan=np.inf))
    is_reached = worst["below"] <= tolerance(shape.n_rows)
    cells |= {"below": worst["below"], "own": highest(figures, "own")}
    cells |= {"clusters": " ".join(str(found["clusters"]) for found in figures)}
    cells |= {"ARI": mean(figures, "ARI"), "s": median(figures, "s")}
    done = [found["done"] for found in figures]
    cells |= {"converged": "-" if None in done else f"{sum(done)}/{len(done)}"}
    for tool in ("km", "GMM"):
        cells |= {f"{tool} ARI": mean(figures, f"{tool} ARI"), f"{tool} s": median(figures, f"{tool} s")}
    return cells | {"reached": "yes" if is_reached else "NO", "of": worst["best"]}


COLUMNS = ("below", "own", "clusters", "ARI", "s", "converged", "km ARI", "km s", "GMM ARI", "GMM s")


def highest(figures, name):
    """Largest of all seeds, "-" where there is none."""
    values = [found[name] for found in figures]
    return "-" if np.isnan(values).any() else max(values)


def mean(figures, name):
    """Mean over seeds, "-" where a tool does not apply."""
    values = [found[name] for found in figures]
    return "-" if None in values else float(np.mean(values))


def median(figures, name):
    values = [found[name] for found in figures]
    return "-" if None in values else float(np.median(values))
