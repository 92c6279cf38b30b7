# State of a chain over the clusters of rows in groups.

from expfam.samplers.states.collapsed cimport CollapsedState


cdef class GroupedState(CollapsedState):
    pass
