"""Lines to type in messages: they keep what the user has set.

Code below the estimators names only what must change, such as ``write Mixture(sampler='gibbs')``. Where an error leaves
a method of an estimator, `completed` adds the other settings of that estimator, so that the line can be typed as it is.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_MOST_TEXT = 80  # characters of one argument in a message
_OPENING = re.compile(r"(?<![\w.])(\w+)\(")
_ESTIMATORS = ("Mixture", "GroupedMixture", "TopicModel", "BayesianHierarchy")
_SHARED = ("family", "n_components", "n_threads", "random_state", "memory_limit", "time_limit")
_LACKS = {("TopicModel", "family")}
_OUSTED = {"n_components": ("weights", "cut"), "weights": ("n_components",)}  # settings that say another number

_names_changes_alone: ContextVar[bool] = ContextVar("lines name changes alone", default=False)


@contextmanager
def changes_alone() -> Iterator[None]:
    """Make lines that are proposed in messages name the changed settings only, within a block.

    Commands use it: they repeat their options themselves.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.lines import changes_alone, line_of
    >>> with changes_alone():
    ...     line_of(Mixture("poisson", 3), sampler="em")
    "Mixture(sampler='em')"
    """
    token = _names_changes_alone.set(True)
    try:
        yield
    finally:
        _names_changes_alone.reset(token)


def line_of(estimator: Any, **changes: Any) -> str:
    """Return the text that makes the estimator with some settings changed.

    Settings that are at their defaults, and stay there, are left out. One that has no short text, such as an array,
    stands under its own name, as ``start=start``.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.lines import line_of
    >>> line_of(Mixture("poisson", 3, n_steps=5), n_components=None, sampler="em")
    "Mixture(family='poisson', n_components=None, sampler='em', n_steps=5)"
    >>> line_of(Mixture("poisson", 2, start=[0, 1] * 50))
    "Mixture(family='poisson', n_components=2, start=start)"
    """
    own = settings_of(estimator)
    default = type(estimator)().get_params(deep=False)
    changed = {
        name: text_of(name, value)
        for name, value in changes.items()
        if name in own or repr(value) != repr(default[name])
    }
    texts = changed if _names_changes_alone.get() else own | changed
    return call_of(type(estimator).__name__, arguments_of(type(estimator)), texts)


def whole_line_of(estimator: Any) -> str:
    """Return the text that makes the estimator, in messages of commands too.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.lines import changes_alone, whole_line_of
    >>> with changes_alone():
    ...     whole_line_of(Mixture("poisson", 3))
    "Mixture(family='poisson', n_components=3)"
    """
    return call_of(type(estimator).__name__, arguments_of(type(estimator)), settings_of(estimator))


def call_of(owner: str, names: Sequence[str], texts: Mapping[str, str], *, n_unnamed: int = 0) -> str:
    """Return the call of a class, as it is typed.

    Parameters
    ----------
    owner : str
        Name of the class.
    names : sequence of str
        Arguments in the order of the call.
    texts : mapping of str to str
        Text of each argument that is given.
    n_unnamed : int
        Number of arguments that are written without their names.

    Examples
    --------
    >>> from expfam.estimators.lines import call_of
    >>> call_of("Mixture", ["family", "n_components"], {"n_components": "3", "family": "'poisson'"}, n_unnamed=1)
    "Mixture('poisson', n_components=3)"
    """
    arguments = [
        texts[name] if place < n_unnamed else f"{name}={texts[name]}"
        for place, name in enumerate(names)
        if name in texts
    ]
    return f"{owner}({', '.join(arguments)})"


def settings_of(estimator: Any) -> dict[str, str]:
    """Return the texts of the settings that differ from their defaults, by name."""
    default = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    return {name: text_of(name, value) for name, value in given.items() if repr(value) != repr(default[name])}


def text_of(name: str, value: Any) -> str:
    """Return the text of a setting: what makes its value again, or else its own name.

    Examples
    --------
    >>> import numpy as np
    >>> from expfam import Poisson
    >>> from expfam.estimators.lines import text_of
    >>> text_of("n_components", np.int64(3)), text_of("family", Poisson(rate=2.0)), text_of("start", np.zeros(9))
    ('3', 'Poisson(rate=2.0)', 'start')
    """
    text = _text(value)
    return text if len(text) <= _MOST_TEXT and _makes_a_value(text) else name


def _text(value):
    """Return the text of a value, of families and kernels without defaults."""
    if hasattr(value, "dtype") and getattr(value, "ndim", 1) == 0:  # a number of NumPy
        return repr(value.item())
    if isinstance(value, type) or not hasattr(value, "get_params") or getattr(value, "is_bound", False):
        return "" if getattr(value, "is_bound", False) else repr(value)
    entries = inspect.signature(type(value)).parameters.values()
    if any(entry.kind in (entry.VAR_POSITIONAL, entry.VAR_KEYWORD) for entry in entries):
        return repr(value)
    defaults = {entry.name: entry.default for entry in entries}
    given = {name: _text(each) for name, each in value.get_params().items() if repr(each) != repr(defaults.get(name))}
    return f"{type(value).__name__}({', '.join(f'{name}={text}' for name, text in given.items())})"


def _makes_a_value(text):
    """Return whether a text consists of plain values and calls of names."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError):
        return False
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    plain = (ast.Expression, ast.Call, ast.keyword, ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set)
    signs = (ast.UnaryOp, ast.USub, ast.UAdd, ast.Load)
    return all(
        (id(node) in called and node.id != "array") if isinstance(node, ast.Name) else isinstance(node, plain + signs)
        for node in ast.walk(tree)
    ) and not any(isinstance(node, ast.Constant) and node.value is ... for node in ast.walk(tree))


# ---- lines of messages -----------------------------------------------------------------------------------------------


def completed(message: str, estimator: Any) -> str:
    """Return a message whose lines make the estimator with all that the user has set.

    Parameters
    ----------
    message : str
        Calls of the class of the estimator that follow the word "write" hold what must change.
    estimator : Estimator

    Returns
    -------
    str
        Lines about other estimators get the settings that both have: the family, the numbers of clusters, the seed.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.lines import completed
    >>> completed("this sampler cannot: write Mixture(sampler='em').fit(X)", Mixture("poisson", 3))
    "this sampler cannot: write Mixture(family='poisson', n_components=3, sampler='em').fit(X)"
    """
    begin = re.search(r"\b[Ww]rite\b", message)
    if begin is None or _names_changes_alone.get():
        return message
    text, at = message[: begin.end()], begin.end()
    while (found := _OPENING.search(message, at)) is not None:
        stop = _end_of_call(message, found.end())
        line = _completed_call(message[found.start() : stop], estimator) if found[1] in _names_of(estimator) else None
        if line is None:
            text, at = text + message[at : found.end()], found.end()
        else:
            text, at = text + message[at : found.start()] + line, stop
    return text + message[at:]


def _names_of(estimator):
    """Return the names of estimators whose calls are completed: own ones and all others."""
    return {*_ESTIMATORS, *(base.__name__ for base in type(estimator).__mro__)}


def _end_of_call(message, at):
    """Return the place after the bracket that closes the call whose arguments begin at `at`."""
    depth = 1
    while depth and at < len(message):
        depth += {"(": 1, ")": -1}.get(message[at], 0)
        at += 1
    return at


def _completed_call(text, estimator):
    """Return a call with the settings of the estimator, or None for a text that is no call."""
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError:
        return None
    owner, own = call.func.id, settings_of(estimator)
    is_own = owner in {base.__name__ for base in type(estimator).__mro__}
    names = arguments_of(type(estimator)) if is_own else [name for name in _SHARED if (owner, name) not in _LACKS]
    texts = {name: ast.unparse(value) for name, value in zip(names, call.args)}
    texts |= {each.arg: ast.unparse(each.value) for each in call.keywords if each.arg is not None}
    if is_own:
        owner, texts = type(estimator).__name__, _joined(own, texts, estimator)
    else:  # numbers in lines about other estimators are examples
        texts |= {name: own[name] for name in names if name in own and _may_be_other(texts.get(name, "0"))}
    names += [name for name in texts if name not in names]
    return call_of(owner, names, texts, n_unnamed=len(call.args))


def _may_be_other(text):
    """Return whether a text is an example, for which the user's own setting may stand."""
    return text.isdecimal() or text == "..."


def _joined(own, texts, estimator):
    """Return the settings of a line: what it changes, and what agrees with that."""
    family = getattr(estimator, "family", "")
    ousted = {name for changed in texts for name in _OUSTED.get(changed, ()) if name not in texts}
    if not (isinstance(family, str) or hasattr(family, "get_params")):
        ousted.add("family")  # what was given is no family
    kept = {name: text for name, text in own.items() if name not in ousted}
    default = type(estimator)().get_params(deep=False)
    is_said = {name: text != repr(default.get(name)) or name in own for name, text in texts.items()}
    return kept | {name: text for name, text in texts.items() if is_said[name] and (text != "..." or name not in kept)}


def arguments_of(owner: type) -> list[str]:
    """Return the names of the arguments of a constructor, in order."""
    return list(inspect.signature(owner).parameters)
