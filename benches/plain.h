/* What the plain C programs share: the clock, a CPU, a namespace, an order for qsort(3). None of it is hairpin's. */
#ifndef PLAIN_H
#define PLAIN_H
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static inline void die(const char *what) { perror(what); exit(1); }

static inline int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

/* A socket stays in the namespace that it was made in. */
static inline void enter(const char *namespace) {
    char path[128];
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET)) die(path);
    close(fd);
}

static inline int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

#endif
