"""Contents of the clusters of a fit: the most distinctive columns that fit the terminal."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

from expfam.amounts import counted
from expfam.cli.results import cells_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from expfam import Mixture

_MOST_COLUMNS = 200  # of data whose clusters are described by columns
_WIDTH = 100  # characters, where there is no terminal
_GAP = 2  # characters between columns
_OWN = ("cluster", "size", "weight", "words")  # columns of `clusters_` that are not of the data


def contents(mixture: Mixture, chosen: Sequence[int]) -> dict[str, list[Any]]:
    """Return means and modes of some clusters by column, the most distinctive column first.

    Parameters
    ----------
    mixture : Mixture
        Fitted.
    chosen : sequence of int
        Numbers of the clusters.

    Returns
    -------
    dict of str to list
        Empty for words, whose clusters are told by words, and for data of many columns.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.cli.contents import contents
    >>> mixture = Mixture("poisson", 2, random_state=0).fit([[1, 5], [0, 6], [40, 5], [44, 4]])
    >>> list(contents(mixture, [0, 1]))
    ['0', '1']
    """
    from expfam.frames.frame import as_frame

    if mixture.n_features_in_ > _MOST_COLUMNS or mixture.family_.name == "multinomial":
        return {}
    mixture = mixture.set_output(transform="pandas") if _has_pandas() else mixture
    table = as_frame(mixture.clusters_)
    found = {}
    for name in _ranked(mixture):
        key = f"{name} (column)" if name in _OWN[:3] else str(name)
        cells = cells_of(table.column(key))
        found[str(name)] = [cells[k] for k in chosen]
    return found


def _has_pandas():
    from importlib.util import find_spec

    return find_spec("pandas") is not None


def _ranked(mixture):
    """Return names of the columns, the most telling first if their evidence is known."""
    import numpy as np

    from expfam.errors import CapabilityError

    try:
        names, evidence = mixture.column_evidence()
    except CapabilityError:
        return mixture._form().columns
    most = np.nan_to_num(np.asarray(evidence), nan=-np.inf).max(axis=0)
    return [names[j] for j in np.argsort(-most, kind="stable")]


def fitting(columns: dict[str, list[str]], taken: int) -> tuple[list[str], str]:
    """Return the first columns that fit beside `taken` characters, and a line about the others.

    Examples
    --------
    >>> from expfam.cli.contents import fitting
    >>> fitting({"age": ["31"], "town": ["x" * 200]}, 20)
    (['age'], 'and 1 more column that tells less')
    """
    room = _terminal_width() - taken
    shown: list[str] = []
    for name, cells in columns.items():
        room -= max(map(len, [name, *cells])) + _GAP
        if room < 0:
            break
        shown.append(name)
    left = len(columns) - len(shown)
    verb = "tells" if left == 1 else "tell"
    return shown, f"and {counted(left, 'more column')} that {verb} less" if left else ""


def fitting_words(words: Sequence[str], taken: int) -> str:
    """Return the first words that fit beside `taken` characters, at least one, in one text.

    Examples
    --------
    >>> from expfam.cli.contents import fitting_words
    >>> fitting_words(["cat", "x" * 200, "dog"], 20)
    'cat'
    """
    room = _terminal_width() - taken - _GAP
    shown = list(words[:1])
    for word in words[1:]:
        if len(" ".join([*shown, word])) > room:
            break
        shown.append(word)
    return " ".join(shown)


def _terminal_width():
    return shutil.get_terminal_size((_WIDTH, 24)).columns
