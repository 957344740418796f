/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Unread datagrams in a socket with many peers: a receive call does not name the sender, so it is
 * found by their order.
 */
#ifndef HAIRPIN_ATTACHED_DATAGRAMS_H
#define HAIRPIN_ATTACHED_DATAGRAMS_H

#include "connection.h"

/* Servers have a table of their own, as each client's socket may have the place of another. */
INLINE struct unread *unread_in(const struct sock *sk, int side)
{
	return &shared.unread[(side == SERVER) & 1][place_of(sk)];
}

INLINE u32 datagrams_in(const struct sock *sk)
{
	return sk->sk_receive_queue.qlen + FIELD(struct udp_sock, sk, reader_queue.qlen);
}

/*
 * A datagram lies in the socket behind the earlier ones; `what` is 0 if its transaction is unknown, because a CPU may also put datagrams that others received
 * into the socket (udp_prod_queue). False if its place is in doubt: another CPU has put one there, and has not announced it yet.
 */
INLINE int lies_in(const struct sock *sk, int side, u64 what)
{
	struct unread *unread = unread_in(sk, side);
	u32 there = datagrams_in(sk), known;
	int doubtful;

	if (unread->sk != (u64)sk) {
		unread->sk = (u64)sk;
		unread->reader = unread->doubtful = 0;
		unread->first = unread->last;
	}
	known = unread->last - unread->first;
	if (known >= UNREAD)
		unread->first = unread->last;
	doubtful = unread->doubtful;
	unread->doubtful = known + 2 <= there;
	unread->what[unread->last % UNREAD] = what;
	__sync_fetch_and_add(&unread->last, 1);
	return !doubtful && !unread->doubtful;
}

/*
 * The datagram that a receive call has just taken out of the socket; 0: unknown. The number left there is compared with the
 * known ones: if more are known, the oldest are gone (the kernel drops those with a wrong checksum); if fewer are, the missing
 * ones came first, so one of them was taken.
 */
INLINE u64 taken_from(const struct sock *sk, int side)
{
	struct unread *unread = unread_in(sk, side);
	s32 reader = (s32)bpf_get_current_pid_tgid();
	u32 there = datagrams_in(sk) + 1, known, missing;

	if (unread->sk != (u64)sk)
		return 0;
	known = unread->last - unread->first;
	/* Another thread may be reading one too, and finish later. */
	if (unread->reader && unread->reader != reader && known > 1)
		unread->first = unread->last;
	unread->reader = reader;
	known = unread->last - unread->first;
	if (known > there)
		unread->first = unread->last - there;
	if (known >= there)
		return unread->what[unread->first++ % UNREAD];
	missing = there - known - 1;
	if (there > UNREAD) {
		unread->first = unread->last;
		return 0;
	}
	for (u32 i = 0; i < UNREAD && i < missing; i++)
		unread->what[--unread->first % UNREAD] = 0;
	return 0;
}

#endif
