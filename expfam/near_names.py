"""Names that were probably meant where a name is unknown."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping


def near_names(
    name: object, known: Iterable[object], synonyms: Mapping[str, tuple[str, ...]] | None = None
) -> tuple[str, ...]:
    """Return the known names that were probably meant, the most probable first: tuple of str.

    Parameters
    ----------
    name : object
        The unknown name.
    known : iterable
        All known names.
    synonyms : dict, optional
        Words of other libraries and books, in lower snake case, with the known names that stand for them here.

    Examples
    --------
    >>> from expfam.near_names import near_names
    >>> known = ["gaussian", "gaussian_diag", "lognormal", "poisson"]
    >>> near_names("normal", known, {"normal": ("gaussian_diag", "gaussian")})
    ('gaussian_diag', 'gaussian')
    >>> near_names("Poison", known)
    ('poisson',)
    """
    plain = {_plain(each): str(each) for each in known}
    wanted = _plain(name)
    if wanted in plain:
        return (plain[wanted],)
    meant = tuple(each for each in (synonyms or {}).get(wanted, ()) if each in plain.values())
    if meant:
        return meant
    return tuple(plain[each] for each in difflib.get_close_matches(wanted, list(plain), n=1))


def did_you_mean(name: object, known: Iterable[object], synonyms: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Return the end of a message that asks for a known name; empty if none is near.

    Parameters
    ----------
    name : object
        What was given.
    known : iterable
        Names that exist.
    synonyms : mapping of str to tuple of str, optional
        As in `near_names`.

    Examples
    --------
    >>> from expfam.near_names import did_you_mean
    >>> did_you_mean("Colour", ["colour", "size"])
    "; did you mean 'colour'?"
    """
    near = near_names(name, known, synonyms)
    return f"; did you mean {' or '.join(map(repr, near))}?" if near else ""


def _plain(name):
    """Return a name in lower snake case."""
    return re.sub(r"[\s-]+", "_", str(name).strip().casefold())
