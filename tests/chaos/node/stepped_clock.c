/* A wall clock that a test steps, for one process: preloaded before the C library.
 *
 * The file named by CHAOS_CLOCK holds by how many seconds the wall clock is ahead (negative: behind). It is mapped, so a step
 * is seen at once. The monotonic clock stays as it is, as with a real step. Waits until a time of the wall clock are given
 * to the kernel in its own time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none, *ahead = &none;

__attribute__((constructor)) static void map_file(void)
{
    const char *path = getenv("CHAOS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED)
        ahead = mapped;
    close(file);
}

static void *next(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *);
    if (!real)
        real = next("clock_gettime");
    int failed = real(clock, now);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        now->tv_sec += *ahead;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec read;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &read))
        return -1;
    now->tv_sec = read.tv_sec;
    now->tv_usec = read.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec read;
    clock_gettime(CLOCK_REALTIME, &read);
    if (out)
        *out = read.tv_sec;
    return read.tv_sec;
}

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    if (!real)
        real = next("syscall");
    va_list given;
    long one[6];
    va_start(given, number);
    for (int each = 0; each < 6; each++)
        one[each] = va_arg(given, long);
    va_end(given);
    struct timespec until;
    if (number == SYS_futex && one[3] && (one[1] & FUTEX_CLOCK_REALTIME)) {
        until = *(struct timespec *)one[3];
        until.tv_sec -= *ahead;
        one[3] = (long)&until;
    }
    return real(number, one[0], one[1], one[2], one[3], one[4], one[5]);
}
