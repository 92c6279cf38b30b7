"""Numbers with their nouns in messages: 1 cluster, 2 clusters."""

from __future__ import annotations


def counted(n: float, one: str, many: str | None = None, spec: str = "") -> str:
    """Return a number with its noun, in the singular where the printed number is 1.

    Parameters
    ----------
    n : int or float
        The number. A float may be a sum of weights.
    one : str
        The words after the number 1: a noun, or a noun with what agrees with it, such as ``"row is"``.
    many : str, optional
        The words after every other number; by default `one` and an s.
    spec : str, default ""
        How the number is printed, as in `format`.

    Examples
    --------
    >>> from expfam.amounts import counted
    >>> counted(1, "cluster"), counted(3, "cluster"), counted(0, "row is", "rows are")
    ('1 cluster', '3 clusters', '0 rows are')
    >>> counted(1.0, "row", spec=",.6g"), counted(20_000, "row", spec=",")
    ('1 row', '20,000 rows')
    """
    number = format(n, spec)
    return f"{number} {one if number == '1' else many or f'{one}s'}"


def size_spec(n: float) -> str:
    """Return how a number of rows is printed, which may be a sum of weights.

    From 100 on it is whole, with commas; smaller numbers have at most four digits.

    Examples
    --------
    >>> from expfam.amounts import counted, size_spec
    >>> [counted(n, "row", spec=size_spec(n)) for n in (1_000_000, 6951.48, 4.5, 1.0)]
    ['1,000,000 rows', '6,951 rows', '4.5 rows', '1 row']
    """
    return ",.0f" if n >= 100 else ",.4g"
