"""A few lines of text about the clusters of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from expfam.amounts import counted, size_spec

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt


class Summary(str):
    """What a fit has found: a text of a few lines, facts by name, and a frame of the clusters.

    Parameters
    ----------
    text : str
    facts : dict
        Numbers and booleans by name, None where they are not known.
    frame : callable
        Returns the frame with one row a cluster.

    Attributes
    ----------
    facts : dict

    Examples
    --------
    >>> from expfam.fitted.summary import Summary
    >>> found = Summary("2 clusters", {"n_clusters": 2, "family": "poisson"}, lambda: None)
    >>> found, found.facts["family"]
    (2 clusters, 'poisson')
    """

    facts: dict[str, Any]
    _frame: Callable[[], Any]

    def __new__(cls, text: str, facts: Mapping[str, Any], frame: Callable[[], Any]) -> Summary:
        """Return the text with its facts and its frame."""
        self = super().__new__(cls, text)
        self.facts, self._frame = dict(facts), frame
        return self

    def __repr__(self) -> str:
        return str(self)

    def __reduce__(self) -> Any:
        """Return what makes the text again: copies and pickles are plain texts."""
        return str, (str(self),)

    def to_frame(self) -> Any:
        """Return the clusters as a frame, one row each: the estimator's `clusters_`."""
        return self._frame()

    def _repr_html_(self) -> str:
        """Return the text, the facts and the clusters for notebooks."""
        from html import escape

        lines = "<br>".join(map(escape, self.splitlines()))
        known = {name: value for name, value in self.facts.items() if value is not None}
        cells = "".join(
            f"<tr><th style='text-align:left'>{escape(name.replace('_', ' '))}</th>"
            f"<td style='text-align:left'>{escape(_shown(value))}</td></tr>"
            for name, value in known.items()
        )
        return f"<p>{lines}</p><table>{cells}</table>{_table(self._frame())}"


def _shown(value):
    """Return a fact as text."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return " to ".join(map(_shown, value))
    if not isinstance(value, (int, float, np.number)):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 100_000 else f"{value:,.6g}"


def _table(frame):
    """Return a frame as HTML: by its own library, or as plain text."""
    from html import escape

    render = getattr(frame, "_repr_html_", None)
    return render() if callable(render) else f"<pre>{escape(str(frame))}</pre>"


def summary_text(
    sizes: npt.NDArray[Any], *, noun: str = "cluster", unit: str = "row", more: str = "", lines: Sequence[str] = ()
) -> str:
    """Return number and sizes of clusters in two lines, and further lines.

    Parameters
    ----------
    sizes : (K,) ndarray
        Clusters of size 0 are not counted.
    noun, unit : str
        What is counted, and what of.
    more : str
        End of the first line.
    lines : sequence of str
        After the two.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitted.summary import summary_text
    >>> print(summary_text(np.array([60, 30]), more="; coarsen() merges them"))
    2 clusters; coarsen() merges them
    90 rows: 60 in the largest cluster, 30 in the smallest
    """
    held = np.asarray(sizes)[np.asarray(sizes) > 0]
    second = counted(held.sum(), unit, spec=size_spec(held.sum()))
    if len(held) > 1:
        most, least = held.max(), held.min()
        second += f": {most:{size_spec(most)}} in the largest {noun}, {least:{size_spec(least)}} in the smallest"
    return "\n".join([counted(len(held), noun, spec=",") + more, second, *lines])


def family_lines(
    name: str, scores: Mapping[str, float] | None, agreement: Mapping[str, float] | None = None
) -> list[str]:
    """Return the line that says why the data chose a family, if they did.

    Parameters
    ----------
    name : str
        Of the family of the fit.
    scores : mapping of str to float, optional
        Mean log density of held-out rows under each family that was compared, nats.
    agreement : mapping of str to float, optional
        Agreement of two halves of the rows under each family, where it chose.

    Examples
    --------
    >>> from expfam.fitted.summary import family_lines
    >>> family_lines("gaussian", {"gaussian_diag": -2.5, "gaussian": -1.25})
    ['family gaussian: held-out rows have 1.2 nats more than under gaussian_diag']
    >>> family_lines("gaussian_spherical", None, {"gaussian_diag": 0.612, "gaussian_spherical": 0.844})
    ['family gaussian_spherical: halves of the rows agree by 0.84, by 0.61 under gaussian_diag']
    """
    if agreement and name in agreement:
        others = ", ".join(f"by {agreement[other]:.2f} under {other}" for other in sorted(agreement.keys() - {name}))
        return [f"family {name}: halves of the rows agree by {agreement[name]:.2f}, {others}"]
    if not scores or name not in scores:
        return []
    lines = []
    for other in scores.keys() - {name}:
        gain = scores[name] - scores[other]
        text = f"have {gain:.2g} nats more than" if gain > 0 else "do not clearly have less than"
        lines.append(f"family {name}: held-out rows {text} under {other}")
    return sorted(lines)


def alike_lines(alike: npt.NDArray[np.bool_], names: Sequence[str], most: int = 6) -> list[str]:
    """Return the line that says how many columns are alike in all clusters, if some are.

    Parameters
    ----------
    alike : (V,) bool ndarray
        See `Family.alike_columns`.
    names : sequence of str
        Of the columns.
    most : int
        Number of other columns that are named at most.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam.fitted.summary import alike_lines
    >>> alike_lines(np.array([True, False, True]), ["age", "height", "weight"])
    ['2 of 3 columns are alike in all clusters: all but height']
    """
    own, n_alike = np.flatnonzero(~alike).tolist(), np.count_nonzero(alike)
    if not n_alike:
        return []
    others = f": all but {', '.join(str(names[j]) for j in own)}" if 0 < len(own) <= most else ""
    verb = "is" if n_alike == 1 else "are"
    return [f"{n_alike:,} of {counted(len(alike), 'column')} {verb} alike in all clusters{others}"]
