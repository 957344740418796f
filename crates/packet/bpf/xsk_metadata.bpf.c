// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * xsk.bpf.c with the device's stamp, hash and VLAN tag in front of each frame. An object of its own, because it loads only where the kernel has the
 * functions that read them and its own types (BTF), and only for one device.
 */
#define METADATA
#include "xsk.bpf.c"
