// SPDX-License-Identifier: Apache-2.0
//
// probe.h: what is in this machine and how it feels.  So far: processor and memory, from CPUID and
// /proc, and which makers' accelerators are plugged in.
#pragma once

#include "base/base.h"

// What the processor can do, as far as kernels care.  Fixed for the life of the process.
struct probe_cpu {
  char name[64];          // "AMD EPYC 9354", trimmed; "unknown processor" when it does not say
  char architecture[16];  // "x86_64", "aarch64"
  // processors this process may run on (sched_getaffinity, cgroup quota rounded up)
  int cores;
  // each is true only when the operating system saves the registers too (XGETBV)
  bool avx2, fma, f16c;
  bool avx512;  // F + BW + DQ + VL
  bool avx512_vnni, avx512_bf16;
  uint64_t cache_bytes;  // last level, 0 = unknown
};
// Cannot fail: what the machine does not tell is false, 0 or "unknown processor"; cores is 1 or
// more.
void probe_cpu_read(struct probe_cpu *out);

struct probe_memory {
  // bytes, of the machine or of the cgroup (v1 or v2), whichever is smaller
  uint64_t total, available;
  uint64_t resident;  // bytes of this process (VmRSS)
};
// What cannot be read is 0.
void probe_memory_read(struct probe_memory *out);

// The readings of the previous call; zeroed = there was none.
struct probe_load {
  uint64_t busy, total, process_ticks;  // in clock ticks
};
// Busy shares since the previous call with the same state, or since boot on the first; both 0 when
// no tick has passed.  machine_percent: of all processors in /proc/stat, 0..100; process_percent:
// this process's own, 100 = one core.
void probe_load_read(struct probe_load *state, double *machine_percent, double *process_percent);

// Whether a maker's accelerator is here; no vendor's library is needed to tell.
#define PROBE_CARD_MAKERS 5
struct probe_card {
  const char *maker;  // "NVIDIA", "AMD", "Ascend", "Hygon DCU", "T-Head PPU", in this order
  char found[64];  // what shows it: "/dev/nvidia0", "PCI device 0000:01:00.0"; "" = there is none
};
// Fills every row; a machine that hides /dev and /sys has none.
void probe_cards_read(struct probe_card out[PROBE_CARD_MAKERS]);
void probe_cards_places(struct buffer *out);  // appends where that looks, for people
