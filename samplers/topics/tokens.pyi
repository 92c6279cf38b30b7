from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

class TokenTopics:
    word_start: NDArray[np.int64]
    doc: NDArray[np.int32]
    topic: NDArray[np.int32]
    list_start: NDArray[np.int64]
    list_size: NDArray[np.int32]
    list_topic: NDArray[np.int32]
    list_count: NDArray[np.int32]
    topic_size: NDArray[np.int64]
    n_topics: int
    n_words: int
    n_docs: int
    n_tokens: int
    def __init__(self, X: Any, n_topics: int, seeds: Any = None, room: int | None = None) -> None: ...
    def resize(self, n_topics: int) -> None: ...
    def renumber(self, places: NDArray[np.int32]) -> None: ...
    def count_topics(self) -> None: ...
    def sweep(
        self,
        alpha: NDArray[np.float64],
        eta: NDArray[np.float64],
        start: int,
        stop: int,
        seed: int,
        step: int,
        histogram: NDArray[np.int64],
        backward: bool = False,
    ) -> int: ...
    def sweep_open(
        self,
        alpha: NDArray[np.float64],
        eta: NDArray[np.float64],
        first: int,
        stop: int,
        seed: int,
        step: int,
        histogram: NDArray[np.int64],
        rest: int,
        free: NDArray[np.int32],
        n_free: int,
        gamma: float,
    ) -> tuple[int, int, int, int]: ...
    def draws(
        self, alpha: NDArray[np.float64], eta: NDArray[np.float64], token: int, uniforms: NDArray[np.float64]
    ) -> NDArray[np.int32]: ...
    def list_keys(self, width: int) -> NDArray[np.int64]: ...
    def document_topics(self) -> sparse.csr_array: ...
    def count_words(self, histogram: NDArray[np.int64]) -> None: ...
    def word_topics(self) -> sparse.csr_array: ...
    def add_word_topics(self, total: NDArray[np.float64]) -> None: ...
