/* What summarizing long documents takes: predicted, and as it was. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "summarize/long_summary.h"
#include "table.h"

enum {
  PROGRAM = 24 << 20, /* code, its libraries, threads and their stacks */
  LONG = 20000        /* tokens that take seconds */
};

static double row_floats(const attend_stack *s, int gated) {
  double qkv = s->heads * s->dim + s->kv_heads * (s->dim + s->dim_v);
  return 2.0 * s->width + qkv + s->heads * s->dim_v + s->mlp * (1.0 + gated);
}

/* Keys and values of a token, in a layer. */
static double key_floats(const attend_stack *s) {
  return s->kv_heads * (s->dim + s->dim_v);
}

double batch_bytes(const summarizer *s, int tokens) {
  const attend_config *c = attend_model_config(s->m.model);
  int each = s->how.beams > 1 ? s->how.beams : s->how.samples;
  double together = s->how.batch > each ? s->how.batch : each;
  double floats = together * tokens * row_floats(&c->encoder, c->gated);
  floats += together * c->decoder.layers * key_floats(&c->decoder) *
            (tokens + s->how.max_new);
  floats += 2.0 * (together + 1) * c->vocab;
  return floats * sizeof(float);
}

/* Embeddings stay in the file, and what is looked up in memory. */
double base_bytes(const summarizer *s, const summary_document *d) {
  const attend_config *c = attend_model_config(s->m.model);
  double rows = 4.0 * c->vocab *
                (c->encoder.width > c->decoder.width ? c->encoder.width
                                                     : c->decoder.width);
  double files = (double)attend_checkpoint_bytes(s->m.files);
  return PROGRAM + (double)attend_model_bytes(s->m.model) +
         (rows < files ? rows : files) + 3.0 * (double)d->length;
}

size_t peak_bytes(void) {
  struct rusage r;
  return getrusage(RUSAGE_SELF, &r) ? 0 : (size_t)r.ru_maxrss << 10;
}

void say_plan(double tokens, double bytes, const char *format, ...) {
  char text[256], memory[32];
  va_list list;
  if (tokens < LONG) return;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  format_cell(CELL_BYTES, bytes, memory, sizeof memory);
  fprintf(stderr, "attend: %s; about %s of memory\n", text, memory);
}
