"""Engine whose workers are the ranks of an MPI program; every rank runs the same program.

Each rank holds some of the parts and gives every order itself, so no order is sent: answers alone are exchanged. All
that ranks compute from answers is the same in all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from expfam.engines.base import Engine
from expfam.engines.journal import dumps
from expfam.engines.parts import Part, added
from expfam.engines.worker import Worker, checked_answers


class MpiEngine(Engine):
    """Engine of the ranks of an MPI communicator.

    If a rank dies, MPI ends all of them: go on from a checkpoint.

    Parameters
    ----------
    communicator : mpi4py.MPI.Comm, optional
        All ranks of the program if not given.

    Examples
    --------
    A program that `mpiexec -n 4 python program.py` runs; all ranks get the same labels.

    >>> import numpy as np
    >>> from expfam import DiagonalGaussian, MixtureModel, SymmetricDirichlet
    >>> from expfam.engines import MpiEngine
    >>> from expfam.samplers import ShardedData, UncollapsedGibbs
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> def labels_after_a_step(engine):
    ...     data = ShardedData(X, DiagonalGaussian(), engine=engine, n_parts=4)
    ...     state = UncollapsedGibbs().init(MixtureModel(data.family, SymmetricDirichlet(3)), data, seed=0)
    ...     UncollapsedGibbs().step(state)
    ...     return state.labels
    >>> labels = labels_after_a_step(MpiEngine())           # doctest: +SKIP

    Notes
    -----
    All ranks name all parts. A source that is a function is called in the rank that holds its part.
    """

    name = "mpi"

    def __init__(self, communicator: Any = None) -> None:
        if communicator is None:
            try:
                from mpi4py import MPI  # it starts MPI, which a program without ranks does not need
            except ImportError as error:
                raise ImportError("ranks of MPI need mpi4py: pip install 'expfam[mpi]'") from error
            communicator = MPI.COMM_WORLD
        self.communicator = communicator
        self.parts: list[Part] = []
        self._worker, self._places, self._n_changes = Worker(), [], 0  # type: Worker, list[int], int

    def _place(self, make: Callable[[Any, int], Any]) -> None:
        rank, size, n = self.communicator.Get_rank(), self.communicator.Get_size(), len(self.parts)
        self._places = list(range(n * rank // size, n * (rank + 1) // size))
        self._worker, self._n_changes = Worker(), 0
        own = {place: self.parts[place] for place in self._places}
        self._exchanged(self._worker.place(make, own, (0, None, [])))

    def each(self, method: str, *values: Any) -> list[Any]:
        """Return the answers of all parts, in the order of the rows."""
        answers = self._exchanged(self._worker.each(dumps((method, values)), self._places))
        found = {place: answer for of_rank in answers for place, answer in of_rank.items()}
        return [found[place] for place in range(len(self.parts))]

    def total(self, method: str, *values: Any) -> Any:
        """Return the sum of the answers of all parts; each rank adds up its own."""
        return added(self._exchanged(self._worker.total(dumps((method, values)), self._places)))

    def change(self, method: str, *values: Any, by_part: Sequence[Any] | None = None) -> Any:
        """Have all parts make a change, and return the sum of their answers, or None."""
        own = None if by_part is None else {place: dumps(by_part[place]) for place in self._places}
        number = self._n_changes
        answer = self._worker.change(number, dumps((method, values)), own, self._places)
        try:
            total = added(self._exchanged(answer))
        except BaseException:
            self._worker.take_back(number, self._places)
            raise
        self._n_changes += 1
        return total

    def once(self, action: Callable[[], Any]) -> Any:
        """Call a function in rank 0, and return its result, or raise its error, in all ranks."""
        outcome: tuple[Any, Exception | None] = (None, None)
        if self.communicator.Get_rank() == 0:
            try:
                outcome = (action(), None)
            except Exception as error:
                outcome = (None, error)
        value, failure = self.communicator.bcast(outcome, root=0)
        if failure is not None:
            raise failure
        return value

    def close(self) -> None:
        """Drop all parts."""
        self.parts, self._places, self._worker = [], [], Worker()

    def _exchanged(self, answer):
        """Return the answers of all ranks, or raise the first failure in all ranks."""
        answers = self.communicator.allgather(answer)
        return checked_answers(answers, self.parts)
