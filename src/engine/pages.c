// SPDX-License-Identifier: Apache-2.0
//
// pages.c: the pages of the KV cache: who uses them, and which hold a prefix that can be used
// again.
//
// A page that is full never changes again.  Then it is published under (parent page, its 16
// tokens).  Since the parent is itself known under its own parent and tokens, that key names the
// whole prefix exactly:
//
//   [The cat sat on …] ──▶ [the mat and then …] ──▶ [it slept]        a conversation
//                     └──▶ [a chair because …]        another one, same beginning
//
// The 64-bit hash only picks the chain of the table; parent and tokens themselves are compared.
// For the key to stay exact no page may be recycled while a known page names it as parent.  That
// holds by the order of eviction: a sequence that uses a page uses its parents too, and gives back
// its last page first, so in the LRU list every page comes before its parent, and eviction, oldest
// first, always meets a page without children.
//
// Equal content: two sequences may compute the same prefix at the same time, each into pages of its
// own.  The second to publish gets the first one's page in exchange; kernels are deterministic, so
// both hold the same bits.

#include <string.h>

#include "engine/internal.h"

#define PAGE_TOKEN_BYTES (KERNEL_PAGE_TOKENS * sizeof(int32_t))

// All pages begin free.  At least one bucket a page keeps chains short.
void engine_pages_init(struct page_pool *p, int count) {
  ASSERT(count >= 1);
  uint32_t buckets = 16;
  while (buckets < (uint32_t)count) buckets *= 2;
  *p = (struct page_pool){.count = count, .bucket_mask = buckets - 1, .oldest = -1, .newest = -1};
  p->pages = memory_new((size_t)count * sizeof *p->pages);
  p->buckets = memory_new(buckets * sizeof *p->buckets);
  memset(p->buckets, 0xff, buckets * sizeof *p->buckets);
  for (int i = 0; i < count; i++) p->pages[i].bucket_next = i + 1 < count ? i + 1 : -1;
  p->free_count = count;
}

void engine_pages_clear(struct page_pool *p) {
  memory_free(p->pages);
  memory_free(p->buckets);
  *p = (struct page_pool){0};
}

int engine_pages_available(const struct page_pool *p) { return p->free_count + p->cached_count; }

// ---- the free list

static void put_free(struct page_pool *p, int32_t index) {
  ASSERT(index >= 0 && index < p->count);
  p->pages[index] = (struct page){.bucket_next = p->free_first};
  p->free_first = index;
  p->free_count++;
}

static int32_t get_free(struct page_pool *p) {
  ASSERT(p->free_count > 0);
  int32_t index = p->free_first;
  p->free_first = p->pages[index].bucket_next;
  p->free_count--;
  return index;
}

// ---- the LRU list of known pages that no sequence uses

// As the newest: it was in use until now.
static void cache_put(struct page_pool *p, int32_t index) {
  ASSERT(p->pages[index].known && p->pages[index].references == 0);
  struct page *page = &p->pages[index];
  page->older = p->newest;
  page->newer = -1;
  if (p->newest >= 0) p->pages[p->newest].newer = index;
  p->newest = index;
  if (p->oldest < 0) p->oldest = index;
  p->cached_count++;
}

// From anywhere in the list: a prefix that is found again, or the oldest.
static void cache_remove(struct page_pool *p, int32_t index) {
  ASSERT(p->cached_count > 0);
  struct page *page = &p->pages[index];
  if (page->older >= 0) p->pages[page->older].newer = page->newer;
  if (page->newer >= 0) p->pages[page->newer].older = page->older;
  if (p->oldest == index) p->oldest = page->newer;
  if (p->newest == index) p->newest = page->older;
  p->cached_count--;
}

// ---- the table of known pages

static int32_t *bucket_of(const struct page_pool *p, int32_t parent, const int32_t *tokens) {
  ASSERT(parent >= -1 && parent < p->count);
  uint64_t hash = hash_bytes(tokens, PAGE_TOKEN_BYTES, (uint64_t)(int64_t)parent);
  return &p->buckets[hash & p->bucket_mask];
}

// Compares what the page holds, not what it hashes to.
static int32_t lookup(const struct page_pool *p, int32_t parent, const int32_t *tokens) {
  int32_t index = *bucket_of(p, parent, tokens);
  while (index >= 0) {
    const struct page *page = &p->pages[index];
    if (page->parent == parent && !memcmp(page->tokens, tokens, PAGE_TOKEN_BYTES)) break;
    index = page->bucket_next;
  }
  return index;
}

// Takes a page out of the table, and out of its parent's count.
static void forget(struct page_pool *p, int32_t index) {
  struct page *page = &p->pages[index];
  ASSERT(page->known && page->children == 0 && page->references == 0);
  int32_t *link = bucket_of(p, page->parent, page->tokens);
  while (*link != index) link = &p->pages[*link].bucket_next;
  *link = page->bucket_next;
  if (page->parent >= 0) p->pages[page->parent].children--;
}

// ---- what sequences call

// Every page is free, cached or referenced; the lists and the counts agree.
static bool pages_are_sound(const struct page_pool *p) {
  int cached = 0;
  for (int32_t i = p->oldest; i >= 0; i = p->pages[i].newer, cached++)
    if (!p->pages[i].known || p->pages[i].references || cached > p->count) return false;
  return cached == p->cached_count && p->free_count >= 0 && p->free_count + cached <= p->count;
}

// A free page, else the oldest cached one.
int32_t engine_pages_take(struct page_pool *p) {
  ASSERT_DEBUG(pages_are_sound(p));
  if (!p->free_count && p->cached_count) {
    int32_t victim = p->oldest;
    cache_remove(p, victim);
    forget(p, victim);
    put_free(p, victim);
  }
  if (!p->free_count) return -1;
  int32_t index = get_free(p);
  p->pages[index] = (struct page){.parent = -1, .references = 1, .bucket_next = -1};
  return index;
}

int32_t engine_pages_find(struct page_pool *p, int32_t parent, const int32_t *tokens) {
  ASSERT(parent < 0 || p->pages[parent].known);
  int32_t index = lookup(p, parent, tokens);
  if (index < 0) return -1;
  if (p->pages[index].references++ == 0) cache_remove(p, index);
  return index;
}

// The reference of a page given up for an equal one is taken over by that one.
int32_t engine_pages_publish(struct page_pool *p, int32_t parent, const int32_t *tokens,
                             int32_t index) {
  struct page *page = &p->pages[index];
  ASSERT(!page->known && page->references == 1);
  int32_t equal = engine_pages_find(p, parent, tokens);
  if (equal >= 0) {
    put_free(p, index);
    return equal;
  }
  int32_t *bucket = bucket_of(p, parent, tokens);
  memcpy(page->tokens, tokens, PAGE_TOKEN_BYTES);
  page->known = true;
  page->parent = parent;
  page->bucket_next = *bucket;
  *bucket = index;
  if (parent >= 0) p->pages[parent].children++;
  return index;
}

// Last page first: see the order of eviction above.
void engine_pages_release(struct page_pool *p, const int32_t *table, int count) {
  ASSERT(count >= 0);
  for (int i = count - 1; i >= 0; i--) {
    struct page *page = &p->pages[table[i]];
    ASSERT(page->references > 0);
    if (--page->references) continue;
    if (page->known)
      cache_put(p, table[i]);
    else
      put_free(p, table[i]);
  }
}
