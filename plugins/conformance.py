"""The laws that families, proposals and kernels have to keep, as named checks: for authors of plugins, and for our own.

Everything that samplers rely on follows from `log_marginal` being the log evidence of an exponential family with a
conjugate prior; each check is one consequence, tried on data that suit the family. A check that does not apply is
skipped by what the family declares it can do, with the reason in the result. Seconds per family; seeds are fixed.
Each is tried at the hyper-parameters that are given, and twice more with every one that `hyper` names moved: log(1) and
lgamma(1) are 0 and hide what is forgotten.

A kernel is tried on models of so few data that their posterior can be enumerated: its moves must leave it as it is.
"""

import time
from typing import NamedTuple

from expfam.plugins.laws import (
    components,  # noqa: F401  (collects its laws, after those of families)
    parts,
    proposals,
)
from expfam.plugins.laws.data_case import LAWS, Case, Inapplicable, said
from expfam.plugins.laws.kernel_case import KernelCase, tiny_models
from expfam.plugins.laws.kernels import KERNEL_LAWS

__all__ = [
    "Report",
    "Result",
    "check_family",
    "check_kernel",
    "check_proposal",
    "checks",
    "parametrize_with_checks",
    "parametrize_with_kernel_checks",
]


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
    """Outcomes of all checks of one plugin; printing it gives a table.

    Attributes
    ----------
    subject : str
        The plugin's repr.
    results : list of Result
    """

    def __init__(self, subject, results):
        self.subject, self.results = subject, results

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
        return "\n".join([self.subject, *lines, counts])

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

    Notes
    -----
    Each law is tried three times: with the family as it is, and with every hyper-parameter that `hyper` names
    multiplied by a factor between 1.2 and 2.7, or divided by it, each once. The message says where it fails. Keywords
    that `hyper` does not name stay as they are: give more instances to try other values of those.

    Examples
    --------
    >>> from expfam.plugins.conformance import check_family
    >>> from expfam.families.simple.bernoulli import Bernoulli
    >>> check_family(Bernoulli(a=0.5, b=2.0)).passed
    True
    """
    return _report(LAWS, Case(family, X, seed=seed), family, raises, expected_failures, only)


def check_proposal(proposal, model=None, X=None, *, seed=0, raises=True, expected_failures=None, only=None):
    """Try every law on a proposal: that its probabilities are those of its draws, and no cluster is out of reach.

    Anchor laws and allocators are proposals of other kinds, with laws of their own.

    Parameters
    ----------
    proposal : Proposal, Anchors or Allocator
    model : MixtureModel, optional
        What it is to be used with; Poisson counts by default.
    X : (N, V) array_like or sparse matrix, optional
        At least 10 rows; made up to suit the model's family by default.
    seed, raises, expected_failures, only
        As for `check_family`.

    Returns
    -------
    Report

    Raises
    ------
    AssertionError
        With every failed check, if `raises`.

    Examples
    --------
    >>> from expfam.plugins.conformance import check_proposal
    >>> from expfam.samplers import TableProposal
    >>> check_proposal(TableProposal()).passed
    True
    """
    laws, make = _LAWS_OF_KIND.get(getattr(proposal, "kind", None), _LAWS_OF_KIND["assignment"])
    return _report(laws, make(proposal, model, X, seed=seed), proposal, raises, expected_failures, only)


_LAWS_OF_KIND = {
    "assignment": (proposals.LAWS, proposals.ProposalCase),
    "allocator": (parts.ALLOCATOR_LAWS, parts.PartCase),
    "anchors": (parts.ANCHOR_LAWS, parts.PartCase),
}


def check_kernel(
    kernel,
    models=None,
    *,
    reversible=False,
    n_moves=10_000,
    seed=0,
    raises=True,
    expected_failures=None,
    only=None,
):
    """Try every law of kernels on a kernel of collapsed states: does it leave enumerated posteriors as they are.

    Parameters
    ----------
    kernel : Kernel
        Any composition too. A kernel that refuses a model has the laws skipped for that model.
    models : dict of (MixtureModel, X), optional
        By name, with at most 7 rows each; by default three families, each with another prior on the weights.
    reversible : bool
        Whether a single step is claimed to satisfy detailed balance; then flows are compared pair by pair, which finds
        more. A sweep in fixed order is not reversible though exact.
    n_moves : int
        Starts drawn from each posterior.
    seed : int
        Of starts and moves. The tests are at the level 1e-5; the same seed gives the same report.
    raises : bool
        Whether failures are raised, all at once.
    expected_failures : dict, optional
        Reason by name, ``"law[model]"``. A check that is listed and passes has failed.
    only : sequence of str, optional
        Names of laws to try.

    Returns
    -------
    Report

    Raises
    ------
    AssertionError
        With every failed check, if `raises`; also where every model was refused.

    Examples
    --------
    >>> from expfam.plugins.conformance import check_kernel
    >>> from expfam.samplers import CollapsedGibbs
    >>> report = check_kernel(CollapsedGibbs(order="random"), reversible=True, n_moves=500)
    >>> report.passed, report["flow_is_symmetric[poisson_dirichlet_process]"].status
    (True, 'passed')

    Notes
    -----
    A kernel that hardly moves cannot be judged by its moves: the law `steps_propose` asks that it proposes something in
    a fifth of its steps, and each part of a `Cycle` too. Give `SplitMerge` the settings ``n_moves=1, every=1``; such a
    step is also reversible. Some kernels are reducible alone, as ``SplitMerge("near")`` is: the law
    `partitions_are_reached` fails and says so, with two partitions between which no moves lead.

    Each start is drawn from the posterior, so the partitions after a step follow it exactly if and only if the step
    leaves it invariant: Geweke 2004, "Getting it right", with enumeration in place of the second simulator.
    """
    models = tiny_models() if models is None else dict(models)
    laws = KERNEL_LAWS if only is None else _known(list(only), "only", KERNEL_LAWS)
    names = [f"{law}[{model}]" for model in models for law in laws]
    expected = _known(dict(expected_failures or {}), "expected_failures", names)
    results = []
    for model, (mixture, X) in models.items():
        case = KernelCase(kernel, mixture, X, seed=seed, n_moves=n_moves, reversible=reversible)
        refusal = case.refusal
        if refusal:
            results.append(Result(f"all[{model}]", "skipped", refusal, 0.0))
            continue
        for law in laws:
            name = f"{law}[{model}]"
            results.append(_try(name, KERNEL_LAWS[law], case, expected.get(name)))
    report = Report(repr(kernel), results)
    if raises and len(report.named("skipped")) == len(results):
        raise AssertionError(f"{report.subject} could be tried on no model: {results[0].message if results else ''}")
    return _raised(report) if raises else report


def _report(laws, case, subject, raises, expected_failures, only):
    """Outcomes of the chosen laws on a case."""
    expected = _known(dict(expected_failures or {}), "expected_failures", laws)
    chosen = laws if only is None else _known(list(only), "only", laws)
    report = Report(repr(subject), [_try(name, laws[name], case, expected.get(name)) for name in chosen])
    return _raised(report) if raises else report


def _raised(report):
    """The report, if no check failed."""
    if report.passed:
        return report
    failed = "\n".join(f"  {name}: {report[name].message}" for name in report.named("failed"))
    raise AssertionError(f"{report.subject} breaks {len(report.named('failed'))} of its laws:\n{failed}")


def _known(names, argument, known):
    """`names` itself, if each is the name of a check."""
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise ValueError(f"{argument} names no check: {', '.join(unknown)}")
    return names


def _try(name, law, case, expected):
    start = time.perf_counter()
    try:
        law(case)
        status, message = ("passed", "") if expected is None else ("failed", f"passed, but was to fail: {expected}")
    except Inapplicable as reason:
        status, message = "skipped", str(reason)
    except Exception as error:  # a stranger's code may raise anything; the report says what
        status, message = ("failed", said(error)) if expected is None else ("expected", f"{expected}: {said(error)}")
    return Result(name, status, message, time.perf_counter() - start)


class _Check:
    """One law to be called on one family or kernel by pytest; their cases are made once and shared."""

    def __init__(self, law, case_of):
        self.law, self.case_of = law, case_of

    def __call__(self, subject):
        import pytest

        try:
            self.law(self.case_of(subject))
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
    >>> from expfam.families.simple.exponential import Exponential
    >>> @parametrize_with_checks([Exponential(a=2.0, b=1.0)])
    ... def test_family(family, check):
    ...     check(family)
    """
    import pytest

    parameters = []
    for position, item in enumerate(families):
        family, X = item if isinstance(item, tuple) else (item, None)
        reasons = expected_failures(family) if callable(expected_failures) else expected_failures
        expected = _known(dict(reasons or {}), "expected_failures", LAWS)
        case_of = _shared(lambda family, X=X: Case(family, X, seed=seed))
        for law in LAWS.values():
            name = f"{position}-{family.name}-{law.name}" if len(families) > 1 else f"{family.name}-{law.name}"
            marks = _marks(law.why_not(family), expected.get(law.name))
            parameters.append(pytest.param(family, _Check(law, case_of), marks=marks, id=name))
    return pytest.mark.parametrize(("family", "check"), parameters)


def parametrize_with_kernel_checks(kernels, models=None, *, n_moves=10_000, seed=0, expected_failures=None):
    """Decorator that makes one pytest test of each kernel, model and law: ``def test_kernel(kernel, check): ...``.

    Parameters
    ----------
    kernels : dict
        Kernels by name; a pair (kernel, True) is claimed to be reversible.
    models : dict of (MixtureModel, X), optional
        As of `check_kernel`.
    n_moves, seed : int
    expected_failures : dict, optional
        Reason by ``"kernel-law[model]"``. Marked xfail, strictly.

    Examples
    --------
    >>> from expfam.plugins.conformance import parametrize_with_kernel_checks
    >>> from expfam.samplers import CollapsedGibbs
    >>> @parametrize_with_kernel_checks({"gibbs": CollapsedGibbs()})
    ... def test_kernel(kernel, check):
    ...     check(kernel)
    """
    import pytest

    models = tiny_models() if models is None else dict(models)
    names = [f"{kernel}-{law}[{model}]" for kernel in kernels for model in models for law in KERNEL_LAWS]
    expected = _known(dict(expected_failures or {}), "expected_failures", names)
    parameters = []
    for kernel_name, item in kernels.items():
        kernel, reversible = item if isinstance(item, tuple) else (item, False)
        for model_name, (model, X) in models.items():
            settings = {"seed": seed, "n_moves": n_moves, "reversible": reversible}
            case_of = _shared(
                lambda kernel, model=model, X=X, settings=settings: KernelCase(kernel, model, X, **settings)
            )
            for law in KERNEL_LAWS.values():
                name = f"{kernel_name}-{law.name}[{model_name}]"
                reason = "the kernel is not claimed to be reversible" if law.needs and not reversible else None
                check = _Check(law, case_of)
                parameters.append(pytest.param(kernel, check, marks=_marks(reason, expected.get(name)), id=name))
    return pytest.mark.parametrize(("kernel", "check"), parameters)


def _marks(skipped, expected):
    """Marks of pytest for a check with these reasons, each of which may be None."""
    import pytest

    marks = [pytest.mark.skip(reason=skipped)] if skipped else []
    return marks + ([pytest.mark.xfail(reason=expected, strict=True)] if expected is not None else [])


def _shared(make):
    """A function of a family or kernel that makes its case once."""
    made = []

    def case_of(subject):
        if not made:
            made.append(make(subject))
        return made[0]

    return case_of
