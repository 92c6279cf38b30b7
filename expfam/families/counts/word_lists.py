"""When counts of words in clusters are kept as lists and not in a table."""

from __future__ import annotations

LEAST_CELLS = 1 << 24  # of a table in whose place lists are tried: 64 MiB
CELLS_OF_ENTRY = 8  # cells of a table for each entry of the data, from which on lists take less memory in all cases


def suits_lists(n_words: int, n_slots: int, n_entries: int) -> bool:
    """Return whether lists of the slots of each word take much less memory than a large table.

    The answer depends on sizes alone, so a chain that is stored and read back has the same bits.

    Parameters
    ----------
    n_words, n_slots : int
    n_entries : int
        Number of stored counts of the data, which is the most that clusters can have above 0.

    Examples
    --------
    >>> from expfam.families.counts.word_lists import suits_lists
    >>> suits_lists(1_000_000, 200, n_entries=2_000_000), suits_lists(5_000, 200, n_entries=100_000)
    (True, False)
    """
    cells = n_words * n_slots
    return cells >= LEAST_CELLS and n_entries * CELLS_OF_ENTRY < cells


def list_bytes(n_words: int, n_slots: int, n_entries: int) -> int:
    """Return the bytes, at most, of the lists of slots by word and of words by slot."""
    present = min(n_entries, n_words * n_slots)
    return 16 * n_words + 20 * present + 128 * n_slots
