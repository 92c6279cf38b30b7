"""Which sampler works with which family and prior on weights: the table of docs/compositions.md, from the code.

`python tests/support/compositions.py` prints the page.
"""

import inspect
import warnings

import numpy as np

import expfam as ef
from expfam.errors import CapabilityError, DataWarning
from expfam.params import Settings
from expfam.plugins.laws.data_case import made_up_data

FAMILIES = sorted(plugin.name for plugin in ef.list_plugins("family") if plugin.distribution == "expfam")
WEIGHTS = {
    "F": ef.SymmetricDirichlet(4, alpha=0.5),
    "D": ef.DirichletProcess(alpha=1.0),
    "P": ef.PitmanYor(alpha=1.0, discount=0.3),
}
PRESETS = ("auto", "near", "lshsm", "minsm", "sdds", "rgsm", "random", "mondrian")
KERNELS = [
    ef.samplers.CollapsedGibbs(),
    ef.samplers.FastEx(),
    ef.samplers.CollapsedMetropolis("table"),
    ef.samplers.CollapsedMetropolis("int8"),
    ef.samplers.CollapsedMetropolis(ef.samplers.HashProposal(n_bits=64)),
    *(ef.samplers.SplitMerge(preset) for preset in PRESETS),
    ef.samplers.Cycle(ef.samplers.SplitMerge(), ef.samplers.FastEx()),
    ef.samplers.UncollapsedGibbs(draw="dense"),
    ef.samplers.UncollapsedGibbs(draw="tree"),
    ef.samplers.UncollapsedGibbs(draw="rejection"),
    ef.samplers.Canopy(variant=1),
    ef.samplers.Canopy(variant=2),
    ef.samplers.StochasticEM(),
    ef.samplers.ExpectationMaximization(),
    ef.samplers.SparseVariational(),
    ef.samplers.SparseVariational(objective="map"),
    ef.samplers.SparseVariational(2, n_candidates=3),
    ef.samplers.HierarchicalClustering(),
    ef.samplers.Cycle(ef.samplers.CollapsedGibbs(), ef.samplers.UpdateHyper()),
]


def shown(value):
    """A kernel, or a part of one, as the code that makes it: settings at their defaults are left out."""
    if isinstance(value, ef.samplers.Cycle):
        arguments = [shown(kernel) for kernel in value.kernels]
    elif isinstance(value, Settings):
        own = value.get_params()
        arguments = [
            shown(own[name]) if parameter.kind is parameter.POSITIONAL_OR_KEYWORD else f"{name}={shown(own[name])}"
            for name, parameter in inspect.signature(type(value).__init__).parameters.items()
            if name in own and own[name] != parameter.default
        ]
    else:
        return f'"{value}"' if isinstance(value, str) else repr(value)
    return f"{type(value).__name__}({', '.join(arguments)})"


SAMPLERS = {shown(kernel): kernel for kernel in KERNELS}


def tried(title):
    """The sampler of that title as tests run it: moves that cut columns are slow on few rows, where many are made."""
    return ef.samplers.SplitMerge("mondrian", n_moves=42) if title == 'SplitMerge("mondrian")' else SAMPLERS[title]


def family_named(name):
    """A shipped family by its name; the family of tables with columns of three kinds."""
    if name != "columns":
        return ef.load_family(name)
    return ef.Columns([(ef.DiagonalGaussian(), (0,)), (ef.Poisson(), (1,)), (ef.Categorical(), (2,))])


def rows_for(family, n_columns, rng):
    """Forty rows that suit a family; those of a table lack some cells."""
    if family.support != "mixed":
        return made_up_data(family.support, n_columns, rng)
    X = np.column_stack([rng.normal(size=40), rng.poisson(3.0, 40), rng.integers(0, 3, 40)]).astype(np.float64)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def data_of(family_name):
    """Forty rows that suit a family."""
    family = family_named(family_name)
    X = rows_for(family, 3 if family.support in ("unit", "categories") else 4, np.random.default_rng(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return ef.Dataset(X, family)


def refusal(sampler, data, weights):
    """Why a sampler does not take a model, None where it does."""
    try:
        sampler.check(ef.MixtureModel(data.family, weights), data)
    except CapabilityError as error:
        return str(error)
    return None


def table():
    """{sampler: {family: ({letters of the weights it takes}, {letter: refusal})}}."""
    data = {name: data_of(name) for name in FAMILIES}
    rows = {}
    for title, sampler in SAMPLERS.items():
        rows[title] = {}
        for name in FAMILIES:
            reasons = {letter: refusal(sampler, data[name], weights) for letter, weights in WEIGHTS.items()}
            rows[title][name] = ([k for k, v in reasons.items() if v is None], {k: v for k, v in reasons.items() if v})
    return rows


def page():
    """The page as Markdown."""
    rows, notes = table(), {}
    lines = ["| |" + "".join(f" {name} |" for name in FAMILIES), "|---|" + "---|" * len(FAMILIES)]
    for title, of_family in rows.items():
        cells = []
        for name in FAMILIES:
            taken, refused = of_family[name]
            marks = sorted({notes.setdefault(_general(reason, name), len(notes) + 1) for reason in refused.values()})
            cells.append(" ".join(["".join(taken) or "–", *(f"[{mark}]" for mark in marks)]))
        lines.append(f"| `{title}` |" + "".join(f" {cell} |" for cell in cells))
    listed = [f"{number}. {reason}" for reason, number in notes.items()]
    return "\n".join([HEAD, *lines, "", "What is refused, in the words of the error:", "", *listed, ""])


def _general(reason, family):
    return reason.replace(f"'{family}'", "FAMILY").replace(f" {family} ", " FAMILY ")


HEAD = """# What goes with what

Any family, any prior on weights and any sampler compose where the mathematics allows it. What it does not allow is
refused by name before any work begins. The letters are priors: **F** `SymmetricDirichlet`, **D** `DirichletProcess`,
**P** `PitmanYor`. This page is printed by `python tests/support/compositions.py`; a test compares it
with the code and runs every cell.
"""


if __name__ == "__main__":
    print(page(), end="")
