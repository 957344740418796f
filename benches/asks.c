/* PING to a Redis, GET of five bytes to an nginx, or `version` to a memcached, on this host, as short as it can be written with epoll. Shares no code with hairpin.
 *
 *     asks redis|nginx|memcached stays|again|changes PORT CPU MILLISECONDS [US]
 *     asks redis|nginx|memcached once|turns PORT CPU MILLISECONDS FLOWS [OUTSTANDING]
 *
 * Prints the time for a transaction in ns, measured time over transactions, their number, and the median RTT in ns, write call entered to reply read. The
 * first tenth warms up. `stays` registers the connection with epoll once. `again` does it as redis-benchmark 7.0 does: waits until the connection can be
 * written before each request, and takes it out of epoll and puts it in before and after the write. `changes` does it as wrk 4.1 does: the same wait, and what
 * it waits for is changed before and after the write. US: stays awake for that long between write and wait.
 *
 * With FLOWS connections, at most 64, and OUTSTANDING requests in flight on each, at most 64 and 1 if not given, `once` writes the next request as soon as a
 * reply is found in what was read; `turns` reads all replies that are there and then writes the next requests, as redis-benchmark does.
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

enum { MOST = 4000000, MOST_FLOWS = 64, MOST_EACH = 64 };

/* A request, and the end of its reply. */
struct talk { const char *server, *request, *end; };

static const struct talk talks[] = {
    { "redis", "*1\r\n$4\r\nPING\r\n", "+PONG\r\n" },
    { "nginx", "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "\r\n\r\npong\n" },
    { "memcached", "version\r\n", "\r\n" },
};

static const struct talk *talk_with(const char *server) {
    for (size_t i = 0; i < sizeof talks / sizeof *talks; i++)
        if (!strcmp(talks[i].server, server)) return &talks[i];
    fprintf(stderr, "asks: it knows no %s\n", server);
    exit(2);
}

static void registered(int epoll, int how, int fd, uint32_t events) {
    struct epoll_event event = { .events = events };
    if (epoll_ctl(epoll, how, fd, &event)) die("epoll_ctl");
}

static void waited(int epoll) {
    struct epoll_event event;
    if (epoll_wait(epoll, &event, 1, -1) < 0) die("epoll_wait");
}

static void ask(const struct talk *talk, int fd) {
    size_t asked = strlen(talk->request);
    if (write(fd, talk->request, asked) != (ssize_t)asked) die("write");
}

static int connected(const char *port) {
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0), yes = 1;
    if (fd < 0) die("socket");
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) die("connect");
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes)) die("TCP_NODELAY");
    return fd;
}

/* Prints what was measured; `times` are the RTTs. */
static int told(int64_t length, size_t count, uint32_t *times) {
    if (!count) return fprintf(stderr, "nothing was measured\n"), 1;
    qsort(times, count, sizeof *times, ascending);
    printf("%.1f %zu %u\n", (double)length / (double)count, count, times[count / 2]);
    return 0;
}

/* A connection: when each of its requests was sent, and how many are still to be sent. */
struct flow {
    int fd;
    size_t asked, answered, owed;
    int64_t sent[MOST_EACH];
};

static void ask_over(struct flow *flow, const struct talk *talk) {
    flow->sent[flow->asked++ % MOST_EACH] = now();
    ask(talk, flow->fd);
}

/* Replies come whole here: they are short, and each server writes those that it has in one call. */
static int over_several(const struct talk *talk, int turns, const char *port, int64_t length, int flows, int outstanding, uint32_t *times) {
    static struct flow all[MOST_FLOWS];
    int epoll = epoll_create1(0);
    if (epoll < 0) die("epoll_create1");
    for (int i = 0; i < flows; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.ptr = &all[i] };
        all[i].fd = connected(port);
        if (epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event)) die("epoll_ctl");
        for (int j = 0; j < outstanding; j++) ask_over(&all[i], talk);
    }
    int64_t begun = now(), measured = begun + length / 10, end = measured + length, last = begun;
    size_t count = 0, ending = strlen(talk->end);
    while (last < end && count < MOST) {
        struct epoll_event ready[MOST_FLOWS];
        int n = epoll_wait(epoll, ready, MOST_FLOWS, -1);
        if (n < 0) die("epoll_wait");
        int64_t came = last;
        for (int i = 0; i < n; i++) {
            struct flow *flow = ready[i].data.ptr;
            char got[16384], *from = got, *found;
            ssize_t have = read(flow->fd, got, sizeof got);
            if (have <= 0) die("read");
            for (; (found = memmem(from, (size_t)(got + have - from), talk->end, ending)); from = found + ending) {
                came = now();
                int64_t sent = flow->sent[flow->answered++ % MOST_EACH];
                if (last >= measured && count < MOST) times[count++] = (uint32_t)(came - sent);
                if (turns) flow->owed++;
                else ask_over(flow, talk);
            }
            if (from != got + have) return fprintf(stderr, "another reply than of a %s\n", talk->server), 1;
        }
        for (int i = 0; i < n; i++)
            for (struct flow *flow = ready[i].data.ptr; flow->owed; flow->owed--) ask_over(flow, talk);
        /* What came in the warm-up counts in neither. */
        if (last < measured) begun = came;
        last = came;
    }
    return told(last - begun, count, times);
}

int main(int argc, char **argv) {
    if (argc < 6) return fprintf(stderr, "asks redis|nginx|memcached stays|again|changes|once|turns PORT CPU MILLISECONDS [US|FLOWS [OUTSTANDING]]\n"), 2;
    const struct talk *talk = talk_with(argv[1]);
    int64_t length = atol(argv[5]) * 1000000;
    pin(atoi(argv[4]));
    uint32_t *times = malloc(MOST * sizeof *times);
    if (!times) die("malloc");
    memset(times, 0, MOST * sizeof *times);
    int turns = !strcmp(argv[2], "turns");
    if (turns || !strcmp(argv[2], "once")) {
        int flows = argc > 6 ? atoi(argv[6]) : 1, outstanding = argc > 7 ? atoi(argv[7]) : 1;
        if (flows < 1 || flows > MOST_FLOWS || outstanding < 1 || outstanding > MOST_EACH)
            return fprintf(stderr, "asks: 1 to %d connections, 1 to %d requests in flight on each\n", MOST_FLOWS, MOST_EACH), 2;
        return over_several(talk, turns, argv[3], length, flows, outstanding, times);
    }
    size_t ending = strlen(talk->end);
    int again = !strcmp(argv[2], "again"), changes = !strcmp(argv[2], "changes");
    int64_t awake = argc > 6 ? atol(argv[6]) * 1000 : 0;
    int fd = connected(argv[3]), epoll = epoll_create1(0);
    if (epoll < 0) die("epoll_create1");
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
        ask(talk, fd);
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
    return told(last - begun, count, times);
}
