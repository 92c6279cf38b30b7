"""Dense copies of sparse rows, for families that read dense rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse

from expfam.amounts import counted
from expfam.errors import ResourceError
from expfam.structures.ground.memory import available_memory, format_bytes, parse_bytes

_SPARSE_REALS = "gaussian_spherical"  # of real values, reads sparse rows
_DENSE_REALS = ("gaussian", "gaussian_diag", "gaussian_zero")
_NEVER_SHORT = 1 << 24  # bytes; to ask what is free takes longer than to copy so few


def copied_bytes(X: Any) -> int:
    """Return the bytes of a dense copy of sparse rows; 0 for other data.

    Examples
    --------
    >>> from scipy import sparse
    >>> from expfam.frames.dense_copies import copied_bytes
    >>> copied_bytes(sparse.eye(3, format="csr")), copied_bytes([[1.0]])
    (72, 0)
    """
    if not sparse.issparse(X) or X.dtype.kind not in "buif":
        return 0
    return int(X.dtype.itemsize * math.prod(X.shape))


def dense_copy(X: Any, *, owner: str, family: str, memory_limit: float | str | None, may_choose: bool) -> Any:
    """Return sparse rows as an array, and other data as they are.

    Parameters
    ----------
    X : object
        What the user gave.
    owner : str
        The estimator, named in the message.
    family : str
        Name of the family, which reads dense rows alone.
    memory_limit : float, str or None
        Bytes that the copy may take, or text such as ``"4GB"``. None stands for the memory that is free.
    may_choose : bool
        Whether another family can still be chosen, as for a fit.

    Raises
    ------
    ResourceError
        The copy would take more.

    Examples
    --------
    >>> from scipy import sparse
    >>> from expfam.frames.dense_copies import dense_copy
    >>> settings = {"owner": "Mixture", "family": "gaussian", "may_choose": False}
    >>> dense_copy(sparse.eye(2, format="csr"), memory_limit=None, **settings).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    >>> dense_copy(sparse.eye(3, format="csr"), memory_limit=10, **settings)
    Traceback (most recent call last):
        ...
    expfam.errors.ResourceError: Mixture: family 'gaussian' reads dense rows, and the data are a sparse matrix of the \
shape (3, 3): as an array they take 72 B, and 10 B are allowed (memory_limit): give 1 row at a time, such as X[:1]
    """
    n_bytes = copied_bytes(X)
    if not n_bytes:  # complex numbers and objects have errors of their own
        return X
    allowed = parse_bytes(memory_limit) if memory_limit is not None else None
    if memory_limit is None and n_bytes > _NEVER_SHORT:
        allowed = available_memory()
    if allowed is not None and n_bytes > allowed:
        whose = "are free" if memory_limit is None else "are allowed (memory_limit)"
        remedy = _line_of_fit(owner, family, n_bytes) if may_choose else _line_of_rows(X.shape[0], n_bytes, allowed)
        raise ResourceError(
            f"{owner}: family {family!r} reads dense rows, and the data are a sparse matrix of the shape {X.shape}: as"
            f" an array they take {format_bytes(n_bytes)}, and {format_bytes(allowed)} {whose}: {remedy}"
        )
    return np.ascontiguousarray(X.toarray())


def _line_of_rows(n_rows, n_bytes, allowed):
    fitting = max(1, int(allowed * n_rows // n_bytes))
    return f"give {counted(fitting, 'row')} at a time, such as X[:{fitting}]"


def _line_of_fit(owner, family, n_bytes):
    nevertheless = f"write memory_limit='{math.ceil(n_bytes / 1e6)} MB' to make it nevertheless"
    if family not in _DENSE_REALS:
        return nevertheless
    return f"write {owner}('{_SPARSE_REALS}'), which reads sparse rows, or {nevertheless}"
