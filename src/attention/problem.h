/* Problems and their tensors of callers that may know shorter structs (attend/problem.h). */
#ifndef ATTENTION_PROBLEM_H
#define ATTENTION_PROBLEM_H

#include <string.h>

#include "attend/problem.h"
#include "base/options.h"

static inline attend_problem problem_of(const attend_problem *given) {
  attend_problem p = {0};
  memcpy(&p, given, given->size < sizeof p ? given->size : sizeof p);
  p.size = sizeof p;
  return p;
}

/* Elements are as far apart as the first one is large. */
static inline const attend_problem *problem_at(const attend_problem *list, size_t i) {
  return (const attend_problem *)((const char *)list + i * list->size);
}

/* The description at the end of a caller's struct, as large as there is room for. */
static inline size_t desc_room(size_t size, size_t at) {
  return size - at < sizeof(attend_desc) ? size - at : sizeof(attend_desc);
}

#endif
