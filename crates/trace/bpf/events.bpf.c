// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Events on the CPUs of both measuring threads: running threads, interrupts, idle states, time stolen by the
 * hypervisor; and actions of TCP and UDP on the flow.
 *
 *    a CPU's event     32 bytes; a duration is one event, at its end
 *    written           by programs on that CPU alone; an interrupt may come between, so a place is taken by one atomic addition
 *
 * A packet of the flow is handed on in soft interrupts that its sender raises in its own call, some at each round trip. These read no clock: the stages
 * say how long they took. Only those that follow a hard interrupt are timed.
 */
#include "kernel.h"

/* CPUs that are looked at. */
#define CPUS 8
/* Events of a block on a CPU. */
#define EVENTS 32768
/* A shorter soft interrupt for packets is no event. */
#define SHORT_NS 1000
/* A time that was read this long ago still tells what time it is: the clocks differ by at most 500 ppm, and so by half a microsecond. */
#define FRESH_NS 1000000
/* Where soft interrupts have no beginning, events this soon after a hard interrupt count as caused by its soft interrupt. */
#define SOON_NS 50000

#define SOFTIRQ_TIMER 1
#define SOFTIRQ_NET_TX 2
#define SOFTIRQ_NET_RX 3
/* PWR_EVENT_EXIT of the kernel: the idle state is left. */
#define AWAKE ((u32)-1)

/* Numbered as in the reader. */
enum kind {
	SWITCHED = 1,
	INTERRUPT,
	TIMER,
	RESCHEDULE,
	CALL,
	SOFTIRQ,
	IDLE,
	STOLEN,
	MIGRATED,
	RETRANSMITTED,
	ACKNOWLEDGED,
	OVERFLOWED,
};
/* Flag of a thread that leaves its CPU: it is still runnable. */
#define RUNNABLE 0x80

/* Set by the loader: one value, because the compiler is free to reorder several. */
const volatile struct {
	/* The sockets that the client and the server send on, and that they receive on (SO_COOKIE; 0: none). */
	u64 senders[2];
	u64 receivers[2];
	/* Their threads. */
	s32 threads[2];
	/* The CPUs that are looked at, filled up with -1. */
	s32 cpus[CPUS];
	/* Soft interrupts have no beginning: softirq_exit_alone replaces both programs. */
	s32 alone;
	/* sched_switch tells the state of the thread that leaves (Linux 5.18). */
	s32 tells_state;
} asked;

_Static_assert(sizeof(asked) == 80, "the loader's layout");

struct event {
	/* End, in ns of CLOCK_MONOTONIC. */
	u64 at;
	/* Duration in ns, or the thread that left. */
	u32 first;
	/* Its number, or the thread that came. */
	s32 second;
	/* The name of the thread that left. The last byte, which ends a name, is the kind. */
	u8 name[16];
};

struct cpu {
	/* Events begun, including those without room. */
	u64 count;
	/* Start of the current interval; 0: none. */
	u64 idle_since;
	u64 interrupt_since;
	u64 softirq_since;
	u32 idle_state;
	u32 softirq;
	/* A hard interrupt came, and no soft interrupt for packets after it. */
	u64 interrupted;
	/* Stolen time at the last look. */
	u64 stolen;
	/* When the last hard interrupt ended, or a soft interrupt after it; 0: no soft interrupt can have begun then. */
	u64 hard_ended;
	/* The last switch whose time was read: CLOCK_MONOTONIC, and the run queue's own clock. */
	u64 read;
	u64 clock;
	struct event events[EVENTS] __attribute__((aligned(LINE)));
} __attribute__((aligned(LINE)));

_Static_assert(sizeof(struct event) == 32 && __builtin_offsetof(struct cpu, events) == 2 * LINE, "the reader's layout");

struct rq {
	u64 clock;
	u64 prev_steal_time_rq;
} FROM_BTF;

struct cfs_rq {
	struct rq *rq;
} FROM_BTF;

struct sched_entity {
	struct cfs_rq *cfs_rq;
} FROM_BTF;

/* A task_struct: the kernel's name ends before ___. */
struct task_struct___queued {
	struct sched_entity se;
} FROM_BTF;

/* All that a reader maps; the loader gives it as many elements as there are CPUs that are looked at. */
struct cpu seen[CPUS] SEC(".bss") __attribute__((aligned(LINE)));

/* This CPU, if it is one of those looked at. */
INLINE struct cpu *here(void)
{
	s32 cpu = bpf_get_smp_processor_id();

#pragma unroll
	for (int slot = 0; slot < CPUS; slot++) {
		s32 one = asked.cpus[slot];

		/* The verifier looks no further either. */
		if (one < 0)
			return 0;
		if (one == cpu)
			return &seen[slot];
	}
	return 0;
}

/* Room for an event. */
INLINE struct event *place(struct cpu *cpu)
{
	u64 at = __sync_fetch_and_add(&cpu->count, 1);

	if (at >= EVENTS)
		return 0;
	/* So that the verifier sees the bound where it is used, and the compiler does not see through it. */
	asm volatile("%0 &= %1" : "+r"(at) : "i"(EVENTS - 1));
	return &cpu->events[at];
}

/* Its time is written last: by that the reader knows that the event is whole. */
INLINE void publish(struct event *event, u64 now)
{
	asm volatile("" ::: "memory");
	*(volatile u64 *)&event->at = now;
}

INLINE void note(struct cpu *cpu, enum kind kind, u64 now, u64 took, s32 number)
{
	struct event *event = place(cpu);

	if (!event)
		return;
	event->first = took > 0xffffffff ? 0xffffffff : took;
	event->second = number;
	event->name[15] = kind;
	publish(event, now);
}

/* Time stolen from this CPU by the hypervisor, as the scheduler last read it: at a switch of threads, or at
 * the timer's tick. */
INLINE void look(struct cpu *cpu, const void *thread)
{
	const struct task_struct___queued *task = thread;
	u64 stolen;

	if (!HAS(task->se.cfs_rq) || !HAS(task->se.cfs_rq->rq->prev_steal_time_rq))
		return;
	/* 0: no look yet. */
	stolen = task->se.cfs_rq->rq->prev_steal_time_rq + 1;
	if (stolen != cpu->stolen && cpu->stolen)
		note(cpu, STOLEN, bpf_ktime_get_ns(), stolen - cpu->stolen, 0);
	cpu->stolen = stolen;
}

INLINE int is_ours(s32 thread)
{
	return thread == asked.threads[0] || thread == asked.threads[1];
}

/*
 * The time of a switch. Reading the clock takes most of the program's time, and nobody needs to the nanosecond when a thread of ours went to sleep on a CPU
 * that idles then: there the run queue's clock, which the scheduler has just read, tells the time since the thread came.
 */
INLINE u64 time_of(struct cpu *cpu, const void *thread, int sleeps)
{
	const struct task_struct___queued *task = thread;
	u64 clock;

	if (!asked.alone || !HAS(task->se.cfs_rq) || !HAS(task->se.cfs_rq->rq->clock))
		return bpf_ktime_get_ns();
	clock = task->se.cfs_rq->rq->clock;
	if (sleeps && clock - cpu->clock < FRESH_NS)
		return cpu->read + (clock - cpu->clock);
	cpu->clock = clock;
	cpu->read = bpf_ktime_get_ns();
	return cpu->read;
}

SEC("tp_btf/sched_switch")
int sched_switch(u64 *ctx)
{
	const struct task_struct *prev = (const struct task_struct *)ctx[1];
	const struct task_struct *next = (const struct task_struct *)ctx[2];
	s32 left = prev->pid, came = next->pid;
	struct cpu *cpu = here();
	int runnable = ctx[0] || !(asked.tells_state ? (u32)ctx[3] : run_state(prev));
	struct event *event;
	u64 now;

	if (!cpu)
		return 0;
	cpu->hard_ended = 0;
	look(cpu, prev);
	event = place(cpu);
	if (!event)
		return 0;
	now = time_of(cpu, left ? (const void *)prev : next, !came && !runnable && is_ours(left));
	event->first = left;
	event->second = came;
	/* The reader knows their names. */
	if (asked.alone && (!left || is_ours(left)))
		event->name[0] = 0;
	else
		bpf_probe_read_kernel(event->name, sizeof(event->name), prev->comm);
	event->name[15] = SWITCHED | (runnable ? RUNNABLE : 0);
	publish(event, now);
	return 0;
}

/* A thread of ours is given to another CPU. */
SEC("tp_btf/sched_migrate_task")
int sched_migrate_task(u64 *ctx)
{
	s32 thread = ((const struct task_struct *)ctx[0])->pid;
	struct cpu *cpu;

	if (!thread || (thread != asked.threads[0] && thread != asked.threads[1]))
		return 0;
	cpu = here();
	if (cpu)
		note(cpu, MIGRATED, bpf_ktime_get_ns(), 0, (s32)ctx[1]);
	return 0;
}

/* A hard interrupt begins. */
INLINE int interrupt(void)
{
	struct cpu *cpu = here();

	if (cpu)
		cpu->interrupt_since = bpf_ktime_get_ns();
	return 0;
}

/* A hard interrupt ends. */
INLINE int handled(enum kind kind, s32 number)
{
	struct cpu *cpu = here();
	u64 now, since;

	if (!cpu)
		return 0;
	since = cpu->interrupt_since;
	cpu->interrupt_since = 0;
	/* These may bring packets: a device, another CPU, and the timers of NAPI and of queueing disciplines. */
	if (kind == INTERRUPT || kind == CALL || (kind == TIMER && !asked.alone))
		cpu->interrupted = 1;
	now = bpf_ktime_get_ns();
	cpu->hard_ended = now;
	if (since)
		note(cpu, kind, now, now - since, number);
	if (kind == TIMER)
		look(cpu, bpf_get_current_task_btf());
	return 0;
}

#define ENTRY(name)                                                                                                                                  \
	SEC("tp_btf/" #name)                                                                                                                         \
	int name(void *ctx)                                                                                                                          \
	{                                                                                                                                            \
		(void)ctx;                                                                                                                           \
		return interrupt();                                                                                                                  \
	}
#define EXIT(name, kind)                                                                                                                             \
	SEC("tp_btf/" #name)                                                                                                                         \
	int name(u64 *ctx)                                                                                                                           \
	{                                                                                                                                            \
		return handled(kind, (s32)ctx[0]);                                                                                                   \
	}

ENTRY(irq_handler_entry)
EXIT(irq_handler_exit, INTERRUPT)
ENTRY(local_timer_entry)
EXIT(local_timer_exit, TIMER)
ENTRY(reschedule_entry)
EXIT(reschedule_exit, RESCHEDULE)
ENTRY(call_function_entry)
EXIT(call_function_exit, CALL)
ENTRY(call_function_single_entry)
EXIT(call_function_single_exit, CALL)

INLINE int for_packets(u32 softirq)
{
	return softirq == SOFTIRQ_NET_RX || softirq == SOFTIRQ_NET_TX;
}

SEC("tp_btf/softirq_entry")
int softirq_entry(u64 *ctx)
{
	struct cpu *cpu = here();
	u32 softirq = ctx[0];

	if (!cpu || (for_packets(softirq) && !cpu->interrupted))
		return 0;
	cpu->softirq_since = bpf_ktime_get_ns();
	cpu->softirq = softirq;
	return 0;
}

SEC("tp_btf/softirq_exit")
int softirq_exit(u64 *ctx)
{
	struct cpu *cpu = here();
	u32 softirq = ctx[0];
	u64 now, since;

	since = cpu ? cpu->softirq_since : 0;
	if (LIKELY(!since))
		return 0;
	cpu->softirq_since = 0;
	now = bpf_ktime_get_ns();
	if (for_packets(softirq)) {
		cpu->interrupted = 0;
		if (now - since < SHORT_NS)
			return 0;
	}
	note(cpu, SOFTIRQ, now, now - since, softirq);
	return 0;
}

/*
 * Half the cost of both programs, where a packet of the flow makes two soft interrupts. One that follows a hard interrupt began where that ended; the flow's
 * own, raised by a call of its sender, follow none.
 */
SEC("tp_btf/softirq_exit")
int softirq_exit_alone(u64 *ctx)
{
	struct cpu *cpu = here();
	u32 softirq = ctx[0];
	u64 now, since, interrupted;

	since = cpu ? cpu->hard_ended : 0;
	if (LIKELY(!since))
		return 0;
	now = bpf_ktime_get_ns();
	if (for_packets(softirq)) {
		interrupted = cpu->interrupted;
		cpu->interrupted = 0;
		cpu->hard_ended = 0;
		if (!interrupted || now - since < SHORT_NS)
			return 0;
	} else {
		cpu->hard_ended = now;
	}
	note(cpu, SOFTIRQ, now, now - since, softirq);
	return 0;
}

SEC("tp_btf/cpu_idle")
int cpu_idle(u64 *ctx)
{
	u32 state = ctx[0];
	struct cpu *cpu = here();
	u64 now;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	if (state != AWAKE) {
		cpu->idle_since = now;
		cpu->idle_state = state;
	} else if (cpu->idle_since) {
		note(cpu, IDLE, now, now - cpu->idle_since, cpu->idle_state);
		cpu->idle_since = 0;
	}
	return 0;
}

/* The side that this socket belongs to, by `cookies`; -1: none. */
INLINE int side_by(const volatile u64 *cookies, const struct sock *sk)
{
	u64 cookie = sk ? sk->__sk_common.skc_cookie.counter : 0;

	return !cookie ? -1 : cookie == cookies[0] ? 0 : cookie == cookies[1] ? 1 : -1;
}

/* Something happened to a side's socket. */
INLINE int of_side(enum kind kind, int side, u64 more)
{
	struct cpu *cpu = side < 0 ? 0 : here();

	if (cpu)
		note(cpu, kind, bpf_ktime_get_ns(), more, side);
	return 0;
}

SEC("tp_btf/tcp_retransmit_skb")
int tcp_retransmit_skb(u64 *ctx)
{
	return of_side(RETRANSMITTED, side_by(asked.senders, (const struct sock *)ctx[0]), 0);
}

/* An acknowledgement of TCP without data; from a timer if it was delayed until that ran out. */
INLINE int acknowledged(const struct sock *sk)
{
	int side = side_by(asked.senders, sk);
	struct cpu *cpu = side < 0 ? 0 : here();
	u64 now;
	int late;

	if (!cpu)
		return 0;
	now = bpf_ktime_get_ns();
	late = asked.alone ? cpu->hard_ended && now - cpu->hard_ended < SOON_NS : cpu->softirq_since && cpu->softirq == SOFTIRQ_TIMER;
	note(cpu, ACKNOWLEDGED, now, late, side);
	return 0;
}

SEC("tp_btf/net_dev_queue")
int net_dev_queue(u64 *ctx)
{
	const struct sk_buff *skb = (const struct sk_buff *)ctx[0];

	/* skb_is_tcp_pure_ack of the kernel */
	return LIKELY(skb->truesize != 2) ? 0 : acknowledged(skb->sk);
}

/* The function that builds an acknowledgement, where it can be hooked: packets with data do not pass it. */
SEC("fentry/tcp_send_ack")
int tcp_send_ack(u64 *ctx)
{
	return acknowledged((const struct sock *)ctx[0]);
}

SEC("tp_btf/udp_fail_queue_rcv_skb")
int udp_fail_queue_rcv_skb(u64 *ctx)
{
	return of_side(OVERFLOWED, side_by(asked.receivers, (const struct sock *)ctx[1]), 0);
}

SEC("tp_btf/sock_rcvqueue_full")
int sock_rcvqueue_full(u64 *ctx)
{
	return of_side(OVERFLOWED, side_by(asked.receivers, (const struct sock *)ctx[0]), 0);
}

const char LICENSE[] SEC("license") = "Dual BSD/GPL";
