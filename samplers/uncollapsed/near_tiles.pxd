# Scores of tiles of which those near the best one are computed, and the others bounded.

from expfam.samplers.uncollapsed.dense cimport DenseScores, Tile
from expfam.structures.rows.near_scores cimport NearScores, NearScratch


cdef class NearTile:            # working memory of one thread
    cdef DenseScores scores
    cdef NearScores near
    cdef NearScratch scratch
    cdef unsigned char[::1] is_open
    cdef object marks, whole
    cdef int write(self, Tile tile, Py_ssize_t place, Py_ssize_t n) except -1
