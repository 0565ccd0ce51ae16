/* What the programs use of the kernel: helpers by their numbers, which are fixed for ever, and how maps are declared.
 * Nothing but the kernel's own headers is needed to build them. SPDX-License-Identifier: MIT OR Apache-2.0 */
#pragma once
#include <linux/bpf.h>

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

#define __uint(name, value) int (*name)[value]
#define __type(name, value) typeof(value) *name

static void *(*const map_lookup)(void *map, const void *key) = (void *)BPF_FUNC_map_lookup_elem;
static long (*const map_update)(void *map, const void *key, const void *value, __u64 flags) = (void *)BPF_FUNC_map_update_elem;
static __u64 (*const clock_now)(void) = (void *)BPF_FUNC_ktime_get_ns;
static long (*const load_bytes)(const void *skb, __u32 offset, void *to, __u32 length) = (void *)BPF_FUNC_skb_load_bytes;
static long (*const store_bytes)(void *skb, __u32 offset, const void *from, __u32 length, __u64 flags) =
    (void *)BPF_FUNC_skb_store_bytes;

/* Numbers of the wire, on a machine whose least significant byte comes first. */
#define WIRE16(value) __builtin_bswap16(value)
