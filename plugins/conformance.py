"""Named checks of the laws that families, proposals and kernels must keep.

They serve authors of plugins and our own tests. Everything that samplers rely on follows from `log_marginal` being the
log evidence of an exponential family with a conjugate prior. Each check is one consequence, tried on data that suit the
family. A check is skipped if the family does not declare the ability that it needs; the result names the reason. A
family takes seconds, and seeds are fixed.

Each law is tried at the given hyper-parameters, and twice more with other values of all that `hyper` names. The reason:
log(1) and lgamma(1) are 0, so a forgotten term can stay hidden at the default 1.

A kernel is tried on models of so little data that their posterior can be enumerated; its moves must leave this
posterior invariant.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from expfam.plugins.laws import (
    components,  # noqa: F401  (collects its laws, after those of families)
    engines,
    parts,
    proposals,
    questions,  # noqa: F401
)
from expfam.plugins.laws.data_case import LAWS, Case, Inapplicable, said
from expfam.plugins.laws.grouped import GROUPED_LAWS
from expfam.plugins.laws.grouped_case import GroupedCase
from expfam.plugins.laws.kernel_case import KernelCase, tiny_models
from expfam.plugins.laws.kernels import KERNEL_LAWS

if TYPE_CHECKING:
    from expfam.engines import Engine
    from expfam.families.base import Family
    from expfam.model.mixture import MixtureModel

__all__ = [
    "Report",
    "Result",
    "check_engine",
    "check_family",
    "check_grouped",
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
        ``"expected"`` is a failure that `expected_failures` names.
    message : str
        What is wrong, or why the check was skipped.
    seconds : float

    Examples
    --------
    >>> from expfam import Poisson
    >>> from expfam.plugins.conformance import check_family
    >>> check_family(Poisson(), only=["is_a_value"])["is_a_value"].status
    'passed'
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

    Examples
    --------
    >>> from expfam import Poisson
    >>> from expfam.plugins.conformance import check_family
    >>> report = check_family(Poisson(), only=["is_a_value"])
    >>> report.passed, report.named("passed")
    (True, ['is_a_value'])
    """

    def __init__(self, subject: str, results: list[Result]) -> None:
        self.subject, self.results = subject, results

    def named(self, status: str) -> list[str]:
        """Return the names of the checks with that status."""
        return [result.name for result in self.results if result.status == status]

    @property
    def passed(self) -> bool:
        """Tell whether no check failed."""
        return not self.named("failed")

    def __getitem__(self, name: str) -> Result:
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


def checks() -> list[tuple[str, tuple[str, ...], str]]:
    """Return (name, needed abilities, claim) of every check of families, in order.

    Returns
    -------
    list of (str, tuple of str, str)

    Examples
    --------
    >>> from expfam.plugins.conformance import checks
    >>> [name for name, needs, claim in checks()][:2]
    ['is_a_value', 'shapes_and_types']
    """
    return [(law.name, law.needs, (law.function.__doc__ or "").strip()) for law in LAWS.values()]


def check_family(
    family: Family,
    X: Any = None,
    *,
    seed: int = 0,
    raises: bool = True,
    expected_failures: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> Report:
    """Try every law of families on a family.

    Parameters
    ----------
    family : Family
        An instance; it need not be bound.
    X : (N, V) array_like or sparse matrix, optional
        At least 10 rows that the family can produce. By default they are samples of a bound family, and otherwise
        made-up data that suit its `support`.
    seed : int
        Seed of data and draws.
    raises : bool
        Whether to raise one error with all failures.
    expected_failures : dict, optional
        Reason by name of check. A check that is named here and passes counts as failed.
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
    Each law is tried three times: with the given family, and with two copies in which every hyper-parameter that
    `hyper` names is changed, once up and once down, by a factor between 1.2 and 2.7. What is a yes or no for each
    column is the opposite in half of the columns. The message names the values that fail. Keywords that `hyper` does
    not name stay the same: check more instances to try other values of them.

    Examples
    --------
    >>> from expfam.plugins.conformance import check_family
    >>> from expfam import Bernoulli
    >>> check_family(Bernoulli(a=0.5, b=2.0)).passed
    True
    """
    return _report(LAWS, Case(family, X, seed=seed), family, raises, expected_failures, only)


def check_grouped(
    family: Family,
    X: Any = None,
    *,
    n_moves: int = 4000,
    seed: int = 0,
    raises: bool = True,
    expected_failures: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> Report:
    """Try a family under rows in groups, with a given and with an unknown number of clusters.

    The main laws: a chain over few rows visits their partitions by their enumerated probabilities, scores are sums over
    clusters, a new one included, and files, new groups and weights of rows are what they should be.

    Parameters
    ----------
    family : Family
        An instance; it need not be bound. It should keep the laws of `check_family`.
    X : (N, V) array_like or sparse matrix, optional
        At least 10 rows; see `check_family`. They get into four groups at random.
    n_moves : int
        Steps of the chains that are compared with the enumeration.
    seed, raises, expected_failures, only
        See `check_family`.

    Returns
    -------
    Report

    Raises
    ------
    AssertionError
        With every failed check, if `raises`.

    Examples
    --------
    >>> from expfam import Bernoulli
    >>> from expfam.plugins.conformance import check_grouped
    >>> check_grouped(Bernoulli(a=0.5, b=2.0), n_moves=400).passed
    True
    """
    case = GroupedCase(family, X, seed=seed, n_moves=n_moves)
    return _report(GROUPED_LAWS, case, family, raises, expected_failures, only)


def check_proposal(
    proposal: Any,
    model: MixtureModel | None = None,
    X: Any = None,
    *,
    seed: int = 0,
    raises: bool = True,
    expected_failures: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> Report:
    """Try every law of proposals on a proposal.

    The main laws: its probabilities are those of its draws, and every cluster can be proposed. Anchor laws and
    allocators are proposals of other kinds with their own laws.


    Parameters
    ----------
    proposal : Proposal, Anchors or Allocator
    model : MixtureModel, optional
        Model that the proposal serves; Poisson counts by default.
    X : (N, V) array_like or sparse matrix, optional
        At least 10 rows; by default made-up data that suit the model's family.
    seed, raises, expected_failures, only
        See `check_family`.

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
    laws, make = _LAWS_OF_KIND.get(str(getattr(proposal, "kind", None)), _LAWS_OF_KIND["assignment"])
    return _report(laws, make(proposal, model, X, seed=seed), proposal, raises, expected_failures, only)


_LAWS_OF_KIND = {
    "assignment": (proposals.LAWS, proposals.ProposalCase),
    "allocator": (parts.ALLOCATOR_LAWS, parts.PartCase),
    "anchors": (parts.ANCHOR_LAWS, parts.PartCase),
}


def check_kernel(
    kernel: Any,
    models: Mapping[str, tuple[MixtureModel, Any]] | None = None,
    *,
    reversible: bool = False,
    n_moves: int = 10_000,
    seed: int = 0,
    raises: bool = True,
    expected_failures: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> Report:
    """Try every law of kernels on a kernel of collapsed states.

    The main law: its moves leave exactly enumerated posteriors invariant.

    Parameters
    ----------
    kernel : Kernel
        It may be a composition. If the kernel refuses a model, the laws are skipped for that model.
    models : dict of (MixtureModel, X), optional
        Models by name, with at most 7 rows each. By default there are three families, each with another prior on the
        weights.
    reversible : bool
        Whether you claim that a single step satisfies detailed balance. If so, flows are compared for each pair of
        partitions, which finds more errors. A sweep in fixed order is exact but not reversible.
    n_moves : int
        Number of starts that are drawn from each posterior.
    seed : int
        Seed of starts and moves. The tests are at the level 1e-5; the same seed gives the same report.
    raises : bool
        Whether to raise one error with all failures.
    expected_failures : dict, optional
        Reason by name, ``"law[model]"``. A check that is named here and passes counts as failed.
    only : sequence of str, optional
        Names of laws to try.

    Returns
    -------
    Report

    Raises
    ------
    AssertionError
        With every failed check, if `raises`; also if the kernel refuses every model.

    Examples
    --------
    >>> from expfam.plugins.conformance import check_kernel
    >>> from expfam.samplers import CollapsedGibbs
    >>> report = check_kernel(CollapsedGibbs(order="random"), reversible=True, n_moves=500)
    >>> report.passed, report["flow_is_symmetric[poisson_dirichlet_process]"].status
    (True, 'passed')

    Notes
    -----
    The moves of a kernel that rarely proposes are too few to test. So the law `steps_propose` requires a proposal in
    a fifth of the steps of the kernel, and of each part of a `Cycle`. Give `SplitMerge` the settings
    ``n_moves=1, every=1``; its steps are then also reversible. Some kernels are reducible when they are used alone,
    for example ``SplitMerge("near")``: the law `partitions_are_reached` then fails and names two partitions that no
    moves connect.

    Each start is drawn from the posterior, so the partitions after a step follow the posterior if and only if the step
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


def check_engine(
    make: Callable[[], Engine],
    *,
    raises: bool = True,
    expected_failures: Mapping[str, str] | None = None,
    only: Sequence[str] | None = None,
) -> Report:
    """Try every law of engines on engines that a function makes.

    The main laws: sums and changes reach every part once, a failure changes no part, and a chain has the labels that it
    has in one process.

    Parameters
    ----------
    make : callable
        Called without arguments; returns a new engine. Each law closes the engines that it makes.
    raises, expected_failures, only
        See `check_family`.

    Returns
    -------
    Report

    Raises
    ------
    AssertionError
        With every failed check, if `raises`.

    Examples
    --------
    >>> from expfam.engines import SerialEngine
    >>> from expfam.plugins.conformance import check_engine
    >>> check_engine(SerialEngine).passed
    True
    """
    return _report(engines.ENGINE_LAWS, engines.EngineCase(make), make, raises, expected_failures, only)


def _report(laws, case, subject, raises, expected_failures, only):
    """Try the chosen laws on a case and return their outcomes."""
    expected = _known(dict(expected_failures or {}), "expected_failures", laws)
    chosen = laws if only is None else _known(list(only), "only", laws)
    report = Report(repr(subject), [_try(name, laws[name], case, expected.get(name)) for name in chosen])
    return _raised(report) if raises else report


def _raised(report):
    """Return the report if no check failed, else raise."""
    if report.passed:
        return report
    failed = "\n".join(f"  {name}: {report[name].message}" for name in report.named("failed"))
    raise AssertionError(f"{report.subject} breaks {len(report.named('failed'))} of its laws:\n{failed}")


def _known(names, argument, known):
    """Return `names` if each is the name of a check, else raise."""
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
    except Exception as error:  # foreign code may raise anything; the report holds the message
        status, message = ("failed", said(error)) if expected is None else ("expected", f"{expected}: {said(error)}")
    return Result(name, status, message, time.perf_counter() - start)


class _Check:
    """One law that pytest calls on a family or kernel; the laws of a subject share one case."""

    def __init__(self, law: Any, case_of: Callable[[Any], Any]) -> None:
        self.law, self.case_of = law, case_of

    def __call__(self, subject: Any) -> None:
        import pytest

        try:
            self.law(self.case_of(subject))
        except Inapplicable as reason:
            pytest.skip(str(reason))


def parametrize_with_checks(
    families: Sequence[Any],
    *,
    seed: int = 0,
    expected_failures: Mapping[str, str] | Callable[[Family], Mapping[str, str]] | None = None,
) -> Any:
    """Return a decorator that makes one pytest test of each family and check.

    It serves a test ``def test_family(family, check): check(family)``.

    Parameters
    ----------
    families : sequence of Family, or of (Family, X) pairs
    seed : int
    expected_failures : dict or callable, optional
        Reason by name of check, or a function of the family that returns this dict. These tests are marked
        ``xfail(strict=True)``.

    Examples
    --------
    >>> from expfam.plugins.conformance import parametrize_with_checks
    >>> from expfam import Exponential
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


def parametrize_with_kernel_checks(
    kernels: Mapping[str, Any],
    models: Mapping[str, tuple[MixtureModel, Any]] | None = None,
    *,
    n_moves: int = 10_000,
    seed: int = 0,
    expected_failures: Mapping[str, str] | None = None,
) -> Any:
    """Return a decorator that makes one pytest test of each kernel, model and law.

    It serves a test ``def test_kernel(kernel, check): check(kernel)``.

    Parameters
    ----------
    kernels : dict
        Kernels by name; a pair (kernel, True) claims that the kernel is reversible.
    models : dict of (MixtureModel, X), optional
        See `check_kernel`.
    n_moves, seed : int
        See `check_kernel`.
    expected_failures : dict, optional
        Reason by ``"kernel-law[model]"``. These tests are marked ``xfail(strict=True)``.

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
    """Return pytest's marks for a check; each of the two reasons may be None."""
    import pytest

    marks = [pytest.mark.skip(reason=skipped)] if skipped else []
    return marks + ([pytest.mark.xfail(reason=expected, strict=True)] if expected is not None else [])


def _shared(make):
    """Return a function that makes the case of a family or kernel once and keeps it."""
    made = []

    def case_of(subject):
        if not made:
            made.append(make(subject))
        return made[0]

    return case_of
