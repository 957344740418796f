/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * A connection's place in the table, and the transaction that it is in: found, made, begun, ended, given up.
 */
#ifndef HAIRPIN_ATTACHED_CONNECTION_H
#define HAIRPIN_ATTACHED_CONNECTION_H

#include "flow.h"

/* The record of a connection goes into the ring. */
static __attribute__((noinline)) int emit(struct connection *connection)
{
	struct record *record;
	u64 number;

	if (!connection->record.ours)
		return 0;
	if (shared.begun - shared.taken >= constants.records - SLACK) {
		__sync_fetch_and_add(&shared.lost, connection->record.requests);
		return 0;
	}
	number = __sync_fetch_and_add(&shared.begun, 1);
	record = &records[number & (constants.records - 1)];
	__builtin_memcpy(&record->identity, &connection->record.identity, sizeof(*record) - sizeof(record->sequence));
	/* Last: the sequence number publishes the record. */
	__sync_lock_test_and_set(&record->sequence, number + 1);
	return 0;
}

/* Requests that no finished transaction accounts for yet. */
INLINE u64 requests_of(struct connection *connection)
{
	u32 all = connection->left ? connection->left : connection->came, told = connection->told;

	if (connection->record.identity.protocol != UDP)
		return 1;
	connection->told = all;
	return all - told;
}

/* A datagram of a client on this host. */
INLINE void request_left(struct connection *connection)
{
	/* Messages seen only on arrival were sent before the hooks were attached. */
	if (!connection->left)
		connection->told = 0;
	__sync_fetch_and_add(&connection->left, 1);
}

/* Ends a connection's current transaction. */
INLINE void end(struct connection *connection)
{
	u64 phase = __sync_lock_test_and_set(&connection->phase, IDLE), requests;

	if (phase == IDLE)
		return;
	requests = requests_of(connection);
	if (phase == ANSWERED) {
		connection->record.requests = requests;
		emit(connection);
	} else if (connection->record.ours) {
		__sync_fetch_and_add(&shared.unanswered, requests);
	}
}

/* A new transaction begins. */
INLINE void begin(struct connection *connection, u64 now)
{
	end(connection);
	__builtin_memset(&connection->record.transaction, 0, sizeof(struct transaction));
	connection->begun = now;
	connection->phase = ASKED;
}

/* A place for a connection: a free one or that of one that is over, else that of one that is idle, else that of one whose request has no answer yet. */
static __attribute__((noinline)) struct connection *make(const struct identity *identity, u64 tag, u64 now)
{
	struct connection *connection = 0;
	u64 number = 0;

	for (int i = 0; i < 3 * PROBES && !connection; i++) {
		struct connection *place;
		int is_idle;
		u64 old;

		number = (tag + i % PROBES) % CONNECTIONS;
		place = &shared.connections[number];
		old = place->tag;
		/* Signed: it may have begun on another CPU since. */
		is_idle = (s64)(now - place->begun) >= (s64)IDLE_NS && (i >= 2 * PROBES || place->phase != ASKED);
		if (old && !place->closed && (i < PROBES || !is_idle))
			continue;
		if (__sync_val_compare_and_swap(&place->tag, old, tag) == old)
			connection = place;
	}
	if (!connection) {
		__sync_fetch_and_add(&shared.untracked, 1);
		return 0;
	}
	end(connection);
	__builtin_memset(&connection->phase, 0, sizeof(*connection) - sizeof(connection->tag));
	connection->begun = now;
	connection->place = number;
	connection->record.identity = *identity;
	connection->record.ours = constants.process ? 0 : 1 << SERVER;
	return connection;
}

/* True if the process watched, or a descendant of it, is running. */
INLINE int is_ours(void)
{
	const struct task_struct *task = bpf_get_current_task_btf();

#pragma unroll
	for (int i = 0; i < GENERATIONS; i++) {
		s32 process = task->tgid;

		if (process == constants.process)
			return 1;
		if (process <= 1)
			break;
		task = task->real_parent;
		if (!task)
			break;
	}
	return 0;
}

/* Frees a connection's place. */
INLINE void release(struct connection *connection)
{
	end(connection);
	__sync_lock_test_and_set(&connection->tag, 0);
}

/* The first time that this side of a connection is seen. */
INLINE int meet(struct connection *connection, int side, const struct sock *sk)
{
	if (!(connection->seen >> side & 1)) {
		connection->seen |= 1 << side;
		connection->sides[side & 1].retransmitted = TCP_FIELD(sk, total_retrans);
	}
	return 0;
}

/* Bytes that the application has not read. The other side's FIN takes a number, too. */
INLINE u32 unread_of(const struct sock *sk)
{
	u32 unread = TCP_FIELD(sk, rcv_nxt) - TCP_FIELD(sk, copied_seq);

	return unread && sk->__sk_common.skc_state == TCP_CLOSE_WAIT ? unread - 1 : unread;
}

/* The connection of a TCP socket. */
INLINE struct connection *of_tcp(const struct sock *sk, int side, u64 now)
{
	struct identity identity;
	struct connection *connection;
	u64 tag;

	identify_socket(sk, side, &identity);
	tag = tag_of(&identity);
	connection = find(tag);
	return connection ? connection : make(&identity, tag, now);
}

/* True if more data from a reply's sender belongs to that reply: each datagram is a message, and what TCP brings much later is a farewell or a heartbeat. */
INLINE int is_rest(u64 before, u64 now, int datagram)
{
	return !datagram && (s64)(now - before) < (s64)IDLE_NS;
}

/* Marks the current transaction: PIPELINED or RETRANSMITTED. */
INLINE void flag(struct connection *connection, u64 what)
{
	connection->record.transaction.flags |= what;
}

#endif
