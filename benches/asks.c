/* PING to a Redis on this host over one connection, as short as it can be written with epoll. Shares no code with hairpin.
 *
 *     asks stays|again PORT CPU MILLISECONDS [US]
 *
 * Prints the time for a transaction in ns, measured time over transactions, their number, and the median RTT in ns, write call entered to reply read. The
 * first tenth warms up. `stays` registers the connection with epoll once. `again` does it as redis-benchmark 7.0 does: waits until the connection can be
 * written before each request, and takes it out of epoll and puts it in before and after the write. US: stays awake for that long between write and wait.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 4000000 };

static const char request[] = "*1\r\n$4\r\nPING\r\n", reply[] = "+PONG\r\n";

static void die(const char *what) { perror(what); exit(1); }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static void registered(int epoll, int how, int fd, uint32_t events) {
    struct epoll_event event = { .events = events };
    if (epoll_ctl(epoll, how, fd, &event)) die("epoll_ctl");
}

static void waited(int epoll) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) < 0) die("epoll_wait");
}

int main(int argc, char **argv) {
    if (argc < 5) return fprintf(stderr, "asks stays|again PORT CPU MILLISECONDS [US]\n"), 2;
    int again = !strcmp(argv[1], "again"), yes = 1;
    int64_t length = atol(argv[4]) * 1000000, awake = argc > 5 ? atol(argv[5]) * 1000 : 0;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(atoi(argv[3]), &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2])) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), epoll = epoll_create1(0);
    if (fd < 0 || epoll < 0) die("socket");
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) die("connect");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) die("TCP_NODELAY");
    uint32_t *times = malloc(MOST * sizeof *times);
    if (!times) die("malloc");
    memset(times, 0, MOST * sizeof *times);
    registered(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
    int64_t begun = now(), measured = begun + length / 10, end = measured + length, last = begun;
    size_t count = 0;
    while (last < end && count < MOST) {
        if (again) {
            registered(epoll, EPOLL_CTL_DEL, fd, 0);
            registered(epoll, EPOLL_CTL_ADD, fd, EPOLLOUT);
            waited(epoll);
        }
        int64_t sent = now();
        if (write(fd, request, sizeof request - 1) != sizeof request - 1) die("write");
        if (again) {
            registered(epoll, EPOLL_CTL_DEL, fd, 0);
            registered(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
        }
        while (awake && now() - sent < awake) {}
        char got[64];
        size_t have = 0;
        while (have < sizeof reply - 1) {
            waited(epoll);
            ssize_t n = read(fd, got + have, sizeof got - have);
            if (n <= 0) die("read");
            have += (size_t)n;
        }
        if (have != sizeof reply - 1 || memcmp(got, reply, have)) return fprintf(stderr, "another reply than PONG\n"), 1;
        int64_t came = now();
        /* What began in the warm-up counts in neither. */
        if (last >= measured) times[count++] = (uint32_t)(came - sent);
        else begun = came;
        last = came;
    }
    if (!count) return fprintf(stderr, "nothing was measured\n"), 1;
    double each = (double)(last - begun) / (double)count;
    qsort(times, count, sizeof *times, ascending);
    printf("%.1f %zu %u\n", each, count, times[count / 2]);
}
