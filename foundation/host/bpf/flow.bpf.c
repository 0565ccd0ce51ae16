/* Tags packets as small or large, by a token bucket for each flow, and takes over tags that others have set.
 *
 * Programs, each for devices with an Ethernet header and, as *_ip, for devices without:
 *   guest   at the ingress of the host's side of a guest's device: everything that the guest sends
 *   uplink  at the egress of the host's own device: everything that the host sends, unless `guest` has tagged it
 *   trust   at the ingress of any device: the priority that a packet's tag stands for
 *
 * They never drop, delay or redirect anything. What can't be understood passes as it came. The arithmetic is that of
 * greenwave_policy::flow, to the nanosecond; tests compare the two.
 * SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "kernel.h"

/* TC_ACT_UNSPEC and TCX_NEXT are the same: go on as if this program weren't there. */
#define PASS (-1)

/* Patched by the loader. Programs see constants, and what is not asked for is no code. */
struct settings {
  __u64 nanos_per_mib, burst, debt, recheck;
  __u32 small_priority, large_priority;
  __u8 small_tag, large_tag;         /* DSCP, shifted to its place in the byte */
  __u8 write_small, write_large;     /* whether the tag is written at all */
  __u8 five_tuple;                   /* whether ports and protocol tell flows apart */
  __u8 spare[3];
};
volatile const struct settings settings = {
    .nanos_per_mib = 838860800, .burst = 24000000, .debt = 200000000, .recheck = 10000000,
    .small_priority = 6, .large_priority = 2, .small_tag = 46 << 2, .large_tag = 8 << 2,
    .write_small = 1, .write_large = 1, .five_tuple = 0,
};

/* Guests are not trusted: a flow is one device's, so that nobody can spend another's tokens. */
struct key {
  __u8 source[16], target[16];       /* IPv4 as ::ffff:a.b.c.d */
  __u32 device;
  __u16 source_port, target_port;    /* as on the wire */
  __u16 vlan;                        /* the outer one */
  __u8 protocol, version;
};
struct flow {
  __u64 clears;                      /* by compare-and-swap alone */
  __u64 recheck_at, seen;            /* the last writer wins: off by a packet at worst */
  __u64 small_packets, small_bytes, large_packets, large_bytes;
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 65536);
  __type(key, struct key);
  __type(value, struct flow);
} flows SEC(".maps");

/* Devices that the loader has entered, each with what passed it. */
struct device {
  __u64 small_packets, small_bytes, large_packets, large_bytes;
  __u64 not_ip, malformed, no_room;
};
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
  __uint(max_entries, 4096);
  __type(key, __u32);
  __type(value, struct device);
} devices SEC(".maps");

enum { UNDERSTOOD, NOT_IP, MALFORMED };

struct packet {
  struct key key;
  __u32 network;                     /* where the IP header begins */
  __u32 transport;                   /* where what follows it begins */
  __u8 protocol;                     /* what that is */
  __u8 fragment;
  __u8 head[12];                     /* the IP header's first bytes */
};

/* Lengths that contradict each other. A super-packet's length may not fit its field. */
INLINE int too_short(struct __sk_buff *skb, __u32 network, __u32 length) {
  return !skb->gso_size && length > skb->len - network;
}

INLINE int parse_v4(struct __sk_buff *skb, struct packet *p) {
  __u8 head[20];
  if (load_bytes(skb, p->network, head, sizeof(head)) < 0) return MALFORMED;
  __u32 header = (head[0] & 15) * 4, length = head[2] << 8 | head[3];
  if (head[0] >> 4 != 4 || header < 20) return MALFORMED;
  if (!skb->gso_size && length < header) return MALFORMED;
  if (too_short(skb, p->network, length)) return MALFORMED;
  __builtin_memcpy(p->head, head, 12);
  p->key.source[10] = p->key.source[11] = p->key.target[10] = p->key.target[11] = 0xff;
  __builtin_memcpy(p->key.source + 12, head + 12, 4);
  __builtin_memcpy(p->key.target + 12, head + 16, 4);
  p->key.version = 4;
  p->fragment = (head[6] & 0x3f) | head[7]; /* more fragments, or an offset */
  p->protocol = head[9];
  p->transport = p->network + header;
  return UNDERSTOOD;
}

/* More extension headers than any honest packet has. */
#define MOST_EXTENSIONS 8

INLINE int parse_v6(struct __sk_buff *skb, struct packet *p) {
  __u8 head[40];
  if (load_bytes(skb, p->network, head, sizeof(head)) < 0) return MALFORMED;
  if (head[0] >> 4 != 6) return MALFORMED;
  if (too_short(skb, p->network, (head[4] << 8 | head[5]) + 40)) return MALFORMED;
  __builtin_memcpy(p->head, head, 12);
  __builtin_memcpy(p->key.source, head + 8, 16);
  __builtin_memcpy(p->key.target, head + 24, 16);
  p->key.version = 6;
  __u8 next = head[6];
  __u32 at = p->network + 40;
  if (settings.five_tuple || skb->gso_size) {
    for (int i = 0; i < MOST_EXTENSIONS; i++) {
      __u8 extension[4];
      if (next != 0 && next != 43 && next != 44 && next != 51 && next != 60) break;
      if (load_bytes(skb, at, extension, sizeof(extension)) < 0) return MALFORMED;
      if (next == 44) { /* fragment */
        if ((extension[2] | (extension[3] & 0xf9)) != 0) p->fragment = 1;
        at += 8;
      } else {
        at += next == 51 ? (extension[1] + 2) * 4 : (extension[1] + 1) * 8;
      }
      next = extension[0];
    }
  }
  p->protocol = next;
  p->transport = at;
  return UNDERSTOOD;
}

#define VLAN WIRE16(0x8100)
#define VLAN_OUTER WIRE16(0x88a8)

INLINE int parse(struct __sk_buff *skb, int ethernet, struct packet *p) {
  __u16 type;
  if (skb->vlan_present) p->key.vlan = skb->vlan_tci & 0xfff;
  if (ethernet) {
    p->network = 14;
    if (load_bytes(skb, 12, &type, sizeof(type)) < 0) return MALFORMED;
    for (int i = 0; i < 2; i++) {
      __u16 tag[2];
      if (type != VLAN && type != VLAN_OUTER) break;
      if (load_bytes(skb, p->network, tag, sizeof(tag)) < 0) return MALFORMED;
      if (i == 0 && !skb->vlan_present) p->key.vlan = WIRE16(tag[0]) & 0xfff;
      type = tag[1];
      p->network += 4;
    }
  } else {
    type = skb->protocol;
  }
  if (type == WIRE16(0x0800)) return parse_v4(skb, p);
  if (type == WIRE16(0x86dd)) return parse_v6(skb, p);
  return NOT_IP;
}

/* Of a fragment but the first nobody knows the ports: all of them count for the pair. */
INLINE int parse_ports(struct __sk_buff *skb, struct packet *p) {
  if (p->fragment) return UNDERSTOOD;
  p->key.protocol = p->protocol;
  if (p->protocol != 6 && p->protocol != 17 && p->protocol != 132) return UNDERSTOOD;
  __u16 ports[2];
  if (load_bytes(skb, p->transport, ports, sizeof(ports)) < 0) return MALFORMED;
  p->key.source_port = ports[0];
  p->key.target_port = ports[1];
  return UNDERSTOOD;
}

#define MOST_BYTES ((1 << 24) - 1)

/* Bytes on the wire: headers are sent with each segment. */
INLINE __u64 wire_bytes(struct __sk_buff *skb, struct packet *p) {
  __u64 accelerated = skb->vlan_present ? 4 : 0, length = skb->len + accelerated, segment = skb->gso_size;
  if (!segment) return length < MOST_BYTES ? length : MOST_BYTES;
  __u64 headers = p->transport + accelerated;
  if (p->protocol == 6) {
    __u8 offset;
    if (load_bytes(skb, p->transport + 12, &offset, 1) == 0) headers += (offset >> 4) * 4;
  } else {
    headers += 8;
  }
  __u64 payload = length > headers ? length - headers : 0;
  __u64 segments = (payload + segment - 1) / segment;
  if (segments > 1) length += (segments - 1) * headers;
  return length < MOST_BYTES ? length : MOST_BYTES;
}

/* Whether a packet is small; its flow pays. */
INLINE int charge(struct flow *flow, __u64 now, __u64 bytes) {
  __u64 cost = (bytes * settings.nanos_per_mib) >> 20;
  int looked_at = now >= flow->recheck_at, small = 0;
  for (int i = 0; i < 4; i++) {
    __u64 clears = *(volatile __u64 *)&flow->clears, next = (clears > now ? clears : now) + cost;
    small = looked_at && next - now <= settings.burst;
    if (!small) {
      if (!settings.debt) break;
      __u64 most = now + settings.burst + settings.debt;
      if (next > most) next = most;
    }
    if (__sync_val_compare_and_swap(&flow->clears, clears, next) == clears) break;
  }
  if (looked_at && !small) flow->recheck_at = now + settings.recheck;
  return small;
}

INLINE struct flow *flow_of(struct key *key) {
  struct flow *flow = map_lookup(&flows, key);
  if (flow) return flow;
  struct flow fresh = {};
  map_update(&flows, key, &fresh, BPF_NOEXIST);
  return map_lookup(&flows, key);
}

/* Changes the DSCP and leaves ECN alone. One write, so that a packet is changed in whole or not at all. */
INLINE void write_tag(struct __sk_buff *skb, struct packet *p, __u8 tag) {
  __u8 *head = p->head;
  if (p->key.version == 6) {
    __u8 now = head[0] << 4 | head[1] >> 4, next = tag | (now & 3);
    if (now == next) return;
    head[0] = 0x60 | next >> 4;
    head[1] = next << 4 | (head[1] & 15);
    store_bytes(skb, p->network, head, 2, BPF_F_RECOMPUTE_CSUM);
    return;
  }
  __u8 now = head[1], next = tag | (now & 3);
  if (now == next) return;
  /* RFC 1624: the sum over the header stays what it was, so what covers it from outside stays right. */
  __u32 sum = (__u16)~(head[10] << 8 | head[11]);
  sum += (__u16)~(head[0] << 8 | now);
  sum += head[0] << 8 | next;
  sum = (sum & 0xffff) + (sum >> 16);
  sum = ~((sum & 0xffff) + (sum >> 16));
  head[1] = next;
  head[10] = sum >> 8;
  head[11] = sum;
  store_bytes(skb, p->network, head, 12, 0);
}

INLINE int take_over(struct __sk_buff *skb, struct packet *p) {
  __u8 tag = (p->key.version == 6 ? p->head[0] << 4 | p->head[1] >> 4 : p->head[1]) & 0xfc;
  if (tag == settings.small_tag && settings.write_small) skb->priority = settings.small_priority;
  else if (tag == settings.large_tag && settings.write_large) skb->priority = settings.large_priority;
  return PASS;
}

INLINE int tag(struct __sk_buff *skb, int ethernet, int uplink) {
  __u32 at = skb->ifindex, from = skb->ingress_ifindex;
  struct packet p = {};
  struct device *device = map_lookup(&devices, &at);
  if (!device) return PASS;
  int what = parse(skb, ethernet, &p);
  if (what == UNDERSTOOD && uplink && from && from != at && map_lookup(&devices, &from)) return take_over(skb, &p);
  if (what == UNDERSTOOD && settings.five_tuple) what = parse_ports(skb, &p);
  if (what != UNDERSTOOD) {
    if (what == NOT_IP) device->not_ip++;
    else device->malformed++;
    return PASS;
  }
  p.key.device = at;
  struct flow *flow = flow_of(&p.key);
  if (!flow) {
    device->no_room++;
    return PASS;
  }
  __u64 now = clock_now(), bytes = wire_bytes(skb, &p);
  flow->seen = now;
  if (charge(flow, now, bytes)) {
    __sync_fetch_and_add(&flow->small_packets, 1);
    __sync_fetch_and_add(&flow->small_bytes, bytes);
    device->small_packets++;
    device->small_bytes += bytes;
    skb->priority = settings.small_priority;
    if (settings.write_small) write_tag(skb, &p, settings.small_tag);
  } else {
    __sync_fetch_and_add(&flow->large_packets, 1);
    __sync_fetch_and_add(&flow->large_bytes, bytes);
    device->large_packets++;
    device->large_bytes += bytes;
    skb->priority = settings.large_priority;
    if (settings.write_large) write_tag(skb, &p, settings.large_tag);
  }
  return PASS;
}

INLINE int trust(struct __sk_buff *skb, int ethernet) {
  struct packet p = {};
  return parse(skb, ethernet, &p) == UNDERSTOOD ? take_over(skb, &p) : PASS;
}

SEC("classifier") int greenwave_guest(struct __sk_buff *skb) { return tag(skb, 1, 0); }
SEC("classifier") int greenwave_guest_ip(struct __sk_buff *skb) { return tag(skb, 0, 0); }
SEC("classifier") int greenwave_uplink(struct __sk_buff *skb) { return tag(skb, 1, 1); }
SEC("classifier") int greenwave_uplink_ip(struct __sk_buff *skb) { return tag(skb, 0, 1); }
SEC("classifier") int greenwave_trust(struct __sk_buff *skb) { return trust(skb, 1); }
SEC("classifier") int greenwave_trust_ip(struct __sk_buff *skb) { return trust(skb, 0); }

/* The helpers that are used are open to all licences; the kernel wants the word all the same. */
char word[] SEC("license") = "Dual MIT/GPL";
