"""Statistics of the draws of a mixture, and draws of topics, in files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.errors import ArchiveError
from expfam.io.saved_values import check_family, check_statistics
from expfam.model.drawn import DrawnStatistics, DrawnTopics
from expfam.structures.ground.stored import integers, matrix, numbers

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam.families.base import Family

_ROUNDING = 1e-9  # of shares
_LEAST, _LARGEST, _MOST_TOKENS = 1e-100, 1e30, (1 << 31) - 1  # pseudo-counts, some in single precision, and counts


def packed_drawn(draws: Sequence[DrawnStatistics]) -> dict[str, Any]:
    """Return the statistics of draws as plain values, with each family once."""
    families = list({id(draw.family): draw.family for draw in draws}.values())
    places = {id(family): place for place, family in enumerate(families)}
    of_draws = [{"family": places[id(draw.family)], "n": draw.n, "S": draw.S, "home": draw.home} for draw in draws]
    return {"families": families, "draws": of_draws}


def unpacked_drawn(packed: Any, family: Family, n_clusters: int) -> list[DrawnStatistics]:
    """Return what `packed_drawn` has packed.

    Parameters
    ----------
    packed : dict
    family : Family
        Of the fit.
    n_clusters : int
        Number of clusters of the labels.

    Raises
    ------
    ArchiveError
        The values do not fit each other or the fit.
    """
    if not isinstance(packed, Mapping) or {*packed} != {"families", "draws"} or not packed["draws"]:
        raise ArchiveError("the statistics of draws are not what this version writes: the file was altered")
    families = packed["families"]
    for other in families:
        check_family(other)
        if type(other) is not type(family) or other.n_features_in_ != family.n_features_in_:
            raise ArchiveError("the family of a draw is not that of the fit: the file was altered")
    return [_unpacked(draw, families, n_clusters) for draw in packed["draws"]]


def _unpacked(draw, families, n_clusters):
    family = families[int(integers(draw, "family", (), 0, len(families)))]
    K = check_statistics(draw, family, "n", "S")
    home = numbers(draw, "home", (K, n_clusters), low=0.0, high=1.0 + _ROUNDING)
    if not np.allclose(home.sum(axis=1), 1.0, rtol=0.0, atol=_ROUNDING):
        raise ArchiveError("'home' of a draw are no shares of rows: the file was altered")
    return DrawnStatistics(family, draw["n"], draw["S"], home)


def unpacked_topics(packed: Any, n_words: int) -> tuple[DrawnTopics, ...]:
    """Return the draws of topics of a file.

    Parameters
    ----------
    packed : list of dict
        Counts, `alpha` and `eta` of each draw.
    n_words : int

    Raises
    ------
    ArchiveError
        The values do not fit each other or the fit.
    """
    is_list = isinstance(packed, list) and packed
    if not is_list or any(not isinstance(draw, Mapping) or {*draw} != {*DrawnTopics._fields} for draw in packed):
        raise ArchiveError("the draws of topics are not what this version writes: the file was altered")
    return tuple(_unpacked_topics(draw, n_words) for draw in packed)


def _unpacked_topics(draw, n_words):
    counts = matrix(draw, "counts", (n_words, None), low=0, high=_MOST_TOKENS, allow_dense=False)
    alpha = numbers(draw, "alpha", (counts.shape[1],), low=_LEAST, high=_LARGEST)
    eta = numbers(draw, "eta", (None,), low=_LEAST, high=_LARGEST)
    if counts.shape[1] == 0 or len(eta) not in (1, n_words):
        raise ArchiveError("a draw has no topics, or pseudo-counts of other words: the file was altered")
    return DrawnTopics(counts, alpha, eta)
