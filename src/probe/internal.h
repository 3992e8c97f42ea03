// SPDX-License-Identifier: Apache-2.0
//
// internal.h: the probe room to itself.
//
// Everything that is read from the kernel's files goes through `root`, the folder in which proc/
// and sys/ lie: "" for this machine, a fake tree in the tests.
#pragma once

#include "probe/probe.h"

// ---- files.c

// Appends a small text file of the kernel.  False when it cannot be read, which is never an error
// here: what a machine does not tell stays unknown.
bool probe_text_read(const char *root, const char *path, struct buffer *out);
// The first line of *text without its end; *text moves behind it.  False at the end.
bool probe_text_line(struct str *text, struct str *line);
// The next word, words being separated by blanks and tabs; *line moves behind it.
bool probe_text_word(struct str *line, struct str *word);
// The number after "name" (and an optional ':') at the start of a line: "MemTotal:  24 kB" → 24.
bool probe_text_field(struct str text, const char *name, uint64_t *value);

// ---- cgroup.c

#define PROBE_UNLIMITED UINT64_MAX

// What the control groups around this process allow, the tightest of each hierarchy and level.
struct probe_cgroup {
  uint64_t memory_limit;      // bytes, PROBE_UNLIMITED = none
  uint64_t memory_available;  // bytes that may still be taken under every limit
  double processors;          // quota / period, 0 = no quota
};
// Versions 1 and 2, also both at once; without any, nothing is limited.
void probe_cgroup_read(const char *root, struct probe_cgroup *out);

// ---- cpu.c

// What CPUID and XGETBV answer, apart from the decoding so that tests can make processors up.
struct probe_cpuid {
  uint32_t features_1_ecx;                  // leaf 1
  uint32_t features_7_ebx, features_7_ecx;  // leaf 7, sub-leaf 0
  uint32_t features_7_1_eax;                // leaf 7, sub-leaf 1
  uint64_t saved;                           // XCR0: register sets that the system saves
};
// Sets the feature flags of *out and nothing else.
void probe_cpuid_decode(const struct probe_cpuid *raw, struct probe_cpu *out);
// The processor's name as /proc/cpuinfo has it, or from the numbers of an Arm core.
void probe_cpuinfo_name(struct str text, char *out, size_t room);
uint64_t probe_cache_bytes(const char *root);  // of the last level, 0 = not told
// Threads that are of use: processors allowed (at least 1), and a quota in processors (0 = none).
int probe_cores_within(int allowed, double quota);

// ---- cards.c, memory.c: probe.h's functions, for the machine below `root`

// Paths in `found` are told without the root in front.
void probe_cards_read_at(const char *root, struct probe_card out[PROBE_CARD_MAKERS]);
// Its control groups are looked at too: the smaller of both counts.
void probe_memory_read_at(const char *root, struct probe_memory *out);
// A reading that fails counts as 0 and becomes the state, so the one after it is since boot again.
void probe_load_read_at(const char *root, struct probe_load *state, double *machine_percent,
                        double *process_percent);
