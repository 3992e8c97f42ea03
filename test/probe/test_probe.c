// SPDX-License-Identifier: Apache-2.0
//
// test_probe.c: processor, memory, load, control groups and disk.
//
// Control groups are tested on made-up machines: a scene lists the files of its /proc and /sys and
// what must be found; it is written into a folder of its own, which becomes the probe's root.
// The processor's features are tested twice: made-up registers (what is announced but not saved by
// the system must not be used), and this machine against the kernel's own list in /proc/cpuinfo.

#include "support/check.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "probe/internal.h"

// ---- scenes

#define FILES_MAX 12
struct scene_file {
  const char *path, *text;
};

static void scene_write(char root[64], const struct scene_file *files) {
  struct error e = {0};
  strcpy(root, "/tmp/motley-probe-XXXXXX");
  assert_non_null(mkdtemp(root));
  for (; files->path; files++) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", root, files->path);
    char *slash = strrchr(whole, '/');
    *slash = 0;
    assert_true(file_make_folders(world_real(), whole, &e));
    *slash = '/';
    assert_true(file_write_atomic(world_real(), whole, str_of(files->text), &e));
  }
}

static void scene_remove(const char *root) {
  char command[128];
  snprintf(command, sizeof command, "rm -rf '%s'", root);
  assert_int_equal(system(command), 0);
}

#define NONE PROBE_UNLIMITED
#define MOUNT_1(part, controller)                  \
  "36 31 0:33 " part " /sys/fs/cgroup/" controller \
  " rw,relatime shared:9 master:1 - cgroup "       \
  "cgroup rw," controller "\n"
#define MOUNT_2(part, point) "30 23 0:26 " part " " point " rw - cgroup2 cgroup2 rw,nsdelegate\n"

struct cgroup_scene {
  const char *what;
  uint64_t limit, available;
  double processors;
  struct scene_file files[FILES_MAX];
};

static const struct cgroup_scene scenes[] = {
    {"no control groups at all", NONE, NONE, 0, {{"/proc/self/status", ""}}},
    {"version 2, own group limits",
     1000,
     700,  // 400 used, of which 100 are clean file pages
     1.5,
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/sys/fs/cgroup")},
      {"/sys/fs/cgroup/a/b/memory.max", "1000\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "400\n"},
      {"/sys/fs/cgroup/a/b/memory.stat", "anon 300\ninactive_file 100\nactive_file 0\n"},
      {"/sys/fs/cgroup/a/b/cpu.max", "150000 100000\n"}}},
    {"version 2, a parent is tighter in one thing, the child in the other",
     500,
     50,
     0.5,
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/sys/fs/cgroup")},
      {"/sys/fs/cgroup/a/b/memory.max", "max\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "10\n"},
      {"/sys/fs/cgroup/a/b/cpu.max", "50000 100000\n"},
      {"/sys/fs/cgroup/a/memory.max", "500\n"},
      {"/sys/fs/cgroup/a/memory.current", "450\n"},
      {"/sys/fs/cgroup/a/cpu.max", "max 100000\n"}}},
    {"version 2, the parent has the lower limit, the child has less left",
     800,
     50,
     0.25,
     {{"/proc/self/cgroup", "0::/a/b\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/sys/fs/cgroup")},
      {"/sys/fs/cgroup/a/b/memory.max", "1000\n"},
      {"/sys/fs/cgroup/a/b/memory.current", "950\n"},
      {"/sys/fs/cgroup/a/b/cpu.max", "25000 100000\n"},
      {"/sys/fs/cgroup/a/memory.max", "800\n"},
      {"/sys/fs/cgroup/a/memory.current", "100\n"},
      {"/sys/fs/cgroup/a/cpu.max", "50000 100000\n"}}},
    {"version 2 seen from inside a container: its group is the root",
     2000,
     1999,
     2,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/sys/fs/cgroup")},
      {"/sys/fs/cgroup/memory.max", "2000\n"},
      {"/sys/fs/cgroup/memory.current", "1\n"},
      {"/sys/fs/cgroup/cpu.max", "200000 100000\n"}}},
    {"version 2, moved outside of its name space",
     2000,
     2000,
     0,
     {{"/proc/self/cgroup", "0::/../other\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/sys/fs/cgroup")},
      {"/sys/fs/cgroup/memory.max", "2000\n"}}},
    {"version 1, container without a name space: part of the tree is mounted",
     3000,
     2100,  // 1000 used, 100 reclaimable in the sub-tree
     4,
     {{"/proc/self/cgroup", "5:memory:/docker/42\n3:cpu,cpuacct:/docker/42\n"},
      {"/proc/self/mountinfo", MOUNT_1("/docker/42", "memory") MOUNT_1("/docker/42", "cpu")},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "3000\n"},
      {"/sys/fs/cgroup/memory/memory.usage_in_bytes", "1000\n"},
      {"/sys/fs/cgroup/memory/memory.stat", "inactive_file 7\ntotal_inactive_file 100\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    {"version 1, no limit is a huge number and a quota of -1",
     9223372036854771712u,
     9223372036854771712u,
     0,
     {{"/proc/self/cgroup", "5:memory:/\n3:cpu:/\n"},
      {"/proc/self/mountinfo", MOUNT_1("/", "memory") MOUNT_1("/", "cpu")},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"},
      {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"}}},
    {"hybrid: version 1 controllers, an empty version 2 tree beside them",
     800,
     600,
     0,
     {{"/proc/self/cgroup", "4:memory:/x y\n0::/x y\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/sys/fs/cgroup/unified") MOUNT_1("/", "memory")},
      {"/sys/fs/cgroup/unified/x y/cgroup.procs", "1\n"},
      {"/sys/fs/cgroup/memory/x y/memory.limit_in_bytes", "800\n"},
      {"/sys/fs/cgroup/memory/x y/memory.usage_in_bytes", "200\n"}}},
    {"a mount point with a blank in its name",
     77,
     77,
     0,
     {{"/proc/self/cgroup", "0::/g\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/my\\040groups")},
      {"/my groups/g/memory.max", "77\n"}}},
    {"more used than allowed",
     100,
     0,
     0,
     {{"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/c")},
      {"/c/memory.max", "100\n"},
      {"/c/memory.current", "120\n"}}},
    {"another group whose name begins like the mounted part",
     5,
     5,
     0,
     {{"/proc/self/cgroup", "0::/ab/c\n"},
      {"/proc/self/mountinfo", MOUNT_2("/a", "/c")},
      {"/c/memory.max", "5\n"},
      {"/c/b/c/memory.max", "1\n"}}},
    {"rubbish",
     NONE,
     NONE,
     0,
     {{"/proc/self/cgroup", "nonsense\n::::\n\n0:\n5:memory\n0::\n"},
      {"/proc/self/mountinfo", "1 2\n\n- - -\na b c d e f\n1 2 3 / /c rw -\n" MOUNT_2("/", "/c")},
      {"/c/memory.max", "lots\n"},
      {"/c/cpu.max", "many\n"}}},
};

static void cgroups_of_every_kind(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT_OF(scenes); i++) {
    const struct cgroup_scene *s = &scenes[i];
    char root[64];
    struct probe_cgroup found;
    scene_write(root, s->files);
    probe_cgroup_read(root, &found);
    scene_remove(root);
    if (found.memory_limit != s->limit || found.memory_available != s->available ||
        found.processors != s->processors)
      fail_msg("%s: limit %llu, available %llu, processors %g", s->what,
               (unsigned long long)found.memory_limit, (unsigned long long)found.memory_available,
               found.processors);
  }
}

static void memory_is_the_smaller_of_machine_and_group(void **state) {
  (void)state;
  const struct scene_file roomy[] = {
      {"/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    600 kB\n"},
      {"/proc/self/status", "Name:\tx\nVmRSS:\t      24 kB\n"},
      {"/proc/self/cgroup", "0::/\n"},
      {"/proc/self/mountinfo", MOUNT_2("/", "/c")},
      {"/c/memory.max", "2048000\n"},
      {"/c/memory.current", "2047000\n"},
      {0}};
  char root[64];
  struct probe_memory m;
  scene_write(root, roomy);
  probe_memory_read_at(root, &m);
  scene_remove(root);
  assert_int_equal(m.total, 1000 * 1024);  // the group would allow more,
  assert_int_equal(m.available, 1000);     // but has used nearly all of it
  assert_int_equal(m.resident, 24 * 1024);
}

static void memory_of_this_machine(void **state) {
  (void)state;
  struct probe_memory m;
  probe_memory_read(&m);
  assert_true(m.resident > 100 * 1024 && m.resident < m.total);
  assert_true(m.available > 0 && m.available <= m.total);
  assert_true(m.total <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
}

// ---- load

static void load_is_a_difference(void **state) {
  (void)state;
  const struct scene_file first[] = {
      {"/proc/stat", "cpu  100 0 100 600 200 0 0 0 50 0\ncpu0 1\ncpu1 1\nintr 5\n"},
      {"/proc/self/stat", "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 30 20 0 0"},
      {0}};
  const struct scene_file second[] = {
      {"/proc/stat", "cpu  140 0 110 640 190 5 0 5 70 0\ncpu0 1\ncpu1 1\n"},
      {"/proc/self/stat", "7 (a) b) (c) S 1 2 3 4 5 6 7 8 9 10 50 25 0 0"},
      {0}};
  struct probe_load l = {0};
  char root[64];
  double machine = -1, process = -1;
  scene_write(root, first);
  probe_load_read_at(root, &l, &machine, &process);
  assert_true(machine == 20 && process == 10);  // 200 of 1000; 50 of 500 per processor
  probe_load_read_at(root, &l, &machine, &process);
  assert_true(machine == 0 && process == 0);  // nothing happened
  scene_remove(root);
  scene_write(root, second);
  probe_load_read_at(root, &l, &machine, &process);
  scene_remove(root);
  assert_int_equal(l.total, 1090);
  assert_true(machine == 100 * (60.0 / 90) && process == 100 * 50.0 / 90);
  probe_load_read_at("/nowhere", &l, &machine, &process);
  assert_true(machine == 0 && process == 0);
}

static void load_of_this_machine(void **state) {
  (void)state;
  struct probe_load l = {0};
  double machine, process;
  probe_load_read(&l, &machine, &process);
  assert_true(machine >= 0 && machine <= 100 && process >= 0);
  assert_true(l.total > l.busy && l.busy > 0);
}

// ---- processor

#define ALL_1 (1u << 12 | 1u << 27 | 1u << 28 | 1u << 29)
#define ALL_7 (1u << 5 | 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31)

static void features_need_their_registers_saved(void **state) {
  (void)state;
  const struct {
    const char *what;
    struct probe_cpuid raw;
    bool avx2, fma, f16c, avx512, vnni, bf16;
  } rows[] = {
      {"all there", {ALL_1, ALL_7, 1u << 11, 1u << 5, 0xE7}, 1, 1, 1, 1, 1, 1},
      {"the system saves only YMM", {ALL_1, ALL_7, 1u << 11, 1u << 5, 0x07}, 1, 1, 1, 0, 0, 0},
      {"masks are not saved", {ALL_1, ALL_7, 1u << 11, 1u << 5, 0xC7}, 1, 1, 1, 0, 0, 0},
      {"ZMM16-31 are not saved", {ALL_1, ALL_7, 1u << 11, 1u << 5, 0x67}, 1, 1, 1, 0, 0, 0},
      {"only SSE is saved", {ALL_1, ALL_7, 1u << 11, 1u << 5, 0x03}, 0, 0, 0, 0, 0, 0},
      {"ZMM without YMM", {ALL_1, ALL_7, 1u << 11, 1u << 5, 0xE3}, 0, 0, 0, 0, 0, 0},
      {"no OSXSAVE", {ALL_1 & ~(1u << 27), ALL_7, 1u << 11, 1u << 5, 0xE7}, 0, 0, 0, 0, 0, 0},
      {"no AVX", {ALL_1 & ~(1u << 28), ALL_7, 1u << 11, 1u << 5, 0xE7}, 0, 0, 0, 0, 0, 0},
      {"no FMA", {ALL_1 & ~(1u << 12), ALL_7, 1u << 11, 1u << 5, 0xE7}, 1, 0, 1, 1, 1, 1},
      {"no F16C", {ALL_1 & ~(1u << 29), ALL_7, 1u << 11, 1u << 5, 0xE7}, 1, 1, 0, 1, 1, 1},
      {"no AVX2", {ALL_1, ALL_7 & ~(1u << 5), 1u << 11, 1u << 5, 0xE7}, 0, 1, 1, 1, 1, 1},
      {"F but not BW", {ALL_1, ALL_7 & ~(1u << 30), 1u << 11, 1u << 5, 0xE7}, 1, 1, 1, 0, 0, 0},
      {"F but not DQ", {ALL_1, ALL_7 & ~(1u << 17), 1u << 11, 1u << 5, 0xE7}, 1, 1, 1, 0, 0, 0},
      {"F but not VL", {ALL_1, ALL_7 & ~(1u << 31), 1u << 11, 1u << 5, 0xE7}, 1, 1, 1, 0, 0, 0},
      {"no VNNI", {ALL_1, ALL_7, 0, 1u << 5, 0xE7}, 1, 1, 1, 1, 0, 1},
      {"no BF16", {ALL_1, ALL_7, 1u << 11, 0, 0xE7}, 1, 1, 1, 1, 1, 0},
      {"nothing", {0}, 0, 0, 0, 0, 0, 0},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    struct probe_cpu c = {0};
    probe_cpuid_decode(&rows[i].raw, &c);
    if (c.avx2 != rows[i].avx2 || c.fma != rows[i].fma || c.f16c != rows[i].f16c ||
        c.avx512 != rows[i].avx512 || c.avx512_vnni != rows[i].vnni ||
        c.avx512_bf16 != rows[i].bf16)
      fail_msg("%s: decoded wrongly", rows[i].what);
  }
}

// The kernel lists only what it lets programs use, by the same rule.
static bool kernel_lists(struct str cpuinfo, const char *flag) {
  struct str line, word;
  while (probe_text_line(&cpuinfo, &line)) {
    if (!str_starts(line, STR("flags"))) continue;
    while (probe_text_word(&line, &word))
      if (str_equal(word, str_of(flag))) return true;
    return false;
  }
  return false;
}

static void processor_of_this_machine(void **state) {
  (void)state;
  struct probe_cpu c;
  struct buffer text = {0};
  cpu_set_t set;
  probe_cpu_read(&c);
  assert_true(c.name[0] && c.architecture[0]);
  assert_int_equal(sched_getaffinity(0, sizeof set, &set), 0);
  assert_true(c.cores >= 1 && c.cores <= CPU_COUNT(&set));
  assert_true(probe_text_read("", "/proc/cpuinfo", &text));
#if defined(__x86_64__)
  struct str s = buffer_str(&text);
  char name[sizeof c.name] = "";
  probe_cpuinfo_name(s, name, sizeof name);
  assert_string_equal(c.name, name);
  assert_string_equal(c.architecture, "x86_64");
  assert_int_equal(c.avx2, kernel_lists(s, "avx2"));
  assert_int_equal(c.fma, kernel_lists(s, "fma"));
  assert_int_equal(c.f16c, kernel_lists(s, "f16c"));
  assert_int_equal(c.avx512, kernel_lists(s, "avx512f") && kernel_lists(s, "avx512bw") &&
                                 kernel_lists(s, "avx512dq") && kernel_lists(s, "avx512vl"));
  assert_int_equal(c.avx512_vnni, kernel_lists(s, "avx512_vnni"));
  assert_int_equal(c.avx512_bf16, kernel_lists(s, "avx512_bf16"));
#endif
  buffer_clear(&text);
}

static void cores_follow_the_affinity(void **state) {
  (void)state;
  cpu_set_t before, one;
  struct probe_cpu c;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET(i, &before) && !CPU_COUNT(&one)) CPU_SET(i, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  probe_cpu_read(&c);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  assert_int_equal(c.cores, 1);
}

static void a_part_of_a_processor_counts_as_one(void **state) {
  (void)state;
  static const struct {
    int allowed;
    double quota;
    int cores;
  } rows[] = {{4, 0, 4},   {4, 1.5, 2}, {4, 2, 2},     {4, 2.01, 3}, {4, 0.25, 1},  {4, 4, 4},
              {4, 9.5, 4}, {1, 0.5, 1}, {2, 1e300, 2}, {0, 0, 1},    {3, 3.0001, 3}};
  for (size_t i = 0; i < COUNT_OF(rows); i++)
    assert_int_equal(probe_cores_within(rows[i].allowed, rows[i].quota), rows[i].cores);
}

static void names_from_cpuinfo(void **state) {
  (void)state;
  const struct {
    const char *text, *name;
  } rows[] = {
      {"processor\t: 0\nmodel name\t:  Intel(R)  Xeon(R)   8480+ \n", "Intel(R) Xeon(R) 8480+"},
      {"CPU implementer\t: 0x48\nCPU part\t: 0xd01\n", "HiSilicon Kunpeng 920"},
      {"CPU implementer\t: 0x41\nCPU part\t: 0xd0c\n", "Arm Neoverse N1"},
      {"CPU implementer\t: 0x99\nCPU part\t: 0x001\n", "before"},
      {"CPU part\t: 0x\nmodel name", "before"},
      {"", "before"},
  };
  for (size_t i = 0; i < COUNT_OF(rows); i++) {
    char name[32] = "before";
    probe_cpuinfo_name(str_of(rows[i].text), name, sizeof name);
    assert_string_equal(name, rows[i].name);
  }
}

static void cache_is_that_of_the_last_level(void **state) {
  (void)state;
  const struct scene_file files[] = {{"/sys/devices/system/cpu/cpu0/cache/index0/level", "1\n"},
                                     {"/sys/devices/system/cpu/cpu0/cache/index0/size", "48K\n"},
                                     {"/sys/devices/system/cpu/cpu0/cache/index1/level", "1\n"},
                                     {"/sys/devices/system/cpu/cpu0/cache/index1/size", "32K\n"},
                                     {"/sys/devices/system/cpu/cpu0/cache/index2/level", "3\n"},
                                     {"/sys/devices/system/cpu/cpu0/cache/index2/size", "33792K\n"},
                                     {"/sys/devices/system/cpu/cpu0/cache/index3/level", "2\n"},
                                     {"/sys/devices/system/cpu/cpu0/cache/index3/size", "1M\n"},
                                     {0}};
  char root[64];
  scene_write(root, files);
  assert_int_equal(probe_cache_bytes(root), 33792 * 1024);
  scene_remove(root);
  assert_int_equal(probe_cache_bytes("/nowhere"), 0);
}

// ---- accelerators

static void cards_are_told_from_other_devices(void **state) {
  (void)state;
#define PCI(slot, file) "/sys/bus/pci/devices/0000:" slot ".0/" file
  static const struct {
    const char *found[PROBE_CARD_MAKERS];
    struct scene_file files[FILES_MAX];
  } machines[] = {
      {{"", "", "", "", ""}, {{"/dev/null", ""}}},
      {{"/dev/nvidia0", "", "", "", ""}, {{"/dev/nvidia0", ""}, {"/dev/nvidiactl", ""}}},
      {{"", "", "", "", ""}, {{"/dev/nvidiactl", ""}}},  // the driver without a card
      {{"PCI device 0000:01:00.0", "", "", "", ""},      // a card without its driver
       {{PCI("01:00", "vendor"), "0x10de\n"}, {PCI("01:00", "class"), "0x030200\n"}}},
      {{"", "", "", "", ""},  // its sound device
       {{PCI("01:00", "vendor"), "0x10de\n"}, {PCI("01:00", "class"), "0x040300\n"}}},
      {{"", "/dev/kfd", "/dev/davinci4", "", ""}, {{"/dev/kfd", ""}, {"/dev/davinci4", ""}}},
      {{"", "", "", "/dev/mkfd", ""}, {{"/dev/kfd", ""}, {"/dev/mkfd", ""}}},
      {{"", "", "", "PCI device 0000:02:00.0", ""},
       {{"/dev/kfd", ""},
        {PCI("02:00", "vendor"), "0x1d94\n"},
        {PCI("02:00", "class"), "0x0b4000\n"}}},
      {{"", "", "", "", "/dev/alixpu"}, {{"/dev/alixpu", ""}, {"/dev/alixpu_ctl", ""}}},
      {{"", "", "", "", ""}, {{"/dev/davinci_manager", ""}}},
      {{"", "", "PCI device 0000:03:00.0", "", ""},  // behind a network device of the same maker
       {{PCI("02:00", "vendor"), "0x19e5\n"},
        {PCI("02:00", "class"), "0x020000\n"},
        {PCI("03:00", "vendor"), "0x19e5\n"},
        {PCI("03:00", "class"), "0x120000\n"}}},
  };
#undef PCI
  for (size_t i = 0; i < COUNT_OF(machines); i++) {
    char root[64];
    struct probe_card cards[PROBE_CARD_MAKERS];
    scene_write(root, machines[i].files);
    probe_cards_read_at(root, cards);
    for (int m = 0; m < PROBE_CARD_MAKERS; m++)
      if (strcmp(cards[m].found, machines[i].found[m]) != 0)
        fail_msg("machine %zu, %s: \"%s\"", i, cards[m].maker, cards[m].found);
    scene_remove(root);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(cards_are_told_from_other_devices),
      cmocka_unit_test(cgroups_of_every_kind),
      cmocka_unit_test(memory_is_the_smaller_of_machine_and_group),
      cmocka_unit_test(memory_of_this_machine),
      cmocka_unit_test(load_is_a_difference),
      cmocka_unit_test(load_of_this_machine),
      cmocka_unit_test(features_need_their_registers_saved),
      cmocka_unit_test(processor_of_this_machine),
      cmocka_unit_test(cores_follow_the_affinity),
      cmocka_unit_test(a_part_of_a_processor_counts_as_one),
      cmocka_unit_test(names_from_cpuinfo),
      cmocka_unit_test(cache_is_that_of_the_last_level),
  };
  return cmocka_run_group_tests_name("probe", tests, NULL, NULL);
}
