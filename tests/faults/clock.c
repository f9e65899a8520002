// To be preloaded: a time of day that can be moved while a process runs, by as many seconds as a file holds.
//
// libfaketime would not do. It does not know cnd_timedwait, by which the Kafka client waits for a time of day: such a
// wait would be as much too long as the clock is ahead. Here it ends when the moved clock says so, as on a machine whose
// clock is set: one that has begun when the clock goes back takes so much longer.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

#define NANO 1000000000L
#define SLICE (NANO / 20)

static const volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
  void *held = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, open(getenv("TEST_CLOCK"), O_RDONLY), 0);
  if (held == MAP_FAILED) {
    perror("TEST_CLOCK");
    abort();
  }
  ahead = held;
}

static int machine(clockid_t clock, struct timespec *now) {
  static int (*ask)(clockid_t, struct timespec *);
  if (!ask) ask = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  return ask(clock, now);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  int status = machine(clock, now);
  if (clock == CLOCK_REALTIME && ahead) now->tv_sec += *ahead;
  return status;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  struct timespec found;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &found);
  now->tv_sec = found.tv_sec;
  now->tv_usec = found.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *now) {
  struct timespec found;
  clock_gettime(CLOCK_REALTIME, &found);
  if (now) *now = found.tv_sec;
  return found.tv_sec;
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
  static int (*wait)(cnd_t *, mtx_t *, const struct timespec *);
  if (!wait) wait = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
  for (;;) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t left = (until->tv_sec - now.tv_sec) * NANO + until->tv_nsec - now.tv_nsec;
    machine(CLOCK_REALTIME, &now);
    int64_t end = now.tv_nsec + (left < 0 ? 0 : left < SLICE ? left : SLICE);
    int status = wait(condition, mutex, &(struct timespec){now.tv_sec + end / NANO, end % NANO});
    if (status != thrd_timedout || left <= SLICE) return status;
  }
}
