/* A round trip over loopback through io_uring, as short as it can be written without a library: two processes, a connected UDP socket each. Shares no
 * code with hairpin. Both sides spin on the completion queue.
 *
 *     ring single|multishot call|sqpoll CPU_OF_CLIENT CPU_OF_SERVER MILLISECONDS BYTES
 *
 * Prints the median RTT in ns, send request queued to reply seen in the completion queue, and the number of round trips. The first tenth warms up.
 * The socket is a registered file, and the request for the next message goes along with the next send, in one call. Linux 6.0.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 65536, MOST = 4000000, ENTRIES = 64, BUFFERS = 8, RECEIVED = 1, SENT = 2 };

static void die(const char *what) { perror(what); exit(1); }

static int64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void pin(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set)) die("sched_setaffinity");
}

struct ring {
    int fd, sqpoll, multishot;
    _Atomic unsigned *sq_tail, *sq_flags, *cq_head, *cq_tail;
    unsigned sq_mask, cq_mask, queued, tail;
    struct io_uring_sqe *sqes;
    struct io_uring_cqe *cqes;
    struct io_uring_buf_ring *provided;
    /* [receive buffers | one send buffer] */
    char *bytes;
    size_t size;
};

static long ring_register(struct ring *r, unsigned what, void *argument, unsigned count) {
    return syscall(__NR_io_uring_register, r->fd, what, argument, count);
}

static void provide(struct ring *r, unsigned buffer) {
    struct io_uring_buf *entry = &r->provided->bufs[r->tail++ % BUFFERS];
    entry->addr = (uint64_t)(r->bytes + (size_t)buffer * LONGEST);
    entry->len = LONGEST;
    entry->bid = (uint16_t)buffer;
    atomic_store_explicit((_Atomic uint16_t *)&r->provided->tail, (uint16_t)r->tail, memory_order_release);
}

static void open_ring(struct ring *r, int socket, int multishot, int sqpoll, size_t size) {
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    p.flags = sqpoll ? IORING_SETUP_SQPOLL : 0;
    p.sq_thread_idle = 1000;
    memset(r, 0, sizeof *r);
    r->fd = (int)syscall(__NR_io_uring_setup, ENTRIES, &p);
    if (r->fd < 0) die("io_uring_setup");
    r->sqpoll = sqpoll, r->multishot = multishot, r->size = size;
    size_t length = p.sq_off.array + p.sq_entries * 4, other = p.cq_off.cqes + p.cq_entries * sizeof *r->cqes;
    char *at = mmap(NULL, length > other ? length : other, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
    r->sqes = mmap(NULL, p.sq_entries * sizeof *r->sqes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQES);
    r->bytes = mmap(NULL, (BUFFERS + 1) * LONGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED || r->sqes == MAP_FAILED || r->bytes == MAP_FAILED) die("mmap");
    r->sq_tail = (void *)(at + p.sq_off.tail), r->sq_flags = (void *)(at + p.sq_off.flags);
    r->cq_head = (void *)(at + p.cq_off.head), r->cq_tail = (void *)(at + p.cq_off.tail);
    r->sq_mask = p.sq_entries - 1, r->cq_mask = p.cq_entries - 1;
    r->cqes = (void *)(at + p.cq_off.cqes);
    for (unsigned i = 0; i < p.sq_entries; i++) ((unsigned *)(void *)(at + p.sq_off.array))[i] = i;
    if (ring_register(r, IORING_REGISTER_FILES, &socket, 1)) die("the socket");
    struct iovec all = { r->bytes, (BUFFERS + 1) * LONGEST };
    if (ring_register(r, IORING_REGISTER_BUFFERS, &all, 1)) die("the buffers");
    if (multishot) {
        struct io_uring_buf_reg what;
        memset(&what, 0, sizeof what);
        r->provided = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        what.ring_addr = (uint64_t)r->provided, what.ring_entries = BUFFERS;
        if (ring_register(r, IORING_REGISTER_PBUF_RING, &what, 1)) die("provided buffers");
        for (unsigned i = 0; i < BUFFERS; i++) provide(r, i);
    }
}

static struct io_uring_sqe *entry(struct ring *r, unsigned char code, uint64_t what) {
    unsigned tail = atomic_load_explicit(r->sq_tail, memory_order_relaxed) + r->queued++;
    struct io_uring_sqe *e = &r->sqes[tail & r->sq_mask];
    memset(e, 0, sizeof *e);
    e->opcode = code, e->flags = IOSQE_FIXED_FILE, e->user_data = what;
    return e;
}

static void ask(struct ring *r) {
    struct io_uring_sqe *e = entry(r, r->multishot ? IORING_OP_RECV : IORING_OP_READ_FIXED, RECEIVED);
    if (r->multishot) e->ioprio = IORING_RECV_MULTISHOT, e->flags |= IOSQE_BUFFER_SELECT;
    else e->addr = (uint64_t)r->bytes, e->len = LONGEST;
}

static void reply(struct ring *r) {
    struct io_uring_sqe *e = entry(r, IORING_OP_SEND, SENT);
    e->addr = (uint64_t)(r->bytes + (size_t)BUFFERS * LONGEST), e->len = (unsigned)r->size;
    e->msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    e->flags |= IOSQE_CQE_SKIP_SUCCESS;
}

static void submit(struct ring *r) {
    unsigned count = r->queued;
    atomic_store_explicit(r->sq_tail, atomic_load_explicit(r->sq_tail, memory_order_relaxed) + count, memory_order_release);
    r->queued = 0;
    if (!r->sqpoll) {
        if (syscall(__NR_io_uring_enter, r->fd, count, 0, 0, NULL, 0) != (long)count) die("io_uring_enter");
        return;
    }
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(r->sq_flags, memory_order_relaxed) & IORING_SQ_NEED_WAKEUP)
        syscall(__NR_io_uring_enter, r->fd, count, 0, IORING_ENTER_SQ_WAKEUP, NULL, 0);
}

/* Spins until a message has come; returns its bytes, which `used` gives back. */
static char *receive(struct ring *r, unsigned *buffer) {
    unsigned head = atomic_load_explicit(r->cq_head, memory_order_relaxed);
    for (;;) {
        if (head == atomic_load_explicit(r->cq_tail, memory_order_acquire)) continue;
        struct io_uring_cqe found = r->cqes[head & r->cq_mask];
        atomic_store_explicit(r->cq_head, ++head, memory_order_release);
        if (found.user_data != RECEIVED || found.res != (int)r->size) die("a completion");
        *buffer = r->multishot ? found.flags >> IORING_CQE_BUFFER_SHIFT : 0;
        if (r->multishot && !(found.flags & IORING_CQE_F_MORE)) ask(r);
        return r->bytes + (size_t)*buffer * LONGEST;
    }
}

static void used(struct ring *r, unsigned buffer) {
    if (r->multishot) provide(r, buffer);
    else ask(r);
}

static int ascending(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    if (argc != 7) return fprintf(stderr, "ring single|multishot call|sqpoll CPU CPU MILLISECONDS BYTES\n"), 2;
    int multishot = !strcmp(argv[1], "multishot"), sqpoll = !strcmp(argv[2], "sqpoll");
    size_t size = (size_t)atol(argv[6]);
    int64_t length = atol(argv[5]) * 1000000;
    int fds[2];
    struct sockaddr_in at[2];
    for (int i = 0; i < 2; i++) {
        socklen_t len = sizeof at[i];
        memset(&at[i], 0, sizeof at[i]);
        at[i].sin_family = AF_INET;
        at[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        fds[i] = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fds[i] < 0 || bind(fds[i], (struct sockaddr *)&at[i], sizeof at[i])) die("bind");
        if (getsockname(fds[i], (struct sockaddr *)&at[i], &len)) die("getsockname");
    }
    for (int i = 0; i < 2; i++)
        if (connect(fds[i], (struct sockaddr *)&at[1 - i], sizeof at[i])) die("connect");
    uint32_t *took = malloc(MOST * sizeof *took);
    if (!took || size < 1 || size > 65507) die("arguments");
    memset(took, 0, MOST * sizeof *took);
    struct ring ring;
    unsigned buffer;
    pid_t server = fork();
    if (server < 0) die("fork");
    int is_server = server == 0;
    if (is_server) prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(atoi(argv[is_server ? 4 : 3]));
    open_ring(&ring, fds[is_server], multishot, sqpoll, size);
    ask(&ring);
    submit(&ring);
    while (is_server) {
        char *request = receive(&ring, &buffer);
        memcpy(ring.bytes + (size_t)BUFFERS * LONGEST, request, size);
        used(&ring, buffer);
        reply(&ring);
        submit(&ring);
    }
    size_t count = 0;
    int64_t began = now(), counts_from = began + length / 10, until = began + length;
    for (int64_t sent = began, first = 1; sent < until && count < MOST; first = 0) {
        sent = now();
        if (!first) used(&ring, buffer);
        reply(&ring);
        submit(&ring);
        receive(&ring, &buffer);
        int64_t received = now();
        if (sent >= counts_from) took[count++] = (uint32_t)(received - sent);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    qsort(took, count, sizeof *took, ascending);
    printf("%u %zu\n", count ? took[count / 2] : 0, count);
    return count == 0;
}
