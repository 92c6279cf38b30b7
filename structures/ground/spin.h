/* A number that one thread changes while others watch it: reading, changing, and watching for a bounded time.

   A thread that sleeps needs some 50 microseconds to wake, as long as many regions take. Watching avoids the sleep. */
#ifndef EXPFAM_SPIN_H
#define EXPFAM_SPIN_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__) || defined(__i386__)
#define EXPFAM_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define EXPFAM_PAUSE() __asm__ __volatile__("yield")
#else
#define EXPFAM_PAUSE() ((void) 0)
#endif

static inline int64_t expfam_watched(const int64_t *number) {
    return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}

/* The number before one is added: no two callers get the same. */
static inline int64_t expfam_taken(int64_t *number) {
    return __atomic_fetch_add(number, 1, __ATOMIC_ACQ_REL);
}

/* Whether the number differs from `seen`; wait up to `nanoseconds` until it does. Others that want the core get it. */
static inline int expfam_watch(const int64_t *number, int64_t seen, int64_t nanoseconds) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (;;) {
        for (int i = 0; i < 64; i++) {
            if (expfam_watched(number) != seen) return 1;
            EXPFAM_PAUSE();
        }
        sched_yield();
        clock_gettime(CLOCK_MONOTONIC, &now);
        if ((int64_t) (now.tv_sec - begin.tv_sec) * 1000000000 + (now.tv_nsec - begin.tv_nsec) >= nanoseconds)
            return expfam_watched(number) != seen;
    }
}

#endif
