"""Certificate of a sampler: is a step exact, and does a run reach the posterior.

Model and data are the user's. Three questions are kept apart. Are single steps exact on rows of the data, by
enumeration ("rows")? Does a chain keep a true partition in its rank ("truth", and "data" given rows of the data)? Does
a run as the user starts it reach the posterior ("cold")? An answer "no" to the first two is an error of the sampler; to
the last one alone, a run that is too short.
"""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from expfam.amounts import counted
from expfam.errors import CapabilityError, DataError, DataWarning, ExactnessWarning, ExpFamError
from expfam.evaluation.admixture_certificate import (
    GROUPED,
    TOPICS,
    Certified,
    certified_admixture,
    certified_process,
)
from expfam.evaluation.admixture_checks import ChainRun
from expfam.evaluation.arviz import arviz_tree
from expfam.evaluation.calibration import EstimatorRun, KernelRun, check_cold
from expfam.evaluation.exactness import (
    STATE,
    Found,
    Problem,
    Ranks,
    Skipped,
    can_be_certified,
    check_data,
    check_rows,
    check_truth,
)
from expfam.evaluation.given_rows import matrix_of
from expfam.evaluation.ranks import least_shift, least_variation
from expfam.model.admixture import AdmixtureModel
from expfam.model.data import Dataset
from expfam.model.hierarchical import HierarchicalProcess
from expfam.model.hyper_prior import factor_names, recorded_name
from expfam.model.mixture import MixtureModel
from expfam.params import Integer, check_value, is_auto
from expfam.samplers.chain.driver import advance
from expfam.samplers.chain.kernel import Cycle, Kernel
from expfam.samplers.hyper.record import prior_of_updates
from expfam.samplers.hyper.slice import UpdateHyper
from expfam.samplers.named import load_sampler
from expfam.structures.ground.rng import resolve_seed
from expfam.structures.ground.threads import resolve_n_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKS = ("rows", "truth", "data", "cold")
_QUESTIONS = {
    "rows": "are single steps exact on a few of these rows?",
    "truth": "are single steps exact on data drawn from the prior?",
    "data": "are single steps exact on more rows like some of these?",
    "cold": "does a run from its own start reach the posterior?",
}
LEVEL = 1e-4  # probability that a right sampler fails, over all checks and quantities
DOUBT = 1e-2  # below this a check is repeated
SECOND = 1e-3  # level of the repetition
NO_ERROR = "no error is raised"  # a quantity that is only written where it fails
_INSTEAD = {  # of check_model, by the kind of estimator
    "hierarchy": "it merges greedily and has no chain, so its answer is no draw of a posterior. To check a"
    " sampler on these rows, give a mixture: check_model(Mixture(family), X). `log_evidence_` compares trees",
}
_SBC = {"truth": "prior_sbc", "data": "posterior_sbc", "cold": "cold_sbc"}  # groups of an ArviZ tree
_MORE = 4  # times as many replicates in a repetition
_FEWEST = 100  # replicates that a time limit leaves
_PILOT = 8
_WARM_STEPS = 5  # before adapted settings are fixed
_COLD_STEPS = 100  # where a rule of the log joint would end the run
_KERNEL_STEPS = 50  # of a run whose kernel is given alone, as many for the warm-up


@dataclass(frozen=True)
class CheckedQuantity:
    """One line of a certificate: a quantity with its p-value.

    Attributes
    ----------
    check : {"rows", "truth", "data", "cold"}
    quantity : str
        What was compared; empty for a check that was skipped.
    p : float or None
        Probability of so large a difference if the sampler is right; None for a check that was skipped.
    status : {"passed", "failed", "skipped"}
    n_replicates : int
    seed : int
        Seed that gives these numbers again.
    seconds : float
        Of the whole check.
    note : str
        Reason of a skip, or what a reader must know beside.
    """

    check: str
    quantity: str
    p: float | None
    status: str
    n_replicates: int
    seed: int
    seconds: float
    note: str = ""


@dataclass(frozen=True)
class Certificate:
    """Result of `check_model`: a verdict and a table of p-values; printing it gives both.

    Attributes
    ----------
    sampler, model : str
        Representations of the kernel and the model.
    table : tuple of CheckedQuantity
        All quantities of all checks.
    settings : dict
        Arguments of `check_model` that give the same certificate again, and the version of the package.
    advice : str
        What to do where runs do not reach the posterior; empty otherwise.
    power : str
        How large an error a run of this size finds.
    ranks : dict of str to Ranks
        Ranks of the truth by the name of the check, for `to_arviz`.
    """

    sampler: str
    model: str
    table: tuple[CheckedQuantity, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    advice: str = ""
    power: str = ""
    ranks: dict[str, Ranks] = field(default_factory=dict, repr=False, compare=False)

    @property
    def is_exact(self) -> bool | None:
        """Whether the checks of single steps have passed; None if all of them were skipped."""
        return self._outcome("rows", "truth", "data")

    @property
    def has_converged(self) -> bool | None:
        """Whether cold runs have reached the posterior; None if that was not checked."""
        return self._outcome("cold")

    @property
    def passed(self) -> bool:
        """Whether something was checked and nothing failed."""
        return self._outcome(*CHECKS) is True

    def _outcome(self, *checks):
        statuses = {row.status for row in self.table if row.check in checks} - {"skipped"}
        return None if not statuses else statuses == {"passed"}

    @property
    def verdict(self) -> str:
        """Conclusion in one or two sentences."""
        if self.is_exact is False:
            return f"NOT EXACT: {self._worst('rows', 'truth', 'data')}."
        if any(row.check == "cold" and row.quantity == NO_ERROR for row in self.table):  # no run came to an end
            return f"FAILED: {self._worst('cold')}."
        if self.has_converged is False:
            begin = "exact, not converged" if self.is_exact else "not converged (exactness was not checked)"
            return f"{begin}: {self._worst('cold')}. {self.advice}"
        if not self.passed:
            return f"NOTHING CHECKED: {'; '.join(dict.fromkeys(row.note for row in self.table))}."
        made = [check for check in CHECKS if self._outcome(check)]
        return f"no error found by {', '.join(made)}. {self.power}"

    def _worst(self, *checks):
        row = min((row for row in self.table if row.check in checks and row.status == "failed"), key=lambda row: row.p)
        if row.quantity == NO_ERROR:
            return f"check {row.check!r}: the sampler raised an error (seed {row.seed}): {row.note}"
        if row.quantity == STATE:
            return f"check {row.check!r}, {STATE}: they are not those of its labels (seed {row.seed})"
        return (
            f"check {row.check!r}, {row.quantity}: p = {row.p:.1e} in {counted(row.n_replicates, 'replicate')} (seed "
            f"{row.seed})"
        )

    def __str__(self) -> str:
        lines = [f"certificate of {self.sampler}", f"on {self.model}", ""]
        if len({row.note for row in self.table}) == 1 and self._outcome(*CHECKS) is None:  # one reason for all
            return "\n".join([*lines, f"verdict: {self.verdict}"])
        width = max(len(row.quantity) for row in self.table)
        for check in dict.fromkeys(row.check for row in self.table):
            rows = [row for row in self.table if row.check == check]
            first = rows[0]
            if first.p is None:
                lines += [f"{check}: skipped, {first.note}", ""]
                continue
            lines.append(f"{check}: {_QUESTIONS[check]}")
            lines.append(f"  {counted(first.n_replicates, 'replicate')}, {first.seconds:.1f} s; {first.note}")
            lines += [f"  {row.quantity:{width}}  p = {row.p:<8.2g} {_shown(row)}".rstrip() for row in rows]
            lines.append("")
        lines.append("p: probability of so large a difference if the sampler is right; FAILED where it is too small")
        return "\n".join([*lines, f"verdict: {self.verdict}"])

    def as_dict(self) -> dict[str, Any]:
        """Return everything as a dict of plain values."""
        return {
            "sampler": self.sampler,
            "model": self.model,
            "passed": self.passed,
            "is_exact": self.is_exact,
            "has_converged": self.has_converged,
            "verdict": self.verdict,
            "settings": self.settings,
            "table": [asdict(row) for row in self.table],
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the certificate as JSON text, and write it to a file if a path is given.

        Parameters
        ----------
        path : str or Path, optional

        Returns
        -------
        str
        """
        text = json.dumps(self.as_dict(), indent=1)
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def to_arviz(self) -> Any:
        """Return the ranks as ArviZ draws them: one number between 0 and 1 for each replicate.

        Returns
        -------
        xarray.DataTree, or arviz.InferenceData where ArviZ below 1.0 is installed
            Group "prior_sbc" has the ranks of the check "truth", "posterior_sbc"
            those of "data", and "cold_sbc" those of "cold". A rank r of L places becomes a random number between r / L
            and (r + 1) / L, so that even ranks are uniform numbers, as
            ``arviz_plots.plot_ecdf_pit(tree, group="prior_sbc")`` wants them.

        Raises
        ------
        ImportError
            ArviZ is not installed.
        ValueError
            No check has ranked anything.
        """
        if not self.ranks:
            raise ValueError(
                "no check has ranks: 'truth' and 'data' rank the truth where the kernel has a reversal, 'cold' does so"
                " for all kernels, and 'rows' for none"
            )
        groups = {_SBC[check]: _uniform_numbers(ranks) for check, ranks in self.ranks.items()}
        return arviz_tree(groups, attrs_of=next(iter(groups)))


def _uniform_numbers(ranks):
    """Return a number between 0 and 1 for each rank, by the name of the quantity: (1, R) each."""
    rng = np.random.default_rng(0)
    numbers = (ranks.values + rng.random(ranks.values.shape)) / ranks.n_places
    names = (re.sub(r"\W+", "_", name) for name in ranks.names)
    return {name: column[None] for name, column in zip(names, numbers.T)}


def _shown(row):
    return "FAILED" if row.status == "failed" else ""


def check_model(
    model: Any,
    X: Any,
    *,
    groups: Any = None,
    links: Any = None,
    sampler: str | Kernel | None = None,
    checks: Sequence[str] = CHECKS,
    n_replicates: int = 300,
    n_rows: int = 60,
    random_state: Any = 0,
    n_threads: int | None = None,
    time_limit: float | None = None,
) -> Certificate:
    """Check whether a sampler draws from a model's posterior, on given and on generated data.

    Parameters
    ----------
    model : Mixture, TopicModel, GroupedMixture, MixtureModel or AdmixtureModel
        An estimator that is not fitted is fitted to `X` first. Hyper-parameters are those of the fit; a model that is
        not bound is bound to `X`.
    X : array_like, sparse matrix or frame, shape (N, V)
        At least 3 rows, or 3 tokens. A table is encoded by the roles of its columns, as for a fit.
    groups : (N,) array_like, Groups or str, optional
        Group of each row, or the name of the column of a frame that has it, for a GroupedMixture. An AdmixtureModel
        without groups is a topic model.
    links : (N,) array_like of int, optional
        Links of rows, for a GroupedMixture: the certificate is of the posterior given these links.
    sampler : str or Kernel, optional
        Sampler to check; by default that of the estimator, and ``"auto"`` for a model.
    checks : sequence of {"rows", "truth", "data", "cold"}
        What is checked, see Notes.
    n_replicates : int
        Replicates of each check, at least 20. Errors down to half the size need four times as many.
    n_rows : int
        Rows, or tokens, of each simulated data set, at least 4.
    random_state : None, int, numpy Generator or RandomState
        The same integer gives the same certificate.
    n_threads : int or None
        Threads over the replicates; None for one, -1 for all cores. The result does not depend on it.
    time_limit : float, optional
        Seconds. The number of replicates is halved until a forecast is below it, to 100 at the least. Repetitions are
        not in the forecast.

    Returns
    -------
    Certificate

    Raises
    ------
    ValueError
        An argument is out of range.
    CapabilityError
        The sampler refuses the model, or it moves no labels. The estimator knows classes of rows, or links that are
        not given, which the checks do not draw.
    TypeError
        `model` is of a class that has no chain of partitions; the message says what to do instead.

    Notes
    -----
    - "rows": the posterior of 6 rows of `X` is enumerated, 20 times; one and four steps from draws of it must end in
      it. It sees errors with the numbers of these very data.
    - "truth": partition and data are drawn from the prior. The partition stands at a random place of a chain of
      20 states, which is run forwards and backwards. All ranks of it are equally likely, however slow the chain is.
    - "data": as "truth", given 8 rows of `X` with a draw of their enumerated posterior.
    - "cold": runs as the user starts them, on data of the prior: ranks of the true partition among the draws,
      intervals of the number of clusters, pairs of rows.

    Where the sampler redraws hyper-parameters (`UpdateHyper`, a mixture with ``learn_hyper=True``, or a fitted mixture
    that has drawn them with the partition), "truth" draws
    them from their prior too and ranks them beside the partition, and so does "cold" for a kernel with `UpdateHyper`.
    "rows" and "data" check the kernels that move labels, at fixed hyper-parameters.

    Topic models and mixtures of rows in groups have the same checks. Tokens are their rows; simulated documents and
    groups are as long as those of `X`, at most a third of the simulated rows. Clusters have numbers: "rows" and "data"
    enumerate all clusters of 6 tokens or rows, of several documents or groups, with 4 of the clusters of the model
    where it has more. Slopes of the log joint by the pseudo-counts are among the quantities. Linked rows move as one;
    the simulated data have up to two link groups. Pseudo-counts that the sampler redraws come from their Gamma(1, 1)
    prior in "truth" and "cold"; with links, from this prior given that two linked rows agree.

    EM and variational inference are no samplers: nothing is checked, and the verdict says so.

    A sampler that is right fails with a probability of about 1e-4 (Bonferroni over all quantities and checks). A check
    with a p-value between that and 1e-2 is repeated with other seeds and four times as many replicates, and then fails
    below 1e-3; this repetition decides.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import DirichletProcess, MixtureModel, Poisson, check_model
    >>> X = np.random.default_rng(0).poisson([[1, 5]] * 10 + [[6, 1]] * 10)
    >>> model = MixtureModel(Poisson(shape=1.0, rate=0.3), DirichletProcess())
    >>> check_model(model, X, sampler="gibbs", checks=["rows"], n_replicates=50).passed
    True

    A topic model, and rows in groups:

    >>> from expfam import AdmixtureModel, Multinomial
    >>> topics = AdmixtureModel(Multinomial(0.3), 2, alpha=0.5)
    >>> check_model(topics, [[2, 1, 0], [0, 2, 2], [1, 0, 3]], checks=["rows"], n_replicates=50).passed
    True
    >>> groups = [0, 1, 2, 3] * 5
    >>> grouped = AdmixtureModel(Poisson(shape=1.0, rate=0.3), 2, alpha=0.5)
    >>> check_model(grouped, X, groups=groups, checks=["rows"], n_replicates=50).passed
    True
    """
    checks = _checked(checks, n_replicates, n_rows, time_limit)
    seed = resolve_seed(random_state)
    with warnings.catch_warnings():
        for kind in (ExactnessWarning, DataWarning):
            warnings.simplefilter("ignore", kind)
        sizes = {"seed": seed, "n_threads": resolve_n_threads(n_threads)}
        if isinstance(model, (AdmixtureModel, HierarchicalProcess)) or getattr(model, "saved_kind", None) in (
            TOPICS,
            GROUPED,
        ):
            given = {"groups": groups, "links": links, "sampler": sampler}
            certify = certified_process if _is_of_unknown_number(model) else certified_admixture
            certified = certify(model, X, n_units=n_rows, **given, **sizes)
        else:
            _refuse_groups(model, groups, links)
            certified = _certified_mixture(model, X, sampler, n_rows, **sizes)
        functions = {name: certified.checks[name] for name in checks}
        if time_limit is not None:
            n_replicates = _affordable(functions, n_replicates, time_limit, seed)
        made = {name: _made(name, functions[name], n_replicates, seed, len(checks)) for name in checks}
    table = [row for rows, _ in made.values() for row in rows]
    settings = {"checks": list(checks), "n_replicates": n_replicates, "n_rows": n_rows, "random_state": seed}
    return Certificate(
        repr(certified.kernel),
        repr(certified.model),
        tuple(table),
        settings | {"version": version("expfam")},
        _advice(certified.cold_run, certified.kernel),
        _power(table),
        {name: ranks for name, (_, ranks) in made.items() if ranks is not None},
    )


def _checked(checks, n_replicates, n_rows, time_limit):
    """Return the checks in order; refuse arguments out of range."""
    named = [checks] if isinstance(checks, str) else list(checks)
    unknown = [name for name in named if name not in CHECKS]
    if unknown or not named:
        raise ValueError(f"check_model: checks must be some of {', '.join(map(repr, CHECKS))}; got {checks!r}")
    check_value("check_model: n_replicates", n_replicates, (Integer(20),))
    check_value("check_model: n_rows", n_rows, (Integer(4),))
    if time_limit is not None and not time_limit > 0:
        raise ValueError(f"check_model: time_limit must be a positive number of seconds or None; got {time_limit!r}")
    return [name for name in CHECKS if name in named]


# ---- what is certified -----------------------------------------------------------------------------------------------


class _Stated(NamedTuple):
    """What is certified: the kernel as it was given, and the problems of the checks.

    Where the kernel redraws hyper-parameters, `labels` has the kernels that move labels, at fixed hyper-parameters, and
    `all` the whole kernel with the prior of the hyper-parameters. Otherwise the two are one.
    """

    kernel: Kernel
    labels: Problem
    all: Problem
    cold: Problem
    cold_run: Any


def _refuse_groups(model, groups, links):
    """Refuse groups and links of rows for models of rows without groups."""
    name = type(model).__name__
    if groups is not None:
        raise CapabilityError(
            f"check_model: a {name} has no groups of rows: write check_model(GroupedMixture(family, K), X,"
            " groups=groups), or leave out groups="
        )
    if links is not None:
        raise CapabilityError(
            f"check_model: links of rows are checked for mixtures of rows in groups alone: write"
            f" check_model({'model' if isinstance(model, MixtureModel) else 'mixture'}, X), which checks the steps"
            " without links"
        )


def _certified_mixture(model, X, sampler, n_rows, *, seed, n_threads):
    """Return what is certified of a mixture."""
    stated = _stated(model, X, sampler, seed, n_rows, n_threads)
    return Certified(stated.kernel, stated.labels.model, _functions(stated), stated.cold_run)


def _stated(model, X, sampler, seed, n_rows, n_threads):
    """Return what is certified."""
    estimator, drawn = (None, ()) if isinstance(model, MixtureModel) else _fitted(model, X, sampler, seed)
    X = matrix_of(X, (model if estimator is None else estimator.model_).family, estimator)
    bound = model.bind(X) if estimator is None else estimator.model_
    data = Dataset(X, bound.family)
    if data.n_rows < 3:
        raise DataError(f"check_model: X has {counted(data.n_rows, 'row')}; at least 3 are needed")
    kernel = _kernel(sampler if sampler is not None or estimator is None else estimator.sampler, bound, data)
    if all(isinstance(part, UpdateHyper) for part in _parts(kernel)):
        raise CapabilityError(
            f"check_model: {kernel!r} moves no labels: put it into a Cycle with a kernel that moves them"
        )
    whole = kernel if estimator is None else _learning(kernel, estimator, bound, drawn)
    whole.check(bound, data)
    of_labels = _counted(whole, bound, data, n_rows, seed)
    labels = every = Problem(bound, _of_labels(of_labels), data.X, n_rows, n_threads)
    prior = prior_of_updates(whole, bound)
    if prior is not None:
        every = every._replace(kernel=of_labels, prior=prior)
    if estimator is None:
        cold_run: Any = KernelRun(bound, kernel, n_warmup=_KERNEL_STEPS, n_steps=_KERNEL_STEPS)
    else:
        cold_run = EstimatorRun(estimator, bound, n_steps=_COLD_STEPS)
    # the runs of a mixture learn nothing: what they are to draw is the posterior at fixed hyper-parameters
    return _Stated(kernel, labels, every, every if whole is kernel else labels, cold_run)


def _learning(kernel, estimator, model, drawn):
    """Return the kernel of a mixture, with the update of what it learns or draws."""
    names = tuple(model.family.hyper)
    if is_auto(estimator.learn_hyper) or not estimator.learn_hyper:
        own = {name: factor_names(model.family, [name]) for name in names}
        names = tuple(name for name in names if all(recorded_name(model.family, each) in drawn for each in own[name]))
    return Cycle(kernel, UpdateHyper(family=names, weights=False)) if names else kernel


def _of_labels(kernel):
    """Return the kernel without updates of hyper-parameters.

    Where each part of a composition is exact, so is every order of them.
    """
    parts = list(_parts(kernel))
    kept = [part for part in parts if not isinstance(part, UpdateHyper)]
    return kernel if len(kept) == len(parts) else kept[0] if len(kept) == 1 else Cycle(*kept)


def _no_sampler(problem):
    """Return why a kernel has no posterior to be checked against, or an empty text."""
    kernel, data = problem.kernel, Dataset(problem.X[:3], problem.model.family)
    if kernel.is_sampler and can_be_certified(kernel.init(problem.model, data, seed=0, start="one")):
        return ""
    name = type(kernel).__name__
    if kernel.is_sampler:
        return f"{name} keeps no single partition of the rows that a check could set and read"
    return (
        f"{name} is no sampler: it looks for one good fit and does not draw from the posterior. Samplers that do are"
        " sampler='auto', 'gibbs', 'fastex', 'split_merge', 'uncollapsed_gibbs' and 'canopy'"
    )


def _is_of_unknown_number(model):
    """Tell whether a model is of groups or documents whose number of clusters is unknown."""
    is_grouped = getattr(model, "saved_kind", None) in (TOPICS, GROUPED)
    return isinstance(model, HierarchicalProcess) or (is_grouped and model.n_components is None)


def _check_kind(mixture):
    """Refuse what has no chain of partitions of rows, and what is known of rows."""
    kind, name = getattr(mixture, "saved_kind", None), type(mixture).__name__
    if kind in _INSTEAD:
        raise TypeError(f"check_model: there is no certificate of a {name}: {_INSTEAD[kind]}")
    if kind != "mixture":
        raise TypeError(
            "check_model: model must be a Mixture, TopicModel, GroupedMixture, MixtureModel or AdmixtureModel; got"
            f" {name}"
        )
    if mixture.labels is not None or hasattr(mixture, "n_known_"):
        known = "links of rows" if mixture.labels is None else f"labels={mixture.labels!r}"
        raise CapabilityError(
            f"check_model: the {name} was made with {known}, and the checks draw rows of which nothing is known: they"
            " would speak of another posterior. To check the steps without what is known:"
            " check_model(mixture.model_, X, sampler=mixture.sampler) after a fit, or leave out what is known"
        )


def _fitted(mixture, X, sampler, seed):
    """Return a copy of a mixture with its fitted model and the given sampler.

    The second result names the hyper-parameters of its draws.
    """
    _check_kind(mixture)
    settings = mixture.get_params(deep=False) | ({} if sampler is None else {"sampler": sampler})
    copied, fitted = type(mixture)(**settings), mixture
    if not hasattr(mixture, "model_"):
        fitted = type(mixture)(**settings | {"random_state": seed}).fit(X)
    copied.model_ = fitted.model_
    if fitted.__dict__.get("documents_") is not None:
        copied.documents_, copied.feature_names_in_ = fitted.documents_, fitted.feature_names_in_
    return copied, _drawn_hyper(fitted)


def _drawn_hyper(fitted):
    """Return the names of the hyper-parameters that a fit has drawn with the partition."""
    return tuple(fitted.posterior_.hyper) if hasattr(fitted, "posterior_") else ()


def _kernel(sampler, model, data):
    return load_sampler("auto" if sampler is None else sampler, model=model, data=data)


def _parts(kernel) -> Iterator[Any]:
    """Yield a kernel, or the kernels of which it consists."""
    for part in getattr(kernel, "kernels", ()):
        yield from _parts(part)
    if not getattr(kernel, "kernels", ()):
        yield kernel


def _counted(kernel, model, data, n_rows, seed):
    """Return the kernel of the steps that count: adapted settings fixed, and no step that rests."""
    if any(type(part).frozen is not Kernel.frozen for part in _parts(kernel)):
        state = kernel.init(model, data.rows(0, min(n_rows, data.n_rows)), seed=seed)
        advance(kernel, state, _WARM_STEPS)
        kernel = kernel.frozen(state)
    return _without_rest(kernel)


def _without_rest(kernel):
    """Return the kernel with moves in every step.

    Where each part of a composition is exact, so is every order of them.
    """
    if isinstance(kernel, Cycle):
        settings = {name: value for name, value in kernel.get_params().items() if name != "kernels"}
        return type(kernel)(*map(_without_rest, kernel.kernels), **settings)
    settings = kernel.get_params()
    return type(kernel)(**settings | {"every": 1}) if settings.get("every", 1) != 1 else kernel


# ---- running the checks ----------------------------------------------------------------------------------------------


def _functions(stated) -> dict[str, Callable[[int, int], Found] | str]:
    """Return a function of (n_replicates, seed) for each check, or why it is not made."""
    at_fixed, drawn = "", ""
    if stated.all is not stated.labels:
        at_fixed = "the kernels of labels alone, at fixed hyper-parameters"
        drawn = f"hyper-parameters from their prior: {', '.join(stated.all.prior.names)}"
    made: dict[str, Any] = {
        "rows": _noted(at_fixed, lambda n, seed: check_rows(stated.labels, n, seed)),
        "truth": _noted(drawn, lambda n, seed: check_truth(stated.all, n, seed)),
        "data": _noted(at_fixed, lambda n, seed: check_data(stated.labels, n, seed)),
        "cold": _noted(
            drawn if stated.cold.prior else "", lambda n, seed: check_cold(stated.cold, stated.cold_run, n, seed)
        ),
    }
    reason = _no_sampler(stated.labels)
    return {name: reason or function for name, function in made.items()}


def _noted(note, function):
    """Return the check with a further note."""

    def made(n_replicates, seed):
        found = function(n_replicates, seed)
        return found._replace(notes=(*found.notes, note)) if note else found

    return made


def _affordable(functions, n_replicates, time_limit, seed):
    """Return the number of replicates whose forecast is below the limit."""
    seconds = 0.0
    for function in functions.values():
        if callable(function):
            begin = perf_counter()
            try:
                function(_PILOT, seed)
            except Skipped:
                continue
            seconds += (perf_counter() - begin) / _PILOT
    while n_replicates > _FEWEST and seconds * n_replicates > time_limit:
        n_replicates = max(_FEWEST, n_replicates // 2)
    return n_replicates


def _made(name, function, n_replicates, seed, n_checks):
    """Make one check, and once more with other seeds where the result is in doubt.

    Return the rows of the table, and the ranks.
    """
    begin = perf_counter()
    if isinstance(function, str):
        return [CheckedQuantity(name, "", None, "skipped", 0, seed, 0.0, function)], None
    try:
        found = function(n_replicates, seed)
        level = LEVEL / n_checks / len(found.p)
        if level <= min(found.p.values()) < DOUBT / n_checks / len(found.p):
            seed, level = (seed + 1) % 2**64, SECOND / n_checks / len(found.p)
            found = function(_MORE * n_replicates, seed)
            found = found._replace(notes=(*found.notes, "repeated, as the first result was in doubt"))
    except Skipped as reason:
        return [CheckedQuantity(name, "", None, "skipped", 0, seed, perf_counter() - begin, str(reason))], None
    except (ExpFamError, FloatingPointError) as error:
        return [CheckedQuantity(name, NO_ERROR, 0.0, "failed", 0, seed, perf_counter() - begin, str(error))], None
    seconds, note = perf_counter() - begin, "; ".join(found.notes)
    rows = [
        CheckedQuantity(name, quantity, p, "failed" if p < level else "passed", found.n_replicates, seed, seconds, note)
        for quantity, p in found.p.items()
    ]
    return rows, found.ranks


# ---- words -----------------------------------------------------------------------------------------------------------


def _advice(cold_run, kernel):
    """Return what to do about runs that are too short."""
    n_warmup = max(100, 4 * cold_run.n_warmup)
    moves = any("SplitMerge" in type(base).__name__ for base in _parts(kernel))
    is_of_groups = isinstance(cold_run, ChainRun)
    more = "" if moves or is_of_groups else ', or sampler="auto", which adds splits and merges where it can'
    return (
        f"{cold_run.n_warmup} + {cold_run.n_steps} steps are too few here: try "
        f"n_warmup={n_warmup} and n_steps={4 * max(cold_run.n_steps, 25)}{more}; n_chains=4 tells whether chains from "
        "other starts agree"
    )


def _power(table):
    """Say how large an error a run of this size finds nine times in ten."""
    sizes = {row.check: row.n_replicates for row in table if row.n_replicates}
    level, said = LEVEL / max(1, sum(row.p is not None for row in table)), []
    ranked = [n for check, n in sizes.items() if check != "rows"]
    if ranked:
        said.append(f"ranks whose law is off by a total variation of {_two(least_variation(min(ranked), level))}")
    if "rows" in sizes:
        shift = _two(least_shift(sizes["rows"], level))
        said.append(f"a mean log joint of few rows that is off by {shift} of its standard deviation")
    if not said:
        return ""
    more = "smaller errors need more replicates"
    if "rows" not in sizes:
        more += ', or checks=["rows"]: it compares with the enumerated posterior, and finds smaller errors, such as a'
        more += " concentration that is a tenth too large"
    return f"Nine times in ten, a run of this size finds {' or '.join(said)}; {more}."


def _two(value):
    digits = max(0, 1 - math.floor(math.log10(value)))
    return f"{value:.{digits}f}"
