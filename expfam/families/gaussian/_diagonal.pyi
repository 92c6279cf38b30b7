from typing import Any

class DiagonalComponents:
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...

class SphericalComponents:
    def __init__(self, family: Any, data: Any, capacity: int) -> None: ...
