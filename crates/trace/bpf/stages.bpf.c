// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Stamps of one flow's round trips at the kernel's tracepoints, joined into one record per request.
 *
 *    way 0, the request                                     way 1, the reply
 *    io_uring_submit_req of the client's thread             io_uring_submit_req of the server's thread
 *    client's socket sends a packet: a new record           server's socket sends a packet: the same record
 *      net_dev_queue ─ net_dev_start_xmit ─ netif_rx ─ netif_receive_skb      joined by the packet (skb)
 *      └─ xdp_redirect (AF_XDP)                                               joined by the CPU
 *      sk_data_ready of the receiver's socket                                 joined by the socket
 *      sched_waking ─ sched_wakeup ─ sched_switch to the receiver's thread    joined by the thread
 *      sock_recv_length of the receiver's socket                              joined by the socket
 *      io_uring_complete of the receiver's thread                             joined by the thread
 *
 * A record has four lines of the cache, so that each is written from one CPU as a rule. A request of several
 * packets makes a record for each; the last one is the one that the reply goes into. The reader takes the
 * records whose stamps lie within a transaction of the program.
 *
 * The clock is read before the record is looked up: reading it waits for every earlier load, and the number of the open record may have to come from
 * the other CPU.
 */
#include "kernel.h"

/* Records of a block. */
#define RECORDS 8192

/* Set by the loader: one value, because the compiler is free to reorder several. */
const volatile struct {
	/* The sockets that each way's messages are sent on and received on (SO_COOKIE; 0: none). */
	u64 senders[2];
	u64 receivers[2];
	/* The threads that receive. */
	s32 threads[2];
	/* What follows of the path and of the hooks that are there. */
	s32 flags;
	/* The other side is on another host: packets that come to this port (network byte order) are on way `comes`. */
	u16 port;
	u16 comes;
} asked;

_Static_assert(sizeof(asked) == 48, "the loader's layout");

enum {
	/* Frames go past the device's queue, where no hook is (__dev_direct_xmit): they are known by the thread that sends. */
	DIRECT = 1,
	/* Hooks that are not there, so that the next one of the way does not wait for them. */
	NO_READY = 2,
	NO_WAKING = 4,
	NO_WOKEN = 8,
	NO_COPIED = 16,
};

/* A line of stamps from the sender's call to the receiver's wake-up, in ns of CLOCK_MONOTONIC; 0: not passed. */
struct sent {
	u64 submitted, queued, started, passed, received, redirected, ready, waking;
};

/* A line of the receiver's. */
struct got {
	u64 woken, switched, copied, completed, unused[4];
};

struct record {
	struct sent sent[2];
	struct got got[2];
};

/* The packet that is on a way; 0: none, 1: a frame that has no packet. */
struct way {
	u64 skb;
	/* Time at which the ring's last request was submitted, which may become the next packet. */
	u64 submitted;
	/* The device at which the sender's packets come out of its socket. */
	u64 device;
} __attribute__((aligned(LINE)));

/* The same by CPU: a packet rarely leaves the CPU that it was sent on, and reading a line that the other
 * side's CPU has written is slow. */
struct here {
	u64 skb;
	u64 way;
} __attribute__((aligned(LINE)));

/* A power of two; CPUs that share an entry only find less in it. */
#define CPUS 256

/* All that a reader maps; at the start of .bss, because nothing else is in it. */
struct {
	/* Records begun. */
	u64 begun __attribute__((aligned(LINE)));
	/* Requests that found no room. */
	u64 lost;
	/* Packets of the flow that belonged to no open record. */
	u64 unmatched __attribute__((aligned(LINE)));
	struct way ways[2];
	struct here here[CPUS];
	struct record records[RECORDS] __attribute__((aligned(LINE)));
} shared SEC(".bss") __attribute__((aligned(LINE)));

_Static_assert(sizeof(struct record) == 4 * LINE && __builtin_offsetof(typeof(shared), unmatched) == LINE &&
		       __builtin_offsetof(typeof(shared), records) == (4 + CPUS) * LINE,
	       "the reader's layout");

/* The record that is open. */
INLINE struct record *open_record(void)
{
	u64 last = shared.begun - 1;

	if (last >= RECORDS)
		return 0;
	/* So that the verifier sees the bound where it is used, and the compiler does not see through it. */
	asm volatile("%0 &= %1" : "+r"(last) : "i"(RECORDS - 1));
	return &shared.records[last];
}

/* The way that this socket belongs to; -1: none. */
INLINE int way_by(const volatile u64 *cookies, const struct sock *sk)
{
	u64 cookie = sk ? sk->__sk_common.skc_cookie.counter : 0;

	return !cookie ? -1 : cookie == cookies[0] ? 0 : cookie == cookies[1] ? 1 : -1;
}

INLINE struct here *here(void)
{
	return &shared.here[bpf_get_smp_processor_id() & (CPUS - 1)];
}

/* True at a later device of a packet that leaves: the port of a bond or of a bridge, the device below a VLAN's. */
INLINE int is_handed_on(int way, const struct sk_buff *skb)
{
	u64 first = shared.ways[way & 1].device;

	if (!first)
		shared.ways[way & 1].device = (u64)skb->dev;
	return first && first != (u64)skb->dev;
}

/* A packet of the flow leaves its socket: the record that it belongs to. */
INLINE struct record *begin(int way, const struct sk_buff *skb)
{
	struct record *record;

	/* An acknowledgement of TCP without data (skb_is_tcp_pure_ack of the kernel). */
	if (skb && skb->truesize == 2)
		return 0;
	if (way == 0) {
		if (shared.begun >= RECORDS) {
			shared.lost++;
			return 0;
		}
		shared.begun++;
	}
	shared.ways[way].skb = skb ? (u64)skb : 1;
	here()->skb = shared.ways[way].skb;
	here()->way = way;
	record = open_record();
	/* Of a reply in several packets the last one counts. */
	if (record)
		record->sent[way].passed = 0;
	if (record && shared.ways[way].submitted) {
		record->sent[way].submitted = shared.ways[way].submitted;
		shared.ways[way].submitted = 0;
	}
	return record;
}

/* The way of a packet that is on it; -1: of none. */
INLINE int way_of(const struct sk_buff *skb)
{
	struct here *local = here();

	if (LIKELY(local->skb == (u64)skb))
		return local->way & 1;
	return (u64)skb == shared.ways[0].skb ? 0 : (u64)skb == shared.ways[1].skb ? 1 : -1;
}

/* The index of the thread that runs now, or whose ring a thread of the kernel's works on, which belongs to its process; -1: of another. */
INLINE int ring_of(void)
{
	u64 now = bpf_get_current_pid_tgid();
	s32 thread = now, process = now >> 32;

	return thread == asked.threads[0] || process == asked.threads[0] ? 0 : thread == asked.threads[1] || process == asked.threads[1] ? 1 : -1;
}

/* The kernel takes a request out of a submission queue. */
SEC("tp_btf/io_uring_submit_req")
int io_uring_submit_req(void *ctx)
{
	int receiver = ring_of();

	(void)ctx;
	if (receiver >= 0)
		shared.ways[!receiver].submitted = bpf_ktime_get_ns();
	return 0;
}

/* A packet is handed to the stack of its device. */
SEC("tp_btf/net_dev_queue")
int net_dev_queue(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];
	int way = way_by(asked.senders, skb->sk);
	struct record *record;
	u64 now;

	if (way < 0 || is_handed_on(way, skb))
		return 0;
	now = bpf_ktime_get_ns();
	record = begin(way, skb);
	if (record)
		record->sent[way].queued = now;
	return 0;
}

/* The driver is called. Packets of AF_PACKET past the queue and of AF_XDP are seen here first. */
SEC("tp_btf/net_dev_start_xmit")
int net_dev_start_xmit(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];
	int way = way_by(asked.senders, skb->sk);
	/* By its socket first: the line of the other way was written by the other side's CPU. */
	int known = way < 0 || here()->skb == (u64)skb || shared.ways[way & 1].skb == (u64)skb;
	struct record *record;
	u64 now;

	/* A bridge with netfilter (setup_pre_routing) and a router (ip_rcv_core) take a packet's socket away before its next device. */
	if (way < 0)
		way = way_of(skb);
	if (way < 0)
		return 0;
	if (is_handed_on(way, skb)) {
		/* Towards another host the last device's driver counts: a queue below a bond or a VLAN is still this host's. */
		if (asked.port && asked.comes < 2 && way != asked.comes && skb->truesize != 2) {
			now = bpf_ktime_get_ns();
			record = open_record();
			if (record && record->sent[way & 1].started)
				record->sent[way & 1].started = now;
		}
		return 0;
	}
	now = bpf_ktime_get_ns();
	record = known ? open_record() : begin(way, skb);
	if (record)
		record->sent[way].started = now;
	/* Here it leaves this host, and its memory may be the next packet's. */
	if (asked.port && way != asked.comes) {
		shared.ways[way].skb = 0;
		here()->skb = 0;
	}
	return 0;
}

/* The way that this thread sends on; -1: none. */
INLINE int way_from(void)
{
	s32 thread = bpf_get_current_pid_tgid();

	return !thread ? -1 : thread == asked.threads[1] ? 0 : thread == asked.threads[0] ? 1 : -1;
}

/* The receiving device has put the packet into a CPU's backlog. */
SEC("tp_btf/netif_rx")
int netif_rx(u64 *ctx)
{
	int way = way_of((const struct sk_buff *)ctx[0]);
	struct record *record = 0;

	if (way >= 0) {
		record = open_record();
	} else if (asked.flags & DIRECT) {
		way = way_from();
		if (way >= 0)
			record = begin(way, (const struct sk_buff *)ctx[0]);
	}
	/* The first device's counts, and the last device's stack. */
	if (record && !record->sent[way].passed)
		record->sent[way].passed = bpf_ktime_get_ns();
	return 0;
}

/* True if a packet from another host is for our port: TCP or UDP without fragments or extension headers, and with data. */
INLINE int is_for_us(const struct sk_buff *skb)
{
	const u8 *at = skb->data + vlan_bytes(skb);
	u8 head[40], next[16], protocol;
	/* Of both headers, and of the packet; 0: longer than its field can tell. */
	u32 bytes, whole;

	if (bpf_probe_read_kernel(head, sizeof(head), at))
		return 0;
	if (head[0] >> 4 == 4) {
		bytes = (head[0] & 15) * 4;
		protocol = head[9];
		whole = head[2] << 8 | head[3];
	} else {
		if (head[0] >> 4 != 6)
			return 0;
		bytes = 40;
		protocol = head[6];
		whole = head[4] << 8 | head[5];
		if (whole)
			whole += bytes;
	}
	if ((protocol != 6 && protocol != 17) || bpf_probe_read_kernel(next, sizeof(next), at + bytes))
		return 0;
	if (*(u16 *)(next + 2) != asked.port)
		return 0;
	/* An acknowledgement alone reaches no reader. */
	return protocol != 6 || !whole || whole > bytes + (next[12] >> 4) * 4;
}

/* The receiver's stack has it, in a soft interrupt. */
SEC("tp_btf/netif_receive_skb")
int netif_receive_skb(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];
	int way = way_of(skb);
	struct record *record = 0;

	if (way >= 0) {
		record = open_record();
	} else if (asked.port && is_for_us(skb)) {
		way = asked.comes & 1;
		record = begin(way, skb);
	}
	if (record)
		record->sent[way].received = bpf_ktime_get_ns();
	return 0;
}


/* An XDP program has chosen a frame's target, and the frame was copied into the ring's memory. */
SEC("tp_btf/xdp_redirect")
int xdp_redirect(void *ctx)
{
	/* The tracepoint names no packet: it is the one that this CPU has, if any. */
	int way = here()->skb ? here()->way & 1 : -1;
	struct record *record = 0;

	(void)ctx;
	if (way >= 0) {
		record = open_record();
	} else {
		/* In the driver there is no packet yet, and the sender's call has not returned. In the stack the frame is in the ring by now. */
		way = way_from();
		if (way >= 0)
			record = open_record();
		if (record && record->sent[way].received)
			return 0;
		if (way >= 0)
			record = begin(way, 0);
	}
	if (record)
		record->sent[way].redirected = bpf_ktime_get_ns();
	return 0;
}

/* The message is in the receiver's queue, and a waiting thread is about to be woken. */
INLINE int is_ready(const struct sock *sk)
{
	int way = way_by(asked.receivers, sk);
	struct record *record;
	u64 now;

	if (way < 0)
		return 0;
	now = bpf_ktime_get_ns();
	record = open_record();
	if (!record || !shared.ways[way].skb) {
		shared.unmatched++;
		return 0;
	}
	record->sent[way].ready = now;
	shared.ways[way].skb = 0;
	here()->skb = 0;
	return 0;
}

SEC("tp_btf/sk_data_ready")
int sk_data_ready(u64 *ctx)
{
	return is_ready((const struct sock *)ctx[0]);
}

/* The function with the tracepoint sk_data_ready, on kernels without it (before 6.4). */
SEC("fentry/sock_def_readable")
int sock_def_readable(u64 *ctx)
{
	return is_ready((const struct sock *)ctx[0]);
}

/* The way that this thread receives on; -1: none. */
INLINE int way_to(s32 thread)
{
	return !thread ? -1 : thread == asked.threads[0] ? 0 : thread == asked.threads[1] ? 1 : -1;
}

/* The message is in the receiver's queue, as far as the hooks tell. */
INLINE int is_there(const struct record *record, int way)
{
	const struct sent *sent = &record->sent[way & 1];

	return sent->ready || (asked.flags & NO_READY && (sent->received || sent->redirected));
}

/* A thread that waits for it is to run. */
INLINE int is_called(const struct record *record, int way)
{
	return record->sent[way & 1].waking || (asked.flags & NO_WAKING && is_there(record, way));
}

/* It is in a run queue. */
INLINE int is_queued(const struct record *record, int way)
{
	return record->got[way & 1].woken || (asked.flags & NO_WOKEN && is_called(record, way));
}

/* A sleeping thread is to run. */
SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx)
{
	int way = way_to(((const struct task_struct *)ctx[0])->pid);
	struct record *record = way < 0 ? 0 : open_record();

	if (record && is_there(record, way) && !record->sent[way].waking)
		record->sent[way].waking = bpf_ktime_get_ns();
	return 0;
}

/* It is in the run queue of its CPU. */
SEC("tp_btf/sched_wakeup")
int sched_wakeup(u64 *ctx)
{
	int way = way_to(((const struct task_struct *)ctx[0])->pid);
	struct record *record = way < 0 ? 0 : open_record();

	if (record && is_called(record, way) && !record->got[way].woken)
		record->got[way].woken = bpf_ktime_get_ns();
	return 0;
}

/* It has a CPU. */
SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	int way = way_to(((const struct task_struct *)ctx[2])->pid);
	struct record *record = way < 0 ? 0 : open_record();

	if (record && is_queued(record, way) && !record->got[way].switched)
		record->got[way].switched = bpf_ktime_get_ns();
	return 0;
}

/* A receive call has its message; also fires for calls that find nothing. */
INLINE int is_copied(const struct sock *sk, s32 bytes)
{
	struct record *record;
	u64 now;
	int way;

	if (bytes <= 0)
		return 0;
	way = way_by(asked.receivers, sk);
	if (way < 0)
		return 0;
	now = bpf_ktime_get_ns();
	record = open_record();
	if (record)
		record->got[way].copied = now;
	return 0;
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(u64 *ctx)
{
	return is_copied((const struct sock *)ctx[0], ctx[1]);
}

/* The end of the function with the tracepoint sock_recv_length, on kernels without it (before 6.4): socket, message, flags, return value. */
SEC("fexit/sock_recvmsg")
int sock_recvmsg(u64 *ctx)
{
	return is_copied(((const struct socket *)ctx[0])->sk, ctx[3]);
}

/* The completion of the request that received the message is in its queue. */
SEC("tp_btf/io_uring_complete")
int io_uring_complete(void *ctx)
{
	int way = ring_of();
	struct record *record = way < 0 ? 0 : open_record();

	(void)ctx;
	if (record && (record->got[way].copied || (asked.flags & NO_COPIED && is_there(record, way))) && !record->got[way].completed)
		record->got[way].completed = bpf_ktime_get_ns();
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
