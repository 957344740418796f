/* A round trip over loopback through io_uring, as short as it can be written with liburing: two processes, a connected UDP socket each. Shares no code with
 * hairpin. Both sides spin on the completion queue.
 *
 *     ring [multishot][,defer][,sqpoll]|plain CPU_OF_CLIENT CPU_OF_SERVER MILLISECONDS BYTES
 *
 * Prints the median RTT in ns, send request queued to reply seen in the completion queue, and the number of round trips. The first tenth warms up.
 * The socket is a registered file, and the request for the next message goes along behind the send, in one call. Linux 6.1, liburing 2.3.
 */
#include "plain.h"
#include <arpa/inet.h>
#include <liburing.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONGEST = 65536, MOST = 4000000, ENTRIES = 64, BUFFERS = 8, GROUP = 0, RECEIVED = 1, SENT = 2 };

/* liburing returns errors as negative numbers. */
static void check(const char *what, int result) {
    if (result < 0) fprintf(stderr, "%s: %s\n", what, strerror(-result)), exit(1);
}

struct side {
    struct io_uring ring;
    struct io_uring_buf_ring *provided; /* of multishot */
    char *bytes;                        /* receive buffers, and behind them one to send from */
    size_t size;
};

static char *buffer_of(struct side *s, unsigned index) { return s->bytes + (size_t)index * LONGEST; }

static void provide(struct side *s, unsigned index) {
    io_uring_buf_ring_add(s->provided, buffer_of(s, index), LONGEST, (unsigned short)index, io_uring_buf_ring_mask(BUFFERS), 0);
    io_uring_buf_ring_advance(s->provided, 1);
}

static void open_side(struct side *s, int socket, const char *how, size_t size) {
    struct io_uring_params p = { .sq_thread_idle = 1000 };
    if (strstr(how, "sqpoll")) p.flags |= IORING_SETUP_SQPOLL;
    if (strstr(how, "defer")) p.flags |= IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG;
    memset(s, 0, sizeof *s);
    s->size = size;
    check("io_uring_setup", io_uring_queue_init_params(ENTRIES, &s->ring, &p));
    s->bytes = mmap(NULL, (BUFFERS + 1) * LONGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (s->bytes == MAP_FAILED) die("mmap");
    struct iovec all = { s->bytes, (BUFFERS + 1) * LONGEST };
    check("the socket", io_uring_register_files(&s->ring, &socket, 1));
    check("the buffers", io_uring_register_buffers(&s->ring, &all, 1));
    if (strstr(how, "multishot")) {
        s->provided = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (s->provided == MAP_FAILED) die("mmap");
        struct io_uring_buf_reg what = { .ring_addr = (uint64_t)s->provided, .ring_entries = BUFFERS, .bgid = GROUP };
        check("provided buffers", io_uring_register_buf_ring(&s->ring, &what, 0));
        for (unsigned i = 0; i < BUFFERS; i++) provide(s, i);
    }
}

static struct io_uring_sqe *entry(struct side *s) {
    struct io_uring_sqe *e = io_uring_get_sqe(&s->ring);
    if (!e) die("a full submission queue");
    return e;
}

static void ask(struct side *s) {
    struct io_uring_sqe *e = entry(s);
    if (s->provided) io_uring_prep_recv_multishot(e, 0, NULL, 0, 0), e->flags |= IOSQE_BUFFER_SELECT, e->buf_group = GROUP;
    else io_uring_prep_recv(e, 0, s->bytes, LONGEST, 0), e->ioprio |= IORING_RECVSEND_POLL_FIRST;
    e->flags |= IOSQE_FIXED_FILE;
    e->user_data = RECEIVED;
}

static void reply(struct side *s) {
    struct io_uring_sqe *e = entry(s);
    io_uring_prep_send(e, 0, buffer_of(s, BUFFERS), s->size, MSG_DONTWAIT | MSG_NOSIGNAL);
    e->flags |= IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS;
    e->user_data = SENT;
}

/* Spins until a message has come, whose buffer `used` gives back; true if the next one must be asked for. */
static int receive(struct side *s, unsigned *buffer) {
    struct io_uring_cqe *found;
    int result;
    while ((result = io_uring_peek_cqe(&s->ring, &found)) == -EAGAIN) {}
    check("io_uring_peek_cqe", result);
    if (found->user_data != RECEIVED || found->res != (int)s->size) fprintf(stderr, "a completion of %d\n", found->res), exit(1);
    int over = !s->provided || !(found->flags & IORING_CQE_F_MORE);
    *buffer = s->provided ? found->flags >> IORING_CQE_BUFFER_SHIFT : 0;
    io_uring_cqe_seen(&s->ring, found);
    return over;
}

static void used(struct side *s, unsigned buffer, int over) {
    if (s->provided) provide(s, buffer);
    if (over) ask(s);
}

int main(int argc, char **argv) {
    if (argc != 6) return fprintf(stderr, "ring [multishot][,defer][,sqpoll]|plain CPU CPU MILLISECONDS BYTES\n"), 2;
    size_t size = (size_t)atol(argv[5]);
    int64_t length = atol(argv[4]) * 1000000;
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
    struct side side;
    unsigned buffer = 0;
    pid_t server = fork();
    if (server < 0) die("fork");
    int is_server = server == 0;
    if (is_server) prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(atoi(argv[is_server ? 3 : 2]));
    open_side(&side, fds[is_server], argv[1], size);
    ask(&side);
    check("io_uring_enter", io_uring_submit(&side.ring));
    while (is_server) {
        int over = receive(&side, &buffer);
        memcpy(buffer_of(&side, BUFFERS), buffer_of(&side, buffer), size);
        reply(&side);
        used(&side, buffer, over);
        check("io_uring_enter", io_uring_submit(&side.ring));
    }
    size_t count = 0;
    int64_t began = now(), counts_from = began + length / 10, until = began + length;
    int first = 1, over = 0;
    for (int64_t sent = began; sent < until && count < MOST; first = 0) {
        sent = now();
        reply(&side);
        if (!first) used(&side, buffer, over);
        check("io_uring_enter", io_uring_submit(&side.ring));
        over = receive(&side, &buffer);
        int64_t received = now();
        if (sent >= counts_from) took[count++] = (uint32_t)(received - sent);
    }
    kill(server, SIGKILL);
    waitpid(server, NULL, 0);
    qsort(took, count, sizeof *took, ascending);
    printf("%u %zu\n", count ? took[count / 2] : 0, count);
    return count == 0;
}
