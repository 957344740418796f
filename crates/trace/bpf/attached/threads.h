/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Threads that read messages: when they had a CPU, and which process had it instead.
 */
#ifndef HAIRPIN_ATTACHED_THREADS_H
#define HAIRPIN_ATTACHED_THREADS_H

#include "connection.h"

/* A thread by its number in the initial namespace; the reference must be released. */
extern struct task_struct *bpf_task_from_pid(s32 pid) SEC(".ksyms") __attribute__((weak));
extern void bpf_task_release(struct task_struct *task) SEC(".ksyms") __attribute__((weak));

INLINE struct thread *thread_of(s32 pid)
{
	return &shared.threads[(u32)pid % THREADS];
}

/* The thread's place, its own from now on. */
INLINE struct thread *begin_thread(s32 pid)
{
	struct thread *thread = thread_of(pid);

	if (thread->pid != pid) {
		__builtin_memset(thread, 0, sizeof(*thread));
		thread->pid = pid;
	}
	return thread;
}

/* Time since `since` for which a thread was stopped; only the last stop counts. */
INLINE u64 stopped_since(const struct thread *thread, u64 since, u64 now)
{
	u64 begun = thread->stop_begun, ended = thread->stop_ended;

	/* The thread is still stopped. */
	if (thread->why == STOPPED && thread->off > thread->on) {
		begun = thread->off;
		ended = now;
	}
	if (begun < since)
		begun = since;
	return ended > begun ? ended - begun : 0;
}

/* Time lost by the server's thread between its last read and its reply: to other threads if it is the one
 * that replies, or to a stop, which hits all threads of a process. */
INLINE void account(struct connection *connection, u64 now)
{
	struct transaction *transaction = &connection->record.transaction;
	const struct got *got = &transaction->got[REQUEST];
	const struct side *side = &connection->sides[SERVER];
	s32 pid = (s32)bpf_get_current_pid_tgid(), reader = connection->record.processes[SERVER].pid;
	const struct thread *thread = thread_of(reader);

	if (reader && thread->pid == reader && got->read)
		transaction->stopped[SERVER] += stopped_since(thread, got->read_last ? got->read_last : got->read, now);
	thread = thread_of(pid);
	if (!pid || thread->pid != pid || pid != connection->record.processes[SERVER].pid)
		return;
	/* Its place was another thread's meanwhile, and its times began anew. */
	if (thread->preempted < side->preempted || thread->slept < side->slept)
		return;
	transaction->preempted = thread->preempted - side->preempted;
	transaction->slept = thread->slept - side->slept;
	if (transaction->preempted)
		transaction->by = thread->by;
}

/*
 * The process that had a CPU longest between `since` and `now`; idle, which counts with `idles`, has no name. `longest` is the switch at which it left, 0 if it
 * has the CPU now.
 */
INLINE void put_longest(struct process *process, const struct on_cpu *cpu, u64 since, u64 now, int idles)
{
	u64 until = cpu->since > since ? cpu->since : since;
	u64 most = now > until && (idles || cpu->pid) ? now - until : 0, longest = 0;
	s32 pid = most ? cpu->pid : 0, tgid = cpu->tgid;
	struct task_struct *task;
	const struct slice *slice;

#pragma unroll
	for (int i = 1; i <= SLICES; i++) {
		u64 begun;

		slice = &cpu->slices[(cpu->switches - i) % SLICES];
		begun = slice->begun > since ? slice->begun : since;
		if (until <= since)
			break;
		if (until > begun && until - begun > most && (idles || slice->pid)) {
			most = until - begun;
			pid = slice->pid;
			tgid = slice->tgid;
			longest = cpu->switches - i + 1;
		}
		until = slice->begun;
	}
	__builtin_memset(process, 0, sizeof(*process));
	if (!pid)
		return;
	process->pid = pid;
	process->tgid = tgid;
	slice = &cpu->slices[(longest - 1) % SLICES];
	if (longest && slice->comm[0]) {
		__builtin_memcpy(process->comm, slice->comm, sizeof(process->comm));
		return;
	}
	/* Without it only the numbers are known. */
	if (!constants.kernel_functions)
		return;
	task = bpf_task_from_pid(pid);
	if (!task)
		return;
	bpf_probe_read_kernel(process->comm, sizeof(process->comm), task->comm);
	bpf_task_release(task);
}

#endif
