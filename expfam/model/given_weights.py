"""The prior on the mixture weights as a user gave it."""

from __future__ import annotations

from typing import Any

from expfam.near_names import near_names

_PRIORS = {
    "dirichlet_process": "DirichletProcess()",
    "pitman_yor": "PitmanYor(discount=0.25)",
    "symmetric_dirichlet": "SymmetricDirichlet(10)",
}
_SYNONYMS = {
    **dict.fromkeys(
        ("dp", "dpm", "dpmm", "crp", "chinese_restaurant_process", "dirichletprocess", "stick_breaking", "infinite"),
        ("dirichlet_process",),
    ),
    **dict.fromkeys(("py", "pyp", "pitmanyor", "pitman_yor_process"), ("pitman_yor",)),
    **dict.fromkeys(
        ("dirichlet", "dirichlet_distribution", "uniform", "finite", "symmetricdirichlet", "symmetric"),
        ("symmetric_dirichlet",),
    ),
}


def checked_weights(weights: Any, *, owner: str, n_components: int | None = None) -> Any:
    """Return the prior on the weights; for what is none, raise TypeError with the line to type.

    Parameters
    ----------
    weights : Weights
    owner : str
        Name of the estimator or model, for the message.
    n_components : int, optional
        Number of clusters that was given, for the message.

    Examples
    --------
    >>> from expfam import DirichletProcess
    >>> from expfam.model.given_weights import checked_weights
    >>> checked_weights(DirichletProcess(), owner="Mixture").max_components is None
    True
    """
    if not isinstance(weights, type) and hasattr(weights, "max_components"):
        return weights
    word = weights.__name__ if isinstance(weights, type) else weights
    near = near_names(word, _PRIORS, _SYNONYMS) if isinstance(word, str) else ()
    prior = _PRIORS[near[0] if near else "dirichlet_process"]
    if isinstance(weights, int):
        prior = f"SymmetricDirichlet({max(int(weights), 1)})"
    elif prior == _PRIORS["symmetric_dirichlet"] and n_components is not None:
        prior = f"SymmetricDirichlet({n_components})"
    line = f"{owner}(weights={prior})" if owner != "MixtureModel" else f"MixtureModel(family, {prior})"
    raise TypeError(f"{owner}: weights must be a prior such as {prior}; got {weights!r}: write {line}")
