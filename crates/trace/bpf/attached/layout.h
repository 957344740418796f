/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Data of the programs of ../attached.bpf.c, mapped by user space: connections by their two ends, the
 * transaction that each is in, and the ring into which finished ones go. All of it has a fixed size and lies
 * in .bss; anything that finds it full is counted.
 */
#ifndef HAIRPIN_ATTACHED_LAYOUT_H
#define HAIRPIN_ATTACHED_LAYOUT_H

#include "../kernel.h"

/* Powers of two, all of them. */
#define CONNECTIONS 4096
/* The loader takes fewer where a section of variables has to be small. */
#define RECORDS 32768
#define THREADS 2048
#define SOCKETS 256
#define UNREAD 16
#define CPUS 1024
/* Switches that a CPU remembers. */
#define SLICES 8
#define PORT_WORDS (65536 / 64)
/* Neighbouring places at which a connection may be found. */
#define PROBES 4
/* Records that stay free, so that producers on every CPU at once do not overtake the reader, which would then wait for ever. */
#define SLACK CPUS
/* A connection idle for IDLE_NS gives its place to a new one, and what its server sends then is no part of the last reply. */
#define IDLE_NS 1000000000ull
/* The running process and its ancestors, among which the watched one is looked for. */
#define GENERATIONS 8

/* A side sends the way of the same number and receives the other. */
enum { CLIENT, SERVER };
enum { REQUEST, REPLY };
/* State of a connection's alternation. */
enum { IDLE, ASKED, ANSWERED };
/* Flags of a transaction. */
enum {
	/* Another request was sent before this one's reply was complete, or a reply was sent before the request was read. */
	PIPELINED = 1,
	/* TCP sent something again. */
	RETRANSMITTED = 2,
};

/* Why a thread has no CPU: it waits for something, another thread took the CPU, a signal or a debugger stopped it. */
enum { ASLEEP, PUSHED, STOPPED };
/* include/linux/sched.h: __TASK_STOPPED and __TASK_TRACED; TASK_DEAD. */
enum { STATE_STOPPED = 0xc, STATE_DEAD = 0x80 };
/* include/net/tcp.h: TCP_NAGLE_OFF and TCP_NAGLE_CORK. */
enum { NAGLE_OFF = 1, NAGLE_CORK = 2 };
/* include/net/tcp_states.h */
enum { TCP_ESTABLISHED = 1, TCP_SYN_SENT = 2, TCP_TIME_WAIT = 6, TCP_CLOSE = 7, TCP_CLOSE_WAIT = 8, TCP_LISTEN = 10, TCP_NEW_SYN_RECV = 12 };
enum { AF_INET = 2, AF_INET6 = 10 };
enum { TCP = 6, UDP = 17 };
enum { MSG_PEEK = 2, MSG_ERRQUEUE = 0x2000 };

/* The two ends; IPv4 addresses as IPv4-mapped ones, in the order of the network; ports as numbers. */
struct identity {
	u64 server[2];
	u64 client[2];
	u16 server_port;
	u16 client_port;
	u32 protocol;
};

struct process {
	s32 tgid;
	s32 pid;
	char comm[16];
};

/* A line of one way's stamps on the CPU that sends and, as a rule, takes the packet through the receiver's stack. The first packet counts. */
struct sent {
	/* The sender's call in TCP, to the device's queue, to the driver; the last packet of a reply in several to the queue. */
	u64 sent, queued, started, queued_last;
	/* In the receiver's stack, in its socket's queue, its thread told. */
	u64 received, ready, waking;
	/* Longest time that a later part lay in the sender's socket until all before it was acknowledged (Nagle). */
	u64 held;
} __attribute__((aligned(LINE)));

/* A line of one way's stamps on the receiver's CPU. */
struct got {
	/* `read_last` is 0 unless the message was read in parts. */
	u64 switched, read, read_last;
	/* Time for which the reader was preempted between `ready` and `read`; `before` is then the preempting
	 * thread. */
	u64 pushed;
	/* True if the reader read another message in that time. */
	u64 busy;
	/* Process that had the CPU longest between `waking` and `switched`; pid 0 is idle. */
	struct process before;
} __attribute__((aligned(LINE)));

struct transaction {
	struct sent sent[2];
	struct got got[2];
	/* Between the last read and the reply: how long the server's thread was off the CPU, pushed off (longest by `by`) or asleep. */
	u64 preempted, slept;
	struct process by;
	u64 flags;
	/* Time for which the client's and the server's thread were stopped (SIGSTOP, a debugger) with something to
	 * read or to answer. */
	u64 stopped[2];
};

struct record {
	/* Its number in the ring plus one; written last. */
	u64 sequence;
	struct identity identity;
	/* A bit per side that belongs to the process watched. */
	u64 ours;
	/* Requests in this record: of datagrams all that came before it was over. */
	u64 requests;
	/* Reading process, by side. */
	struct process processes[2];
	struct transaction transaction;
};

/* Data written by one side of a connection. */
struct side {
	/* Its call that has sent no packet yet, its packet on the way to the driver. */
	u64 sending, skb;
	union {
		/* The new data that its TCP sent. */
		u64 bytes;
		/* The first device of its last datagram. */
		u64 device;
	};
	/* Arrival of a packet whose data is not yet readable. */
	u64 arrived;
	/* Of TCP: segments sent again, the sequence number that is waited for. */
	u32 retransmitted, expected;
	/* The process that was told of the last message. */
	s32 woken;
	/* Something that was sent before was not yet acknowledged when the call began. */
	u32 unacknowledged;
	/* Time off the CPU, until then, of the thread that read last. */
	u64 preempted, slept;
} __attribute__((aligned(LINE)));

struct connection {
	/* A hash of the identity; 0: a free place. */
	u64 tag;
	u64 phase;
	/* Start of its last transaction. */
	u64 begun;
	/* A bit per side: seen, closed. */
	u64 seen, closed;
	/* Its number in the table. */
	u64 place;
	/* Of datagrams: requests that left their client here, that came to their server here, and how many of them are in transactions that are over. */
	u32 left, came, told;
	u32 unused;
	struct side sides[2];
	struct record record __attribute__((aligned(LINE)));
};

/* A thread's time on a CPU. */
struct slice {
	u64 begun;
	s32 pid, tgid;
	/* Of one that ended there, because nobody knows it afterwards; else empty. */
	char comm[16];
};

/* State of a CPU. */
struct on_cpu {
	/* The packet in the receiver's stack, if it is one of ours. */
	u64 tag, received;
	struct identity identity;
	/* The receiver's. */
	u32 side;
	/* True if an earlier packet was still on its way to its socket: of the same batch, or dropped. */
	u32 several;
	/* The packet on its way to the driver, and its connection and way: place * 2 + way + 1. */
	u64 skb, sk, sends;
	/* The thread that waits for this connection and way is about to be woken. */
	u64 tells;
	/* A pointer as a number. */
	u64 number;
	/* Time at which its current thread got it, and the number of switches. */
	u64 since, switches;
	/* The current thread. */
	s32 pid, tgid;
	/* Earlier threads. */
	struct slice slices[SLICES];
};

struct thread {
	s32 pid;
	/* Why it lost the CPU last. */
	u32 why;
	/* Woken for this connection and way. */
	u64 awaits;
	/* Time at which it last lost the CPU, and got it; its total time without, for either reason. */
	u64 off, on, preempted, slept;
	/* Time of its last read of a message. */
	u64 read;
	/* The CPU that it last lost. */
	u32 left;
	/* Its longest time pushed off a CPU since it last read a request, in 1024 ns, and the process that took most of it. */
	u32 longest;
	struct process by __attribute__((aligned(LINE)));
	/* When it was last preempted: the process that then had its old CPU for the longest time. */
	struct process last_by;
	/* Time at which it was last stopped, and continued. */
	u64 stop_begun, stop_ended;
};

/* A UDP socket and the unread datagrams in it, in order: connection and way of each. */
struct unread {
	u64 sk;
	/* Datagrams that came, that were read. */
	u32 last, first;
	/* The thread that reads. */
	s32 reader;
	/* The last one and the next came at once on two CPUs, so their order is unknown. */
	u32 doubtful;
	u64 what[UNREAD];
};

struct shared {
	/* Records begun; taken, by user space. */
	u64 begun __attribute__((aligned(LINE)));
	u64 taken __attribute__((aligned(LINE)));
	/* Transactions that found no room in the ring. */
	u64 lost __attribute__((aligned(LINE)));
	/* Requests that were not answered before their connection ended. */
	u64 unanswered;
	/* Connections that found no place. */
	u64 untracked;
	/* True when all programs are attached: until then no port is watched, and none is learned. */
	u64 armed;
	/* The cookie of a socket on which the process that watches writes to itself, and that process. */
	u64 greeting, observer;
	/* Local ports of servers and of clients that are watched, a bit each. */
	u64 servers[PORT_WORDS] __attribute__((aligned(LINE)));
	u64 clients[PORT_WORDS];
	struct on_cpu cpus[CPUS] __attribute__((aligned(LINE)));
	struct thread threads[THREADS] __attribute__((aligned(LINE)));
	/* By side. */
	struct unread unread[2][SOCKETS];
	/* TCP sockets that the process watched is connecting. */
	u64 connecting[SOCKETS];
	struct connection connections[CONNECTIONS] __attribute__((aligned(LINE)));
};

/* User space reads these by their place. */
#define AT(type, field, place) _Static_assert(__builtin_offsetof(type, field) == (place), #field " is elsewhere")
AT(struct shared, taken, 64);
AT(struct shared, lost, 128);
AT(struct shared, greeting, 160);
AT(struct shared, servers, 192);
AT(struct shared, clients, 8384);
AT(struct shared, connections, 751808);
AT(struct transaction, got, 128);
AT(struct transaction, preempted, 256);
AT(struct record, transaction, 128);
AT(struct connection, phase, 8);
AT(struct connection, left, 48);
AT(struct connection, record, 192);
_Static_assert(sizeof(struct transaction) == 320, "a transaction");
_Static_assert(sizeof(struct record) == 448, "a record");
_Static_assert(sizeof(struct connection) == 640, "a connection");
_Static_assert(sizeof(struct on_cpu) == 384, "a CPU");
_Static_assert(sizeof(struct shared) == 3373248, "all of it");

#endif
