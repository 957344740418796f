// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Takes the wanted frames to the AF_XDP socket of the queue that they came on; everything else goes on as if this were not here.
 *
 *   frame ─▶ running? ─▶ wanted? ─▶ socket at this queue? ─▶ the ring
 *               │ no        │ no         │ no
 *               └───────────┴────────────┴──────────────▶ the kernel's stack
 *
 * The types are this file's own, so that it compiles against no kernel's headers. Formats: IEEE 802.3 and 802.1Q, RFC 791, RFC 8200, RFC 768.
 */

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

#define SEC(name) __attribute__((section(name), used))
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* linux/bpf.h: struct xdp_md, as far as it is used. The verifier turns its 32-bit fields into pointers. */
struct xdp_md {
	u32 data;
	u32 data_end;
	u32 data_meta;
	u32 ingress_ifindex;
	u32 rx_queue_index;
};

#define XDP_PASS 2
#define BPF_MAP_TYPE_XSKMAP 17

static long (*const bpf_redirect_map)(void *map, u64 key, u64 flags) = (void *)51;

struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[64]; /* set to the device's queues before loading */
} sockets SEC(".maps");

/* Filled in before loading, so that the verifier cuts off what is not asked for. crates/packet/src/af_xdp/program.rs has the same layout. */
enum { ALL = 0, ETHERTYPE = 1, UDP = 2 };
struct wanted {
	u32 kind;
	u16 first; /* ethertype, or the first port; both in host order */
	u16 last;  /* the last port */
};
const volatile struct wanted wanted = {};
_Static_assert(sizeof(struct wanted) == 8, "known to program.rs");

/* Set while frames are to come to the rings. */
volatile u32 running = 0;

#define ETH_IPV4 0x0800
#define ETH_IPV6 0x86dd
#define ETH_VLAN 0x8100
#define ETH_VLAN_OUTER 0x88a8
#define IP_UDP 17
/* "More fragments" and the fragment's offset: neither is set in a whole packet. */
#define IPV4_FRAGMENT 0x3fff

/* The big-endian 16 bits at `at`, which is inside the frame. */
static ALWAYS_INLINE u16 be16(const u8 *at)
{
	return (u16)(at[0] << 8 | at[1]);
}

/* `segment` of `length` bytes, all inside the frame, is a UDP datagram to a wanted port. */
static ALWAYS_INLINE int is_wanted_udp(const u8 *segment, u32 length, const u8 *end)
{
	if (segment + 8 > end || length < 8)
		return 0;
	u16 datagram = be16(segment + 4);
	if (datagram < 8 || datagram > length)
		return 0;
	u16 port = be16(segment + 2);
	return port >= wanted.first && port <= wanted.last;
}

/* The same as Filter::takes in crates/packet/src/filter.rs; a test holds one against the other. */
static ALWAYS_INLINE int is_wanted(const u8 *frame, const u8 *end)
{
	if (wanted.kind == ALL)
		return 1;
	if (frame + 14 > end)
		return 0;
	u16 type = be16(frame + 12);
	if (wanted.kind == ETHERTYPE) {
		if (type == wanted.first)
			return 1;
		if (type != ETH_VLAN && type != ETH_VLAN_OUTER)
			return 0;
		return frame + 18 <= end && be16(frame + 16) == wanted.first;
	}
	const u8 *packet = frame + 14;
	if (type == ETH_IPV4) {
		if (packet + 20 > end || packet[0] >> 4 != 4 || packet[9] != IP_UDP || be16(packet + 6) & IPV4_FRAGMENT)
			return 0;
		u32 header = (packet[0] & 15) * 4;
		u32 total = be16(packet + 2);
		if (header < 20 || header > total || packet + total > end)
			return 0;
		return is_wanted_udp(packet + header, total - header, end);
	}
	if (type == ETH_IPV6) {
		if (packet + 40 > end || packet[0] >> 4 != 6 || packet[6] != IP_UDP)
			return 0;
		u32 length = be16(packet + 4);
		if (packet + 40 + length > end)
			return 0;
		return is_wanted_udp(packet + 40, length, end);
	}
	return 0;
}

SEC("xdp")
int hairpin_xsk(struct xdp_md *ctx)
{
	const u8 *frame = (const u8 *)(u64)ctx->data;
	const u8 *end = (const u8 *)(u64)ctx->data_end;

	if (!running || !is_wanted(frame, end))
		return XDP_PASS;
	/* The flags are the verdict where no socket is. */
	return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);
}

SEC("license") const char hairpin_license[] = "Dual BSD/GPL";
