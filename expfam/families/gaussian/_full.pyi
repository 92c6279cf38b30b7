from typing import Any

class GaussianComponents:
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...
