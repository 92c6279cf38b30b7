"""The line that makes an estimator again with other settings, for messages."""

from __future__ import annotations

from typing import Any

_MOST_TEXT = 60  # characters of one argument in a message


def line_of(estimator: Any, **changes: Any) -> str:
    """Return the text that makes the estimator with some settings changed.

    Defaults are left out.

    Examples
    --------
    >>> from expfam import Mixture
    >>> from expfam.estimators.lines import line_of
    >>> line_of(Mixture("poisson", 3, n_steps=5), n_components=None, sampler="em")
    "Mixture(family='poisson', n_steps=5, sampler='em')"
    """
    default = type(estimator)().get_params(deep=False)
    given = estimator.get_params(deep=False)
    texts = {name: repr(value) for name, value in given.items() if repr(value) != repr(default[name])}
    texts = {name: text if len(text) <= _MOST_TEXT else "..." for name, text in texts.items()}
    for name, value in changes.items():
        texts.pop(name, None) if repr(value) == repr(default[name]) else texts.update({name: repr(value)})
    return f"{type(estimator).__name__}({', '.join(f'{name}={text}' for name, text in texts.items())})"


__all__ = ["line_of"]
