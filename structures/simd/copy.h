/* Copies of a few bytes without a call: a call of memcpy for each short row takes longer than the bytes do. */
#ifndef EXPFAM_COPY_H
#define EXPFAM_COPY_H
#include <string.h>
#include "dispatch.h"

enum { EXPFAM_SHORT_COPY = 128 };  /* bytes up to which the loop here is faster */

/* The last piece may write bytes again that the piece before it has written. */
EXPFAM_UNUSED static inline void expfam_copy(char *to, const char *from, ptrdiff_t n_bytes) {
    if (n_bytes > EXPFAM_SHORT_COPY) {
        memcpy(to, from, (size_t)n_bytes);
    } else if (n_bytes >= 16) {
        for (ptrdiff_t at = 0; at + 16 <= n_bytes; at += 16) memcpy(to + at, from + at, 16);
        memcpy(to + n_bytes - 16, from + n_bytes - 16, 16);
    } else if (n_bytes >= 8) {
        memcpy(to, from, 8);
        memcpy(to + n_bytes - 8, from + n_bytes - 8, 8);
    } else if (n_bytes >= 4) {
        memcpy(to, from, 4);
        memcpy(to + n_bytes - 4, from + n_bytes - 4, 4);
    } else {
        for (ptrdiff_t at = 0; at < n_bytes; at++) to[at] = from[at];
    }
}
#endif
