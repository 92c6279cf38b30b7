# The sweep over rows in groups, as the kernel uses it whose number of clusters is unknown.

from expfam.samplers.collapsed.gibbs cimport Sweep


cdef class GroupedSweep(Sweep):
    pass
