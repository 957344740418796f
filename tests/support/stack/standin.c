/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A stand-in for libraries that replace the kernel's sockets, for the tests alone. Loaded before the C library (LD_PRELOAD, ld.so(8)), it carries the
 * messages of connected UDP sockets and of TCP connections over shared memory, where both ends have it:
 *
 *   send ─▶ ring (a file of HAIRPIN_STANDIN_DIR, named after the receiver's and the sender's address) ─▶ recv
 *     └──▶ the kernel's socket: while the other end has no ring, and after HAIRPIN_STANDIN_FALLBACK_AFTER messages of a connection
 *
 * A connection's opening goes through the kernel. Without HAIRPIN_STANDIN_DIR everything does. The file `calls` there counts the calls seen, one u64 each in
 * the order of `enum call`.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define FDS 1024
#define WATCHES 256
#define ROOM (1u << 20)
#define NAME 256

enum call { SOCKET, BIND, CONNECT, ACCEPT, SETSOCKOPT, GETSOCKOPT, SEND, RECV, POLL, EPOLL_CTL, EPOLL_WAIT, IOCTL, CLOSE, CALLS };

/* One way of a connection: one process writes, one reads. Counts of bytes, which never wrap. */
struct ring {
    _Atomic uint64_t written;
    _Atomic uint64_t taken;
    /* All that follows goes through the kernel. */
    _Atomic uint32_t handed_over;
    /* The writer has closed its end. */
    _Atomic uint32_t closed;
    char bytes[ROOM];
};

/* A connected socket, or the descriptors that mean the same one. */
struct flow {
    int users;
    int stream;
    int nonblocking;
    uint64_t sent;
    struct ring *in, *out;
    char in_name[NAME], out_name[NAME];
};

static struct flow *flows[FDS];
static struct { int epoll, fd; epoll_data_t data; } watches[WATCHES];
static const char *directory;
static uint64_t fallback_after = UINT64_MAX;
static _Atomic uint64_t *calls;
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

#define REAL(result, name, ...) static result (*real_##name)(__VA_ARGS__)
REAL(int, socket, int, int, int);
REAL(int, bind, int, const struct sockaddr *, socklen_t);
REAL(int, connect, int, const struct sockaddr *, socklen_t);
REAL(int, accept4, int, struct sockaddr *, socklen_t *, int);
REAL(int, setsockopt, int, int, int, const void *, socklen_t);
REAL(int, getsockopt, int, int, int, void *, socklen_t *);
REAL(ssize_t, send, int, const void *, size_t, int);
REAL(ssize_t, recv, int, void *, size_t, int);
REAL(ssize_t, recvfrom, int, void *, size_t, int, struct sockaddr *, socklen_t *);
REAL(int, poll, struct pollfd *, nfds_t, int);
REAL(int, ppoll, struct pollfd *, nfds_t, const struct timespec *, const sigset_t *);
REAL(int, epoll_ctl, int, int, int, struct epoll_event *);
REAL(int, epoll_wait, int, struct epoll_event *, int, int);
REAL(int, fcntl, int, int, ...);
REAL(int, ioctl, int, unsigned long, ...);
REAL(int, close, int);

static void *mapped(const char *name, size_t size, int create) {
    char path[2 * NAME];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int fd = open(path, O_RDWR | O_CLOEXEC | (create ? O_CREAT : 0), 0600);
    if (fd < 0) return NULL;
    void *memory = create && ftruncate(fd, (off_t)size) < 0 ? MAP_FAILED : mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    real_close(fd);
    return memory == MAP_FAILED ? NULL : memory;
}

__attribute__((constructor)) static void load(void) {
#define FIND(name) *(void **)&real_##name = dlsym(RTLD_NEXT, #name)
    FIND(socket), FIND(bind), FIND(connect), FIND(accept4), FIND(setsockopt), FIND(getsockopt), FIND(send), FIND(recv), FIND(recvfrom), FIND(poll), FIND(ppoll);
    FIND(epoll_ctl), FIND(epoll_wait), FIND(fcntl), FIND(ioctl), FIND(close);
    const char *after = getenv("HAIRPIN_STANDIN_FALLBACK_AFTER");
    if (after) fallback_after = strtoull(after, NULL, 10);
    directory = getenv("HAIRPIN_STANDIN_DIR");
    if (directory) calls = mapped("calls", CALLS * sizeof *calls, 1);
}

static void count(enum call call) {
    if (calls) atomic_fetch_add_explicit(&calls[call], 1, memory_order_relaxed);
}

/* `address:port` as a part of a file's name. */
static int written_out(const struct sockaddr_storage *address, char *text, size_t size) {
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr_in *four = (const void *)address;
    const struct sockaddr_in6 *six = (const void *)address;
    const void *bytes = address->ss_family == AF_INET ? (const void *)&four->sin_addr : (const void *)&six->sin6_addr;
    if (!inet_ntop(address->ss_family, bytes, host, sizeof host)) return 0;
    snprintf(text, size, "%s:%u", host, ntohs(four->sin_port));
    return 1;
}

/* The flow of a connected socket of the internet; NULL for every other descriptor. */
static struct flow *flow_of(int fd) {
    if (!directory || fd < 0 || fd >= FDS) return NULL;
    if (flows[fd]) return flows[fd];
    struct sockaddr_storage own, peer;
    socklen_t length = sizeof own, peers = sizeof peer, size = sizeof(int);
    char here[64], there[64];
    int type;
    if (getsockname(fd, (void *)&own, &length) < 0 || getpeername(fd, (void *)&peer, &peers) < 0) return NULL;
    if ((own.ss_family != AF_INET && own.ss_family != AF_INET6) || !written_out(&own, here, sizeof here)) return NULL;
    if (!written_out(&peer, there, sizeof there) || real_getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) < 0) return NULL;
    pthread_mutex_lock(&opening);
    struct flow *flow = calloc(1, sizeof *flow);
    flow->users = 1;
    flow->stream = type == SOCK_STREAM;
    flow->nonblocking = (real_fcntl(fd, F_GETFL) & O_NONBLOCK) != 0;
    snprintf(flow->in_name, NAME, "%d-%s-%s", type, here, there);
    snprintf(flow->out_name, NAME, "%d-%s-%s", type, there, here);
    flow->in = mapped(flow->in_name, sizeof *flow->in, 1);
    if (!flow->in) {
        free(flow);
        flow = NULL;
    }
    flows[fd] = flow;
    pthread_mutex_unlock(&opening);
    return flow;
}

static int waits(struct ring *ring) { return ring && atomic_load(&ring->written) != atomic_load(&ring->taken); }

static int ended(struct ring *ring) { return ring && atomic_load(&ring->closed) && !waits(ring); }

/* Only before the ring's first bytes and after its last ones can the kernel have something. */
static int kernels_turn(struct ring *ring) {
    if (!ring) return 1;
    int over = atomic_load(&ring->handed_over) || !atomic_load(&ring->written);
    return over && !waits(ring);
}

static void copy_in(struct ring *ring, uint64_t at, const void *bytes, size_t length) {
    size_t from = at % ROOM, first = length < ROOM - from ? length : ROOM - from;
    memcpy(ring->bytes + from, bytes, first);
    memcpy(ring->bytes, (const char *)bytes + first, length - first);
}

static void copy_out(struct ring *ring, uint64_t at, void *bytes, size_t length) {
    size_t from = at % ROOM, first = length < ROOM - from ? length : ROOM - from;
    memcpy(bytes, ring->bytes + from, first);
    memcpy((char *)bytes + first, ring->bytes, length - first);
}

/* A datagram goes in behind its length. -1 without room for it. */
static ssize_t put(struct ring *ring, int stream, const void *bytes, size_t length) {
    uint64_t written = atomic_load(&ring->written);
    size_t room = ROOM - (size_t)(written - atomic_load(&ring->taken));
    if (stream) {
        length = length < room ? length : room;
        if (!length) return -1;
        copy_in(ring, written, bytes, length);
        atomic_store(&ring->written, written + length);
        return (ssize_t)length;
    }
    uint32_t size = (uint32_t)length;
    if (room < sizeof size + length) return -1;
    copy_in(ring, written, &size, sizeof size);
    copy_in(ring, written + sizeof size, bytes, length);
    atomic_store(&ring->written, written + sizeof size + length);
    return (ssize_t)length;
}

static ssize_t take(struct ring *ring, int stream, void *bytes, size_t length) {
    uint64_t taken = atomic_load(&ring->taken);
    size_t there = (size_t)(atomic_load(&ring->written) - taken);
    uint32_t size = (uint32_t)there;
    size_t head = 0;
    if (!stream) {
        copy_out(ring, taken, &size, sizeof size);
        head = sizeof size;
    }
    size_t got = length < size ? length : size;
    copy_out(ring, taken + head, bytes, got);
    atomic_store(&ring->taken, taken + head + (stream ? got : size));
    return (ssize_t)got;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void pause_briefly(void) {
    struct timespec brief = {0, 20000};
    nanosleep(&brief, NULL);
}

static int refuse(int error) {
    errno = error;
    return -1;
}

/* The way out, if the ring carries this message. */
static struct ring *way_out(struct flow *flow, size_t length) {
    if (!flow || length > ROOM / 4) return NULL;
    if (flow->sent >= fallback_after) {
        if (flow->out) atomic_store(&flow->out->handed_over, 1);
        return NULL;
    }
    if (!flow->out) flow->out = mapped(flow->out_name, sizeof *flow->out, 0);
    return flow->out;
}

ssize_t send(int fd, const void *bytes, size_t length, int flags) {
    count(SEND);
    struct flow *flow = flow_of(fd);
    struct ring *ring = way_out(flow, length);
    if (!ring) return real_send(fd, bytes, length, flags);
    for (;;) {
        if (atomic_load(&flow->in->closed)) return refuse(EPIPE);
        ssize_t sent = put(ring, flow->stream, bytes, length);
        if (sent >= 0) {
            flow->sent += 1;
            return sent;
        }
        if (flow->nonblocking || (flags & MSG_DONTWAIT)) return refuse(EAGAIN);
        pause_briefly();
    }
}

ssize_t recv(int fd, void *bytes, size_t length, int flags) {
    count(RECV);
    struct flow *flow = flow_of(fd);
    if (!flow) return real_recv(fd, bytes, length, flags);
    uint64_t until = 0;
    for (;;) {
        if (waits(flow->in)) return take(flow->in, flow->stream, bytes, length);
        if (kernels_turn(flow->in)) {
            ssize_t got = real_recv(fd, bytes, length, flags | MSG_DONTWAIT);
            if (got >= 0 || errno != EAGAIN) return got;
        }
        if (flow->stream && ended(flow->in)) return 0;
        if (flow->nonblocking || (flags & MSG_DONTWAIT)) return refuse(EAGAIN);
        if (!until) {
            struct timeval limit = {0, 0};
            socklen_t size = sizeof limit;
            real_getsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, &size);
            uint64_t ns = (uint64_t)limit.tv_sec * 1000000000u + (uint64_t)limit.tv_usec * 1000u;
            until = ns ? now_ns() + ns : UINT64_MAX;
        }
        if (now_ns() >= until) return refuse(EAGAIN);
        pause_briefly();
    }
}

ssize_t recvfrom(int fd, void *bytes, size_t length, int flags, struct sockaddr *from, socklen_t *size) {
    if (!flow_of(fd)) return real_recvfrom(fd, bytes, length, flags, from, size);
    ssize_t got = recv(fd, bytes, length, flags);
    if (got >= 0 && from) getpeername(fd, from, size);
    return got;
}

static int any_flow(const struct pollfd *fds, nfds_t number) {
    for (nfds_t at = 0; at < number; at++)
        if (fds[at].fd >= 0 && fds[at].fd < FDS && flows[fds[at].fd]) return 1;
    return 0;
}

static int polled(struct pollfd *fds, nfds_t number, uint64_t until) {
    for (;;) {
        if (real_poll(fds, number, 0) < 0) return -1;
        int ready = 0;
        for (nfds_t at = 0; at < number; at++) {
            struct flow *flow = fds[at].fd >= 0 && fds[at].fd < FDS ? flows[fds[at].fd] : NULL;
            if (flow && (fds[at].events & POLLIN) && (waits(flow->in) || ended(flow->in))) fds[at].revents |= POLLIN;
            ready += fds[at].revents != 0;
        }
        if (ready || now_ns() >= until) return ready;
        pause_briefly();
    }
}

int poll(struct pollfd *fds, nfds_t number, int limit_ms) {
    count(POLL);
    if (!any_flow(fds, number)) return real_poll(fds, number, limit_ms);
    return polled(fds, number, limit_ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)limit_ms * 1000000u);
}

int ppoll(struct pollfd *fds, nfds_t number, const struct timespec *limit, const sigset_t *signals) {
    count(POLL);
    if (!any_flow(fds, number)) return real_ppoll(fds, number, limit, signals);
    return polled(fds, number, limit ? now_ns() + (uint64_t)limit->tv_sec * 1000000000u + (uint64_t)limit->tv_nsec : UINT64_MAX);
}

int epoll_ctl(int epoll, int change, int fd, struct epoll_event *event) {
    count(EPOLL_CTL);
    for (int at = 0; at < WATCHES; at++) {
        int same = watches[at].fd == fd && watches[at].epoll == epoll;
        if (change == EPOLL_CTL_ADD ? watches[at].epoll == 0 : same) {
            watches[at].epoll = change == EPOLL_CTL_DEL ? 0 : epoll;
            watches[at].fd = fd;
            if (event) watches[at].data = event->data;
            break;
        }
    }
    return real_epoll_ctl(epoll, change, fd, event);
}

int epoll_wait(int epoll, struct epoll_event *events, int most, int limit_ms) {
    count(EPOLL_WAIT);
    uint64_t until = limit_ms < 0 ? UINT64_MAX : now_ns() + (uint64_t)limit_ms * 1000000u;
    for (;;) {
        int ready = 0;
        for (int at = 0; at < WATCHES && ready < most; at++) {
            struct flow *flow = watches[at].epoll == epoll && watches[at].fd < FDS ? flows[watches[at].fd] : NULL;
            if (flow && (waits(flow->in) || ended(flow->in))) events[ready++] = (struct epoll_event){EPOLLIN, watches[at].data};
        }
        if (ready) return ready;
        ready = real_epoll_wait(epoll, events, most, 0);
        if (ready || now_ns() >= until) return ready;
        pause_briefly();
    }
}

static void same_flow(int from, int to) {
    if (from < 0 || from >= FDS || to < 0 || to >= FDS || !flows[from]) return;
    flows[to] = flows[from];
    flows[to]->users += 1;
}

int fcntl(int fd, int command, ...) {
    va_list rest;
    va_start(rest, command);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int result = real_fcntl(fd, command, argument);
    if (command == F_DUPFD || command == F_DUPFD_CLOEXEC) {
        same_flow(fd, result);
    } else if (command == F_SETFL && fd >= 0 && fd < FDS && flows[fd]) {
        flows[fd]->nonblocking = ((intptr_t)argument & O_NONBLOCK) != 0;
    }
    return result;
}

int fcntl64(int, int, ...) __attribute__((alias("fcntl")));

int ioctl(int fd, unsigned long request, ...) {
    count(IOCTL);
    va_list rest;
    va_start(rest, request);
    void *argument = va_arg(rest, void *);
    va_end(rest);
    int result = real_ioctl(fd, request, argument);
    if (request == FIONBIO && result == 0 && fd >= 0 && fd < FDS && flows[fd]) flows[fd]->nonblocking = *(int *)argument != 0;
    return result;
}

int close(int fd) {
    count(CLOSE);
    struct flow *flow = fd >= 0 && fd < FDS ? flows[fd] : NULL;
    if (!flow) return real_close(fd);
    flows[fd] = NULL;
    for (int at = 0; at < WATCHES; at++)
        if (watches[at].fd == fd) watches[at].epoll = 0;
    if (--flow->users == 0) {
        char path[2 * NAME];
        snprintf(path, sizeof path, "%s/%s", directory, flow->in_name);
        unlink(path);
        if (flow->out) atomic_store(&flow->out->closed, 1);
        /* The kernel's own end of a connection goes on until the process ends: a stack's would not exist. */
        if (flow->stream && flow->sent) real_fcntl(fd, F_DUPFD_CLOEXEC, FDS);
        munmap(flow->in, sizeof *flow->in);
        if (flow->out) munmap(flow->out, sizeof *flow->out);
        free(flow);
    }
    return real_close(fd);
}

int socket(int family, int type, int protocol) { return count(SOCKET), real_socket(family, type, protocol); }

int bind(int fd, const struct sockaddr *address, socklen_t size) { return count(BIND), real_bind(fd, address, size); }

int connect(int fd, const struct sockaddr *address, socklen_t size) { return count(CONNECT), real_connect(fd, address, size); }

int accept4(int fd, struct sockaddr *address, socklen_t *size, int flags) { return count(ACCEPT), real_accept4(fd, address, size, flags); }

int setsockopt(int fd, int level, int name, const void *value, socklen_t size) {
    return count(SETSOCKOPT), real_setsockopt(fd, level, name, value, size);
}

int getsockopt(int fd, int level, int name, void *value, socklen_t *size) { return count(GETSOCKOPT), real_getsockopt(fd, level, name, value, size); }
