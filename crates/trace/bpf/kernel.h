/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the programs use of the kernel: helpers by number (include/uapi/linux/bpf.h) and the few fields that they read. The loader finds each
 * field's offset in the running kernel's own types (BTF), so their order here means nothing.
 */
#ifndef HAIRPIN_KERNEL_H
#define HAIRPIN_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)
#define LINE 64

static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;
static u32 (*const bpf_get_smp_processor_id)(void) = (void *)8;
static long (*const bpf_probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static u64 (*const bpf_get_current_pid_tgid)(void) = (void *)14;

#define FROM_BTF __attribute__((preserve_access_index))

typedef struct {
	s64 counter;
} FROM_BTF atomic64_t;

struct sock_common {
	u16 skc_family;
	atomic64_t skc_cookie;
} FROM_BTF;

struct sock {
	struct sock_common __sk_common;
} FROM_BTF;

struct sk_buff {
	struct sock *sk;
	u8 *data;
	u32 len;
	u32 truesize;
} FROM_BTF;

struct task_struct {
	s32 pid;
	char comm[16];
} FROM_BTF;

#endif
