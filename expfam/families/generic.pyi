from typing import Any

class GenericComponents:
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...
