/* Many flows over loopback with one request in flight on each, as short as it can be written with epoll, or with liburing: two processes, a connected socket
 * each for every flow. Shares no code with hairpin.
 *
 *     flows tcp|udp[,ring|,defer][,fixed] FLOWS CPU_OF_CLIENT CPU_OF_SERVER MILLISECONDS BYTES
 *
 * `ring` is io_uring, `defer` the same with deferred completions, `fixed` with registered buffers to receive into. Linux 6.1, liburing 2.3.
 *
 * Prints the time per transaction in ns, measured time over round trips, and their number. The first tenth warms up. The client stamps each send and
 * each receive, numbers the requests and checks the numbers of the replies; the server only returns them. A UDP port of the server has 256 flows, as
 * hairpin's.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 65507, GROUP = 256, EVENTS = 64, SENT = 1 << 30 };

static char bytes[LONGEST];

static void die(const char *what) { perror(what); exit(1); }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The CPU's counter where there is one, as hairpin. */
static uint64_t stamp(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return (uint64_t)now();
#endif
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

static struct sockaddr_in loopback(uint16_t port) {
    struct sockaddr_in at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons(port);
    return at;
}

static uint16_t port_of(int fd) {
    struct sockaddr_in at;
    socklen_t len = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &len)) die("getsockname");
    return ntohs(at.sin_port);
}

static int bound(int type, uint16_t port, int shared) {
    struct sockaddr_in at = loopback(port);
    int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    if (shared && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &shared, sizeof shared)) die("SO_REUSEADDR");
    if (bind(fd, (struct sockaddr *)&at, sizeof at)) die("bind");
    return fd;
}

static int connected(int fd, uint16_t port) {
    struct sockaddr_in at = loopback(port);
    if (connect(fd, (struct sockaddr *)&at, sizeof at)) die("connect");
    return fd;
}

static void pass(int fd, uint16_t *ports, int count, int out) {
    char *at = (char *)ports;
    for (size_t left = sizeof *ports * (size_t)count; left;) {
        ssize_t n = out ? write(fd, at, left) : read(fd, at, left);
        if (n <= 0) die("the other process");
        at += n, left -= (size_t)n;
    }
}

static int watch(const int *fds, int flows, int tcp) {
    int set = epoll_create1(EPOLL_CLOEXEC), on = 1;
    if (set < 0) die("epoll_create1");
    for (int i = 0; i < flows; i++) {
        struct epoll_event event = { .events = EPOLLIN, .data.u32 = (uint32_t)i };
        if (tcp && setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) die("TCP_NODELAY");
        if (epoll_ctl(set, EPOLL_CTL_ADD, fds[i], &event)) die("epoll_ctl");
    }
    return set;
}

static void serve(int *fds, int flows, int tcp, size_t size) {
    struct epoll_event events[EVENTS];
    int set = watch(fds, flows, tcp);
    for (;;) {
        int ready = epoll_wait(set, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            int fd = fds[events[i].data.u32];
            ssize_t n = recv(fd, bytes, size, MSG_DONTWAIT);
            if (n == 0) exit(0);
            if (n > 0 && send(fd, bytes, (size_t)n, MSG_DONTWAIT) != n) die("send");
        }
    }
}

/* io_uring: a registered socket and a buffer for each flow, as many bytes apart as a cache line takes; all that is asked goes along with the next wait. */
struct rings {
    struct io_uring ring;
    char *bytes; /* receive buffers, and behind them those to send from */
    size_t apart, size;
    int flows, fixed;
};

static void must(const char *what, int result) {
    if (result < 0) fprintf(stderr, "%s: %s\n", what, strerror(-result)), exit(1);
}

static char *received(struct rings *r, uint32_t flow) { return r->bytes + r->apart * flow; }
static char *to_send(struct rings *r, uint32_t flow) { return r->bytes + r->apart * ((size_t)r->flows + flow); }

static struct io_uring_sqe *entry(struct rings *r) {
    struct io_uring_sqe *e = io_uring_get_sqe(&r->ring);
    if (!e) {
        must("io_uring_submit", io_uring_submit(&r->ring));
        e = io_uring_get_sqe(&r->ring);
    }
    if (!e) die("a full submission queue");
    return e;
}

static void ask(struct rings *r, uint32_t flow) {
    struct io_uring_sqe *e = entry(r);
    if (r->fixed) io_uring_prep_read_fixed(e, (int)flow, received(r, flow), (unsigned)r->size, 0, 0);
    else io_uring_prep_recv(e, (int)flow, received(r, flow), r->size, 0), e->ioprio |= IORING_RECVSEND_POLL_FIRST;
    e->flags |= IOSQE_FIXED_FILE;
    e->user_data = flow;
}

static void reply(struct rings *r, uint32_t flow) {
    struct io_uring_sqe *e = entry(r);
    io_uring_prep_send(e, (int)flow, to_send(r, flow), r->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    e->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
    e->user_data = SENT | flow;
}

static void open_rings(struct rings *r, const int *fds, int flows, int tcp, const char *how, size_t size) {
    struct io_uring_params p = { .flags = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP, .cq_entries = 4 * (unsigned)flows };
    int on = 1;
    if (strstr(how, "defer")) p.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    must("io_uring_setup", io_uring_queue_init_params(2 * (unsigned)flows, &r->ring, &p));
    r->size = size, r->flows = flows, r->fixed = strstr(how, "fixed") != NULL;
    r->apart = (size + 63) / 64 * 64;
    if (posix_memalign((void **)&r->bytes, 4096, 2 * r->apart * (size_t)flows)) die("memory");
    memset(r->bytes, 0, 2 * r->apart * (size_t)flows);
    struct iovec all = { r->bytes, 2 * r->apart * (size_t)flows };
    if (r->fixed) must("the buffers", io_uring_register_buffers(&r->ring, &all, 1));
    must("the sockets", io_uring_register_files(&r->ring, fds, (unsigned)flows));
    for (int i = 0; i < flows; i++) {
        if (tcp && setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on)) die("TCP_NODELAY");
        ask(r, (uint32_t)i);
    }
    must("io_uring_submit", io_uring_submit(&r->ring));
}

/* Submits what is asked and waits for a completion. `of` gets those that have come, at most EVENTS. */
static unsigned turn(struct rings *r, struct io_uring_cqe **of) {
    int result = io_uring_submit_and_wait(&r->ring, 1);
    if (result != -EINTR) must("io_uring_enter", result);
    return io_uring_peek_batch_cqe(&r->ring, of, EVENTS);
}

static void serve_ring(const int *fds, int flows, int tcp, const char *how, size_t size) {
    static struct rings r;
    struct io_uring_cqe *events[EVENTS];
    open_rings(&r, fds, flows, tcp, how, size);
    for (;;) {
        unsigned ready = turn(&r, events);
        for (unsigned i = 0; i < ready; i++) {
            uint32_t flow = (uint32_t)events[i]->user_data;
            if (flow & SENT) die("send");
            if (events[i]->res != (int)size) exit(0);
            memcpy(to_send(&r, flow), received(&r, flow), size);
            reply(&r, flow);
            ask(&r, flow);
        }
        io_uring_cq_advance(&r.ring, ready);
    }
}

int main(int argc, char **argv) {
    if (argc != 7) return fprintf(stderr, "flows tcp|udp[,ring|,defer][,fixed] FLOWS CPU CPU MILLISECONDS BYTES\n"), 2;
    const char *how = strchr(argv[1], ',');
    int tcp = !strncmp(argv[1], "tcp", 3), flows = atoi(argv[2]), groups = tcp ? 1 : (flows + GROUP - 1) / GROUP;
    int64_t length = atol(argv[5]) * 1000000;
    size_t size = (size_t)atol(argv[6]);
    int *fds = calloc((size_t)flows, sizeof *fds), doors[2][2];
    uint16_t *ports = calloc((size_t)groups, sizeof *ports), *own = calloc((size_t)flows, sizeof *own);
    struct { uint64_t sent; uint32_t next; } *flight = calloc((size_t)flows, sizeof *flight);
    enum { KEPT = 1 << 16 };
    uint64_t *took = calloc(KEPT, sizeof *took);
    struct rlimit limit;
    if (flows < 1 || size < 4 || size > LONGEST || !fds || !ports || !own || !flight || !took) die("arguments");
    if (getrlimit(RLIMIT_NOFILE, &limit)) die("getrlimit");
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) || pipe(doors[0]) || pipe(doors[1])) die("descriptors");
    pid_t server = fork();
    if (server < 0) die("fork");
    if (server == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(atoi(argv[4]));
        int *door = calloc((size_t)groups, sizeof *door);
        for (int i = 0; i < groups; i++) ports[i] = port_of(door[i] = bound(tcp ? SOCK_STREAM : SOCK_DGRAM, 0, 0));
        if (tcp && listen(door[0], 4096)) die("listen");
        for (int i = 0, on = 1; i < groups; i++) setsockopt(door[i], SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        pass(doors[0][1], ports, groups, 1);
        if (!tcp) pass(doors[1][0], own, flows, 0);
        for (int i = 0; i < flows; i++)
            if ((fds[i] = tcp ? accept(door[0], NULL, NULL) : connected(bound(SOCK_DGRAM, ports[i / GROUP], 1), own[i])) < 0) die("accept");
        for (int i = 0; i < groups; i++) close(door[i]);
        pass(doors[0][1], ports, 1, 1);
        if (how) serve_ring(fds, flows, tcp, how, size);
        serve(fds, flows, tcp, size);
    }
    pin(atoi(argv[3]));
    pass(doors[0][0], ports, groups, 0);
    for (int i = 0; i < flows; i++) {
        fds[i] = connected(socket(AF_INET, (tcp ? SOCK_STREAM : SOCK_DGRAM) | SOCK_CLOEXEC, 0), ports[tcp ? 0 : i / GROUP]);
        own[i] = port_of(fds[i]);
    }
    if (!tcp) pass(doors[1][1], own, flows, 1);
    pass(doors[0][0], ports, 1, 0);
    static struct rings r;
    struct epoll_event events[EVENTS];
    struct io_uring_cqe *done[EVENTS];
    int set = how ? -1 : watch(fds, flows, tcp);
    if (how) open_rings(&r, fds, flows, tcp, how, size);
    uint64_t count = 0, before = 0;
    int64_t began = now(), counts_from = began + length / 10, until = began + length, last = began;
    for (int i = 0; i < flows; i++) {
        char *out = how ? to_send(&r, (uint32_t)i) : bytes;
        memcpy(out, &flight[i].next, 4);
        flight[i].sent = stamp();
        if (how) reply(&r, (uint32_t)i);
        else if (send(fds[i], out, size, MSG_DONTWAIT) != (ssize_t)size) die("send");
    }
    while (last < until) {
        int ready = how ? (int)turn(&r, done) : epoll_wait(set, events, EVENTS, -1);
        for (int i = 0; i < ready; i++) {
            uint32_t flow = how ? (uint32_t)done[i]->user_data : events[i].data.u32;
            if (flow & SENT) die("send");
            ssize_t n = how ? done[i]->res : recv(fds[flow], bytes, size, MSG_DONTWAIT);
            if (n < 0) continue;
            uint64_t at = stamp();
            if (n != (ssize_t)size || memcmp(how ? received(&r, flow) : bytes, &flight[flow].next, 4)) die("round trip");
            took[count++ % KEPT] = at - flight[flow].sent;
            flight[flow].next++;
            char *out = how ? to_send(&r, flow) : bytes;
            memcpy(out, &flight[flow].next, 4);
            flight[flow].sent = stamp();
            if (how) reply(&r, flow), ask(&r, flow);
            else if (send(fds[flow], out, size, MSG_DONTWAIT) != (ssize_t)size) die("send");
        }
        if (how) io_uring_cq_advance(&r.ring, (unsigned)ready);
        last = now();
        if (last < counts_from) began = last, before = count;
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    count -= before;
    printf("%.0f %llu\n", count ? (double)(last - began) / (double)count : 0.0, (unsigned long long)count);
    return count == 0;
}
