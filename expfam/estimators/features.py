"""Probabilities of clusters as the columns of a transformer, for pipelines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sklearn.base import ClassNamePrefixFeaturesOutMixin
from sklearn.utils import TransformerTags

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


class ClusterFeatures(ClassNamePrefixFeaturesOutMixin):
    """Mixin of a transformer: rows become their probabilities of the clusters."""

    def transform(self, X: Any) -> Any:
        """Return the probability of each cluster for each row, as `predict_proba` does.

        Parameters
        ----------
        X : array_like, sparse matrix or frame, shape (N, V)

        Returns
        -------
        (N, K) float64 ndarray, or frame where `set_output` asks for one

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.linear_model import LogisticRegression
        >>> from sklearn.pipeline import make_pipeline
        >>> from expfam import Mixture
        >>> X, y = load_iris(return_X_y=True)
        >>> pipeline = make_pipeline(Mixture("gaussian", 3, random_state=0), LogisticRegression())
        >>> pipeline.fit(X, y).score(X, y) > 0.95
        True
        """
        return self.predict_proba(X)  # type: ignore[attr-defined]

    def fit_transform(self, X: Any, y: Any = None, **fit_params: Any) -> Any:
        """Fit, and return `transform` of the same rows.

        Parameters
        ----------
        X, y
            As in `fit`. In a pipeline `y` is what the last step learns: without `labels` it is ignored here.
        **fit_params
            Further arguments of `fit`.

        Returns
        -------
        (N, K) float64 ndarray, or frame where `set_output` asks for one
        """
        y = None if getattr(self, "labels", None) is None else y
        return self.fit(X, y, **fit_params).transform(X)  # type: ignore[attr-defined]

    def get_feature_names_out(self, input_features: npt.ArrayLike | None = None) -> npt.NDArray[np.object_]:
        """Return the names of the columns of `transform`: (K,) ndarray of str objects.

        Parameters
        ----------
        input_features : (V,) array_like of str, optional
            Only checked, as in scikit-learn.

        Examples
        --------
        >>> from expfam import Mixture
        >>> mixture = Mixture("poisson", 2, random_state=0).fit([[1, 0], [0, 2], [40, 50], [44, 47]])
        >>> mixture.get_feature_names_out().tolist()
        ['mixture0', 'mixture1']
        """
        self._check_fitted()  # type: ignore[attr-defined]
        return super().get_feature_names_out(input_features)  # type: ignore[no-any-return]

    @property
    def _n_features_out(self) -> int:
        return self.n_components_  # type: ignore[attr-defined, no-any-return]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.transformer_tags = TransformerTags()
        return tags


__all__ = ["ClusterFeatures"]
