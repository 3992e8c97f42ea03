// SPDX-License-Identifier: Apache-2.0
//
// cards.c: which makers' accelerators are in this machine, found without any of their libraries.
//
// Two places tell: a driver makes device files in /dev, and the PCI bus lists what is plugged in
// whether or not there is a driver.  A container may see only one of the two.
//
//   /dev/davinci4                                the driver's node
//   /sys/bus/pci/devices/0000:c1:00.0/vendor     0x19e5
//   /sys/bus/pci/devices/0000:c1:00.0/class      0x120000: class, subclass, interface
//
// The class is asked too, since these makers also sell network and sound devices.

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/world.h"
#include "probe/internal.h"

static const struct maker {
  const char *name;
  const char *nodes;       // pattern of its device files
  const char *vendor;      // as the bus spells it; NULL = only nodes tell
  const char *classes[2];  // beginnings
} makers[PROBE_CARD_MAKERS] = {
    {"NVIDIA", "/dev/nvidia[0-9]*", "0x10de", {"0x03"}},
    {"AMD", "/dev/kfd", "0x1002", {"0x0380", "0x12"}},
    {"Ascend", "/dev/davinci[0-9]*", "0x19e5", {"0x12"}},
    {"Hygon DCU", "/dev/mkfd", "0x1d94", {"0x0b", "0x03"}},
    {"T-Head PPU", "/dev/alixpu*", NULL, {NULL}},
};
enum { AMD = 1, HYGON = 3 };

// The first by name of the files that match; glob(7) patterns in the last part of the path.
struct search {
  const char *pattern;
  char found[48];  // no device node has a longer name; longer ones are passed over
};

static bool look_at_name(void *context, const char *name) {
  struct search *s = context;
  size_t size = strlen(name) + 1;
  bool matches = size <= sizeof s->found && fnmatch(s->pattern, name, FNM_PERIOD) == 0;
  if (matches && (!s->found[0] || strcmp(name, s->found) < 0)) memcpy(s->found, name, size);
  return true;
}

// Its path without the root in front; `out` is untouched when there is none.
static void find_node(const char *root, const char *pattern, char *out, size_t room) {
  struct buffer folder = {0};
  int length = (int)(strrchr(pattern, '/') - pattern);
  struct search s = {.pattern = pattern + length + 1};
  buffer_print(&folder, "%s%.*s", root, length, pattern);
  world_list(world_real(), folder.data, look_at_name, &s);
  if (s.found[0]) snprintf(out, room, "%.*s/%s", length, pattern, s.found);
  buffer_clear(&folder);
}

#define BUS "/sys/bus/pci/devices"

// Whether a device's file on the bus begins so.
static bool begins(const char *root, const char *device, const char *file, const char *with) {
  struct buffer path = {0}, text = {0};
  buffer_print(&path, BUS "/%s/%s", device, file);
  bool good =
      probe_text_read(root, path.data, &text) && str_starts(buffer_str(&text), str_of(with));
  buffer_clear(&path);
  buffer_clear(&text);
  return good;
}

static bool is_card(const char *root, const char *device, const struct maker *m) {
  if (!m->vendor || !begins(root, device, "vendor", m->vendor)) return false;
  for (size_t i = 0; i < COUNT_OF(m->classes) && m->classes[i]; i++)
    if (begins(root, device, "class", m->classes[i])) return true;
  return false;
}

struct bus {
  const char *root;
  struct probe_card *out;                       // [PROBE_CARD_MAKERS]
  char found[PROBE_CARD_MAKERS][NAME_MAX + 1];  // the first by name; "" = none
};

static bool look_at_device(void *context, const char *device) {
  struct bus *b = context;
  for (int i = 0; i < PROBE_CARD_MAKERS; i++) {
    char *found = b->found[i];
    if (b->out[i].found[0] || (found[0] && strcmp(found, device) < 0)) continue;
    if (is_card(b->root, device, &makers[i])) snprintf(found, sizeof b->found[i], "%s", device);
  }
  return true;
}

// Fills what the nodes left empty.
static void look_at_bus(const char *root, struct probe_card out[PROBE_CARD_MAKERS]) {
  struct bus b = {.root = root, .out = out};
  struct buffer folder = {0};
  buffer_print(&folder, "%s" BUS, root);
  world_list(world_real(), folder.data, look_at_device, &b);
  for (int i = 0; i < PROBE_CARD_MAKERS; i++)
    if (b.found[i][0]) snprintf(out[i].found, sizeof out[i].found, "PCI device %.40s", b.found[i]);
  buffer_clear(&folder);
}

// Hygon's driver, made from AMD's, brings AMD's node along with its own.
void probe_cards_read_at(const char *root, struct probe_card out[PROBE_CARD_MAKERS]) {
  for (int i = 0; i < PROBE_CARD_MAKERS; i++) {
    out[i] = (struct probe_card){.maker = makers[i].name};
    find_node(root, makers[i].nodes, out[i].found, sizeof out[i].found);
  }
  bool amd_by_node = out[AMD].found[0];
  look_at_bus(root, out);
  if (amd_by_node && out[HYGON].found[0]) out[AMD].found[0] = 0;
}

void probe_cards_read(struct probe_card out[PROBE_CARD_MAKERS]) { probe_cards_read_at("", out); }

void probe_cards_places(struct buffer *out) {
  for (int i = 0; i < PROBE_CARD_MAKERS; i++)
    buffer_print(out, "%s%s", i ? ", " : "", makers[i].nodes);
  buffer_add_text(out, "; PCI vendors ");
  for (int i = 0; i < PROBE_CARD_MAKERS; i++)
    if (makers[i].vendor) buffer_print(out, "%s%s", i ? ", " : "", makers[i].vendor + 2);
}
