"""The clusters of a fit as a frame of numbers: sizes, weights, means and modes of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.families.columns.cells import as_columns, cell_laws
from expfam.families.support import dense_rows
from expfam.fitted.cells import known_levels
from expfam.frames.new_frames import moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.fitted.clusters import FittedClusters
    from expfam.fitted.form import ResultForm
    from expfam.protocols import Floats

_N_WORDS = 8  # of a cluster of texts
_TIMES = ("datetime", "date", "duration")


def cluster_table(clusters: FittedClusters, form: ResultForm) -> Any:
    """Return a frame with one row a cluster; see `clusters_` of the estimators.

    Parameters
    ----------
    clusters : FittedClusters
    form : ResultForm

    Returns
    -------
    frame
        Columns cluster, size and weight. Then of each column of numbers its mean, under its own name, and its standard
        deviation, "..._sd"; of each column of categories the most probable level, and its probability,
        "..._probability". Of counts of words there is one column "words".
    """
    found: dict[str, Any] = {"cluster": np.arange(clusters.n_clusters), "size": clusters.sizes}
    found["weight"] = clusters.weights
    if clusters.family.name == "multinomial":
        p = clusters.family.cluster_params(clusters.n, clusters.S)["probability"]
        return form.frame(found | {"words": typical_words(p, clusters.n, form.columns)})
    laws = cell_laws(as_columns(clusters.family), clusters.n, dense_rows(clusters.S))
    types: dict[str, tuple[str, tuple]] = {}
    for j, (name, role) in enumerate(zip(form.columns, form.kept_roles)):
        key = f"{name} (column)" if name in ("cluster", "size", "weight") else name
        cells, kind, beside = _told(laws[j], role)
        found[key], types[key] = cells, (kind, ())
        for what, values in beside.items():
            other = _free(f"{key}_{what}", found, form.columns)
            found[other], types[other] = values, ("duration" if kind else "", ())
    return form.frame(found, types={key: given for key, given in types.items() if given[0]})


def typical_words(p: Floats, n: Floats, names: Sequence[Any]) -> list[str]:
    """Return the words that are most typical of each cluster, in one text each.

    They are those with the largest terms of the Kullback-Leibler divergence from the average of all clusters, if they
    are more probable than in the average; of a single cluster they are the most probable ones.

    Parameters
    ----------
    p : (K, V) float64
        Probability of each word in each cluster, above 0.
    n : (K,) float64
        Size of each cluster in the average.
    names : sequence of V
    """
    gain = p if len(p) == 1 else p * np.log(p / ((n / n.sum()) @ p))
    best = np.argsort(-gain, axis=1, kind="stable")[:, :_N_WORDS]
    return [", ".join(str(names[j]) for j in row if own[j] > 0.0) for row, own in zip(best, gain)]


def _told(law, role):
    """Return the cells of a column, their kind of time or "", and what stands beside them."""
    if law.probability is None:
        return _numbers(law, role)
    law = known_levels(law, role)
    best = law.probability.argmax(axis=1)
    levels = best if role is None else [role.levels[code] for code in best]
    return levels, "", {"probability": law.probability.max(axis=1)}


def _numbers(law, role):
    """Return means, their kind of time or "", and standard deviations where they are known."""
    kind = role.type if role is not None and role.type in _TIMES else ""
    mean = law.mean - (0.0 if role is None else role.offset)
    sd = np.where(np.isfinite(law.sd), law.sd, np.nan)
    if kind and not (_are_times(mean, kind) and _are_times(sd, "duration")):
        kind = ""  # beyond the calendar: seconds since 1970
    beside = {} if np.isnan(sd).all() else {"sd": sd.tolist() if kind else sd}
    return mean.tolist() if kind else mean, kind, beside


def _are_times(seconds: npt.NDArray[np.float64], kind: str) -> bool:
    """Return whether numbers of seconds are times that a calendar has."""
    try:
        moments(seconds.tolist(), kind)
    except OverflowError:
        return False
    return True


def _free(name, found, columns):
    """Return a name that no other column has."""
    while name in found or name in columns:
        name += "_"
    return name
