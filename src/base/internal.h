// SPDX-License-Identifier: Apache-2.0
//
// internal.h: what only the files of src/base share.
#pragma once

#include "base/world.h"

#if defined(__SANITIZE_ADDRESS__)  // gcc says it so
#define WITH_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define WITH_ADDRESS_SANITIZER __has_feature(address_sanitizer)  // and clang so
#else
#define WITH_ADDRESS_SANITIZER 0
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_THREAD_SANITIZER 1
#elif defined(__has_feature)
#define WITH_THREAD_SANITIZER __has_feature(thread_sanitizer)
#else
#define WITH_THREAD_SANITIZER 0
#endif

// The real world's processes (world_process.c), as entries of its table.
int world_process_pipe(void *context, int handles[2]);
int world_process_start(void *context, const struct world_program *program);
int world_process_signal(void *context, int process, int number);
int world_process_ended(void *context, int process, struct world_exit *out);

// Mappings of files that may be cut short (file_guard.c).  Any thread.
void file_guard_add(const uint8_t *data, size_t length);
void file_guard_remove(const uint8_t *data);  // before it is unmapped
bool file_guard_intact(const uint8_t *data);  // true for one that is not guarded

// Is told about every block that this thread takes and gives back: a simulation gives back what a
// killed process had taken.  At most one a thread.
struct memory_watch {
  void (*taken)(struct memory_watch *w, void *block, size_t mapped);  // mapped: bytes; 0 = malloc
  void (*returned)(struct memory_watch *w, void *block);
};
extern _Thread_local struct memory_watch *memory_watcher;
