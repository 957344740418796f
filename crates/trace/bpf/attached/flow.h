/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The connection of a socket or a packet: the two ends, and which of them is the server.
 */
#ifndef HAIRPIN_ATTACHED_FLOW_H
#define HAIRPIN_ATTACHED_FLOW_H

#include "layout.h"

const volatile struct {
	/* Hides the places of connections from a peer that chooses addresses and ports. */
	u64 seed;
	/* The process that is watched, with those that it started; 0: any process that uses the ports. */
	s32 process;
	/* True if the kernel has the functions that are weak here (Linux 6.2). */
	u32 kernel_functions;
	/* True if sched_switch tells the state of the thread that leaves (Linux 5.18). */
	u32 tells_state;
	/* Places of the ring, a power of two. */
	u32 records;
} constants SEC(".rodata");

struct shared shared SEC(".bss") __attribute__((aligned(LINE)));
struct record records[RECORDS] SEC(".bss.records") __attribute__((aligned(LINE)));

/* A kernel object seen as another type; reads of it are checked while they are made (kernel/bpf/helpers.c). */
extern void *bpf_rdonly_cast(const void *object, u32 type) SEC(".ksyms") __attribute__((weak));
#define SEEN_AS(type, object) ((const type *)bpf_rdonly_cast(object, __builtin_btf_type_id(*(type *)0, 1)))
/* A field of a socket seen as another type; the verifier drops the branch that the kernel does not support. */
#define FIELD(type, sk, field) \
	({ \
		typeof(((type *)0)->field) field_value = 0; \
		if (constants.kernel_functions) \
			field_value = SEEN_AS(type, sk)->field; \
		else \
			bpf_probe_read_kernel(&field_value, sizeof(field_value), &((const type *)sk)->field); \
		field_value; \
	})
#define TCP_FIELD(sk, field) FIELD(struct tcp_sock, sk, field)

INLINE int bit(const u64 *ports, u16 port)
{
	u64 word = port / 64;

	/* So that the verifier sees the bound where it is used; it forgets it where the compiler keeps the port in a wider register (Linux 6.12). */
	asm volatile("%0 &= %1" : "+r"(word) : "i"(65536 / 64 - 1));
	return ports[word] >> (port % 64) & 1;
}

/* The side that this end is; -1: not of a watched connection. */
INLINE int side_of(u16 local, u16 remote)
{
	if (bit(shared.servers, local))
		return SERVER;
	if (bit(shared.servers, remote))
		return CLIENT;
	if (bit(shared.clients, local))
		return CLIENT;
	return bit(shared.clients, remote) ? SERVER : -1;
}

INLINE u64 mapped(u32 address)
{
	return (u64)address << 32 | 0xffff0000;
}

INLINE u64 two(u32 low, u32 high)
{
	return (u64)high << 32 | low;
}

/* Bob Jenkins' and Knuth's way: multiply, fold; a keyed hash against chosen collisions in a table of 4,096. */
INLINE u64 tag_of(const struct identity *identity)
{
	u64 words[5] = { identity->server[0], identity->server[1], identity->client[0], identity->client[1],
			 (u64)identity->protocol << 32 | (u32)identity->server_port << 16 | identity->client_port };
	u64 hash = constants.seed;

#pragma unroll
	for (int i = 0; i < 5; i++) {
		hash = (hash ^ words[i]) * 0x9e3779b97f4a7c15ull;
		hash ^= hash >> 32;
	}
	return hash ? hash : 1;
}

INLINE void put_ends(struct identity *identity, int side, const u64 local[2], const u64 remote[2], u16 local_port, u16 remote_port)
{
	int served = side == SERVER;

	identity->server[0] = served ? local[0] : remote[0];
	identity->server[1] = served ? local[1] : remote[1];
	identity->client[0] = served ? remote[0] : local[0];
	identity->client[1] = served ? remote[1] : local[1];
	identity->server_port = served ? local_port : remote_port;
	identity->client_port = served ? remote_port : local_port;
}

/* False for a socket that is not yet or no longer whole, or of another family. */
INLINE int is_whole(const struct sock *sk)
{
	u16 family = sk->__sk_common.skc_family;
	u8 state = sk->__sk_common.skc_state;

	return (family == AF_INET || family == AF_INET6) && state != TCP_TIME_WAIT && state != TCP_NEW_SYN_RECV && state != TCP_LISTEN;
}

/* The side of a socket; -1: of none that is watched, as far as the socket knows. */
INLINE int side_of_socket(const struct sock *sk)
{
	return side_of(sk->__sk_common.skc_num, __builtin_bswap16(sk->__sk_common.skc_dport));
}

/* Socket settings that the application made; four bits of a byte in most kernels. */
INLINE u8 user_locks(const struct sock *sk)
{
	u64 word = 0;

	bpf_probe_read_kernel(&word, 1, (const u8 *)sk + __builtin_preserve_field_info(sk->sk_userlocks, 0));
	word <<= __builtin_preserve_field_info(sk->sk_userlocks, 4);
	return word >> __builtin_preserve_field_info(sk->sk_userlocks, 5);
}

/* True if TCP may hold back the sender's small segments until those before are acknowledged: tcp_nagle_check. */
INLINE int has_nagle(const struct sock *sk)
{
	const struct tcp_sock *tcp = (const struct tcp_sock *)sk;
	u64 word = 0;

	bpf_probe_read_kernel(&word, 1, (const u8 *)sk + __builtin_preserve_field_info(tcp->nonagle, 0));
	word <<= __builtin_preserve_field_info(tcp->nonagle, 4);
	return !(word >> __builtin_preserve_field_info(tcp->nonagle, 5) & (NAGLE_OFF | NAGLE_CORK));
}

/* The identity of a TCP socket's connection, from its local port and the rest. */
INLINE void identify(const struct sock *sk, u16 port, int side, struct identity *identity)
{
	u64 local[2] = { 0, mapped(sk->__sk_common.skc_rcv_saddr) }, remote[2] = { 0, mapped(sk->__sk_common.skc_daddr) };

	if (HAS(sk->__sk_common.skc_v6_daddr) && sk->__sk_common.skc_family == AF_INET6) {
		const u32 *from = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32;
		const u32 *to = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32;

		local[0] = two(from[0], from[1]);
		local[1] = two(from[2], from[3]);
		remote[0] = two(to[0], to[1]);
		remote[1] = two(to[2], to[3]);
	}
	put_ends(identity, side, local, remote, port, __builtin_bswap16(sk->__sk_common.skc_dport));
	identity->protocol = TCP;
}

INLINE void identify_socket(const struct sock *sk, int side, struct identity *identity)
{
	identify(sk, sk->__sk_common.skc_num, side, identity);
}

/* A packet between watched ends. */
struct packet {
	struct identity identity;
	/* The receiver's. */
	int side;
	/* TCP: where its data ends. */
	u32 end;
	/* TCP: bytes of data. */
	s32 payload;
};

/* Reads the headers at `at`; false for a packet between other ends. */
INLINE int read_packet(const void *at, u32 length, struct packet *packet)
{
	u64 room[8];
	u8 *head = (u8 *)room;
	u64 from[2] = { 0, 0 }, to[2] = { 0, 0 };
	u16 source, destination;
	u8 protocol, offset;
	u32 sequence;
	s32 payload;

	/* Both headers in most packets; bytes behind a shorter packet are ignored. */
	if (bpf_probe_read_kernel(head, 60, at))
		return 0;
	if (head[0] >> 4 == 4) {
		u32 bytes = (head[0] & 15) * 4;
		u16 total = __builtin_bswap16(*(u16 *)(head + 2));

		/* Later fragments have no ports. */
		if (bytes < 20 || __builtin_bswap16(*(u16 *)(head + 6)) & 0x1fff)
			return 0;
		protocol = head[9];
		from[1] = mapped(*(u32 *)(head + 12));
		to[1] = mapped(*(u32 *)(head + 16));
		payload = (total ? total : length) - bytes;
		if (bytes > 20 && bpf_probe_read_kernel(head + 20, 20, at + bytes))
			return 0;
		source = *(u16 *)(head + 20);
		destination = *(u16 *)(head + 22);
		sequence = *(u32 *)(head + 24);
		offset = head[32];
	} else if (head[0] >> 4 == 6) {
		u16 total = __builtin_bswap16(*(u16 *)(head + 4));

		protocol = head[6];
		from[0] = two(*(u32 *)(head + 8), *(u32 *)(head + 12));
		from[1] = two(*(u32 *)(head + 16), *(u32 *)(head + 20));
		to[0] = two(*(u32 *)(head + 24), *(u32 *)(head + 28));
		to[1] = two(*(u32 *)(head + 32), *(u32 *)(head + 36));
		payload = total ? total : length - 40;
		source = *(u16 *)(head + 40);
		destination = *(u16 *)(head + 42);
		sequence = *(u32 *)(head + 44);
		offset = head[52];
	} else {
		return 0;
	}
	if (protocol != TCP && protocol != UDP)
		return 0;
	source = __builtin_bswap16(source);
	destination = __builtin_bswap16(destination);
	packet->side = side_of(destination, source);
	if (packet->side < 0)
		return 0;
	put_ends(&packet->identity, packet->side, to, from, destination, source);
	packet->identity.protocol = protocol;
	packet->payload = payload - (offset >> 4) * 4;
	packet->end = __builtin_bswap32(sequence) + packet->payload;
	return 1;
}

/* The connection with this tag; none: not seen yet, or no room. */
INLINE struct connection *find(u64 tag)
{
#pragma unroll
	for (int i = 0; i < PROBES; i++) {
		struct connection *connection = &shared.connections[(tag + i) % CONNECTIONS];

		if (connection->tag == tag)
			return connection;
	}
	return 0;
}

/* A connection and a way in one word, never 0. */
INLINE u64 word_of(const struct connection *connection, int way)
{
	return connection->place * 2 + way + 1;
}

INLINE struct connection *connection_of(u64 word)
{
	return &shared.connections[(word - 1) / 2 % CONNECTIONS];
}

INLINE int way_of(u64 word)
{
	return (word - 1) & 1;
}

/* The state of a CPU. */
INLINE struct on_cpu *state_of(u64 cpu)
{
	if (cpu >= CPUS)
		return 0;
	/* As in bit() (Linux 6.1). */
	asm volatile("%0 &= %1" : "+r"(cpu) : "i"(CPUS - 1));
	return &shared.cpus[cpu];
}

INLINE struct on_cpu *on_cpu(void)
{
	return state_of(bpf_get_smp_processor_id());
}

/* The place of a socket in a table of its kind. */
INLINE u64 place_of(const struct sock *sk)
{
	/* The verifier knows no bits of a pointer; a value read from a map is a number. */
	volatile u64 *number = &shared.cpus[bpf_get_smp_processor_id() % CPUS].number;

	*number = (u64)sk;
	/* The upper bits: sockets lie at the same places of their slabs. */
	return *number * 0x9e3779b97f4a7c15ull >> 32 & (SOCKETS - 1);
}

#endif
