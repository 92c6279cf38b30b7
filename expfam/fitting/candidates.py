"""Candidate families, each with the rows in the form that it reads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy.typing as npt

    from expfam.families.base import Family


class Candidate(NamedTuple):
    """A candidate family, and the rows in the form that it reads.

    Attributes
    ----------
    family : Family
        Unbound.
    X : (N, V) ndarray
    log_base : float
        Nats a row that make its density comparable with those of the others.
    """

    family: Family
    X: npt.NDArray[Any]
    log_base: float = 0.0

    @property
    def name(self) -> str:
        """Return the name of the family in the scores."""
        return name_of(self.family)


def name_of(family: Family) -> str:
    """Return the name of a family; of columns that all have one family the name of that one.

    Examples
    --------
    >>> from expfam import Categorical, Columns
    >>> from expfam.fitting.candidates import name_of
    >>> name_of(Columns([(Categorical(), (0, 1))]))
    'categorical'
    """
    names = {part[0].name for part in getattr(family, "parts", ())}
    return names.pop() if len(names) == 1 else family.name
