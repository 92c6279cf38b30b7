/* Requests for memory that is read soon. The instruction is the same for all instruction sets. */
#ifndef EXPFAM_PREFETCH_H
#define EXPFAM_PREFETCH_H
#include "dispatch.h"

#if defined(__GNUC__) || defined(__clang__)
/* The empty statement counts as an effect: compilers drop calls of functions without effects, and their prefetches. */
#define EXPFAM_PREFETCH(address) do { __builtin_prefetch(address); __asm__ volatile("" : : "r"(address)); } while (0)
#else
#define EXPFAM_PREFETCH(address) ((void)(address))
#endif

/* The same for memory that is written soon: the core takes the line from others now, not at the write. */
#if (defined(__GNUC__) || defined(__clang__)) && defined(__x86_64__)
#define EXPFAM_PREFETCH_WRITE(address) __asm__ volatile("prefetchw %0" : : "m"(*(const char *)(address)))
#else
#define EXPFAM_PREFETCH_WRITE(address) EXPFAM_PREFETCH(address)
#endif

/* Prefetch the cache lines of memory that is read soon: also the last one, where the memory begins within a line. */
EXPFAM_UNUSED static void expfam_prefetch(const void *start, ptrdiff_t n_bytes) {
    const char *stop = (const char *)start + n_bytes;
    for (const char *at = (const char *)start - (uintptr_t)start % 64; at < stop; at += 64) EXPFAM_PREFETCH(at);
}
#endif
