// SPDX-License-Identifier: Apache-2.0
//
// memory.c: memory and load, from /proc and the control groups.
//
// Memory is the smaller of what the machine and what the process's control groups have; load is the
// difference of two readings of counters that only grow (nearly: see `grown`).  What cannot be read
// is 0.

#include <string.h>

#include "probe/internal.h"

void probe_memory_read(struct probe_memory *out) { probe_memory_read_at("", out); }

// The group may be as large as it likes: memory that the machine has not got is not available.
void probe_memory_read_at(const char *root, struct probe_memory *out) {
  struct buffer machine = {0}, process = {0};
  struct probe_cgroup group;
  uint64_t total = 0, available = 0, resident = 0;
  if (probe_text_read(root, "/proc/meminfo", &machine)) {
    probe_text_field(buffer_str(&machine), "MemTotal", &total);
    if (!probe_text_field(buffer_str(&machine), "MemAvailable", &available))  // before Linux 3.14
      probe_text_field(buffer_str(&machine), "MemFree", &available);
  }
  if (probe_text_read(root, "/proc/self/status", &process))
    probe_text_field(buffer_str(&process), "VmRSS", &resident);
  probe_cgroup_read(root, &group);
  total *= 1024, available *= 1024, resident *= 1024;  // the kernel's kB are KiB
  *out = (struct probe_memory){
      total < group.memory_limit ? total : group.memory_limit,
      available < group.memory_available ? available : group.memory_available, resident};
  buffer_clear(&machine);
  buffer_clear(&process);
}

// ---- load

#define STAT_COLUMNS 8  // user nice system idle iowait irq softirq steal; guest is inside of user
#define STAT_IDLE 3
#define STAT_IOWAIT 4

struct ticks {
  uint64_t busy, total;  // of all processors together, since boot
  int processors;
};

static uint64_t next_number(struct str *line) {
  struct str word;
  int64_t value;
  return probe_text_word(line, &word) && str_to_int(word, &value) && value > 0 ? (uint64_t)value
                                                                               : 0;
}

// /proc/stat: a line "cpu" with the sums, then one "cpuN" for each processor.
static struct ticks read_machine(const char *root) {
  struct ticks t = {0};
  struct buffer text = {0};
  struct str line, word, rest = {0};
  if (probe_text_read(root, "/proc/stat", &text)) rest = buffer_str(&text);
  while (probe_text_line(&rest, &line)) {
    if (!probe_text_word(&line, &word) || !str_starts(word, STR("cpu"))) break;
    if (word.length > 3) {
      t.processors++;
      continue;
    }
    for (int column = 0; column < STAT_COLUMNS; column++) {
      uint64_t ticks = next_number(&line);
      t.total += ticks;
      if (column != STAT_IDLE && column != STAT_IOWAIT) t.busy += ticks;
    }
  }
  buffer_clear(&text);
  return t;
}

// /proc/self/stat: "PID (NAME) STATE …", utime and stime being the 12th and 13th after the name,
// which may itself hold blanks and parentheses.
static uint64_t read_process(const char *root) {
  struct buffer text = {0};
  uint64_t ticks = 0;
  const char *name_end =
      probe_text_read(root, "/proc/self/stat", &text) ? memrchr(text.data, ')', text.length) : NULL;
  if (name_end) {
    size_t at = (size_t)(name_end + 1 - text.data);
    struct str line = {name_end + 1, text.length - at}, word;
    for (int i = 0; i < 11; i++) probe_text_word(&line, &word);
    ticks = next_number(&line);
    ticks += next_number(&line);
  }
  buffer_clear(&text);
  return ticks;
}

// now - before, and 0 where a counter went back (iowait does; a container may move).
static double grown(uint64_t now, uint64_t before) {
  return now > before ? (double)(now - before) : 0;
}

void probe_load_read(struct probe_load *state, double *machine_percent, double *process_percent) {
  probe_load_read_at("", state, machine_percent, process_percent);
}

// Both shares are taken of the same interval, counted in the ticks of all processors together.
void probe_load_read_at(const char *root, struct probe_load *state, double *machine_percent,
                        double *process_percent) {
  struct ticks now = read_machine(root);
  uint64_t process = read_process(root);
  double total = grown(now.total, state->total), busy = grown(now.busy, state->busy);
  double own = grown(process, state->process_ticks) * (now.processors ? now.processors : 1);
  *machine_percent = total > 0 ? 100 * (busy < total ? busy / total : 1) : 0;
  *process_percent = total > 0 ? 100 * own / total : 0;
  *state = (struct probe_load){now.busy, now.total, process};
}
