/* An echo server of two UDP ports: at the first it replies at once, at the second it waits first. Shares no code with hairpin, and no clock's.
 *
 *     delayed spin|block CPU PORT PORT NANOSECONDS
 *
 * Ends at SIGTERM, and prints the turn-around at each port in ns by CLOCK_MONOTONIC_RAW, receive call returned to send call entered, and how many there
 * were. One process, one core, and the same calls for both ports: the wait alone tells them apart. It is a loop whose turns are counted before: one that looks
 * at the clock lasts whole looks, and few of those fit into a wait of 50 ns. Printed is the mean of the middle half, which is finer than the clock's step.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { LONGEST = 65507, BINS = 1 << 20 };

static char bytes[LONGEST];
static uint32_t often[2][BINS];
static volatile sig_atomic_t over;

static void end(int signal) { (void)signal; over = 1; }

static void die(const char *what) { perror(what); exit(1); }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void turn(uint64_t turns) {
    for (; turns; turns--) __asm__ volatile("");
}

/* The turns of a wait, from the shortest of some times, in which nothing else came up. */
static uint64_t turns_of(int64_t wait) {
    enum { FITS = 4, TRIES = 20, WAITS = 100 };
    double turns = (double)wait;
    for (int fit = 0; wait > 0 && fit < FITS; fit++) {
        int64_t shortest = INT64_MAX;
        for (int i = 0; i < TRIES; i++) {
            int64_t began = now();
            for (int n = 0; n < WAITS; n++) turn((uint64_t)turns);
            int64_t took = now() - began;
            if (took < shortest) shortest = took;
        }
        if (shortest > 0) turns *= (double)WAITS * (double)wait / (double)shortest;
    }
    return (uint64_t)turns;
}

static void reply(int fd, int port, uint64_t turns) {
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    ssize_t n = recvfrom(fd, bytes, sizeof bytes, MSG_DONTWAIT, (struct sockaddr *)&from, &len);
    if (n < 0) return;
    int64_t came = now();
    if (port) turn(turns);
    int64_t took = now() - came;
    sendto(fd, bytes, (size_t)n, 0, (struct sockaddr *)&from, len);
    often[port][took < BINS ? took : BINS - 1]++;
}

static void print(int port) {
    uint64_t all = 0, up_to = 0;
    double sum = 0;
    for (int i = 0; i < BINS; i++) all += often[port][i];
    uint64_t first = all / 4, last = all - first;
    for (int i = 0; i < BINS; i++) {
        uint64_t from = up_to < first ? first : up_to;
        up_to += often[port][i];
        uint64_t to = up_to < last ? up_to : last;
        if (to > from) sum += (double)(to - from) * i;
    }
    printf("%.1f %llu\n", last > first ? sum / (double)(last - first) : 0, (unsigned long long)all);
}

int main(int argc, char **argv) {
    if (argc != 6) return fprintf(stderr, "delayed spin|block CPU PORT PORT NANOSECONDS\n"), 2;
    int spins = !strcmp(argv[1], "spin");
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[2]), &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
    uint64_t turns = turns_of(atol(argv[5]));
    struct pollfd fds[2];
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in at;
        memset(&at, 0, sizeof at);
        at.sin_family = AF_INET;
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        at.sin_port = htons((uint16_t)atoi(argv[3 + i]));
        fds[i].fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        fds[i].events = POLLIN;
        if (fds[i].fd < 0 || bind(fds[i].fd, (struct sockaddr *)&at, sizeof at)) die("bind");
    }
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = end;
    if (sigaction(SIGTERM, &action, NULL)) die("sigaction");
    /* Whoever started this may wait for signals of its own, and have them blocked. */
    sigset_t all;
    sigfillset(&all);
    if (sigprocmask(SIG_UNBLOCK, &all, NULL)) die("sigprocmask");
    while (!over) {
        if (!spins && poll(fds, 2, -1) < 0) continue;
        /* A receive call that finds nothing at the first port would delay the second alone. */
        for (int i = 0; i < 2; i++)
            if (spins || fds[i].revents) reply(fds[i].fd, i, turns);
    }
    for (int i = 0; i < 2; i++) print(i);
    return 0;
}
