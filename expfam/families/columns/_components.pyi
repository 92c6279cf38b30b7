from typing import Any

class ColumnsComponents:
    capsule: Any
    capacity: int
    pending: Any
    def __init__(self, family: Any, data: Any, capacity: int, layout: str = ...) -> None: ...
