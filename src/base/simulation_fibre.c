// SPDX-License-Identifier: Apache-2.0
//
// simulation_fibre.c: a function that runs on a stack of its own and can be left in its midst.
//
//   enter    host ─── saves its registers on its stack, takes the fibre's stack ──▶ fibre
//   leave    host ◀── takes the host's stack ─────────── saves its registers ────── fibre
//
// A fibre that is never entered again is simply forgotten: its stack is given back.  On x86-64 the
// switch is a few instructions; elsewhere the C library's swapcontext does it, which also asks the
// system about signals and is slower.  The sanitizers are told about each switch, for they keep
// notes about the stack they believe to be on.

#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/simulation_internal.h"

#if WITH_ADDRESS_SANITIZER
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if WITH_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

// Bytes.  Untouched pages cost nothing; the address sanitizer makes frames several times larger.
#define STACK_SIZE ((size_t)(WITH_ADDRESS_SANITIZER ? 4 : 1) << 20)
#define GUARD_SIZE 4096u  // below the stack, so that a deep recursion is noticed

#if defined(__x86_64__)
typedef void *saved_stack;

// Keeps what a called function must keep, changes the stack, takes back what was kept there.
void simulation_fibre_switch(saved_stack *keep, saved_stack take);
__asm__(
    ".text\n"
    ".hidden simulation_fibre_switch\n"
    ".globl simulation_fibre_switch\n"
    ".type simulation_fibre_switch, @function\n"
    "simulation_fibre_switch:\n"
    "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
    "  movq %rsp, (%rdi)\n"
    "  movq %rsi, %rsp\n"
    "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
    "  ret\n"
    ".size simulation_fibre_switch, . - simulation_fibre_switch\n");
#define SWITCH(keep, take) simulation_fibre_switch(&(keep), (take))
#else
#include <ucontext.h>
typedef ucontext_t saved_stack;
#define SWITCH(keep, take) swapcontext(&(keep), &(take))
#endif

struct simulation_fibre {
  unsigned char *stack;  // GUARD_SIZE + STACK_SIZE bytes
  saved_stack own, host;
  void (*function)(void *context);
  void *context;
  void *own_fake, *host_fake;  // the address sanitizer's
  const void *host_bottom;
  size_t host_size;
  void *own_thread, *host_thread;  // the thread sanitizer's
  bool begun, over;
  bool dying;  // entered a last time, only to leave for ever
};

static void arrive_in_fibre(struct simulation_fibre *f) {
  (void)f;
#if WITH_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(f->own_fake, &f->host_bottom, &f->host_size);
#endif
}

// The stack below it has no caller to return to.
static _Noreturn void first_step(struct simulation_fibre *f) {
  arrive_in_fibre(f);
  f->begun = true;
  f->function(f->context);
  simulation_fibre_leave(f, true);
  __builtin_unreachable();
}

#if defined(__x86_64__)
// The fibre is handed over in a register that a switch takes from the stack.
void simulation_fibre_begin(void);
__asm__(
    ".text\n"
    ".hidden simulation_fibre_begin\n"
    ".globl simulation_fibre_begin\n"
    ".type simulation_fibre_begin, @function\n"
    "simulation_fibre_begin:\n"
    "  movq %rbx, %rdi\n"
    "  xorl %ebp, %ebp\n"
    "  callq *%r12\n"
    "  ud2\n"
    ".size simulation_fibre_begin, . - simulation_fibre_begin\n");

// What a switch finds on a stack that was never run: r15 r14 r13 r12 rbx rbp, and where to go.
static void prepare(struct simulation_fibre *f) {
  uintptr_t *top = (uintptr_t *)(void *)(f->stack + GUARD_SIZE + STACK_SIZE);
  *--top = 0;  // begin's call finds the stack as the ABI wants it: a multiple of 16
  *--top = 0;
  *--top = (uintptr_t)simulation_fibre_begin;
  *--top = 0;                      // rbp
  *--top = (uintptr_t)f;           // rbx
  *--top = (uintptr_t)first_step;  // r12
  *--top = 0, *--top = 0, *--top = 0;
  f->own = top;
}
#else
static void split_step(unsigned high, unsigned low) {
  first_step((struct simulation_fibre *)(uintptr_t)((uint64_t)high << 32 | low));
}

static void prepare(struct simulation_fibre *f) {
  uint64_t address = (uintptr_t)f;
  getcontext(&f->own);
  f->own.uc_stack.ss_sp = f->stack + GUARD_SIZE;
  f->own.uc_stack.ss_size = STACK_SIZE;
  f->own.uc_link = NULL;
  makecontext(&f->own, (void (*)(void))split_step, 2, (unsigned)(address >> 32), (unsigned)address);
}
#endif

// NULL when there is no memory for a stack.
struct simulation_fibre *simulation_fibre_new(void (*function)(void *context), void *context) {
  void *stack = mmap(NULL, GUARD_SIZE + STACK_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack == MAP_FAILED) return NULL;
  mprotect(stack, GUARD_SIZE, PROT_NONE);
  struct simulation_fibre *f = memory_new(sizeof *f);
  f->stack = stack;
  f->function = function;
  f->context = context;
#if WITH_THREAD_SANITIZER
  f->own_thread = __tsan_create_fiber(0);
#endif
  prepare(f);
  return f;
}

// A forgotten fibre left marks in the sanitizer's memory, which the next mapping there must not
// inherit, and a second stack, which the sanitizer gives back only when the fibre itself leaves.
void simulation_fibre_free(struct simulation_fibre *f) {
  if (!f) return;
#if WITH_ADDRESS_SANITIZER
  if (f->begun && !f->over) {
    f->dying = true;
    simulation_fibre_enter(f);
  }
  ASAN_UNPOISON_MEMORY_REGION(f->stack, GUARD_SIZE + STACK_SIZE);
#endif
#if WITH_THREAD_SANITIZER
  __tsan_destroy_fiber(f->own_thread);
#endif
  munmap(f->stack, GUARD_SIZE + STACK_SIZE);
  memory_free(f);
}

void simulation_fibre_enter(struct simulation_fibre *f) {
#if WITH_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&f->host_fake, f->stack + GUARD_SIZE, STACK_SIZE);
#endif
#if WITH_THREAD_SANITIZER
  f->host_thread = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(f->own_thread, 0);
#endif
  SWITCH(f->host, f->own);
#if WITH_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(f->host_fake, NULL, NULL);
#endif
}

// for_ever lets the sanitizer give back what it kept for this stack.
void simulation_fibre_leave(struct simulation_fibre *f, bool for_ever) {
  f->over = for_ever;
#if WITH_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(for_ever ? NULL : &f->own_fake, f->host_bottom, f->host_size);
#endif
#if WITH_THREAD_SANITIZER
  __tsan_switch_to_fiber(f->host_thread, 0);
#endif
  SWITCH(f->own, f->host);
  arrive_in_fibre(f);
  if (f->dying) simulation_fibre_leave(f, true);
}
