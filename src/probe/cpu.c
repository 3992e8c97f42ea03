// SPDX-License-Identifier: Apache-2.0
//
// cpu.c: what the processor can do.
//
// A processor having an instruction is not enough: the operating system must save the registers it
// uses when it changes from one program to the next, or their content is lost.  XGETBV tells what
// is saved (XCR0), and may itself be asked only where CPUID says OSXSAVE:
//
//   XCR0 bit                              AVX2 needs it   AVX-512 needs it
//   1         SSE                         yes             yes
//   2         upper halves of YMM         yes             yes
//   5         mask registers                              yes
//   6         upper halves of ZMM0-15                     yes
//   7         ZMM16-31                                    yes
//
// Bit numbers: Intel SDM volume 2A, CPUID, and volume 1, 13.3; AMD APM volume 3, appendix E.

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "probe/internal.h"

#define XCR0_AVX 0x06u     // bits 1, 2
#define XCR0_AVX512 0xE6u  // bits 1, 2, 5, 6, 7

static bool bit(uint32_t word, int n) { return word >> n & 1; }

// Each line is one sentence of the table above.
void probe_cpuid_decode(const struct probe_cpuid *raw, struct probe_cpu *out) {
  uint32_t ecx1 = raw->features_1_ecx, ebx7 = raw->features_7_ebx;
  bool asked = bit(ecx1, 27);  // OSXSAVE: `saved` means something
  bool avx = asked && bit(ecx1, 28) && (raw->saved & XCR0_AVX) == XCR0_AVX;
  bool zmm = avx && (raw->saved & XCR0_AVX512) == XCR0_AVX512;
  out->avx2 = avx && bit(ebx7, 5);
  out->fma = avx && bit(ecx1, 12);
  out->f16c = avx && bit(ecx1, 29);
  out->avx512 = zmm && bit(ebx7, 16) && bit(ebx7, 17) && bit(ebx7, 30) && bit(ebx7, 31);
  out->avx512_vnni = out->avx512 && bit(raw->features_7_ecx, 11);
  out->avx512_bf16 = out->avx512 && bit(raw->features_7_1_eax, 5);
}

// Copies a name without blanks at its ends and with single ones inside.
static void copy_name(struct str name, char *out, size_t room) {
  size_t n = 0;
  name = str_trim(name);
  for (size_t i = 0; i < name.length && n + 1 < room; i++)
    if (name.data[i] != ' ' || name.data[i - 1] != ' ') out[n++] = name.data[i];
  out[n] = 0;
}

// ---- x86

#if defined(__x86_64__)
#include <cpuid.h>

static uint64_t read_xcr0(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

// __get_cpuid says false for a leaf the processor does not have; its features then stay off.
static void read_features(struct probe_cpu *out) {
  struct probe_cpuid raw = {0};
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx)) raw.features_1_ecx = ecx;
  if (bit(raw.features_1_ecx, 27)) raw.saved = read_xcr0();
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) {
    uint32_t last = eax;
    raw.features_7_ebx = ebx;
    raw.features_7_ecx = ecx;
    if (last >= 1 && __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx)) raw.features_7_1_eax = eax;
  }
  probe_cpuid_decode(&raw, out);
}

// The three leaves are the name's bytes in order; it ends with a NUL unless it has all 48.
static void read_name(char *out, size_t room) {
  uint32_t words[13] = {0};  // leaves 0x80000002..4 give 48 characters
  for (uint32_t leaf = 0; leaf < 3; leaf++) {
    uint32_t *w = words + leaf * 4;
    if (!__get_cpuid(0x80000002u + leaf, &w[0], &w[1], &w[2], &w[3])) return;
  }
  copy_name(str_of((const char *)words), out, room);
}
#else
static void read_features(struct probe_cpu *out) { (void)out; }
static void read_name(char *out, size_t room) {
  struct buffer text = {0};
  if (probe_text_read("", "/proc/cpuinfo", &text)) {
    probe_cpuinfo_name(buffer_str(&text), out, room);
  }
  buffer_clear(&text);
}
#endif

// ---- Arm says numbers (MIDR), not names

struct core_name {
  uint32_t implementer, part;
  const char *name;
};
static const struct core_name core_names[] = {
    {0x41, 0xd07, "Arm Cortex-A57"},  {0x41, 0xd08, "Arm Cortex-A72"},
    {0x41, 0xd0b, "Arm Cortex-A76"},  {0x41, 0xd0c, "Arm Neoverse N1"},
    {0x41, 0xd40, "Arm Neoverse V1"}, {0x41, 0xd49, "Arm Neoverse N2"},
    {0x41, 0xd4f, "Arm Neoverse V2"}, {0x48, 0xd01, "HiSilicon Kunpeng 920"},
    {0x70, 0x662, "Phytium FTC662"},  {0x70, 0x663, "Phytium FTC663"},
    {0xc0, 0xac3, "Ampere Ampere-1"},
};

// "CPU part	: 0xd01" → 0xd01; 0 when the line is not there.
static uint32_t hexadecimal_field(struct str text, const char *name) {
  struct str line;
  while (probe_text_line(&text, &line)) {
    if (!str_starts(line, str_of(name))) continue;
    uint32_t value = 0;
    const char *x = memchr(line.data, 'x', line.length);
    for (size_t i = x ? (size_t)(x + 1 - line.data) : line.length; i < line.length; i++) {
      const char *digit = strchr("0123456789abcdef", line.data[i]);
      if (!digit || !*digit) break;
      value = value << 4 | (uint32_t)((digit - "0123456789abcdef") & 15);
    }
    return value;
  }
  return 0;
}

// x86 has a line with the name.  Arm mostly has not; then the numbers are looked up, and a core
// that is not in the table leaves `out` as it is.
void probe_cpuinfo_name(struct str text, char *out, size_t room) {
  struct str rest = text, line;
  while (probe_text_line(&rest, &line)) {
    const char *colon = memchr(line.data, ':', line.length);
    if (!colon || !str_starts(line, STR("model name"))) continue;
    size_t at = (size_t)(colon + 1 - line.data);
    copy_name((struct str){colon + 1, line.length - at}, out, room);
    return;
  }
  uint32_t implementer = hexadecimal_field(text, "CPU implementer");
  uint32_t part = hexadecimal_field(text, "CPU part");
  for (size_t i = 0; i < COUNT_OF(core_names); i++)
    if (core_names[i].implementer == implementer && core_names[i].part == part)
      copy_name(str_of(core_names[i].name), out, room);
}

// ---- size of the team and of the cache

// A quota of one and a half processors keeps two threads busy; one thread would waste a half.
int probe_cores_within(int allowed, double quota) {
  int whole = (int)(quota < 1 << 16 ? quota : 1 << 16);
  if (whole < quota) whole++;
  if (whole && whole < allowed) allowed = whole;
  return allowed > 0 ? allowed : 1;
}

// Processors this process may be scheduled on, and no more than the quota of its control group: a
// thread more than that only makes all of them wait.
static int count_cores(void) {
  struct probe_cgroup group;
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  int allowed = online > 0 ? (int)online : 1;
  for (int room = 1024; room <= 1 << 16; room *= 4) {  // the kernel refuses sets that are too small
    cpu_set_t *set = CPU_ALLOC(room);
    size_t size = CPU_ALLOC_SIZE(room);
    bool done = set && sched_getaffinity(0, size, set) == 0;
    if (done) allowed = CPU_COUNT_S(size, set);
    CPU_FREE(set);
    if (done) break;
  }
  probe_cgroup_read("", &group);
  return probe_cores_within(allowed, group.processors);
}

// "3" or "32768K": the same reader for both, since a level never ends in a letter.
static uint64_t read_cache_number(const char *root, int index, const char *file) {
  static const struct {
    char letter;
    uint64_t times;
  } units[] = {{'K', 1u << 10}, {'M', 1u << 20}, {'G', 1u << 30}};
  char path[96];
  struct buffer text = {0};
  int64_t value = 0;
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/%s", index, file);
  struct str s = probe_text_read(root, path, &text) ? str_trim(buffer_str(&text)) : STR("");
  uint64_t times = 1;
  for (size_t i = 0; s.length && i < COUNT_OF(units); i++)
    if (s.data[s.length - 1] == units[i].letter) times = units[i].times, s.length--;
  bool right = str_to_int(s, &value) && value > 0 && value < (1 << 30);
  buffer_clear(&text);
  return right ? (uint64_t)value * times : 0;
}

// Index numbers follow no rule across processors: the highest level is looked for.
uint64_t probe_cache_bytes(const char *root) {
  uint64_t highest = 0, bytes = 0;
  for (int index = 0; index < 8; index++) {
    uint64_t level = read_cache_number(root, index, "level");
    if (level <= highest) continue;
    highest = level;
    bytes = read_cache_number(root, index, "size");
  }
  return bytes;
}

// What a part does not tell is left at what this begins with.
void probe_cpu_read(struct probe_cpu *out) {
  struct utsname system;
  *out = (struct probe_cpu){.name = "unknown processor"};
  if (uname(&system) == 0)
    copy_name(str_of(system.machine), out->architecture, sizeof out->architecture);
  char name[sizeof out->name] = "";
  read_name(name, sizeof name);
  if (name[0]) memcpy(out->name, name, sizeof name);
  read_features(out);
  out->cores = count_cores();
  out->cache_bytes = probe_cache_bytes("");
  long last = sysconf(_SC_LEVEL3_CACHE_SIZE);  // glibc asks CPUID; for where /sys is not mounted
  if (!out->cache_bytes && last > 0) out->cache_bytes = (uint64_t)last;
}
