/* A round trip of UDP in Ethernet frames, as short as it can be written: two processes, a ring each, over veth. Shares no code with hairpin.
 *
 *     frames packet|xdp CPU_OF_CLIENT CPU_OF_SERVER MILLISECONDS BYTES NAMESPACE_OF_CLIENT NAMESPACE_OF_SERVER
 *
 * Both sides spin on the receive ring: of AF_PACKET (TPACKET_V2), or of AF_XDP on queue 0 (generic XDP, copies), whose program takes every frame. The namespaces are
 * those of benches/peers/veth.rs: peer0 at 198.18.0.1, peer1 at 198.18.0.2. No checksum is made or read, and a frame is told by its length and ports.
 * Prints the median RTT in ns, before the copy of the payload to the look that sees the reply, and the number of round trips. The first tenth warms up.
 */
#include "plain.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <linux/if_xdp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HEADERS = 14 + 20 + 8, LONGEST = 1472, MOST = 4000000, PORT = 9000, CHUNK = 2048, RING = 64, SLOTS = 64 };

/* Each look takes the line from the core that writes to the ring. */
static void pause_once(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}

struct ring { /* of AF_XDP */
    volatile uint32_t *producer, *consumer;
    void *entries;
};

struct side {
    int fd;
    unsigned interface;
    unsigned char mac[6];
    char *memory;                        /* AF_PACKET: the slots; AF_XDP: the chunks, of which the first half is received into */
    struct ring fill, completion, rx, tx;
    uint32_t next;                       /* slot, or entry of the RX ring */
    uint32_t sent;
    unsigned char frame[HEADERS + LONGEST];
};

static void set(int fd, int level, int name, const void *value, socklen_t size) {
    if (setsockopt(fd, level, name, value, size)) die("setsockopt");
}

static void find(struct side *s, const char *name) {
    struct ifreq r = {0};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    strncpy(r.ifr_name, name, IFNAMSIZ - 1);
    if (fd < 0 || ioctl(fd, SIOCGIFHWADDR, &r)) die(name);
    memcpy(s->mac, r.ifr_hwaddr.sa_data, 6);
    s->interface = if_nametoindex(name);
    close(fd);
}

/* Takes what the kernel's own stack gets of each frame, and drops it, so that nobody answers that the port is closed. */
static void hold_port(void) {
    struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = {1, &none};
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at)) die("bind");
    set(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

static void open_packet(struct side *s) {
    int one = 1, version = TPACKET_V2;
    struct tpacket_req ring = {.tp_block_size = CHUNK * SLOTS, .tp_block_nr = 1, .tp_frame_size = CHUNK, .tp_frame_nr = SLOTS};
    struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)s->interface};
    /* All protocols: the socket of one gets its frames behind IP. */
    s->fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (s->fd < 0) die("AF_PACKET");
    set(s->fd, SOL_PACKET, PACKET_VERSION, &version, sizeof version);
    set(s->fd, SOL_PACKET, PACKET_QDISC_BYPASS, &one, sizeof one);
    set(s->fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
    set(s->fd, SOL_PACKET, PACKET_RX_RING, &ring, sizeof ring);
    s->memory = mmap(NULL, CHUNK * SLOTS, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, s->fd, 0);
    if (s->memory == MAP_FAILED || bind(s->fd, (struct sockaddr *)&at, sizeof at)) die("the packet ring");
    hold_port();
}

static long bpf(int command, union bpf_attr *attr) { return syscall(SYS_bpf, command, attr, sizeof *attr); }

static struct ring map(int fd, const struct xdp_ring_offset *at, size_t entry, off_t offset) {
    char *area = mmap(NULL, at->desc + RING * entry, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);
    if (area == MAP_FAILED) die("a ring of AF_XDP");
    return (struct ring){(void *)(area + at->producer), (void *)(area + at->consumer), area + at->desc};
}

static void open_xdp(struct side *s) {
    size_t bytes = (size_t)2 * RING * CHUNK;
    int size = RING;
    /* Shared, as private memory would be copied at the fork, and the kernel would write to the copy of one side. */
    s->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    s->fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (s->memory == MAP_FAILED || s->fd < 0) die("AF_XDP");
    struct xdp_umem_reg memory = {.addr = (uintptr_t)s->memory, .len = bytes, .chunk_size = CHUNK};
    set(s->fd, SOL_XDP, XDP_UMEM_REG, &memory, sizeof memory);
    set(s->fd, SOL_XDP, XDP_UMEM_FILL_RING, &size, sizeof size);
    set(s->fd, SOL_XDP, XDP_UMEM_COMPLETION_RING, &size, sizeof size);
    set(s->fd, SOL_XDP, XDP_RX_RING, &size, sizeof size);
    set(s->fd, SOL_XDP, XDP_TX_RING, &size, sizeof size);
    struct xdp_mmap_offsets at;
    socklen_t len = sizeof at;
    if (getsockopt(s->fd, SOL_XDP, XDP_MMAP_OFFSETS, &at, &len)) die("XDP_MMAP_OFFSETS");
    s->fill = map(s->fd, &at.fr, sizeof(uint64_t), (off_t)XDP_UMEM_PGOFF_FILL_RING);
    s->completion = map(s->fd, &at.cr, sizeof(uint64_t), (off_t)XDP_UMEM_PGOFF_COMPLETION_RING);
    s->rx = map(s->fd, &at.rx, sizeof(struct xdp_desc), XDP_PGOFF_RX_RING);
    s->tx = map(s->fd, &at.tx, sizeof(struct xdp_desc), XDP_PGOFF_TX_RING);
    for (uint32_t i = 0; i < RING; i++) ((uint64_t *)s->fill.entries)[i] = (uint64_t)i * CHUNK;
    __atomic_store_n(s->fill.producer, RING, __ATOMIC_RELEASE);
    struct sockaddr_xdp to = {.sxdp_family = AF_XDP, .sxdp_flags = XDP_COPY, .sxdp_ifindex = s->interface};
    /* The kernel releases the queue of a program that has ended a while later. */
    for (int i = 0; bind(s->fd, (struct sockaddr *)&to, sizeof to); i++) {
        if (errno != EBUSY || i == 1000) die("bind to queue 0");
        usleep(5000);
    }

    union bpf_attr a = {.map_type = BPF_MAP_TYPE_XSKMAP, .key_size = 4, .value_size = 4, .max_entries = 1};
    int sockets = (int)bpf(BPF_MAP_CREATE, &a), queue = 0;
    /* return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS); */
    struct bpf_insn program[] = {
        {.code = BPF_LDX | BPF_MEM | BPF_W, .dst_reg = 2, .src_reg = 1, .off = offsetof(struct xdp_md, rx_queue_index)},
        {.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = BPF_PSEUDO_MAP_FD, .imm = sockets},
        {0},
        {.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 3, .imm = XDP_PASS},
        {.code = BPF_JMP | BPF_CALL, .imm = BPF_FUNC_redirect_map},
        {.code = BPF_JMP | BPF_EXIT},
    };
    a = (union bpf_attr){.prog_type = BPF_PROG_TYPE_XDP, .insn_cnt = sizeof program / sizeof *program, .insns = (uintptr_t)program, .license = (uintptr_t)"GPL"};
    long loaded = bpf(BPF_PROG_LOAD, &a);
    if (sockets < 0 || loaded < 0) die("the XDP program");
    a = (union bpf_attr){.map_fd = (uint32_t)sockets, .key = (uintptr_t)&queue, .value = (uintptr_t)&s->fd};
    if (bpf(BPF_MAP_UPDATE_ELEM, &a)) die("the table of sockets");
    a = (union bpf_attr){.link_create = {.prog_fd = (uint32_t)loaded, .target_ifindex = s->interface, .attach_type = BPF_XDP, .flags = XDP_FLAGS_SKB_MODE}};
    /* The link goes with the process. */
    if (bpf(BPF_LINK_CREATE, &a) < 0) die("attach the XDP program");
}

/* Headers of frames from `s` to `peer`. */
static void head(struct side *s, const struct side *peer, int is_server, size_t size) {
    unsigned char *f = s->frame, *ip = f + 14, *udp = ip + 20;
    uint16_t total = htons((uint16_t)(28 + size)), length = htons((uint16_t)(8 + size)), port = htons(PORT);
    uint32_t from = inet_addr(is_server ? "198.18.0.2" : "198.18.0.1"), to = inet_addr(is_server ? "198.18.0.1" : "198.18.0.2"), sum = 0;
    memcpy(f, peer->mac, 6), memcpy(f + 6, s->mac, 6), f[12] = 8, f[13] = 0;
    ip[0] = 0x45, ip[8] = 64, ip[9] = IPPROTO_UDP;
    memcpy(ip + 2, &total, 2), memcpy(ip + 12, &from, 4), memcpy(ip + 16, &to, 4);
    for (int i = 0; i < 20; i += 2) sum += (uint32_t)ip[i] << 8 | ip[i + 1];
    sum = (sum & 0xffff) + (sum >> 16), sum = ~((sum & 0xffff) + (sum >> 16));
    ip[10] = (unsigned char)(sum >> 8), ip[11] = (unsigned char)sum;
    memcpy(udp, &port, 2), memcpy(udp + 2, &port, 2), memcpy(udp + 4, &length, 2);
}

static int is_ours(const unsigned char *frame, size_t len, size_t size) {
    return len == HEADERS + size && frame[12] == 8 && frame[23] == IPPROTO_UDP && frame[36] == PORT >> 8 && frame[37] == (PORT & 0xff);
}

/* Waits for a frame, and copies its payload out. */
static void receive_packet(struct side *s, size_t size) {
    for (;;) {
        char *slot = s->memory + (size_t)s->next * CHUNK;
        struct tpacket2_hdr *h = (void *)slot;
        while (!(__atomic_load_n(&h->tp_status, __ATOMIC_ACQUIRE) & TP_STATUS_USER)) pause_once();
        unsigned char *frame = (unsigned char *)slot + h->tp_mac;
        int ours = is_ours(frame, h->tp_len, size);
        if (ours) memcpy(s->frame + HEADERS, frame + HEADERS, size);
        __atomic_store_n(&h->tp_status, TP_STATUS_KERNEL, __ATOMIC_RELEASE);
        s->next = (s->next + 1) % SLOTS;
        if (ours) return;
    }
}

static void send_packet(struct side *s, size_t size) {
    if (send(s->fd, s->frame, HEADERS + size, MSG_DONTWAIT) < 0) die("send");
}

static void receive_xdp(struct side *s, size_t size) {
    for (;;) {
        while (__atomic_load_n(s->rx.producer, __ATOMIC_ACQUIRE) == s->next) pause_once();
        struct xdp_desc got = ((struct xdp_desc *)s->rx.entries)[s->next % RING];
        unsigned char *frame = (unsigned char *)s->memory + got.addr;
        int ours = is_ours(frame, got.len, size);
        if (ours) memcpy(s->frame + HEADERS, frame + HEADERS, size);
        __atomic_store_n(s->rx.consumer, ++s->next, __ATOMIC_RELEASE);
        uint32_t back = *s->fill.producer;
        ((uint64_t *)s->fill.entries)[back % RING] = got.addr & ~(uint64_t)(CHUNK - 1);
        __atomic_store_n(s->fill.producer, back + 1, __ATOMIC_RELEASE);
        if (ours) return;
    }
}

static void send_xdp(struct side *s, size_t size) {
    /* Of the second half of the chunks one after the other, each free again long before its next turn. */
    __atomic_store_n(s->completion.consumer, __atomic_load_n(s->completion.producer, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
    uint64_t chunk = (uint64_t)(RING + s->sent % RING) * CHUNK;
    memcpy(s->memory + chunk, s->frame, HEADERS + size);
    ((struct xdp_desc *)s->tx.entries)[s->sent % RING] = (struct xdp_desc){.addr = chunk, .len = (uint32_t)(HEADERS + size)};
    __atomic_store_n(s->tx.producer, ++s->sent, __ATOMIC_RELEASE);
    if (sendto(s->fd, NULL, 0, MSG_DONTWAIT, NULL, 0) < 0) die("sendto");
}

int main(int argc, char **argv) {
    if (argc != 8) return fprintf(stderr, "frames packet|xdp CPU CPU MILLISECONDS BYTES NAMESPACE NAMESPACE\n"), 2;
    int xdp = !strcmp(argv[1], "xdp");
    size_t size = (size_t)atol(argv[5]);
    int64_t length = atol(argv[4]) * 1000000;
    static struct side sides[2];
    struct side *client = &sides[0], *server = &sides[1];
    uint32_t *took = calloc(MOST, sizeof *took);
    if (!took || size < 18 || size > LONGEST) die("arguments");
    for (int i = 0; i < 2; i++) {
        enter(argv[6 + i]);
        find(&sides[i], i ? "peer1" : "peer0");
        if (xdp) open_xdp(&sides[i]); else open_packet(&sides[i]);
    }
    head(client, server, 0, size), head(server, client, 1, size);
    void (*receive)(struct side *, size_t) = xdp ? receive_xdp : receive_packet;
    void (*transmit)(struct side *, size_t) = xdp ? send_xdp : send_packet;
    pid_t peer = fork();
    if (peer < 0) die("fork");
    if (peer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        pin(atoi(argv[3]));
        for (;;) receive(server, size), transmit(server, size);
    }
    /* A frame that is lost would be waited for for ever. */
    alarm((unsigned)(length / 1000000000) + 20);
    pin(atoi(argv[2]));
    size_t count = 0;
    int64_t began = now(), counts_from = began + length / 10, until = began + length;
    for (int64_t sent = began; sent < until && count < MOST;) {
        sent = now();
        transmit(client, size), receive(client, size);
        int64_t received = now();
        if (sent >= counts_from) took[count++] = (uint32_t)(received - sent);
    }
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
    qsort(took, count, sizeof *took, ascending);
    printf("%u %zu\n", count ? took[count / 2] : 0, count);
    return count == 0;
}
