/* An open-loop client that shares no code with Hairpin, beside which Hairpin's figures are held.
 *
 *     open_loop udp|tcp|unix|pipe RATE MS [AT_MS:FOR_MS ...]
 *     open_loop redis:PORT RATE MS
 *
 * Due times are fixed in advance; one thread sends, another receives; the server is a child process that echoes, and is stopped (SIGSTOP) FOR_MS at each AT_MS;
 * or a Redis on this host, which is asked PING, and which somebody else stops.
 * Prints: requests due, requests answered, those that took more than 10 ms from due, the longest and p99.9 in us.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SIZE = 64, MOST = 100000 };

static const char ping[] = "*1\r\n$4\r\nPING\r\n", pong[] = "+PONG\r\n";

static int to_server[2], from_server[2], kind_is_pipe, asks_redis;
static int64_t start, interval;
static long due_count;
static int64_t took[MOST];

static void die(const char *what) { perror(what); exit(1); }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t at) {
    struct timespec t = {at / 1000000000, at % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL)) {}
}

static int whole(ssize_t (*call)(int, char *, size_t), int fd, char *bytes, size_t size) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = call(fd, bytes + done, size - done);
        if (n <= 0) return 0;
        done += (size_t)n;
    }
    return 1;
}
static ssize_t do_read(int fd, char *bytes, size_t n) { return read(fd, bytes, n); }
static ssize_t do_write(int fd, char *bytes, size_t n) { return write(fd, bytes, n); }

static void serve(int in, int out) {
    char bytes[SIZE];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (whole(do_read, in, bytes, SIZE) && whole(do_write, out, bytes, SIZE)) {}
    _exit(0);
}

static void *receive(void *unused) {
    char bytes[SIZE];
    uint32_t number;
    (void)unused;
    for (long answered = 0; answered < due_count; answered++) {
        if (!whole(do_read, from_server[0], bytes, asks_redis ? sizeof pong - 1 : SIZE)) break;
        if (asks_redis && memcmp(bytes, pong, sizeof pong - 1)) {
            fprintf(stderr, "another reply than PONG\n");
            exit(1);
        }
        /* Redis answers in order. */
        if (asks_redis) number = (uint32_t)answered;
        else memcpy(&number, bytes, sizeof number);
        if (number < MOST) took[number] = now() - (start + interval * (number + 1));
    }
    return NULL;
}

static void *send_all(void *unused) {
    char bytes[SIZE] = {0};
    (void)unused;
    for (uint32_t number = 0; number < due_count; number++) {
        sleep_until(start + interval * (number + 1));
        if (asks_redis) memcpy(bytes, ping, sizeof ping - 1);
        else memcpy(bytes, &number, sizeof number);
        if (!whole(do_write, to_server[1], bytes, asks_redis ? sizeof ping - 1 : SIZE)) break;
    }
    return NULL;
}

/* A pair of sockets over loopback, connected with each other. */
static void inet_pair(int type, int pair[2]) {
    struct sockaddr_in address[2] = {{0}, {0}};
    socklen_t length = sizeof address[0];
    int one = 1, end[2];
    for (int i = 0; i < 2; i++) {
        address[i].sin_family = AF_INET;
        address[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        if ((end[i] = socket(AF_INET, type, 0)) < 0) die("socket");
        if (bind(end[i], (struct sockaddr *)&address[i], length)) die("bind");
        if (getsockname(end[i], (struct sockaddr *)&address[i], &length)) die("getsockname");
    }
    if (type == SOCK_STREAM && listen(end[1], 1)) die("listen");
    if (connect(end[0], (struct sockaddr *)&address[1], length)) die("connect");
    if (type == SOCK_DGRAM && connect(end[1], (struct sockaddr *)&address[0], length)) die("connect");
    pair[0] = end[0];
    pair[1] = type == SOCK_STREAM ? accept(end[1], NULL, NULL) : end[1];
    if (type == SOCK_STREAM)
        for (int i = 0; i < 2; i++) setsockopt(pair[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

/* A connection to a server on this host. */
static int connected(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0) die("socket");
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (struct sockaddr *)&address, sizeof address)) die("connect");
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static int by_length(const void *one, const void *other) {
    int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;
    return (a > b) - (a < b);
}

int main(int argc, char **argv) {
    if (argc < 4) return 2;
    const char *kind = argv[1];
    int pair[2];
    pid_t server = 0;
    kind_is_pipe = !strcmp(kind, "pipe");
    asks_redis = !strncmp(kind, "redis:", 6);
    if (asks_redis) {
        if (argc > 4) return 2;
        to_server[1] = from_server[0] = connected(atoi(kind + 6));
    } else if (kind_is_pipe) {
        if (pipe(to_server) || pipe(from_server)) die("pipe");
    } else {
        if (!strcmp(kind, "unix")) {
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) die("socketpair");
        } else {
            inet_pair(strcmp(kind, "udp") ? SOCK_STREAM : SOCK_DGRAM, pair);
        }
        to_server[1] = from_server[0] = pair[0];
        to_server[0] = from_server[1] = pair[1];
    }
    if (!asks_redis) {
        if ((server = fork()) < 0) die("fork");
        if (server == 0) serve(to_server[0], from_server[1]);
    }

    interval = 1000000000 / atol(argv[2]);
    due_count = atol(argv[2]) * atol(argv[3]) / 1000 - 1;
    if (due_count > MOST) return 2;
    for (long i = 0; i < due_count; i++) took[i] = -1;
    start = now() + 20000000;
    pthread_t threads[2];
    if (pthread_create(&threads[0], NULL, receive, NULL) || pthread_create(&threads[1], NULL, send_all, NULL)) die("pthread_create");
    for (int i = 4; i < argc; i++) {
        long at = atol(argv[i]), length = atol(strchr(argv[i], ':') + 1);
        sleep_until(start + at * 1000000);
        kill(server, SIGSTOP);
        sleep_until(start + (at + length) * 1000000);
        kill(server, SIGCONT);
    }
    pthread_join(threads[1], NULL);
    /* A request without an answer within 2 s of the end is lost. */
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += 2;
    pthread_timedjoin_np(threads[0], NULL, &limit);
    long answered = 0, slow = 0;
    int64_t longest = 0;
    for (long i = 0; i < due_count; i++) {
        answered += took[i] >= 0;
        slow += took[i] < 0 || took[i] > 10000000;
        if (took[i] > longest) longest = took[i];
    }
    for (long i = 0; i < due_count; i++)
        if (took[i] < 0) took[i] = INT64_MAX;
    qsort(took, (size_t)due_count, sizeof took[0], by_length);
    long rank = (due_count * 999 + 999) / 1000;
    printf("%ld %ld %ld %ld %ld\n", due_count, answered, slow, (long)(longest / 1000), (long)(took[rank - 1] / 1000));
    if (!asks_redis) {
        kill(server, SIGKILL);
        waitpid(server, NULL, 0);
    }
    return 0;
}
