"""Docstrings of the methods that families may write: arguments and results, said once.

`Family` does not have these methods, so a family cannot inherit their docstrings. A family writes a summary of its own
or nothing; it gets the rest from here.
"""

from __future__ import annotations

import inspect

_SUMMARIES = {
    "draw_natural": "Draw parameters (Theta, G) from the posterior of each cluster: (K, F) and (K,).",
    "map_natural": "Return the mode (Theta, G) of each cluster's posterior: (K, F) and (K,).",
    "log_prior": "Return the log prior density of each parameter (Theta, G): (K,) nats, up to a constant.",
    "log_partition": "Return the log partition function g of each theta: (K,) nats; +inf outside the domain.",
    "sample": "Draw `size` rows under each parameter: (K * size, V), grouped by parameter.",
    "to_params": "Return the usual parameters of each natural parameter: a dict of arrays (K, ...).",
    "log_marginal_by_column": "Return the log evidence of each cluster and column: (K, V) nats, without log-base.",
}

_CLUSTERS = """\
n : (K,) float64 ndarray
    Number of data in each cluster; fractions are allowed.
S : (K, F) float64 ndarray
    Sum of phi in each cluster."""
_THETA = """\
theta : (K, F) float64 ndarray
    Natural parameters."""
_G = """\
g : (K,) float64 ndarray
    Their log-partition function, nats."""
_RNG = """\
rng : numpy Generator
    The only source of random numbers."""

_PARAMETERS = {
    "draw_natural": (_CLUSTERS, _RNG),
    "map_natural": (_CLUSTERS,),
    "log_prior": (_THETA, _G),
    "log_partition": (_THETA,),
    "sample": (_THETA, "size : int\n    Number of rows for each parameter.", _RNG),
    "to_params": (_THETA, _G),
    "log_marginal_by_column": (_CLUSTERS,),
}

_RETURNS = {
    "draw_natural": (_THETA, _G),
    "map_natural": (_THETA, _G),
    "log_prior": ("(K,) float64 ndarray\n    Nats.",),
    "log_partition": ("(K,) float64 ndarray\n    Nats.",),
    "sample": ("(K * size, V) ndarray\n    The first `size` rows are those of the first parameter.",),
    "to_params": ("dict of str to ndarray\n    Arrays (K, ...), one entry for each parameter.",),
    "log_marginal_by_column": ("(K, V) float64 ndarray\n    Nats.",),
}

METHODS = tuple(_SUMMARIES)


def whole_docstring(name: str, docstring: str | None) -> str:
    """Return the docstring of a method with the sections that it lacks.

    Parameters
    ----------
    name : str
        One of `METHODS`.
    docstring : str or None
        What the family has written.

    Examples
    --------
    >>> from expfam.families._method_texts import whole_docstring
    >>> print(whole_docstring("log_partition", "Return the sum of the intensities: (K,)."))
    Return the sum of the intensities: (K,).
    <BLANKLINE>
    Parameters
    ----------
    theta : (K, F) float64 ndarray
        Natural parameters.
    <BLANKLINE>
    Returns
    -------
    (K,) float64 ndarray
        Nats.
    """
    written = inspect.cleandoc(docstring or _SUMMARIES[name])
    if "\n---" in written:  # sections of its own
        return written
    return "\n\n".join([written, _section("Parameters", _PARAMETERS[name]), _section("Returns", _RETURNS[name])])


def _section(title, entries):
    return "\n".join([title, "-" * len(title), *entries])
