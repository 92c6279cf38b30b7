"""The kernel of all rows, and of what is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from expfam.fitting.known_rows import with_links
from expfam.samplers.chain.kernel import check_known
from expfam.samplers.named import load_sampler

if TYPE_CHECKING:
    from expfam.model.data import Dataset
    from expfam.model.mixture import MixtureModel
    from expfam.samplers.chain.kernel import Kernel


def kernel_of_rows(sampler: Any, model: MixtureModel, data: Dataset, *, n_threads: int | None) -> Kernel:
    """Return the kernel that was given or named, with draws of links where rows have some.

    Parameters
    ----------
    sampler : str or Kernel
    model : MixtureModel
        Bound to the data.
    data : Dataset
    n_threads : int or None

    Raises
    ------
    CapabilityError
        The kernel takes no known rows of this kind.
    """
    kernel = load_sampler(sampler, model=model, data=data, n_threads=n_threads)
    if data.known is None:
        return kernel
    check_known(kernel, model, data.known)
    return with_links(kernel) if data.known.groups else kernel


__all__ = ["kernel_of_rows"]
