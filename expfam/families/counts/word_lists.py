"""When counts of words in clusters are lists, and a table of frequent words alone."""

from __future__ import annotations

ROW_SHARE = 4  # a word that at least one slot in so many may have keeps a row of a table: a list would be slower
LEAST_CELLS = 1 << 24  # of a table in whose place lists are tried: 64 MiB
CELLS_OF_ENTRY = 8  # cells of a table for each entry of the data, from which on lists take less memory in all cases


def suits_lists(n_words: int, n_slots: int, n_entries: int) -> bool:
    """Return whether lists of rare words take much less memory than a table of all words.

    A sweep over them takes four fifths of the time of one over a table with 1,000 slots, and up to four thirds of it
    with 200. The answer depends on sizes alone, and the choice of frequent words on the data, so a chain that is stored
    and read back has the same bits.

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
    """Return the bytes, at most, of rows of frequent words and of lists by word and by slot."""
    present = min(n_entries, n_words * n_slots)
    row_entries = ROW_SHARE * n_entries  # a row has no more cells than so many for each entry of its word
    return 16 * n_words + 20 * present + 4 * row_entries + row_entries // 8 + 128 * n_slots
