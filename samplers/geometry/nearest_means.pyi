import numpy as np
import numpy.typing as npt

def centred_rows(
    points: npt.NDArray[np.float32],
    rows: npt.NDArray[np.intp],
    centre: npt.NDArray[np.float32],
    out: npt.NDArray[np.float32],
) -> None: ...
def best_means(
    products: npt.NDArray[np.float32], bias: npt.NDArray[np.float32], out: npt.NDArray[np.uint8]
) -> None: ...
def sums_by_mean(
    sample: npt.NDArray[np.float32], nearest: npt.NDArray[np.uint8], k: int
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]: ...
def cells_of_means(
    nearest: npt.NDArray[np.uint8], rows: npt.NDArray[np.intp], k: int
) -> list[npt.NDArray[np.intp]]: ...
