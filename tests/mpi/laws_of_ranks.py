"""Program that several ranks run: the laws of engines, and a digest of the labels of a chain.

The first run writes a checkpoint into the folder that it is given; later ones, of other numbers of ranks, go on from
it.
"""

import hashlib
import sys

import numpy as np
from mpi4py import MPI

from expfam import DiagonalGaussian, DirichletProcess, MixtureModel, SymmetricDirichlet
from expfam.engines import MpiEngine, cut_rows
from expfam.plugins.conformance import check_engine
from expfam.samplers import Cycle, FrozenSplitMerge, ShardedData, UncollapsedGibbs, sample
from expfam.samplers.shards.checkpoint import PartsCheckpoint, restore_parts

check_engine(MpiEngine)
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 2)) + 5.0 * rng.integers(0, 3, (1000, 1))
data = ShardedData(cut_rows(X, 5, grain=1), DiagonalGaussian(), engine=MpiEngine())
state = UncollapsedGibbs().init(MixtureModel(data.family, SymmetricDirichlet(6)), data, seed=1)
if len(sys.argv) > 2:
    restore_parts(sys.argv[1], state)
else:
    sample(UncollapsedGibbs(), state, 4, callbacks=[PartsCheckpoint(sys.argv[1], every_seconds=0)])
sample(UncollapsedGibbs(), state, 4)
state.check()
moves = Cycle(FrozenSplitMerge(), UncollapsedGibbs(sticks="slice"))
data = ShardedData(cut_rows(X, 5, grain=1), DiagonalGaussian(), engine=MpiEngine())
open_state = moves.init(MixtureModel(data.family, DirichletProcess()), data, seed=1, start="one")
sample(moves, open_state, 4)
open_state.check()
assert open_state.n_clusters > 1
found = [state.labels, np.asarray(state.S), open_state.labels, np.asarray(open_state.S)]
digest = hashlib.sha256(b"".join(array.tobytes() for array in found)).hexdigest()
assert len(set(MPI.COMM_WORLD.allgather(digest))) == 1, "ranks have other labels"
if MPI.COMM_WORLD.Get_rank() == 0:
    sys.stdout.write(f"{MPI.COMM_WORLD.Get_size()} {digest}\n")
