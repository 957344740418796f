/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The parts of the kernel that the programs use: helpers by number (include/uapi/linux/bpf.h) and the few
 * fields that they read. The loader finds each field's offset in the running kernel's own types (BTF), so
 * their order here means nothing.
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
static long (*const bpf_get_current_comm)(void *to, u32 bytes) = (void *)16;
static struct task_struct *(*const bpf_get_current_task_btf)(void) = (void *)158;

#define FROM_BTF __attribute__((preserve_access_index))
/* True if the running kernel's types have the field (BPF_FIELD_EXISTS of libbpf). The verifier drops the branch of a field that they lack. */
#define HAS(field) __builtin_preserve_field_info(field, 2)

typedef struct {
	s64 counter;
} FROM_BTF atomic64_t;

struct in6_addr {
	union {
		u32 u6_addr32[4];
	} in6_u;
} FROM_BTF;

struct sock_common {
	u16 skc_family;
	atomic64_t skc_cookie;
	u32 skc_daddr;
	u32 skc_rcv_saddr;
	u16 skc_dport;
	u16 skc_num;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
} FROM_BTF;

struct sk_buff_head {
	struct sk_buff *prev;
	u32 qlen;
} FROM_BTF;

struct sock {
	struct sock_common __sk_common;
	struct sk_buff_head sk_receive_queue;
	s32 sk_forward_alloc;
	u8 sk_userlocks;
	u16 sk_protocol;
} FROM_BTF;

struct socket {
	struct sock *sk;
} FROM_BTF;

struct inet_sock {
	u16 inet_sport;
} FROM_BTF;

struct tcp_sock {
	u64 bytes_sent;
	u64 bytes_retrans;
	u32 total_retrans;
	u32 snd_una;
	u32 snd_nxt;
	u32 write_seq;
	u32 rcv_nxt;
	u32 copied_seq;
	u32 mss_cache;
	u8 nonagle;
} FROM_BTF;

struct udp_sock {
	struct sk_buff_head reader_queue;
} FROM_BTF;

struct sk_buff {
	struct net_device *dev;
	struct sock *sk;
	u8 *data;
	u32 len;
	u32 truesize;
	u16 protocol;
	u16 network_header;
	u8 *head;
} FROM_BTF;

struct task_struct {
	s32 pid;
	s32 tgid;
	u32 __state;
	struct task_struct *real_parent;
	char comm[16];
} FROM_BTF;

struct task_struct___before_5_14 {
	s64 state;
} FROM_BTF;

/* The state of a thread, 0 while it can run, for kernels whose sched_switch does not tell it (before Linux 5.18). */
INLINE u32 run_state(const struct task_struct *task)
{
	if (HAS(task->__state))
		return task->__state;
	return ((const struct task_struct___before_5_14 *)task)->state;
}

/* Bytes before the headers of a packet that has just come: the tag of a VLAN (802.1Q, 802.1ad) that the device has left in it. */
INLINE u32 vlan_bytes(const struct sk_buff *skb)
{
	u16 protocol = __builtin_bswap16(skb->protocol);

	return protocol == 0x8100 || protocol == 0x88a8 ? 4 : 0;
}

#endif
