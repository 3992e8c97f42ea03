// SPDX-License-Identifier: Apache-2.0
//
// scheduler.c: which tokens of which sequences make up the next forward pass.
//
// A running sequence has `pending` = count - computed >= 1 tokens whose K and V are not in its
// pages.  One pending token is a decode step (or the end of a prompt); more are a prompt, or a
// preempted sequence computed again.
//
//   tokens    [ prompt ...................... | generated .... ]
//              ▲ computed, in pages ▲ chunk ▲   pending
//
// A step, in this order:
//   1. grow    sequences with one pending token get the page it goes to; when there is none
//              others give way
//   2. admit   waiting sequences, oldest first, get pages for all their tokens and one more,
//              cached ones included
//   3. decode  one token of each sequence that has one pending
//   4. prefill chunks of prompts, oldest first, in the room that is left
//
// Who gives way when pages or places run out: cached prefixes, oldest first (pages.c); then
// sequences whose consumer does not read (the step cannot use them anyway); then the youngest.  So
// the oldest sequence that can go on always does, and everyone gets done.  What is preempted keeps
// its tokens and goes back to its place in the queue; its full pages stay as cached prefixes for as
// long as nobody needs them.
//
// A sequence that tells the tokens of its prompt wants logits for all positions from the last that
// it told: those it computes itself, in chunks that the spare rows of logits and the ring of its
// stream have room for.
//
// Equal prompts that arrive together are computed once: before a chunk, a sequence takes pages that
// became known since it was admitted, and waits a step when somebody in this batch is just
// computing its next page.

#include <string.h>

#include "engine/internal.h"

#define PREFILL_SHARE 4  // beside decodes, prompts get 1/4 of a step: answers keep flowing
#define PREFILL_LEAST KERNEL_PAGE_TOKENS

static int pending(const struct sequence *s) { return s->count - s->computed; }

static int pages_for(int tokens) { return (tokens + KERNEL_PAGE_TOKENS - 1) / KERNEL_PAGE_TOKENS; }

// ---- giving way

static void preempt(struct engine *en, struct sequence *s) {
  ASSERT(s->page_count >= s->published);
  engine_list_remove(&en->running, s);
  engine_pages_release(&en->pool, s->pages, s->page_count);
  s->page_count = s->published = s->computed = 0;
  engine_list_insert(&en->waiting, s);
  en->preempted++;
}

// The youngest running sequence whose consumer does not read, or NULL.
static struct sequence *youngest_paused(const struct engine *en) {
  for (int i = en->running.count - 1; i >= 0; i--)
    if (en->running.items[i]->paused) return en->running.items[i];
  return NULL;
}

static bool preempt_paused(struct engine *en) {
  struct sequence *s = youngest_paused(en);
  if (s) preempt(en, s);
  return s != NULL;
}

// ---- 1. grow

// Gets the page for the one pending token of s; false when s itself had to give way.
static bool grow(struct engine *en, struct sequence *s) {
  ASSERT(pending(s) == 1 && s->page_count < pages_for(s->limit));
  for (;;) {
    int32_t page = engine_pages_take(&en->pool);
    if (page >= 0) {
      s->pages[s->page_count++] = page;
      return true;
    }
    struct sequence *victim = youngest_paused(en);
    if (!victim) victim = en->running.items[en->running.count - 1];
    preempt(en, victim);
    if (victim == s) return false;
  }
}

// Oldest first: when pages run out it is the younger ones that have none.
static void grow_all(struct engine *en) {
  for (int i = 0; i < en->running.count;) {
    struct sequence *s = en->running.items[i];
    uint64_t arrival = s->arrival;
    if (!s->paused && pages_for(s->computed + 1) > s->page_count) grow(en, s);
    i = engine_list_after(&en->running, arrival);  // preemption may have shifted the list
  }
}

// ---- 2. admit

// Room for all the tokens it may get, so that no step allocates.
static void make_tables(struct sequence *s) {
  ASSERT(s->limit >= s->count);
  if (s->pages) return;
  s->tokens = memory_resize(s->tokens, (size_t)s->limit * sizeof *s->tokens);
  s->pages = memory_new((size_t)pages_for(s->limit) * sizeof *s->pages);
}

// Takes known pages that continue the sequence, as far as its last token but one: the last is
// always computed, since its logits are wanted.
static void take_known(struct engine *en, struct sequence *s) {
  ASSERT(s->published * KERNEL_PAGE_TOKENS == s->computed);
  int most = engine_is_telling(s) ? s->told : s->count;
  while (s->computed + KERNEL_PAGE_TOKENS < most) {
    int i = s->computed / KERNEL_PAGE_TOKENS;
    int32_t parent = i ? s->pages[i - 1] : -1;
    int32_t page = engine_pages_find(&en->pool, parent, s->tokens + s->computed);
    if (page < 0) return;
    if (i < s->page_count)
      engine_pages_release(&en->pool, &s->pages[i], 1);  // its own for that place, still empty
    else
      s->page_count++;
    s->pages[i] = page;
    s->published++;
    s->computed += KERNEL_PAGE_TOKENS;
  }
}

static bool get_place(struct engine *en) {
  ASSERT(en->running.count <= en->limits.sequences);
  return en->running.count < en->limits.sequences || preempt_paused(en);
}

// Pages for every token and one more, or none.  One page per running sequence is left alone: each
// will want it soon, and would preempt this one for it.
static bool get_pages(struct engine *en, struct sequence *s) {
  ASSERT(s->page_count == 0 && s->computed == 0);
  make_tables(s);
  for (;;) {
    take_known(en, s);
    int wanted = pages_for(s->count + 1 < s->limit ? s->count + 1 : s->limit) - s->page_count;
    if (wanted + en->running.count <= engine_pages_available(&en->pool)) {
      for (; wanted > 0; wanted--) s->pages[s->page_count++] = engine_pages_take(&en->pool);
      return true;
    }
    engine_pages_release(&en->pool, s->pages, s->page_count);
    s->page_count = s->published = s->computed = 0;
    if (!preempt_paused(en)) return false;
  }
}

// Counts tokens that are in the pages for the first time; `found`: they were taken, not computed.
// Returns how many of them belong to the prompt.
static int count_reached(struct engine *en, struct sequence *s, bool found) {
  ASSERT(s->computed <= s->count);
  int prompt = (s->computed < s->prompt_count ? s->computed : s->prompt_count) - s->reached;
  if (s->computed > s->reached) s->reached = s->computed;
  if (prompt <= 0) return 0;
  en->prompt_tokens += (uint64_t)prompt;
  if (!found) return prompt;
  en->cached_tokens += (uint64_t)prompt;
  s->cached += prompt;
  return 0;
}

// A sequence whose consumer does not read is passed over; for any other the queue stands still.
static void admit_all(struct engine *en) {
  for (int i = 0; i < en->waiting.count;) {
    struct sequence *s = en->waiting.items[i];
    if (s->paused) {
      i++;
      continue;
    }
    if (!get_place(en) || !get_pages(en, s)) return;  // in order of arrival: nobody overtakes
    engine_list_remove(&en->waiting, s);
    engine_list_insert(&en->running, s);
    count_reached(en, s, true);
    if (s->admitted_ns == TIME_NEVER) s->admitted_ns = world_monotonic_ns(en->world);
    i = engine_list_after(&en->waiting, s->arrival);
  }
}

// ---- 3. and 4. the batch

// How many of the next `count` pending tokens, the last ones, logits are wanted of.
static int outputs_of(const struct sequence *s, int count) {
  if (!engine_is_telling(s)) return count == pending(s);
  int seen = s->told - 1 - s->computed;  // their followers were told before a preemption
  return seen < 0 ? count : seen < count ? count - seen : 0;
}

// The next `count` pending tokens of s.
static void add_member(struct engine *en, struct sequence *s, int count) {
  struct step *step = &en->step;
  int first = step->tokens, outputs = outputs_of(s, count);
  ASSERT(count >= 1 && s->page_count >= pages_for(s->computed + count));
  step->members[step->member_count] =
      (struct step_member){.sequence = s, .count = count, .outputs = outputs};
  step->spans[step->member_count++] = (struct kernel_span){
      .first = first, .count = count, .position = s->computed, .pages = s->pages};
  memcpy(step->ids + first, s->tokens + s->computed, (size_t)count * sizeof *step->ids);
  for (int i = 0; i < count; i++) step->positions[first + i] = s->computed + i;
  step->tokens += count;
  for (int i = outputs; i > 0; i--) step->outputs[step->output_count++] = step->tokens - i;
}

static void add_decodes(struct engine *en) {
  for (int i = 0; i < en->running.count; i++) {
    struct sequence *s = en->running.items[i];
    if (!s->paused && pending(s) == 1) add_member(en, s, 1);
  }
}

// Whether a member of this batch computes the very page that s would compute next.
static bool page_in_work(const struct engine *en, const struct sequence *s) {
  ASSERT(s->computed < s->count);
  int end = s->computed + KERNEL_PAGE_TOKENS;
  if (s->computed % KERNEL_PAGE_TOKENS || end >= s->count) return false;
  for (int i = 0; i < en->step.member_count; i++) {
    const struct step_member *m = &en->step.members[i];
    const struct sequence *other = m->sequence;
    if (other->computed > s->computed || other->computed + m->count < end) continue;
    if (!memcmp(other->tokens, s->tokens, (size_t)end * sizeof *s->tokens)) return true;
  }
  return false;
}

// A chunk that does not end the prompt ends with a page, so that others can take it.
static int chunk_of(const struct sequence *s, int room) {
  ASSERT(room >= 1);
  if (pending(s) <= room) return pending(s);
  int spill = (s->computed + room) % KERNEL_PAGE_TOKENS;
  return room > spill ? room - spill : room;
}

// A chunk whose tokens are told is no longer than `rows` and the ring allow; the first token, an
// answer's first and the end have events too.
static int telling_room(const struct sequence *s, int room, int rows) {
  int events = s->room - STREAM_ROOM - 1, most = rows < events ? rows : events;
  int seen = s->told - 1 - s->computed;
  if (seen > 0) most += seen;
  return room < most ? room : most;
}

// After add_decodes, which has taken every sequence with one pending token.
static void add_prefills(struct engine *en) {
  int rows = TELLING_ROWS;
  int room = en->limits.step_tokens - en->step.tokens,
      share = en->limits.step_tokens / PREFILL_SHARE;
  if (share < PREFILL_LEAST) share = PREFILL_LEAST;
  if (en->step.tokens && room > share) room = share;
  for (int i = 0; i < en->running.count && room > 0; i++) {
    struct sequence *s = en->running.items[i];
    if (s->paused || pending(s) == 1) continue;
    if (s->published * KERNEL_PAGE_TOKENS == s->computed) take_known(en, s);
    count_reached(en, s, true);
    bool telling = engine_is_telling(s);
    if (!telling && page_in_work(en, s)) continue;
    int most = telling ? telling_room(s, room, rows) : room;
    if (most < 1) continue;
    int count = chunk_of(s, most);
    if (telling) rows -= outputs_of(s, count);
    add_member(en, s, count);
    room -= count;
  }
}

// Nothing below allocates or fails: pages are had, or somebody gives way.
bool engine_schedule(struct engine *en) {
  struct step *step = &en->step;
  step->member_count = step->tokens = step->output_count = 0;
  step->prefill_tokens = step->decode_tokens = 0;
  grow_all(en);
  admit_all(en);
  add_decodes(en);
  add_prefills(en);
  return step->member_count > 0;
}

// After the forward pass: the members' tokens are in their pages; full pages become known.
void engine_schedule_done(struct engine *en) {
  ASSERT(en->step.tokens >= 1);
  struct step *step = &en->step;
  for (int i = 0; i < step->member_count; i++) {
    struct sequence *s = step->members[i].sequence;
    if (s->computed >= s->prompt_count && pending(s) == 1) step->decode_tokens++;
    s->computed += step->members[i].count;
    step->prefill_tokens += count_reached(en, s, false);
    for (; (s->published + 1) * KERNEL_PAGE_TOKENS <= s->computed; s->published++) {
      int32_t *page = &s->pages[s->published];
      int32_t parent = s->published ? page[-1] : -1;
      *page = engine_pages_publish(&en->pool, parent, s->tokens + s->published * KERNEL_PAGE_TOKENS,
                                   *page);
    }
  }
}
