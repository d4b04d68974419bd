/* Makes the n-th allocation fail, once, in a test linked with --wrap=calloc and
 * --wrap=malloc. */
#ifndef TESTS_ALLOCATION_FAILS_H
#define TESTS_ALLOCATION_FAILS_H

#include <stddef.h>

static long allocation_countdown;

static int allocation_fails(void) {
  return allocation_countdown > 0 && --allocation_countdown == 0;
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
  return allocation_fails() ? NULL : __real_calloc(count, size);
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size) { return allocation_fails() ? NULL : __real_malloc(size); }

/* 0: none fails. */
static void allocation_fails_at(long n) { allocation_countdown = n; }

#endif
