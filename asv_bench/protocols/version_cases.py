"""The programs that `versions.py` times: `PYTHON version_cases.py CASE [quick]` prints the least CPU seconds of one.

Each version of the package runs this file, so a case uses what all of them have. Where a name has changed, the case
chooses between the older one and the present one by what the imported package has. One thread each; `quick` is for the
test that a case works, and its seconds say nothing.
"""

import inspect
import resource
import subprocess
import sys
import warnings
from time import process_time
from typing import NamedTuple

import numpy as np
from generated import data

import expfam
from expfam import samplers

CASES = {}


def case(function):
    """Register a function of the effort that returns seconds, by its name."""
    CASES[function.__name__] = function
    return function


def cpu_seconds():
    """CPU seconds of this process and of those that it started and that have ended.

    On a busy machine they differ by per cents from run to run where the wall clock differs by a factor.
    """
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return process_time() + children.ru_utime + children.ru_stime


class Effort(NamedTuple):
    """How much work a case does."""

    share: int  # of the rows, one in so many is made
    repeats: int

    def rows(self, n_rows):
        """Number of rows to make."""
        return max(500, n_rows // self.share)

    def least(self, action, *, n_calls=1):
        """Least CPU seconds of a call, over repeats of so many calls; one call before them is not counted."""
        action()
        seconds = []
        for _ in range(self.repeats):
            begin = cpu_seconds()
            for _ in range(n_calls):
                action()
            seconds.append((cpu_seconds() - begin) / n_calls)
        return min(seconds)

    def least_step(self, kernel, model, rows, *, n_steps, start="random"):
        """Least CPU seconds of a step, over repeats of so many; three steps before them are not counted."""
        state = kernel.init(model, rows, seed=0, start=start)
        for _ in range(2):
            kernel.step(state)
        seconds = self.least(lambda: kernel.step(state), n_calls=n_steps)
        if kernel.is_done(state):
            raise RuntimeError(f"{kernel!r} converged, and its last steps did nothing: give it other data")
        return seconds


FULL, QUICK = Effort(share=1, repeats=5), Effort(share=50, repeats=1)


def mixture(family, n_clusters):
    """Model of a fixed number of clusters."""
    return expfam.MixtureModel(family, expfam.SymmetricDirichlet(n_clusters))


# ---- collapsed sweeps; numbers of steps are such that a repeat takes a tenth of a second or more ---------------------


@case
def gibbs_diagonal(effort):
    X, _ = data.gaussians(effort.rows(20_000), 50)
    return effort.least_step(samplers.CollapsedGibbs(), mixture(expfam.DiagonalGaussian(), 50), X, n_steps=8)


@case
def gibbs_full(effort):
    X, _ = data.gaussians(effort.rows(20_000), 50)
    return effort.least_step(samplers.CollapsedGibbs(), mixture(expfam.Gaussian(), 50), X, n_steps=4)


@case
def gibbs_multinomial(effort):
    X, _ = data.documents(effort.rows(20_000), 50)
    return effort.least_step(samplers.CollapsedGibbs(), mixture(expfam.Multinomial(), 50), X, n_steps=3)


@case
def gibbs_grouped(effort):
    X, labels = data.gaussians(effort.rows(20_000), 50)
    rows = expfam.Dataset(X, expfam.DiagonalGaussian(), groups=np.arange(len(labels)) // 20)
    model = expfam.AdmixtureModel(rows.family, 50, 0.1)
    return effort.least_step(samplers.GroupedGibbs(), model, rows, n_steps=8)


@case
def fastex_table(effort):
    X, _ = data.documents(effort.rows(20_000), 200)
    return effort.least_step(samplers.FastEx(proposal="table"), mixture(expfam.Multinomial(), 200), X, n_steps=3)


@case
def fastex_int8(effort):
    X, _ = data.gaussians(effort.rows(20_000), 100, n_features=32)
    return effort.least_step(samplers.FastEx(proposal="int8"), mixture(expfam.DiagonalGaussian(), 100), X, n_steps=2)


@case
def fastex_hash(effort):
    X, _ = data.documents(effort.rows(5_000), 200)
    return effort.least_step(samplers.FastEx(proposal="hash"), mixture(expfam.Multinomial(), 200), X, n_steps=1)


@case
def split_merge(effort):
    X, labels = data.gaussians(effort.rows(20_000), 50, separation=1.5, exponent=0.0)
    model = expfam.MixtureModel(expfam.DiagonalGaussian(), expfam.DirichletProcess())
    kernel = samplers.SplitMerge(n_moves=2_000, every=1)
    return effort.least_step(kernel, model, X, n_steps=20, start=labels)  # at the truth, where most moves are refused


# ---- sweeps over drawn parameters, and passes ------------------------------------------------------------------------


def least_nested_step(effort, kernel, *, n_steps):
    """Least CPU seconds of a step on rows of nested clusters, on which trees and groups help."""
    X, _ = data.nested_gaussians(effort.rows(40_000), 256, separation=0.7)
    return effort.least_step(kernel, mixture(expfam.SphericalGaussian(variance=1.0), 256), X, n_steps=n_steps)


@case
def uncollapsed_gibbs(effort):
    return least_nested_step(effort, samplers.UncollapsedGibbs(draw="dense"), n_steps=6)


@case
def canopy_1(effort):
    return least_nested_step(effort, samplers.Canopy(variant=1), n_steps=20)


@case
def canopy_2(effort):
    return least_nested_step(effort, samplers.Canopy(variant=2), n_steps=2)


@case
def stochastic_em(effort):
    return least_nested_step(effort, samplers.StochasticEM(draw="dense"), n_steps=6)


@case
def expectation_maximization(effort):
    return least_nested_step(effort, samplers.ExpectationMaximization(tol=0.0), n_steps=4)


@case
def sparse_variational(effort):
    X, _ = data.gaussians(effort.rows(60_000), 50, separation=1.0)
    kernel = samplers.SparseVariational(schedule=samplers.Full(), tol=0.0)
    return effort.least_step(kernel, mixture(expfam.DiagonalGaussian(), 50), X, n_steps=3)


# ---- topics and trees ------------------------------------------------------------------------------------------------


def least_topic_step(effort, kernel, *, n_steps):
    """Least CPU seconds of a step on documents of 50 topics."""
    X, _ = data.admixtures(effort.rows(4_000), 50, n_words=4_000)
    model = expfam.AdmixtureModel(expfam.Multinomial(0.01), 50, 0.1)
    return effort.least_step(kernel, model, X, n_steps=n_steps, start="auto")


@case
def topic_gibbs(effort):
    return least_topic_step(effort, samplers.TopicGibbs(), n_steps=6)


@case
def topic_variational(effort):
    return least_topic_step(effort, samplers.TopicVariational(bound_tol=0.0), n_steps=1)


@case
def topic_fit(effort):
    X, _ = data.admixtures(effort.rows(1_000), 50, n_words=4_000)
    now = "n_components" in inspect.signature(expfam.TopicModel).parameters
    number = {"n_components": 50} if now else {"n_topics": 50}
    return effort.least(lambda: expfam.TopicModel(**number, n_steps=10, n_warmup=5, random_state=0).fit(X))


@case
def hierarchy_fit(effort):
    X, _ = data.gaussians(effort.rows(1_000), 20, n_features=10)
    return effort.least(lambda: expfam.BayesianHierarchy("gaussian_diag", random_state=0).fit(X), n_calls=3)


# ---- what users call -------------------------------------------------------------------------------------------------


def least_fit(effort, X):
    """Least CPU seconds of a fit with all defaults, which are part of a version: one that does more takes longer."""
    return effort.least(lambda: expfam.Mixture(random_state=0).fit(X))


@case
def mixture_fit_1000(effort):
    return least_fit(effort, data.gaussians(effort.rows(1_000), 5, n_features=4)[0])


@case
def mixture_fit_20000(effort):
    return least_fit(effort, data.gaussians(effort.rows(20_000), 20, n_features=8)[0])


@case
def mixture_predict(effort):
    X, _ = data.gaussians(effort.rows(50_000), 20)
    model = expfam.Mixture(n_components=20, n_steps=5, n_warmup=5, random_state=0).fit(X[: len(X) // 10])
    return effort.least(lambda: model.predict(X), n_calls=10)


@case
def import_expfam(effort):
    program = "from time import process_time as cpu; begin = cpu(); import expfam; print(cpu() - begin)"
    command = [sys.executable, "-c", program]
    runs = [subprocess.run(command, capture_output=True, check=True, text=True) for _ in range(3 * effort.repeats)]
    return min(float(run.stdout) for run in runs)


@case
def command_help(effort):
    command = [sys.executable, "-m", "expfam", "--help"]
    return effort.least(lambda: subprocess.run(command, capture_output=True, check=True))


def main(arguments):
    """Print the seconds of a case."""
    name, *quick = arguments
    warnings.simplefilter("ignore")  # few steps do not converge
    print(CASES[name](QUICK if quick else FULL))


if __name__ == "__main__":
    main(sys.argv[1:])
