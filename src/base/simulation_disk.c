// SPDX-License-Identifier: Apache-2.0
//
// simulation_disk.c: files and folders of a simulated machine.
//
// Everything is there twice: as programs see it (the system's cache) and as it is on the disk.
//
//   bytes   write_at ──▶ seen, its sectors dirty ──sync, or the system by itself──▶ durable
//   names   create, rename, remove ──▶ seen, and a change in the machine's list
//                                      ──sync of the folder, or the system by itself──▶ durable
//
// The system writes back by itself whenever the dice say so: that is why a program cannot rely on
// an unsynced state to be lost, either.  What a power cut leaves is in simulation_cut.c.

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/simulation_internal.h"

// ---- paths

// The absolute path without ".", ".." and empty parts; out has PATH_MAX bytes.
int simulation_path(const struct simulation_process *p, const char *path, char out[]) {
  char whole[2 * PATH_MAX];
  size_t length = 0;
  int n = path[0] == '/' ? snprintf(whole, sizeof whole, "%s", path)
                         : snprintf(whole, sizeof whole, "%s/%s", p->folder, path);
  if (!path[0]) return -ENOENT;
  if (n >= PATH_MAX) return -ENAMETOOLONG;
  for (const char *at = whole; *at;) {
    size_t part = strcspn(at, "/");
    if (part == 2 && at[0] == '.' && at[1] == '.') {
      while (length && out[--length] != '/') continue;
    } else if (part && !(part == 1 && at[0] == '.')) {
      if (part > NAME_MAX) return -ENAMETOOLONG;
      out[length++] = '/';
      memcpy(out + length, at, part);
      length += part;
    }
    at += part + (at[part] == '/');
  }
  if (!length) out[length++] = '/';
  out[length] = 0;
  return 0;
}

// Where a path leads: the folder that holds the last part, and that part's name.  Where the last
// part is "/", "." or "..", the folder is the thing itself and the name is empty.
struct place {
  struct simulation_node *folder;
  char name[NAME_MAX + 1];
  bool slash;      // one at the end: what is there must be a folder
  int not_a_name;  // what the system says to removing a name that is "/", "." or ".."
};

// The folder under that name, for a walk that goes on behind it.
static struct simulation_node *step(struct simulation_node *n, const char *name, int *why) {
  struct simulation_name *found = simulation_name_find(&n->seen_names, name);
  *why = !found ? -ENOENT : found->node->folder ? 0 : -ENOTDIR;
  return *why ? NULL : found->node;
}

// Walks part by part, for what ".." leaves must be there too.  *why is 0, or the reason that there
// is no such place.
static bool find_place(const struct simulation_process *p, const char *path, struct place *out,
                       int *why) {
  char whole[2 * PATH_MAX];
  struct simulation_node *above[PATH_MAX / 2];  // the way down, for ".."
  size_t depth = 0;
  *why = !path[0] ? -ENOENT : strlen(path) + strlen(p->folder) >= PATH_MAX ? -ENAMETOOLONG : 0;
  if (*why) return false;
  snprintf(whole, sizeof whole, "%s/%s", path[0] == '/' ? "" : p->folder, path);
  *out = (struct place){.folder = p->machine->root, .not_a_name = -EBUSY};
  for (const char *at = whole; *at;) {
    size_t part = strcspn(at, "/");
    bool here = part == 0 || (part == 1 && at[0] == '.');
    bool up = part == 2 && at[0] == '.' && at[1] == '.';
    if (part > NAME_MAX) *why = -ENAMETOOLONG;
    if (!*why && part && out->name[0]) {  // what seemed to be the last part is a folder on the way
      above[depth++] = out->folder;
      out->folder = step(out->folder, out->name, why);
      out->name[0] = 0;
    }
    if (*why) return false;
    if (up && depth) out->folder = above[--depth];
    if (!here && !up) snprintf(out->name, sizeof out->name, "%.*s", (int)part, at);
    if (part) out->not_a_name = up ? -ENOTEMPTY : -EINVAL;
    out->slash = at[part] == '/' || here || up;
    at += part + (at[part] == '/');
  }
  return true;
}

static struct simulation_name *name_at(const struct place *at) {
  return at->name[0] ? simulation_name_find(&at->folder->seen_names, at->name) : NULL;
}

// *why is 0 when it is found.
struct simulation_node *simulation_find(struct simulation_process *p, const char *path, int *why) {
  struct place at;
  if (!find_place(p, path, &at, why)) return NULL;
  if (!at.name[0]) return at.folder;
  struct simulation_name *found = name_at(&at);
  if (!found) *why = -ENOENT;
  if (found && at.slash && !found->node->folder) *why = -ENOTDIR;
  return *why ? NULL : found->node;
}

// ---- space

uint64_t simulation_free_bytes(const struct simulation_machine *m) {
  uint64_t used = 0, all = m->simulation->options.disk_bytes;
  for (const struct simulation_node *n = m->nodes; n; n = n->next)
    if (n->visible > 0) used += n->seen_size;
  return used < all ? all - used : 0;
}

static void *widen(void *block, size_t old, size_t size) {
  uint8_t *moved = memory_resize(block, size);
  memset(moved + old, 0, size - old);
  return moved;
}

static void reserve(struct simulation_node *n, uint64_t size) {
  if (size <= n->capacity) return;
  uint64_t capacity = n->capacity ? n->capacity * 2 : 4 * SIMULATION_SECTOR;
  while (capacity < size) capacity *= 2;
  n->seen = widen(n->seen, n->capacity, capacity);
  n->durable = widen(n->durable, n->capacity, capacity);
  n->dirty = widen(n->dirty, n->capacity / SIMULATION_SECTOR, capacity / SIMULATION_SECTOR);
  n->capacity = capacity;
}

// ---- the calls

static struct simulation_node *create(struct simulation_node *folder, const char *name, bool dir) {
  struct simulation_node *n = simulation_node_new(folder->machine, dir);
  simulation_name_appears(folder, name, n);
  simulation_change_new(n, folder, name, NULL, NULL);
  return n;
}

static int set_size(struct simulation_node *n, uint64_t size) {
  if (size > n->seen_size && size - n->seen_size > simulation_free_bytes(n->machine))
    return -ENOSPC;
  reserve(n, size);
  uint64_t low = size < n->seen_size ? size : n->seen_size;
  uint64_t high = size < n->seen_size ? n->seen_size : size;
  if (high > low) {
    memset(n->seen + low, 0, high - low);
    memset(n->dirty + low / SIMULATION_SECTOR, 1,
           (high - 1) / SIMULATION_SECTOR - low / SIMULATION_SECTOR + 1);
    n->size_dirty = true;
  }
  n->seen_size = size;
  n->modified_ms = 1700000000000u + n->machine->simulation->now_ns / 1000000u;
  return 0;
}

static int open_node(struct simulation_process *p, struct simulation_node *n, uint32_t flags) {
  if ((flags & WORLD_FOLDER) && !n->folder) return -ENOTDIR;
  if (n->folder && (flags & WORLD_WRITE)) return -EISDIR;
  if (!n->folder && (flags & WORLD_TRUNCATE)) set_size(n, 0);
  struct simulation_object *o =
      simulation_object_new(p->simulation, n->folder ? OBJECT_FOLDER : OBJECT_FILE);
  o->node = n;
  o->flags = flags;
  n->references++;
  n->visible++;
  return simulation_handle_new(p, o);
}

int simulation_open(struct simulation_process *p, const char *path, uint32_t flags) {
  struct place at;
  int why;
  if (!find_place(p, path, &at, &why)) return why;
  struct simulation_name *found = name_at(&at);
  uint32_t fresh = WORLD_CREATE | WORLD_EXCLUSIVE;
  bool there = found || !at.name[0];
  if (at.name[0] && at.slash && (flags & WORLD_CREATE)) return -EISDIR;
  if (there && (flags & fresh) == fresh) return -EEXIST;
  if (!found && there && (flags & WORLD_CREATE)) return -EISDIR;
  if (found && at.slash && !found->node->folder) return -ENOTDIR;
  if (there) return open_node(p, found ? found->node : at.folder, flags);
  if (!(flags & WORLD_CREATE)) return -ENOENT;
  if (simulation_free_bytes(p->machine) == 0) return -ENOSPC;
  return open_node(p, create(at.folder, at.name, false), flags);
}

int64_t simulation_read_at(struct simulation_object *o, void *data, size_t size, uint64_t offset) {
  const struct simulation_node *n = o->node;
  if (n->folder) return -EISDIR;
  if (!(o->flags & WORLD_READ) && (o->flags & WORLD_WRITE)) return -EBADF;
  if (offset >= n->seen_size) return 0;
  if (size > n->seen_size - offset) size = n->seen_size - offset;
  if (size) memcpy(data, n->seen + offset, size);
  return (int64_t)size;
}

// Some of the dirty sectors reach the disk, together with the size that covers them.
void simulation_file_write_back(struct simulation_node *n) {
  struct simulation *s = n->machine->simulation;
  uint64_t sectors = (n->seen_size + SIMULATION_SECTOR - 1) / SIMULATION_SECTOR;
  uint64_t from = simulation_dice(s, sectors), count = 1 + simulation_dice(s, sectors);
  for (uint64_t i = from; i < sectors && i < from + count; i++) {
    if (!n->dirty[i]) continue;
    memcpy(n->durable + i * SIMULATION_SECTOR, n->seen + i * SIMULATION_SECTOR, SIMULATION_SECTOR);
    n->dirty[i] = 0;
    uint64_t end =
        (i + 1) * SIMULATION_SECTOR < n->seen_size ? (i + 1) * SIMULATION_SECTOR : n->seen_size;
    if (n->durable_size < end) n->durable_size = end;
  }
}

int64_t simulation_write_at(struct simulation_object *o, const void *data, size_t size,
                            uint64_t offset) {
  struct simulation_node *n = o->node;
  if (n->folder || !(o->flags & WORLD_WRITE)) return -EBADF;
  if (!size) return 0;
  uint64_t grows = offset + size > n->seen_size ? offset + size - n->seen_size : 0;
  uint64_t room = grows ? simulation_free_bytes(n->machine) : 0;
  if (grows > room) {  // what fits is taken
    if (grows - room >= size) return -ENOSPC;
    size -= grows - room;
    grows = room;
  }
  if (grows) set_size(n, offset + size);
  memcpy(n->seen + offset, data, size);
  memset(n->dirty + offset / SIMULATION_SECTOR, 1,
         (offset + size - 1) / SIMULATION_SECTOR - offset / SIMULATION_SECTOR + 1);
  n->modified_ms = 1700000000000u + n->machine->simulation->now_ns / 1000000u;
  if (simulation_dice(n->machine->simulation, SIMULATION_WRITES_BACK) == 0)
    simulation_file_write_back(n);
  return (int64_t)size;
}

int simulation_resize(struct simulation_object *o, uint64_t size) {
  if (o->node->folder || !(o->flags & WORLD_WRITE)) return -EINVAL;
  return set_size(o->node, size);
}

// A sync that fails wrote a part, and what it did not write is no longer known to be unwritten.
static void sync_file(struct simulation_node *n, bool fails) {
  struct simulation *s = n->machine->simulation;
  for (uint64_t i = 0; i * SIMULATION_SECTOR < n->capacity; i++) {
    if (!n->dirty[i]) continue;
    n->dirty[i] = 0;
    if (!fails || simulation_dice(s, 2))
      memcpy(n->durable + i * SIMULATION_SECTOR, n->seen + i * SIMULATION_SECTOR,
             SIMULATION_SECTOR);
  }
  if (!fails || simulation_dice(s, 2)) n->durable_size = n->seen_size;
  n->size_dirty = false;
}

int simulation_sync(struct simulation_object *o, bool fails) {
  struct simulation_node *n = o->node;
  struct simulation_machine *m = n->machine;
  if (!n->folder) {
    sync_file(n, fails);
  } else if (!fails) {
    simulation_changes_apply(m, n);
  } else {
    for (struct simulation_change *c = m->changes; c; c = c->next)
      if (c->to == n || c->from == n) c->forgotten = true;
  }
  return 0;
}

static void fill_info(const struct simulation_node *n, struct world_file_info *out) {
  *out = (struct world_file_info){.kind = n->folder ? WORLD_DIRECTORY : WORLD_FILE,
                                  .size = n->folder ? 0 : n->seen_size,
                                  .modified_ms = n->modified_ms,
                                  .device = (uint64_t)n->machine->number + 1,
                                  .number = n->number};
}

int simulation_info(struct simulation_process *p, const char *path, struct world_file_info *out) {
  int why;
  const struct simulation_node *n = simulation_find(p, path, &why);
  if (n) fill_info(n, out);
  return why;
}

int simulation_info_of(struct simulation_object *o, struct world_file_info *out) {
  if (o->kind == OBJECT_FILE || o->kind == OBJECT_FOLDER)
    fill_info(o->node, out);
  else
    *out = (struct world_file_info){.kind = WORLD_OTHER};
  return 0;
}

// Whether a folder may take the place of what is there.
static int may_replace(const struct simulation_node *n, const struct simulation_node *there) {
  if (!there || there == n) return 0;
  if (there->folder != n->folder) return there->folder ? -EISDIR : -ENOTDIR;
  return there->folder && there->seen_names.count ? -ENOTEMPTY : 0;
}

static bool is_below(const struct simulation_node *n, const struct simulation_node *top) {
  if (n == top) return true;
  for (size_t i = 0; i < top->seen_names.count; i++) {
    const struct simulation_node *child = top->seen_names.items[i].node;
    if (child->folder && is_below(n, child)) return true;
  }
  return false;
}

int simulation_rename(struct simulation_process *p, const char *from, const char *to) {
  struct place a, b;
  int why;
  if (!find_place(p, from, &a, &why) || !find_place(p, to, &b, &why)) return why;
  if (!a.name[0] || !b.name[0]) return -EBUSY;
  struct simulation_name *old = name_at(&a), *there = name_at(&b);
  if (!old) return -ENOENT;
  struct simulation_node *n = old->node;
  if ((a.slash || b.slash) && !n->folder) return -ENOTDIR;
  if (n->folder && is_below(b.folder, n)) return -EINVAL;
  why = may_replace(n, there ? there->node : NULL);
  if (there && is_below(a.folder, there->node)) why = -ENOTEMPTY;
  if (why || (there && there->node == n)) return why;
  simulation_name_appears(b.folder, b.name, n);
  simulation_name_goes(a.folder, a.name);
  simulation_change_new(n, b.folder, b.name, a.folder, a.name);
  return 0;
}

int simulation_remove(struct simulation_process *p, const char *path, bool folder) {
  struct place at;
  int why;
  if (!find_place(p, path, &at, &why)) return why;
  if (!at.name[0]) return folder ? at.not_a_name : -EISDIR;
  struct simulation_name *found = name_at(&at);
  if (!found) return -ENOENT;
  struct simulation_node *n = found->node;
  if (n->folder != folder || (at.slash && !n->folder)) return n->folder ? -EISDIR : -ENOTDIR;
  if (folder && n->seen_names.count) return -ENOTEMPTY;
  n->references++;
  simulation_name_goes(at.folder, at.name);
  simulation_change_new(n, NULL, NULL, at.folder, at.name);
  simulation_node_release(n);
  return 0;
}

int simulation_make_folder(struct simulation_process *p, const char *path) {
  struct place at;
  int why;
  if (!find_place(p, path, &at, &why)) return why;
  if (!at.name[0] || name_at(&at)) return -EEXIST;
  if (simulation_free_bytes(p->machine) == 0) return -ENOSPC;
  create(at.folder, at.name, true);
  return 0;
}

int simulation_lock(struct simulation_object *o) {
  struct simulation_node *n = o->node;
  if (n->locked_by && n->locked_by != o) return -EWOULDBLOCK;
  n->locked_by = o;
  return 0;
}

// The bytes as they are now; the system promises no more of a private mapping either.
int simulation_map(struct simulation_process *p, struct simulation_object *o, size_t size,
                   const uint8_t **data) {
  const struct simulation_node *n = o->node;
  if (n->folder) return -ENODEV;
  if (!size || size > n->seen_size) return -EINVAL;
  struct simulation_map *m = memory_new(sizeof *m);
  *m = (struct simulation_map){p->maps, memory_new(size)};
  memcpy(m->data, n->seen, size);
  p->maps = m;
  *data = m->data;
  return 0;
}

void simulation_unmap(struct simulation_process *p, const uint8_t *data) {
  for (struct simulation_map **at = &p->maps; *at; at = &(*at)->next) {
    struct simulation_map *m = *at;
    if (m->data != data) continue;
    *at = m->next;
    memory_free(m->data);
    memory_free(m);
    return;
  }
  assert(!"unmapped what this process did not map");
}

// ---- life

void simulation_disk_init(struct simulation_machine *m) {
  m->changes_end = &m->changes;
  m->root = simulation_node_new(m, true);
  m->root->references = m->root->visible = 1;
  simulation_make_folder(&m->outside, "/tmp");
  simulation_changes_apply(m, NULL);
}

void simulation_disk_free(struct simulation_machine *m) {
  while (m->changes) simulation_change_apply(m, &m->changes, false);
  simulation_node_release(m->root);
  assert(!m->nodes);
}
