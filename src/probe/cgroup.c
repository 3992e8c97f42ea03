// SPDX-License-Identifier: Apache-2.0
//
// cgroup.c: what the control groups around this process allow.
//
// Two generations exist, and mixtures of both.  /proc/self/cgroup says where the process is:
//
//   4:memory:/docker/42        version 1: a tree for each controller, or for a few of them
//   3:cpu,cpuacct:/docker/42
//   0::/system.slice/x         version 2: one tree for all controllers
//
// and /proc/self/mountinfo where each tree can be seen:
//
//   36 31 0:33 /docker/42 /sys/fs/cgroup/memory rw shared:1 - cgroup cgroup rw,memory
//              `- this part of the tree  `- appears here        `- 1st version; controllers
//
// So the process's folder is the mount point plus its path without the mounted part.  A container
// often sees its own group as the root of the tree; then the path is "/" or lies outside of what is
// mounted, and the mount point itself is the best there is.
//
// A limit binds everything below it, so every folder from the process's own up to the mount point
// is read and the tightest wins.  Memory that is used but only holds clean file pages can be had
// back at once and counts as available.

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "probe/internal.h"

// The names of what is read, by version.
struct controller_files {
  const char *memory_limit, *memory_used, *memory_reclaimable;  // the last is a line of memory.stat
};
static const struct controller_files version_1 = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                                  "total_inactive_file"};
static const struct controller_files version_2 = {"memory.max", "memory.current", "inactive_file"};

// "max" and an absent file mean no limit.  Version 1 writes "none" as a huge number, which is
// harmless: the machine's own memory is less.
static uint64_t read_bytes(const char *root, const char *folder, const char *file,
                           uint64_t otherwise) {
  char path[PATH_MAX];
  struct buffer text = {0};
  int64_t value = -1;
  snprintf(path, sizeof path, "%s/%s", folder, file);
  bool number = probe_text_read(root, path, &text) &&
                str_to_int(str_trim(buffer_str(&text)), &value) && value >= 0;
  buffer_clear(&text);
  return number ? (uint64_t)value : otherwise;
}

// Only clean file pages that were not used lately: the kernel drops those first and without a
// write.
static uint64_t read_reclaimable(const char *root, const char *folder, const char *name) {
  char path[PATH_MAX];
  struct buffer text = {0};
  uint64_t bytes = 0;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  if (probe_text_read(root, path, &text)) probe_text_field(buffer_str(&text), name, &bytes);
  buffer_clear(&text);
  return bytes;
}

// Limit and available are kept apart: the tightest limit need not be the fullest one.
static void take_memory(const char *root, const char *folder, const struct controller_files *files,
                        struct probe_cgroup *out) {
  uint64_t limit = read_bytes(root, folder, files->memory_limit, PROBE_UNLIMITED);
  if (limit == PROBE_UNLIMITED) return;
  uint64_t used = read_bytes(root, folder, files->memory_used, 0);
  uint64_t reclaimable = read_reclaimable(root, folder, files->memory_reclaimable);
  used -= reclaimable < used ? reclaimable : used;
  uint64_t available = used < limit ? limit - used : 0;
  if (limit < out->memory_limit) out->memory_limit = limit;
  if (available < out->memory_available) out->memory_available = available;
}

static void take_quota(uint64_t quota, uint64_t period, struct probe_cgroup *out) {
  if (quota == PROBE_UNLIMITED || !quota || !period) return;
  double processors = (double)quota / (double)period;
  if (!out->processors || processors < out->processors) out->processors = processors;
}

static void take_quota_1(const char *root, const char *folder, struct probe_cgroup *out) {
  uint64_t quota = read_bytes(root, folder, "cpu.cfs_quota_us", PROBE_UNLIMITED);  // -1 = none
  take_quota(quota, read_bytes(root, folder, "cpu.cfs_period_us", 0), out);
}

// cpu.max is one line, "QUOTA PERIOD" or "max PERIOD".
static void take_quota_2(const char *root, const char *folder, struct probe_cgroup *out) {
  char path[PATH_MAX];
  struct buffer text = {0};
  snprintf(path, sizeof path, "%s/cpu.max", folder);
  if (probe_text_read(root, path, &text)) {
    struct str line = str_trim(buffer_str(&text)), quota, period;
    int64_t q, p;
    if (probe_text_word(&line, &quota) && probe_text_word(&line, &period) &&
        str_to_int(quota, &q) && str_to_int(period, &p) && q > 0 && p > 0)
      take_quota((uint64_t)q, (uint64_t)p, out);
  }
  buffer_clear(&text);
}

// ---- finding the folders

struct mount {
  struct str part, point;  // as mountinfo writes them
  struct str type, options;
};

// The fields that matter: 4th, 5th, and after the lone "-" the type and the last one.
static bool parse_mount(struct str line, struct mount *m) {
  struct str word;
  *m = (struct mount){0};
  for (int i = 0; i < 5; i++) {
    if (!probe_text_word(&line, &word)) return false;
    if (i == 3) m->part = word;
    if (i == 4) m->point = word;
  }
  while (probe_text_word(&line, &word) && !str_equal(word, STR("-"))) continue;
  return probe_text_word(&line, &m->type) && probe_text_word(&line, &word) &&
         probe_text_word(&line, &m->options);
}

static bool list_holds(struct str list, struct str name) {  // comma-separated
  while (list.length) {
    const char *comma = memchr(list.data, ',', list.length);
    size_t length = comma ? (size_t)(comma - list.data) : list.length;
    if (str_equal((struct str){list.data, length}, name)) return true;
    size_t taken = length + (comma != NULL);
    list = (struct str){list.data + taken, list.length - taken};
  }
  return false;
}

// Undoes mountinfo's \040 for a blank and its like.
static size_t unescape(struct str s, char *out, size_t room) {
  size_t n = 0;
  for (size_t i = 0; i < s.length && n + 1 < room; i++) {
    const char *c = s.data + i;
    bool octal = c[0] == '\\' && i + 3 < s.length && c[1] >= '0' && c[1] <= '3' && c[2] >= '0' &&
                 c[2] <= '7' && c[3] >= '0' && c[3] <= '7';
    out[n++] = octal ? (char)((c[1] - '0') << 6 | (c[2] - '0') << 3 | (c[3] - '0')) : c[0];
    if (octal) i += 3;
  }
  out[n] = 0;
  return n;
}

// The folder of the group `path` under mount m; *stop = length of the mount point in it.
static void locate(const struct mount *m, struct str path, char *folder, size_t room,
                   size_t *stop) {
  *stop = unescape(m->point, folder, room);
  bool whole_tree = str_equal(m->part, STR("/"));
  struct str below = path;
  if (!whole_tree) {
    if (!str_starts(path, m->part)) return;
    below = (struct str){path.data + m->part.length, path.length - m->part.length};
  }
  if (below.length == 0 || below.data[0] != '/' || str_starts(below, STR("/.."))) return;
  if (str_equal(below, STR("/")) || *stop + below.length >= room) return;
  memcpy(folder + *stop, below.data, below.length);
  folder[*stop + below.length] = 0;
}

typedef void take_function(const char *root, const char *folder, struct probe_cgroup *out);
static void take_memory_1(const char *root, const char *folder, struct probe_cgroup *out) {
  take_memory(root, folder, &version_1, out);
}
static void take_all_2(const char *root, const char *folder, struct probe_cgroup *out) {
  take_memory(root, folder, &version_2, out);
  take_quota_2(root, folder, out);
}

// Reads the group's folder and every one above it.
static void climb(const char *root, const struct mount *m, struct str path, take_function *take,
                  struct probe_cgroup *out) {
  char folder[PATH_MAX];
  size_t stop;
  locate(m, path, folder, sizeof folder, &stop);
  for (;;) {
    take(root, folder, out);
    char *slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < stop) return;
    *slash = 0;
  }
}

struct kind {
  const char *type, *controller;  // controller "" = version 2, the whole tree
  take_function *take;
};
static const struct kind kinds[] = {
    {"cgroup", "memory", take_memory_1},
    {"cgroup", "cpu", take_quota_1},
    {"cgroup2", "", take_all_2},
};

static bool names_controller(struct str list, const char *controller) {
  return controller[0] ? list_holds(list, str_of(controller)) : list.length == 0;
}

// One line of /proc/self/cgroup, "ID:CONTROLLERS:PATH"; a path may hold colons.
static bool parse_membership(struct str line, struct str *controllers, struct str *path) {
  const char *first = memchr(line.data, ':', line.length);
  if (!first) return false;
  size_t rest = line.length - (size_t)(first + 1 - line.data);
  const char *second = memchr(first + 1, ':', rest);
  if (!second) return false;
  *controllers = (struct str){first + 1, (size_t)(second - first - 1)};
  *path = (struct str){second + 1, rest - controllers->length - 1};
  return true;
}

// Follows one hierarchy through the first mount that shows it.
static void follow(const char *root, struct str mounts, const struct kind *kind, struct str path,
                   struct probe_cgroup *out) {
  struct str line;
  struct mount m;
  while (probe_text_line(&mounts, &line)) {
    if (!parse_mount(line, &m) || !str_equal(m.type, str_of(kind->type))) continue;
    if (kind->controller[0] && !list_holds(m.options, str_of(kind->controller))) continue;
    climb(root, &m, path, kind->take, out);
    return;
  }
}

// A process is in one group of every hierarchy; each is followed and all limits hold together.
void probe_cgroup_read(const char *root, struct probe_cgroup *out) {
  struct buffer memberships = {0}, mounts = {0};
  *out = (struct probe_cgroup){PROBE_UNLIMITED, PROBE_UNLIMITED, 0};
  if (probe_text_read(root, "/proc/self/cgroup", &memberships) &&
      probe_text_read(root, "/proc/self/mountinfo", &mounts)) {
    struct str text = buffer_str(&memberships), line, controllers, path;
    while (probe_text_line(&text, &line)) {
      if (!parse_membership(line, &controllers, &path)) continue;
      for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (names_controller(controllers, kinds[i].controller))
          follow(root, buffer_str(&mounts), &kinds[i], path, out);
    }
  }
  buffer_clear(&memberships);
  buffer_clear(&mounts);
}
