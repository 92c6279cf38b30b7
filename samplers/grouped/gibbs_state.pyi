from typing import Any

from expfam.samplers.states.collapsed import CollapsedState

class GroupedState(CollapsedState):
    def group_counts(self) -> Any: ...
    def count_table(self) -> Any: ...
