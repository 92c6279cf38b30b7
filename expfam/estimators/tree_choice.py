"""Which trees a `BayesianHierarchy` makes, and which of them it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.errors import DataWarning
from expfam.user_warnings import warn

if TYPE_CHECKING:
    from expfam.families.base import Family
    from expfam.model.data import Dataset

_SAME = 2.0  # nats: trees with so little between their evidences are taken for equally good
_MANY_COLUMNS = 16  # of real values, from which a prior of the wrong scale hides all groups
_FEW_ROWS = 20


def order_for(order: str, family: Family) -> str:
    """Return the order of merges that stands for "auto".

    It is "best" for binary data and wherever a value is a real number. Counts and categories keep "auto", by which a
    kernel takes "odds_size".

    Examples
    --------
    >>> from expfam import DiagonalGaussian, Multinomial
    >>> from expfam.estimators.tree_choice import order_for
    >>> order_for("auto", DiagonalGaussian()), order_for("auto", Multinomial()), order_for("odds", DiagonalGaussian())
    ('best', 'auto', 'odds')
    """
    if order != "auto" or (family.is_discrete and family.support != "binary"):
        return order
    return "best"


def has_ward_tree(data: Dataset) -> bool:
    """Return whether the order "best" makes Ward's tree: of dense rows and of binary data.

    Coordinates of binary data do not depend on the container, so the tree does not either.
    """
    return (data.family.is_discrete or not data.is_sparse) and order_for("auto", data.family) == "best"


def best_tree(states: Mapping[str, Any]) -> tuple[str, Any]:
    """Return the name of the order whose tree has the most evidence, and this tree.

    Ward's tree is kept if no other one has two nats more: so small a difference says nothing, and the greedy orders
    are the ones that go wrong where few rows decide.
    """
    return max(states.items(), key=lambda item: item[1].log_joint + _SAME * (item[0] == "ward"))


def warn_of_one_cluster(family: Family, *, n_rows: int, tunes: bool, given: str) -> None:
    """Warn that all rows are one cluster, where many columns of real values make that doubtful.

    Parameters
    ----------
    family : Family
        Bound.
    n_rows : int
    tunes : bool
        Whether hyper-parameters were chosen by evidence.
    given : str
        The family that the user gave, as an argument is typed.
    """
    d = family.n_features_in_
    if family.is_discrete or d < _MANY_COLUMNS or n_rows < _FEW_ROWS:
        return
    start = f"BayesianHierarchy: all {counted(n_rows, 'row is', 'rows are')} one cluster at the odds of the tree."
    if tunes:
        remedy = f" For a given number of clusters, write BayesianHierarchy({given}, n_components=5)"
    else:
        remedy = (
            f" In {counted(d, 'column')} a prior that is wider than the groups hides them: to choose its scale by "
            f"evidence, write BayesianHierarchy({given}, learn_hyper=True); for a given number of clusters, write "
            f"BayesianHierarchy({given}, n_components=5)"
        )
    warn(start + remedy, DataWarning)
