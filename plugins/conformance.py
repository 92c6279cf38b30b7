"""The laws an exponential family has to keep, as named checks: for authors of plugins, and for our own families.

Everything that samplers rely on follows from `log_marginal` being the log evidence of an exponential family with a
conjugate prior; each check is one consequence, tried on data that suit the family. A check that does not apply is
skipped by what the family declares it can do, with the reason in the result. Seconds per family; seeds are fixed.
"""

import time
from typing import NamedTuple

from expfam.plugins import _component_laws  # noqa: F401  (collects its laws, after those of families)
from expfam.plugins._conformance_case import LAWS, Case, Inapplicable

__all__ = ["Report", "Result", "check_family", "checks", "parametrize_with_checks"]


class Result(NamedTuple):
    """Outcome of one check.

    Attributes
    ----------
    name : str
    status : {"passed", "failed", "skipped", "expected"}
        ``"expected"`` is a failure that was announced.
    message : str
        What is wrong, or why it was skipped.
    seconds : float
    """

    name: str
    status: str
    message: str
    seconds: float


class Report:
    """Outcomes of all checks of one family; printing it gives a table.

    Attributes
    ----------
    family : str
        The family's repr.
    results : list of Result
    """

    def __init__(self, family, results):
        self.family, self.results = family, results

    def named(self, status):
        """Names of the checks with that status."""
        return [result.name for result in self.results if result.status == status]

    @property
    def passed(self):
        """Whether no check failed."""
        return not self.named("failed")

    def __getitem__(self, name):
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"no check is called {name!r}")

    def __str__(self):
        width = max(len(result.name) for result in self.results)
        lines = [
            f"{result.status:8} {result.name:{width}} {result.seconds:6.2f} s  {result.message}".rstrip()
            for result in self.results
        ]
        counts = ", ".join(
            f"{len(self.named(status))} {status}"
            for status in ("passed", "failed", "expected", "skipped")
            if self.named(status)
        )
        return "\n".join([self.family, *lines, counts])

    __repr__ = __str__


def checks():
    """Names of all checks in their order, with what each needs the family to be able to do, and its claim.

    Returns
    -------
    list of (str, tuple of str, str)
    """
    return [(law.name, law.needs, law.function.__doc__.strip()) for law in LAWS.values()]


def check_family(family, X=None, *, seed=0, raises=True, expected_failures=None, only=None):
    """Try every law on a family.

    Parameters
    ----------
    family : Family
        An instance, bound or not.
    X : (N, V) array_like or sparse matrix, optional
        At least 10 rows that the family can produce; by default samples of a bound family, else made up to suit
        its `support`.
    seed : int
        Of data and draws.
    raises : bool
        Whether failures are raised, all at once.
    expected_failures : dict, optional
        Reason by name of check. A check that is listed and passes has failed.
    only : sequence of str, optional
        Names of the checks to try; all of them by default.

    Returns
    -------
    Report

    Raises
    ------
    AssertionError
        With every failed check, if `raises`.

    Examples
    --------
    >>> from expfam.plugins.conformance import check_family
    >>> from expfam.plugins.families import Bernoulli
    >>> check_family(Bernoulli(a=0.5, b=2.0)).passed
    True
    """
    expected = _known(dict(expected_failures or {}), "expected_failures")
    chosen = LAWS if only is None else _known(list(only), "only")
    case = Case(family, X, seed=seed)
    report = Report(repr(family), [_try(LAWS[name], case, expected.get(name)) for name in chosen])
    if raises and not report.passed:
        failed = "\n".join(f"  {name}: {report[name].message}" for name in report.named("failed"))
        raise AssertionError(f"{report.family} breaks {len(report.named('failed'))} of its laws:\n{failed}")
    return report


def _known(names, argument):
    """`names` itself, if each is the name of a check."""
    unknown = sorted(set(names) - set(LAWS))
    if unknown:
        raise ValueError(f"{argument} names no check: {', '.join(unknown)}")
    return names


def _try(law, case, expected):
    start = time.perf_counter()
    try:
        law(case)
        status, message = ("passed", "") if expected is None else ("failed", f"passed, but was to fail: {expected}")
    except Inapplicable as reason:
        status, message = "skipped", str(reason)
    except Exception as error:  # a stranger's code may raise anything; the report says what
        text = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        status, message = ("failed", text) if expected is None else ("expected", f"{expected}: {text}")
    return Result(law.name, status, message, time.perf_counter() - start)


class _Check:
    """One law to be called on one family by pytest; the cases of a family are made once and shared."""

    def __init__(self, law, case_of):
        self.law, self.case_of = law, case_of

    def __call__(self, family):
        import pytest

        try:
            self.law(self.case_of(family))
        except Inapplicable as reason:
            pytest.skip(str(reason))


def parametrize_with_checks(families, *, seed=0, expected_failures=None):
    """Decorator that makes one pytest test of each family and check: ``def test_family(family, check): check(family)``.

    Parameters
    ----------
    families : sequence of Family, or of (Family, X) pairs
    seed : int
    expected_failures : dict or callable, optional
        Reason by name of check, or a function of the family that returns such a dict. Marked xfail, strictly.

    Examples
    --------
    >>> from expfam.plugins.conformance import parametrize_with_checks
    >>> from expfam.plugins.families import Exponential
    >>> @parametrize_with_checks([Exponential(a=2.0, b=1.0)])
    ... def test_family(family, check):
    ...     check(family)
    """
    import pytest

    parameters = []
    for position, item in enumerate(families):
        family, X = item if isinstance(item, tuple) else (item, None)
        reasons = expected_failures(family) if callable(expected_failures) else expected_failures
        expected = _known(dict(reasons or {}), "expected_failures")
        case_of = _case_maker(X, seed)
        for law in LAWS.values():
            reason = law.why_not(family)
            marks = [pytest.mark.skip(reason=reason)] if reason else []
            if law.name in expected:
                marks.append(pytest.mark.xfail(reason=expected[law.name], strict=True))
            name = f"{position}-{family.name}-{law.name}" if len(families) > 1 else f"{family.name}-{law.name}"
            parameters.append(pytest.param(family, _Check(law, case_of), marks=marks, id=name))
    return pytest.mark.parametrize(("family", "check"), parameters)


def _case_maker(X, seed):
    made = []

    def case_of(family):
        if not made:
            made.append(Case(family, X, seed=seed))
        return made[0]

    return case_of
