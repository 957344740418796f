// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Takes the wanted frames to the AF_XDP socket of the queue that they came on; everything else goes on as if this were not here.
 *
 *   frame ─▶ running? ─▶ wanted? ─▶ socket at this queue? ─▶ the ring
 *               │ no        │ no         │ no
 *               └───────────┴────────────┴──────────────▶ the kernel's stack
 *
 * With METADATA defined (xsk_metadata.bpf.c) it puts the device's metadata of a frame in front of it, on the way to the ring.
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
static u64 (*const bpf_xdp_get_buff_len)(struct xdp_md *ctx) = (void *)188;

struct {
	int (*type)[BPF_MAP_TYPE_XSKMAP];
	int (*key_size)[4];
	int (*value_size)[4];
	int (*max_entries)[64]; /* set to the device's queues before loading */
} sockets SEC(".maps");

/* Filled in before loading, so that the verifier removes unused code. crates/packet/src/af_xdp/program.rs has
 * the same layout. */
enum { ALL = 0, ETHERTYPE = 1, UDP = 2 };
struct wanted {
	u16 kind;
	u16 pages; /* a frame may have several pages, of which the program sees the first */
	u16 first; /* ethertype, or the first port; both in host order */
	u16 last;  /* the last port */
};
const volatile struct wanted wanted = {};
_Static_assert(sizeof(struct wanted) == 8, "known to program.rs");

/* All variables, as program.rs writes and reads them. */
struct state {
	u32 running; /* while frames are to come to the rings */
	u32 astray;  /* one more than the queue of the last wanted frame that found no socket at its queue; 0: none */
};
volatile struct state state SEC(".bss");

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

/* `segment` of `length` bytes, all inside the frame, is a UDP datagram to a wanted port; its readable part
 * ends at `end`. */
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
static ALWAYS_INLINE int is_wanted(struct xdp_md *ctx)
{
	const u8 *frame = (const u8 *)(u64)ctx->data;
	/* The readable part ends here; in a frame of several pages more follows. */
	const u8 *end = (const u8 *)(u64)ctx->data_end;

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
	u32 frame_length = wanted.pages ? bpf_xdp_get_buff_len(ctx) : (u32)(end - frame);
	if (type == ETH_IPV4) {
		if (packet + 20 > end || packet[0] >> 4 != 4 || packet[9] != IP_UDP || be16(packet + 6) & IPV4_FRAGMENT)
			return 0;
		u32 header = (packet[0] & 15) * 4;
		u32 total = be16(packet + 2);
		if (header < 20 || header > total || 14 + total > frame_length)
			return 0;
		return is_wanted_udp(packet + header, total - header, end);
	}
	if (type == ETH_IPV6) {
		if (packet + 40 > end || packet[0] >> 4 != 6 || packet[6] != IP_UDP)
			return 0;
		u32 length = be16(packet + 4);
		if (14 + 40 + length > frame_length)
			return 0;
		return is_wanted_udp(packet + 40, length, end);
	}
	return 0;
}

#ifdef METADATA
static long (*const bpf_xdp_adjust_meta)(struct xdp_md *ctx, int delta) = (void *)54;
/* include/net/xdp.h, as far as it is used. */
enum xdp_rss_hash_type { XDP_RSS_TYPE_NONE = 0 };
/* Documentation/networking/xdp-rx-metadata.rst; 0, or an error. The last one came with Linux 6.8, the others with 6.3. */
extern int bpf_xdp_metadata_rx_timestamp(const struct xdp_md *ctx, u64 *timestamp) SEC(".ksyms");
extern int bpf_xdp_metadata_rx_hash(const struct xdp_md *ctx, u32 *hash, enum xdp_rss_hash_type *type) SEC(".ksyms");
extern int bpf_xdp_metadata_rx_vlan_tag(const struct xdp_md *ctx, u16 *protocol, u16 *tci) SEC(".ksyms") __attribute__((weak));

/* Not zero while nobody wants metadata: frames then go to their ring as they do without METADATA. */
volatile u32 metadata_paused SEC(".bss.metadata");

/* Lies right in front of the frame. crates/packet/src/af_xdp/metadata.rs has the same layout. */
struct metadata {
	u64 time; /* ns of the device's clock */
	u32 hash;
	u16 vlan_protocol; /* in network order */
	u16 vlan_tci;	   /* in host order */
	u32 unused;
	u32 valid; /* OURS, with TIME, HASH, VLAN; zero where this was never written, unless the driver writes there too */
};
enum { TIME = 1, HASH = 2, VLAN = 4, OURS = 0x48500000 };
_Static_assert(sizeof(struct metadata) == 24, "known to metadata.rs");

static ALWAYS_INLINE void put_metadata(struct xdp_md *ctx)
{
	struct metadata known = {};
	enum xdp_rss_hash_type type = XDP_RSS_TYPE_NONE;

	/* veth says success and zero for a frame that nobody stamped. */
	if (!bpf_xdp_metadata_rx_timestamp(ctx, &known.time) && known.time)
		known.valid |= TIME;
	if (!bpf_xdp_metadata_rx_hash(ctx, &known.hash, &type) && (known.hash || type != XDP_RSS_TYPE_NONE))
		known.valid |= HASH;
	if (bpf_xdp_metadata_rx_vlan_tag && !bpf_xdp_metadata_rx_vlan_tag(ctx, &known.vlan_protocol, &known.vlan_tci))
		known.valid |= VLAN;
	if (bpf_xdp_adjust_meta(ctx, -(int)sizeof(known)))
		return;
	struct metadata *place = (struct metadata *)(u64)ctx->data_meta;
	if ((u8 *)(place + 1) > (u8 *)(u64)ctx->data)
		return;
	known.valid |= OURS;
	*place = known;
}
#endif

SEC("xdp")
int hairpin_xsk(struct xdp_md *ctx)
{
	if (!state.running || !is_wanted(ctx))
		return XDP_PASS;
#ifdef METADATA
	if (!metadata_paused)
		put_metadata(ctx);
#endif
	u32 queue = ctx->rx_queue_index;
	/* The flags are the verdict where no socket is. */
	long verdict = bpf_redirect_map(&sockets, queue, XDP_PASS);
	if (verdict == XDP_PASS)
		state.astray = queue + 1;
	return verdict;
}

SEC("license") const char hairpin_license[] = "Dual BSD/GPL";
