# The counts of words in clusters: a table with a row for each word, or a row for each frequent word and a list of slots
# for each other one, beside lists of each cluster's words; or these lists alone.

from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memmove

from expfam.families.rows cimport csr_rows, entry_column, entry_value, row_start
from expfam.structures.simd.counts cimport EXPFAM_LINE

cdef enum:                  # models of counts
    MULTINOMIAL = 0
    POISSON = 1
    CATEGORICAL = 2

ctypedef struct word_list:
    int32_t *words          # listed words; those with count 0 are stale
    double *values          # their counts; only if there is no table
    int32_t *index          # (mask + 1,) hash table: place in `words` plus 1; only if there is no table
    Py_ssize_t mask
    Py_ssize_t length
    Py_ssize_t room
    Py_ssize_t present      # number of words with a count above 0

ctypedef struct slot_count:
    int32_t slot
    int32_t count           # 0 of a stale word

ctypedef struct slot_list:
    slot_count *entries     # ascending slots; NULL of a word that has a row of the table
    int32_t length          # or the number of its row
    int32_t room            # or -1

ctypedef struct count_table:
    int model
    int by_cluster          # 1: no table, the lists of clusters hold the counts
    int by_word             # 1: a table of frequent words, lists of the others hold their counts; all are int32
    int is_real             # 1: counts are float64, else int32
    double slack            # 0 if all counts are integers, hence exact; else ROUNDING
    int max_factors
    Py_ssize_t n_rows
    Py_ssize_t n_words      # of categories, their totals come last
    Py_ssize_t n_tabled     # rows of the table: all words, frequent words, or none
    Py_ssize_t n_columns    # F: words that are columns of phi
    Py_ssize_t capacity
    Py_ssize_t stride       # entries of a row: capacity rounded up to EXPFAM_LINE
    csr_rows x
    const double *length    # (n_rows,) sum of each datum
    void *counts            # (n_tabled, stride) int32 or float64, aligned to 64 bytes
    uint8_t *listed         # (n_tabled, stride / 8) bits: whether the word is in the slot's list
    word_list *lists        # (capacity,)
    slot_list *words        # (n_words,) if by_word, else NULL
    double *n               # (stride,) number of data
    double *total           # (stride,) sum of the counts
    # (stride,) multinomial: S. + a; Poisson: (a + S.) log((b + n) / (b + n + 1)); categories in a table: the sum over
    # the columns of log(total + pseudo-counts)
    double *level
    double *slope           # (stride,) Poisson: log(b + n + 1)
    double *evidence        # (stride,) log evidence, NaN if not computed yet
    const double *prior     # (n_words,) pseudo-counts
    double prior_total      # their sum over the columns of phi
    double rate             # b of the Poisson family
    const double *tabled    # (N_TABLED,) log rising factorials of the symmetric prior, or NULL
    void *owner


# ---- entries of the table ------------------------------------------------------------------------------------------

cdef inline Py_ssize_t hash_of(Py_ssize_t w, Py_ssize_t mask) noexcept nogil:
    cdef uint32_t h = <uint32_t> w * <uint32_t> 2654435769
    return <Py_ssize_t> (h ^ (h >> 15)) & mask


cdef inline Py_ssize_t place_of(const word_list *words, Py_ssize_t w) noexcept nogil:
    """Return the place of a word in a list that holds counts, or -1."""
    cdef Py_ssize_t h
    if words.room == 0:
        return -1
    h = hash_of(w, words.mask)
    while words.index[h]:       # at most half of the index is in use
        if words.words[words.index[h] - 1] == w:
            return words.index[h] - 1
        h = (h + 1) & words.mask
    return -1


cdef inline void index_place(word_list *words, Py_ssize_t place) noexcept nogil:
    cdef Py_ssize_t h = hash_of(words.words[place], words.mask)
    while words.index[h]:
        h = (h + 1) & words.mask
    words.index[h] = <int32_t> (place + 1)


cdef inline bint is_in_table(const count_table *t, Py_ssize_t w) noexcept nogil:
    return not t.by_cluster and (not t.by_word or t.words[w].room < 0)


cdef inline Py_ssize_t row_number(const count_table *t, Py_ssize_t w) noexcept nogil:
    """Return the row of a word that is in the table."""
    return t.words[w].length if t.by_word else w


cdef inline Py_ssize_t entry_from(const slot_list *slots, Py_ssize_t k) noexcept nogil:
    """Return the place of the first entry of a word whose slot is at least k."""
    cdef Py_ssize_t low = 0, high = slots.length, middle
    while low < high:
        middle = (low + high) >> 1
        if slots.entries[middle].slot < k:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline slot_count *entry_of(const count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    """Return the entry of word w for slot k, or NULL."""
    cdef const slot_list *slots = &t.words[w]
    cdef Py_ssize_t place = entry_from(slots, k)
    if place < slots.length and slots.entries[place].slot == k:
        return &slots.entries[place]
    return NULL


cdef inline double get(const count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    cdef Py_ssize_t place
    cdef const slot_count *entry
    if t.by_cluster:
        place = place_of(&t.lists[k], w)
        return t.lists[k].values[place] if place >= 0 else 0.0
    if t.is_real:
        return (<double *> t.counts)[w * t.stride + k]
    if is_in_table(t, w):
        return (<int32_t *> t.counts)[row_number(t, w) * t.stride + k]
    entry = entry_of(t, w, k)
    return 0.0 if entry == NULL else entry.count


cdef inline void put(count_table *t, Py_ssize_t w, Py_ssize_t k, double value) noexcept nogil:
    """Set a count; a word that is not in the table must be in the list of k."""
    if t.by_cluster:
        t.lists[k].values[place_of(&t.lists[k], w)] = value
    elif t.is_real:
        (<double *> t.counts)[w * t.stride + k] = value
    elif is_in_table(t, w):
        (<int32_t *> t.counts)[row_number(t, w) * t.stride + k] = <int32_t> value
    else:
        entry_of(t, w, k).count = <int32_t> value


cdef inline const void *row_at(const count_table *t, Py_ssize_t w, Py_ssize_t first) noexcept nogil:
    if t.is_real:
        return <const void *> (<const double *> t.counts + w * t.stride + first)
    return <const void *> (<const int32_t *> t.counts + row_number(t, w) * t.stride + first)


cdef inline uint8_t *listed_at(const count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    return t.listed + row_number(t, w) * (t.stride >> 3) + (k >> 3)


cdef inline bint is_listed(const count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    if t.by_cluster:
        return place_of(&t.lists[k], w) >= 0
    if not is_in_table(t, w):
        return entry_of(t, w, k) != NULL
    return (listed_at(t, w, k)[0] >> (k & 7)) & 1


cdef inline void set_listed(count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    """Note that word w is in the list of k; off the table, add an entry of count 0, for which there must be room."""
    cdef slot_list *slots
    cdef Py_ssize_t place
    if not is_in_table(t, w):
        slots = &t.words[w]
        place = entry_from(slots, k)
        memmove(&slots.entries[place + 1], &slots.entries[place], (slots.length - place) * sizeof(slot_count))
        slots.entries[place].slot, slots.entries[place].count = <int32_t> k, 0
        slots.length += 1
        return
    listed_at(t, w, k)[0] |= <uint8_t> (1 << (k & 7))


cdef inline void unset_listed(count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    cdef slot_list *slots
    cdef Py_ssize_t place
    if not is_in_table(t, w):
        slots = &t.words[w]
        place = entry_from(slots, k)
        slots.length -= 1
        memmove(&slots.entries[place], &slots.entries[place + 1], (slots.length - place) * sizeof(slot_count))
        return
    listed_at(t, w, k)[0] &= <uint8_t> ~(1 << (k & 7))


cdef inline void note_present(count_table *t, Py_ssize_t w, Py_ssize_t k) noexcept nogil:
    """List word w as present in slot k. Call it before the count rises from 0.

    The list must have room, and so must that of the word.
    """
    cdef word_list *words = &t.lists[k]
    words.present += 1
    if is_listed(t, w, k):
        return
    words.words[words.length] = <int32_t> w
    if t.by_cluster:
        words.values[words.length] = 0.0
        index_place(words, words.length)
    else:
        set_listed(t, w, k)
    words.length += 1


# ---- what a slot holds ---------------------------------------------------------------------------------------------

cdef inline Py_ssize_t padded(Py_ssize_t m) noexcept nogil:
    return (m + EXPFAM_LINE - 1) // EXPFAM_LINE * EXPFAM_LINE


cdef inline bint has_datum(const count_table *t, Py_ssize_t k) noexcept nogil:
    return 0 <= k < t.capacity and t.n[k] >= 1


cdef inline bint holds(const count_table *t, Py_ssize_t i, Py_ssize_t k) noexcept nogil:
    """Return whether slot k has a datum, and no count that is smaller than in datum i."""
    cdef Py_ssize_t p
    cdef double count, slack = 1.0 - t.slack
    if not has_datum(t, k):
        return False
    for p in range(row_start(&t.x, i), row_start(&t.x, i + 1)):
        count = entry_value(&t.x, p)
        if get(t, entry_column(&t.x, p), k) < count * slack:
            return False
    return True


cdef inline double rest_of(const count_table *t, double whole, double part) noexcept nogil:
    """Return whole - part of counts or numbers of data; 0 if only rounding is left."""
    cdef double rest = whole - part
    return 0.0 if rest < t.slack * part else rest


cdef inline bint includes(const count_table *t, Py_ssize_t k, Py_ssize_t l) noexcept nogil:
    """Return whether the statistics of slot l can be subtracted from slot k."""
    cdef Py_ssize_t j, w
    cdef double slack = 1.0 - t.slack
    if min(k, l) < 0 or max(k, l) >= t.capacity or t.n[l] * slack > t.n[k]:
        return False
    for j in range(t.lists[l].length):
        w = t.lists[l].words[j]
        if get(t, w, k) < get(t, w, l) * slack:
            return False
    return True


# ---- memory --------------------------------------------------------------------------------------------------------

cdef bint make_room(count_table *t, Py_ssize_t k, Py_ssize_t more) noexcept nogil
cdef bint make_word_room(count_table *t, Py_ssize_t w) noexcept nogil
cdef bint new_words(count_table *t, Py_ssize_t share) noexcept nogil
cdef bint copy_words(const count_table *old, count_table *t) noexcept nogil
cdef void drop_stale(count_table *t, Py_ssize_t k) noexcept nogil
cdef void exchange_columns(count_table *t, Py_ssize_t k, Py_ssize_t l) noexcept nogil
cdef bint new_lists(count_table *t) noexcept nogil
cdef void free_table(count_table *t) noexcept nogil
