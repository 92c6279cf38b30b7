/* A number that threads change and watch.

   A thread that sleeps needs some 50 microseconds to wake, as long as many a region takes: it watches for a while. */
#ifndef EXPFAM_SPIN_H
#define EXPFAM_SPIN_H

#include <stdint.h>

#if defined(_MSC_VER)
#include <intrin.h>
#include <windows.h>

static __forceinline int64_t expfam_watched(const int64_t *number) {
    return *(const volatile int64_t *) number;
}
static __forceinline int64_t expfam_taken(int64_t *number) {
    return _InterlockedExchangeAdd64((volatile __int64 *) number, 1);
}
static __forceinline int64_t expfam_nanoseconds(void) {
    LARGE_INTEGER ticks, each;
    QueryPerformanceCounter(&ticks);
    QueryPerformanceFrequency(&each);
    return (int64_t) (1e9 * (double) ticks.QuadPart / (double) each.QuadPart);
}
static __forceinline int64_t expfam_swap(int64_t *number, int64_t value) {
    return _InterlockedExchange64((volatile __int64 *) number, value);
}
static __forceinline void expfam_nap(int64_t nanoseconds) {
    Sleep((DWORD) (nanoseconds / 1000000));
}
#define EXPFAM_PAUSE() YieldProcessor()
#define EXPFAM_GIVE_WAY() SwitchToThread()
#else
#include <sched.h>
#include <time.h>

static inline int64_t expfam_watched(const int64_t *number) {
    return __atomic_load_n(number, __ATOMIC_ACQUIRE);
}
/* The number before one is added: no two callers get the same. */
static inline int64_t expfam_taken(int64_t *number) {
    return __atomic_fetch_add(number, 1, __ATOMIC_ACQ_REL);
}
/* The number before it becomes `value`. */
static inline int64_t expfam_swap(int64_t *number, int64_t value) {
    return __atomic_exchange_n(number, value, __ATOMIC_ACQ_REL);
}
static inline void expfam_nap(int64_t nanoseconds) {
    struct timespec length = {(time_t) (nanoseconds / 1000000000), (long) (nanoseconds % 1000000000)};
    nanosleep(&length, NULL);
}
static inline int64_t expfam_nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}
#if defined(__x86_64__) || defined(__i386__)
#define EXPFAM_PAUSE() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define EXPFAM_PAUSE() __asm__ __volatile__("yield")
#else
#define EXPFAM_PAUSE() ((void) 0)
#endif
#define EXPFAM_GIVE_WAY() sched_yield()
#endif

/* Whether the number differs from `seen`; wait up to `nanoseconds` until it does. Threads that want the core get it. */
static inline int expfam_watch(const int64_t *number, int64_t seen, int64_t nanoseconds) {
    const int64_t begin = expfam_nanoseconds();
    do {
        for (int i = 0; i < 64; i++) {
            if (expfam_watched(number) != seen) return 1;
            EXPFAM_PAUSE();
        }
        EXPFAM_GIVE_WAY();
    } while (expfam_nanoseconds() - begin < nanoseconds);
    return expfam_watched(number) != seen;
}

#endif
