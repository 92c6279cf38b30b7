"""Classes that have parts, although each was to be one cluster.

The known rows of such a class are explained better by two clusters than by one. Its cluster is then wide, and rows of
its other parts, whose class is not known, form clusters without a class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from expfam.errors import DataWarning
from expfam.model.mixture import MixtureModel
from expfam.model.weights import DirichletProcess
from expfam.samplers.starts.halves import best_halves
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.families.base import Family
    from expfam.model.data import Dataset

_FEWEST_IN_PART = 2  # rows: a single one is an outlier
_LEAST_ODDS = 1000.0  # for each class that is looked at
_NAMED = 3  # classes in a message


def warn_of_parts(
    owner: str, family: Family, data: Dataset, names: Sequence[Any], doubtful: npt.NDArray[np.int64], remedy: str
) -> bool:
    """Warn where two clusters explain the known rows of a class better than one.

    Only under labels="clusters", which keeps a class in one cluster.

    Parameters
    ----------
    owner : str
        Name of the estimator.
    family : Family
        Bound, with the hyper-parameters of the fit.
    data : Dataset
        Rows, with classes of some in `known`.
    names : sequence
        Names of the classes.
    doubtful : (M,) int64 ndarray
        Known rows that are left out: wrong classes look like parts.
    remedy : str
        What to do, with the line to type.

    Returns
    -------
    bool
        Whether it has warned.
    """
    known = data.known
    if known is None or known.classes is None or not known.fixes_rows or known.n_classes < 1:
        return False
    classes = known.classes.copy()
    classes[doubtful] = -1
    if data.weight is not None:
        classes[data.weight == 0.0] = -1
    model, free = MixtureModel(family, DirichletProcess()), data.without_known().without_groups()
    members = [np.flatnonzero(classes == c) for c in range(known.n_classes)]
    cuts = best_halves(model, free, members, seed=0)
    found = {c: _gain(model, free, rows, cut) for c, (rows, cut) in enumerate(zip(members, cuts)) if cut is not None}
    gains = {c: gain for c, gain in found.items() if gain > np.log(_LEAST_ODDS * known.n_classes)}
    if not gains:
        return False
    most = sorted(gains, key=lambda c: (-gains[c], c))
    listed = ", ".join(repr(_plain(names[c])) for c in most[:_NAMED])
    more = f" and {len(most) - _NAMED} more" if len(most) > _NAMED else ""
    warn(
        f"{owner}: two clusters explain the known rows of {'class' if len(most) == 1 else 'the classes'} {listed}{more}"
        f" better than one, by {gains[most[0]]:.1f} nats{' and less' * (len(most) > 1)}, and labels='clusters' keeps"
        f" each class in one cluster; rows of its other parts may join clusters without a class, or be"
        f" listed in doubtful_known_. {remedy}",
        DataWarning,
    )
    return True


def _gain(model, data, rows, cut):
    """Return the nats that the cut of some rows in two gains; 0 where a part is too small."""
    if np.bincount(cut.labels).min() < _FEWEST_IN_PART:
        return 0.0
    sizes = np.bincount(cut.labels, weights=None if data.weight is None else data.weight[rows])
    return cut.rise + model.weights.log_prior(sizes) - model.weights.log_prior([sizes.sum()])


def _plain(name):
    return name.item() if hasattr(name, "item") else name
