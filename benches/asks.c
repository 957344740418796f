/* PING to a Redis, or GET of five bytes to an nginx, on this host over one connection, as short as it can be written with epoll. Shares no code with hairpin.
 *
 *     asks redis|nginx stays|again|changes PORT CPU MILLISECONDS [US]
 *
 * Prints the time for a transaction in ns, measured time over transactions, their number, and the median RTT in ns, write call entered to reply read. The
 * first tenth warms up. `stays` registers the connection with epoll once. `again` does it as redis-benchmark 7.0 does: waits until the connection can be
 * written before each request, and takes it out of epoll and puts it in before and after the write. `changes` does it as wrk 4.1 does: the same wait, and what
 * it waits for is changed before and after the write. US: stays awake for that long between write and wait.
 */
#include "plain.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum { MOST = 4000000 };

/* A request, and the end of its reply. */
struct talk { const char *server, *request, *end; };

static const struct talk talks[] = {
    { "redis", "*1\r\n$4\r\nPING\r\n", "+PONG\r\n" },
    { "nginx", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\npong\n" },
};

static void registered(int epoll, int how, int fd, uint32_t events) {
    struct epoll_event event = { .events = events };
    if (epoll_ctl(epoll, how, fd, &event)) die("epoll_ctl");
}

static void waited(int epoll) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) < 0) die("epoll_wait");
}

int main(int argc, char **argv) {
    if (argc < 6) return fprintf(stderr, "asks redis|nginx stays|again|changes PORT CPU MILLISECONDS [US]\n"), 2;
    const struct talk *talk = &talks[!strcmp(argv[1], "nginx")];
    size_t asked = strlen(talk->request), ending = strlen(talk->end);
    int again = !strcmp(argv[2], "again"), changes = !strcmp(argv[2], "changes"), yes = 1;
    int64_t length = atol(argv[5]) * 1000000, awake = argc > 6 ? atol(argv[6]) * 1000 : 0;
    pin(atoi(argv[4]));
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[3])) };
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
        }
        if (changes) registered(epoll, EPOLL_CTL_MOD, fd, EPOLLIN | EPOLLOUT);
        if (again || changes) waited(epoll);
        int64_t sent = now();
        if (write(fd, talk->request, asked) != (ssize_t)asked) die("write");
        if (again) {
            registered(epoll, EPOLL_CTL_DEL, fd, 0);
            registered(epoll, EPOLL_CTL_ADD, fd, EPOLLIN);
        }
        if (changes) registered(epoll, EPOLL_CTL_MOD, fd, EPOLLIN);
        while (awake && now() - sent < awake) {}
        char got[1024];
        size_t have = 0;
        while (have < ending || memcmp(got + have - ending, talk->end, ending)) {
            if (have == sizeof got) return fprintf(stderr, "another reply than of a %s\n", talk->server), 1;
            waited(epoll);
            ssize_t n = read(fd, got + have, sizeof got - have);
            if (n <= 0) die("read");
            have += (size_t)n;
        }
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
