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
            yield from (Row(shape.name, family, is_given, seeds) for is_given in (False, True))


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
    mixture = WatchedMixture(family_of(row.family), K, random_state=seed).fit(X)
    seconds = process_time() - begin
    judgement = judge(mixture, X, truth=truth, seed=seed)
    found = {"below": judgement.below, "own": judgement.own, "best": judgement.best, "s": seconds}
    found |= {"ARI": ari(truth, mixture.labels_), "clusters": mixture.n_components_, "done": mixture.converged_}
    n_true = len(np.unique(truth))
    found |= kmeans_of(dataset_of(mixture, X), truth, K or n_true, seed)
    return found | mixture_of(row.family, X, truth, K, seed)


def summed_up(row, shape, figures, error=""):
    """Line of the table over the figures of all seeds."""
    cells = {"row": str(row)}
    if error or not figures:
        return cells | dict.fromkeys(COLUMNS, "-") | {"reached": "NO", "of": error or "no seed"}
    worst = max(figures, key=lambda found: np.nan_to_num(found["below"], nan=np.inf))
    is_reached = worst["below"] <= tolerance(shape.n_rows)
    cells |= {"below": worst["below"], "own": max(found["own"] for found in figures)}
    cells |= {"clusters": " ".join(str(found["clusters"]) for found in figures)}
    cells |= {"ARI": mean(figures, "ARI"), "s": median(figures, "s")}
    cells |= {"converged": f"{sum(found['done'] for found in figures)}/{len(figures)}"}
    for tool in ("km", "GMM"):
        cells |= {f"{tool} ARI": mean(figures, f"{tool} ARI"), f"{tool} s": median(figures, f"{tool} s")}
    return cells | {"reached": "yes" if is_reached else "NO", "of": worst["best"]}


COLUMNS = ("below", "own", "clusters", "ARI", "s", "converged", "km ARI", "km s", "GMM ARI", "GMM s")


def mean(figures, name):
    """Mean over seeds, "-" where a tool does not apply."""
    values = [found[name] for found in figures]
    return "-" if None in values else float(np.mean(values))


def median(figures, name):
    values = [found[name] for found in figures]
    return "-" if None in values else float(np.median(values))
