// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Request-response traffic of applications that know nothing of it, joined into one record per transaction: an alternation of direction on one
 * connection. Whichever side is on this host is seen.
 *
 *    way 0, the request                                   way 1, the reply
 *    tcp_sendmsg_locked, net_dev_queue of the client's socket       of the server's
 *    net_dev_start_xmit                                             joined by the packet (skb)
 *    netif_receive_skb                                              joined by the packet's addresses and ports
 *    sk_data_ready of the server's socket                           of the client's
 *    sched_waking (on the CPU of sk_data_ready), sched_switch       joined by the thread
 *    sock_recv_length of the server's socket                        of the client's
 *
 * A record is written when the next request begins or the connection closes; user space reads open transactions from the table of connections.
 * Other traffic passes after a check of its ports. Two CPUs may write one transaction; user space drops records out of order.
 */
#include "attached/datagrams.h"
#include "attached/threads.h"

/* The first packet of a message, or a later one, leaves; `unread`: data that the sender has not read yet; `held`: how long TCP had held it back. */
INLINE void leaves(struct connection *connection, int way, const struct sk_buff *skb, u32 unread, int datagram, u64 held, u64 now)
{
	struct transaction *transaction = &connection->record.transaction;
	struct sent *sent = &transaction->sent[way & 1];
	struct side *side = &connection->sides[way & 1];
	struct on_cpu *cpu = on_cpu();
	u64 sending = side->sending, phase = connection->phase;

	side->sending = 0;
	if (way == REQUEST) {
		if (phase == ASKED) {
			/* More of the request; of datagrams each is a request, and its later devices queue it again: the port of a bond or of a bridge. */
			if (datagram && side->device == (u64)skb->dev) {
				flag(connection, PIPELINED);
				request_left(connection);
			}
			if (held > sent->held)
				sent->held = held;
			return;
		}
		if (phase == ANSWERED && (unread || !transaction->got[REPLY].read))
			flag(connection, PIPELINED);
		begin(connection, now);
		if (datagram) {
			side->device = (u64)skb->dev;
			request_left(connection);
		}
	} else {
		if (phase == ANSWERED && sent->queued && is_rest(sent->queued_last ? sent->queued_last : sent->queued, now, datagram)) {
			sent->queued_last = now;
			if (held > sent->held)
				sent->held = held;
		}
		if (phase != ASKED)
			return;
		if (unread || !transaction->got[REQUEST].read)
			flag(connection, PIPELINED);
		connection->phase = ANSWERED;
		account(connection, now);
	}
	sent->sent = sending;
	sent->queued = now;
	side->skb = (u64)skb;
	if (cpu) {
		cpu->skb = (u64)skb;
		cpu->sk = (u64)skb->sk;
		cpu->sends = word_of(connection, way);
	}
}

/* TCP takes the sender's bytes; fires for each piece of a long message. */
SEC("tp_btf/tcp_sendmsg_locked")
int tcp_sendmsg_locked(u64 *ctx)
{
	const struct sock *sk = (const struct sock *)ctx[0];
	struct connection *connection;
	struct identity identity;
	int side = side_of_socket(sk);

	if (side < 0)
		return 0;
	identify_socket(sk, side, &identity);
	connection = find(tag_of(&identity));
	if (connection && !connection->sides[side & 1].sending) {
		connection->sides[side & 1].unacknowledged = TCP_FIELD(sk, snd_una) != TCP_FIELD(sk, snd_nxt);
		connection->sides[side & 1].sending = bpf_ktime_get_ns();
	}
	return 0;
}

/* False for a segment without data that leaves: a keepalive probe, most FINs. What has other ports by now (NAT) may have data. */
INLINE int may_have_data(const struct sk_buff *skb)
{
	struct packet packet;

	return !read_packet(skb->head + skb->network_header, skb->len, &packet) || packet.payload > 0;
}

INLINE void segment_leaves(const struct sk_buff *skb, const struct sock *sk, int side)
{
	u64 bytes = TCP_FIELD(sk, bytes_sent) - TCP_FIELD(sk, bytes_retrans), more, held = 0, now;
	u32 unread = unread_of(sk);
	struct connection *connection;
	struct side *sender;
	int fresh;

	/* An acknowledgement without data (skb_is_tcp_pure_ack of the kernel). */
	if (skb->truesize == 2)
		return;
	now = bpf_ktime_get_ns();
	connection = of_tcp(sk, side, now);
	if (!connection)
		return;
	sender = &connection->sides[side & 1];
	more = bytes - sender->bytes;
	/* How much a connection sent before it was watched is not known, so the first packet is asked itself. */
	fresh = more && (sender->bytes || may_have_data(skb));
	meet(connection, side, sk);
	sender->bytes = bytes;
	if (sender->retransmitted != TCP_FIELD(sk, total_retrans)) {
		sender->retransmitted = TCP_FIELD(sk, total_retrans);
		flag(connection, RETRANSMITTED);
	}
	/* snd_nxt moves when the segment is on its way. A full one, or one with more behind it, waited for room at the receiver. */
	if (sender->unacknowledged && sender->sending && TCP_FIELD(sk, snd_una) == TCP_FIELD(sk, snd_nxt) && more < TCP_FIELD(sk, mss_cache) &&
	    TCP_FIELD(sk, write_seq) - TCP_FIELD(sk, snd_nxt) == (u32)more && has_nagle(sk))
		held = now - sender->sending;
	/* New data: neither a handshake nor a retransmission. */
	if (fresh)
		leaves(connection, side, skb, unread, 0, held, now);
}

INLINE void datagram_leaves(const struct sk_buff *skb)
{
	struct connection *connection;
	struct packet packet;
	u64 tag, now;

	if (!read_packet(skb->head + skb->network_header, skb->len, &packet))
		return;
	now = bpf_ktime_get_ns();
	tag = tag_of(&packet.identity);
	connection = find(tag);
	if (!connection)
		connection = make(&packet.identity, tag, now);
	if (connection)
		leaves(connection, !packet.side, skb, 0, 1, 0, now);
}

/* A packet is handed to the stack of its device. */
SEC("tp_btf/net_dev_queue")
int net_dev_queue(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];
	const struct sock *sk = skb->sk;
	int side;

	if (!sk || !is_whole(sk))
		return 0;
	side = side_of_socket(sk);
	/* The peer of an unconnected socket is known from the packet only. */
	if (side < 0 && sk->__sk_common.skc_dport)
		return 0;
	if (sk->sk_protocol == UDP)
		datagram_leaves(skb);
	else if (sk->sk_protocol == TCP && side >= 0)
		segment_leaves(skb, sk, side);
	return 0;
}

/* The driver is called: on this CPU as a rule; on another one where a queue held the packet. */
SEC("tp_btf/net_dev_start_xmit")
int net_dev_start_xmit(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];
	const struct sock *sk = skb->sk;
	struct connection *connection;
	struct on_cpu *cpu = on_cpu();
	struct identity identity;
	int way;

	if (!sk)
		return 0;
	if (cpu && cpu->skb == (u64)skb && cpu->sk == (u64)sk) {
		connection = connection_of(cpu->sends);
		way = way_of(cpu->sends);
		cpu->skb = 0;
	} else {
		if (!is_whole(sk))
			return 0;
		way = side_of_socket(sk);
		if (way < 0 || sk->sk_protocol != TCP)
			return 0;
		identify_socket(sk, way, &identity);
		connection = find(tag_of(&identity));
	}
	if (connection && connection->sides[way & 1].skb == (u64)skb) {
		connection->record.transaction.sent[way & 1].started = bpf_ktime_get_ns();
		connection->sides[way & 1].skb = 0;
	}
	return 0;
}

/* The receiver's stack has a packet, in a soft interrupt. */
SEC("tp_btf/netif_receive_skb")
int netif_receive_skb(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];
	struct connection *connection;
	struct on_cpu *cpu = on_cpu();
	struct packet packet;
	struct side *side;
	u32 before = vlan_bytes(skb);
	u64 tag, now;
	int segment;

	if (!read_packet(skb->data + before, skb->len - before, &packet))
		return 0;
	segment = packet.identity.protocol == TCP;
	if (segment && packet.payload <= 0)
		return 0;
	tag = tag_of(&packet.identity);
	now = bpf_ktime_get_ns();
	if (cpu) {
		if (cpu->tag != tag)
			cpu->several = cpu->tag != 0;
		cpu->tag = tag;
		cpu->received = now;
		cpu->identity = packet.identity;
		cpu->side = packet.side;
	}
	connection = find(tag);
	if (!connection)
		return 0;
	/* Earlier data reaches no reader; data that waits for a lost packet counts from its own arrival. */
	side = &connection->sides[packet.side & 1];
	if (segment && side->expected && (s32)(packet.end - side->expected) <= 0)
		return 0;
	if (!segment || !side->arrived)
		side->arrived = now;
	return 0;
}

/* A message, or more of it, can be read; `behind`: its sender had not received all of the last reply. */
INLINE void arrives(struct connection *connection, int way, u64 received, int behind, int datagram, u64 now)
{
	struct sent *sent = &connection->record.transaction.sent[way & 1];
	u64 phase = connection->phase;
	struct on_cpu *cpu = on_cpu();

	if (behind)
		flag(connection, PIPELINED);
	if (way == REQUEST && phase != ASKED) {
		begin(connection, now);
		if (behind)
			flag(connection, PIPELINED);
	}
	if (way == REQUEST && datagram)
		__sync_fetch_and_add(&connection->came, 1);
	/* The reply comes from another host, so its arrival is the first sign of it. */
	if (way == REPLY && phase == ASKED)
		connection->phase = phase = ANSWERED;
	if (way == REPLY && phase != ANSWERED)
		return;
	if (sent->ready) {
		if (way == REQUEST && datagram)
			flag(connection, PIPELINED);
		return;
	}
	sent->received = received;
	sent->ready = now;
	if (cpu)
		cpu->tells = word_of(connection, way);
}

INLINE void segment_arrives(const struct sock *sk, int side)
{
	struct connection *connection;
	struct on_cpu *cpu = on_cpu();
	u64 received, now;

	if (!unread_of(sk))
		return;
	now = bpf_ktime_get_ns();
	connection = of_tcp(sk, side, now);
	if (!connection)
		return;
	meet(connection, side, sk);
	received = connection->sides[side & 1].arrived;
	if (!received && cpu && cpu->tag == connection->tag)
		received = cpu->received;
	if (cpu)
		cpu->tag = 0;
	connection->sides[side & 1].arrived = 0;
	connection->sides[side & 1].expected = TCP_FIELD(sk, rcv_nxt);
	arrives(connection, !side, received, side == SERVER && TCP_FIELD(sk, snd_una) != TCP_FIELD(sk, snd_nxt), 0, now);
}

/* True if the packet that this CPU handles is for the socket. */
INLINE int is_at(const struct on_cpu *cpu, const struct sock *sk)
{
	u16 port = cpu->side == SERVER ? cpu->identity.server_port : cpu->identity.client_port;

	return cpu->tag && cpu->identity.protocol == UDP && sk->__sk_common.skc_num == port;
}

/*
 * Asks the last packet in the socket's queue, which is the one that has just come unless a reader took it already: a device that is polled brings several at
 * once, and this CPU has seen the last of them before the first one is in its socket (__netif_receive_skb_list_core).
 */
INLINE void look_into(struct on_cpu *cpu, const struct sock *sk)
{
	const struct sk_buff *last = sk->sk_receive_queue.prev;
	struct packet packet;

	cpu->tag = 0;
	if (!cpu->several)
		cpu->received = 0;
	/* The last packet of an empty queue is the queue itself. */
	if ((u64)last == (u64)&sk->sk_receive_queue || !read_packet(last->head + last->network_header, last->len, &packet))
		return;
	cpu->tag = tag_of(&packet.identity);
	cpu->identity = packet.identity;
	cpu->side = packet.side;
}

/* The datagram's connection is known from the packet that this CPU handles; the socket may have many peers, and its own `side` may be unknown. */
INLINE void datagram_arrives(const struct sock *sk, int side)
{
	struct connection *connection;
	struct on_cpu *cpu = on_cpu();
	u64 tag, now, received;
	int way;

	if (cpu && (cpu->several || (side >= 0 && !is_at(cpu, sk))))
		look_into(cpu, sk);
	if (!cpu || !is_at(cpu, sk)) {
		if (side >= 0)
			lies_in(sk, side, 0);
		return;
	}
	tag = cpu->tag;
	cpu->tag = 0;
	now = bpf_ktime_get_ns();
	connection = find(tag);
	if (!connection)
		connection = make(&cpu->identity, tag, now);
	if (!connection) {
		lies_in(sk, side, 0);
		return;
	}
	way = cpu->side != SERVER;
	received = connection->sides[!way].arrived;
	connection->sides[!way].arrived = 0;
	arrives(connection, way, received ? received : cpu->received, 0, 1, now);
	/* By the socket's own side, by which it is looked for when it is read. */
	if (!lies_in(sk, side, word_of(connection, way)))
		flag(connection, PIPELINED);
}

/* Data is in the receiver's queue, and a waiting thread is about to be woken. */
INLINE int is_ready(const struct sock *sk)
{
	int side;

	if (!is_whole(sk))
		return 0;
	side = side_of_socket(sk);
	if (side < 0 && sk->__sk_common.skc_dport)
		return 0;
	if (sk->sk_protocol == UDP)
		datagram_arrives(sk, side);
	else if (sk->sk_protocol == TCP && side >= 0)
		segment_arrives(sk, side);
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

/* A sleeping thread is woken, by the event that this CPU handles. */
SEC("tp_btf/sched_waking")
int sched_waking(u64 *ctx)
{
	const struct task_struct *task = (const struct task_struct *)ctx[0];
	struct connection *connection;
	struct on_cpu *cpu = on_cpu();
	struct sent *sent;
	u64 what;
	int way;

	if (!cpu || !cpu->tells)
		return 0;
	what = cpu->tells;
	cpu->tells = 0;
	connection = connection_of(what);
	way = way_of(what);
	sent = &connection->record.transaction.sent[way];
	if (!sent->ready || sent->waking)
		return 0;
	sent->waking = bpf_ktime_get_ns();
	connection->sides[!way].woken = task->tgid;
	begin_thread(task->pid)->awaits = what;
	return 0;
}

/* A CPU goes from one thread to another. */
SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	const struct task_struct *leaving = (const struct task_struct *)ctx[1], *coming = (const struct task_struct *)ctx[2];
	s32 off = leaving->pid, on = coming->pid;
	u32 state = constants.tells_state ? (u32)ctx[3] : run_state(leaving);
	struct on_cpu *cpu = on_cpu(), *left;
	struct thread *thread = thread_of(on);
	struct transaction *transaction = 0;
	u64 what = 0, waking = 0, now;
	struct slice *slice;
	struct got *got;

	if (!cpu)
		return 0;
	/* Checked before the clock is read: a thread being woken on another CPU was not asleep. */
	if (on && thread->pid == on)
		what = thread->awaits;
	if (what) {
		transaction = &connection_of(what)->record.transaction;
		waking = transaction->sent[way_of(what)].waking;
	}
	now = bpf_ktime_get_ns();
	/* The woken thread is awake by now, or was not asleep. */
	if (cpu->tells)
		cpu->tells = 0;
	slice = &cpu->slices[cpu->switches % SLICES];
	slice->begun = cpu->since;
	slice->pid = off;
	slice->tgid = leaving->tgid;
	slice->comm[0] = 0;
	if (state & STATE_DEAD && !ctx[0])
		bpf_probe_read_kernel(slice->comm, sizeof(slice->comm), leaving->comm);
	cpu->switches++;
	cpu->since = now;
	cpu->pid = on;
	cpu->tgid = coming->tgid;
	thread = thread_of(off);
	if (off && thread->pid == off) {
		thread->off = now;
		thread->left = bpf_get_smp_processor_id();
		/* A preempted thread may be about to sleep. */
		thread->why = ctx[0] || !state ? PUSHED : state & STATE_STOPPED ? STOPPED : ASLEEP;
		if (thread->why == PUSHED) {
			thread->last_by.pid = on;
			thread->last_by.tgid = coming->tgid;
			bpf_probe_read_kernel(thread->last_by.comm, sizeof(thread->last_by.comm), coming->comm);
		}
	}
	thread = thread_of(on);
	if (!on || thread->pid != on)
		return 0;
	if (thread->off > thread->on) {
		if (thread->why == STOPPED) {
			thread->stop_begun = thread->off;
			thread->stop_ended = now;
		} else if (thread->why == PUSHED) {
			u64 took = (now - thread->off) / 1024;

			thread->preempted += now - thread->off;
			/* Those who run where it continues took nothing from it; and while the CPU that it lost was idle, it had moved already. */
			left = state_of(thread->left);
			if (left)
				put_longest(&thread->last_by, left, thread->off, now, left == cpu);
			if (took >= thread->longest) {
				thread->longest = took > (u32)-1 ? (u32)-1 : took;
				thread->by = thread->last_by;
			}
		} else {
			thread->slept += now - thread->off;
		}
	}
	thread->on = now;
	if (!transaction)
		return 0;
	thread->awaits = 0;
	got = &transaction->got[way_of(what)];
	if (waking && !got->switched && !got->read) {
		got->switched = now;
		put_longest(&got->before, cpu, waking, now, 1);
	}
	return 0;
}

/* The application has the message, or a part of it. */
INLINE void is_read(struct connection *connection, int way, int datagram)
{
	struct transaction *transaction = &connection->record.transaction;
	struct sent *sent = &transaction->sent[way & 1];
	struct got *got = &transaction->got[way & 1];
	struct side *side = &connection->sides[!way];
	struct process *process = &connection->record.processes[!way];
	u64 ids = bpf_get_current_pid_tgid(), now;
	s32 pid = (s32)ids, tgid = ids >> 32;
	struct thread *thread;

	if (!sent->ready || connection->phase != (way == REQUEST ? ASKED : ANSWERED))
		return;
	now = bpf_ktime_get_ns();
	thread = begin_thread(pid);
	if (!got->read) {
		u64 since = got->switched ? got->switched : sent->ready;

		transaction->stopped[!way] += stopped_since(thread, sent->ready, now);
		/* Another process was woken on this CPU just then. */
		if (sent->waking && side->woken != tgid)
			sent->waking = got->switched = 0;
		got->read = now;
		got->busy = thread->read > sent->ready;
		if (thread->why == PUSHED && thread->on > since && thread->off) {
			got->pushed = thread->on - (thread->off > since ? thread->off : since);
			if (!got->switched || got->pushed > got->switched - sent->waking)
				got->before = thread->last_by;
			else
				got->pushed = 0;
		}
	} else {
		u64 last = got->read_last ? got->read_last : got->read;

		if (way == REQUEST || is_rest(last, now, datagram)) {
			transaction->stopped[!way] += stopped_since(thread, last, now);
			got->read_last = now;
		}
	}
	thread->read = now;
	/* A proxy reads replies while it serves a request. */
	if (way == REQUEST)
		thread->longest = 0;
	/* The thread runs, so its wake-up is over. */
	thread->awaits = 0;
	side->preempted = thread->preempted;
	side->slept = thread->slept;
	if (process->pid != pid) {
		process->tgid = tgid;
		process->pid = pid;
		bpf_get_current_comm(process->comm, sizeof(process->comm));
	}
	if (constants.process && !(connection->record.ours >> !way & 1) && is_ours())
		connection->record.ours |= 1 << !way;
}

INLINE void watch(u64 *ports, u16 port)
{
	__sync_fetch_and_or(&ports[port / 64], 1ull << port % 64);
}

/* A socket of the process that is watched, seen for the first time; `sends`: in a send call. */
INLINE void learn(const struct sock *sk, int sends)
{
	u8 locks;
	int server;

	if (!constants.process || !shared.armed || !sk->__sk_common.skc_num || !is_ours())
		return;
	/* SOCK_BINDADDR_LOCK and SOCK_BINDPORT_LOCK of include/net/sock.h: the application chose the address, the port. */
	locks = user_locks(sk);
	server = sk->__sk_common.skc_dport ? locks & 8 : locks & 12;
	/* A client speaks first; but who chose a port may be a server that received before it was watched, and then UDP holds memory for arrivals. */
	if (sends && (!(locks & 8) || !sk->sk_forward_alloc))
		server = 0;
	/* A TCP server's socket has the port of a listening one, which is known already. */
	watch(sk->sk_protocol == UDP && server ? shared.servers : shared.clients, sk->__sk_common.skc_num);
}

/* A receive call is done; also fires for calls that find nothing. */
INLINE int is_received(const struct sock *sk, s32 bytes, s32 flags)
{
	struct connection *connection;
	struct identity identity;
	u64 what;
	int side;

	if (bytes <= 0 || flags & (MSG_PEEK | MSG_ERRQUEUE))
		return 0;
	if (!shared.observer && shared.greeting && (u64)sk->__sk_common.skc_cookie.counter == shared.greeting)
		shared.observer = bpf_get_current_pid_tgid() >> 32;
	if (!is_whole(sk))
		return 0;
	side = side_of_socket(sk);
	if (side < 0)
		learn(sk, 0);
	if (sk->sk_protocol == TCP && side >= 0) {
		identify_socket(sk, side, &identity);
		connection = find(tag_of(&identity));
		if (connection)
			is_read(connection, !side, 0);
	} else if (sk->sk_protocol == UDP) {
		what = taken_from(sk, side);
		if (what)
			is_read(connection_of(what), way_of(what), 1);
	}
	return 0;
}

SEC("tp_btf/sock_recv_length")
int sock_recv_length(u64 *ctx)
{
	return is_received((const struct sock *)ctx[0], ctx[1], ctx[2]);
}

/* The end of the function with the tracepoint sock_recv_length, on kernels without it (before 6.4): socket, message, flags, return value. */
SEC("fexit/sock_recvmsg")
int sock_recvmsg(u64 *ctx)
{
	return is_received(((const struct socket *)ctx[0])->sk, ctx[3], ctx[2]);
}

/* A send call is done, perhaps after the reply: only the socket's owner is learnt here. */
SEC("tp_btf/sock_send_length")
int sock_send_length(u64 *ctx)
{
	const struct sock *sk = (const struct sock *)ctx[0];

	if ((s32)ctx[1] > 0 && is_whole(sk) && side_of_socket(sk) < 0)
		learn(sk, 1);
	return 0;
}

/* Connections come and go. */
SEC("tp_btf/inet_sock_set_state")
int inet_sock_set_state(u64 *ctx)
{
	const struct sock *sk = (const struct sock *)ctx[0];
	u64 *place = &shared.connecting[place_of(sk)];
	s32 state = (s32)ctx[2];
	struct connection *connection;
	struct identity identity;
	u16 port;
	u64 tag;
	int side;

	if (sk->sk_protocol != TCP)
		return 0;
	/* A socket that is closed has given its port back (tcp_set_state), but not forgotten it. */
	port = __builtin_bswap16(FIELD(struct inet_sock, sk, inet_sport));
	side = side_of(port, __builtin_bswap16(sk->__sk_common.skc_dport));
	if (constants.process && shared.armed) {
		if (state == TCP_LISTEN && is_ours())
			watch(shared.servers, sk->__sk_common.skc_num);
		/* The port is chosen after this. */
		if (state == TCP_SYN_SENT && is_ours())
			*place = (u64)sk;
		if (state == TCP_ESTABLISHED && *place == (u64)sk) {
			*place = 0;
			/* The other port may have been a local one of this process before, which then looks like its client's. */
			if (side != CLIENT && !bit(shared.servers, port)) {
				watch(shared.clients, port);
				side = CLIENT;
			}
		}
	}
	if (side < 0 || (state != TCP_ESTABLISHED && state != TCP_CLOSE))
		return 0;
	identify(sk, port, side, &identity);
	tag = tag_of(&identity);
	connection = find(tag);
	if (state == TCP_ESTABLISHED) {
		/* The same addresses and ports again. */
		if (connection && connection->seen >> side & 1)
			release(connection);
		else if (connection)
			return meet(connection, side, sk);
		connection = make(&identity, tag, bpf_ktime_get_ns());
		return connection ? meet(connection, side, sk) : 0;
	}
	if (!connection)
		return 0;
	/* The other side may still have to read this one's last message. Both may close at once. */
	__sync_fetch_and_or(&connection->closed, 1 << side);
	if ((connection->closed & connection->seen) == connection->seen)
		release(connection);
	return 0;
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
