/* One input, and everything that was computed on the way.
 *
 * Place: design/ - what pictures, pages and people look at.
 */
#include <string.h>

#include "attend/observe.h"
#include "design/design.h"

struct attend_design_run {
  design_pass *pass;
  int length;
  int32_t given[MOST_PLACES], wanted[MOST_PLACES];
  float *attention[MOST_HEADS]; /* [T][T] */
  float *all;                   /* of attention, [places][places] a head */
};

static attend_status read_input(const attend_design *d, const char *input,
                                uint8_t letter[MOST_PLACES], int *n) {
  const char *bad = "";
  ATTEND_CHECK(d->ctx,
               design_letters(d->token, d->letters, input, letter, n, &bad),
               "\"%.40s\" has \"%.*s\", which is not of the alphabet of \"%s\"",
               input, design_bad(bad), bad, d->name);
  ATTEND_CHECK(d->ctx, *n >= d->shortest && *n <= d->longest,
               "\"%.60s\" has %d letters: \"%s\" takes %d to %d", input, *n,
               d->name, d->shortest, d->longest);
  return ATTEND_OK;
}

/* Weights come as [places][places]; what is kept is [T][T]. */
static attend_status look(attend_design_run *r, int head) {
  const attend_design *d = r->pass->d;
  const pass_head *h = &r->pass->heads[head];
  int32_t rows[MOST_PLACES];
  float *w = r->all + (size_t)head * (size_t)(d->places * d->places);
  for (int i = 0; i < r->length; i++) rows[i] = i;
  attend_look what = {.rows = rows, .n_rows = r->length, .weights = w};
  ATTEND_TRY(attend_observe(h->plan, attend_bhtd(h->q), attend_bhtd(h->k),
                            h->lse, &what));
  for (int i = 1; i < r->length; i++)
    memmove(w + i * r->length, w + i * d->places,
            (size_t)r->length * sizeof *w);
  r->attention[head] = w;
  return ATTEND_OK;
}

static void find_answers(attend_design_run *r) {
  const attend_design *d = r->pass->d;
  for (int i = 0; i < r->length; i++)
    r->given[i] = r->wanted[i] < 0 && d->task
                      ? ATTEND_NOT_ASKED
                      : pass_answer(d, r->pass->logits + i * d->answers,
                                    r->wanted[i], NULL);
}

static attend_status run_input(attend_design_run *r, const attend_design *d,
                               attend_way way, const char *input) {
  uint8_t letter[MOST_PLACES];
  int n;
  ATTEND_CHECK(d->ctx, way.twin < ATTEND_TWINS && d->weights[way.twin],
               "\"%s\" has no learned twin: let it learn first", d->name);
  ATTEND_TRY(read_input(d, input, letter, &n));
  ATTEND_TRY(pass_create(d, way.sharpness, 1, false, &r->pass));
  pass_put(r->pass, 0, letter, n);
  r->length = r->pass->lengths[0];
  design_wanted(d, letter, n, r->wanted);
  ATTEND_TRY(pass_forward(r->pass, d->weights[way.twin]));
  ATTEND_TRY(take_zeroed(
      d->ctx, (size_t)(d->n_heads * d->places * d->places) * sizeof(float),
      "attention to look at", &r->all));
  for (int i = 0; i < d->n_heads; i++) ATTEND_TRY(look(r, i));
  find_answers(r);
  return ATTEND_OK;
}

attend_status attend_design_run_create(const attend_design *d, attend_way way,
                                       const char *input,
                                       attend_design_run **run) {
  attend_design_run *r;
  *run = NULL;
  ATTEND_TRY(take_zeroed(d->ctx, sizeof *r, "a run", &r));
  attend_status status = run_input(r, d, way, input);
  if (!status) {
    *run = r;
    return status;
  }
  give(d->ctx, r->all);
  pass_free(r->pass);
  give(d->ctx, r);
  return status;
}

void attend_design_run_free(attend_design_run *r) {
  if (!r) return;
  attend_context *ctx = r->pass->d->ctx;
  give(ctx, r->all);
  pass_free(r->pass);
  give(ctx, r);
}

attend_design_result attend_design_run_result(const attend_design_run *r) {
  return (attend_design_result){r->length,       r->pass->ids, r->pass->x,
                                r->pass->logits, r->given,     r->wanted};
}

attend_design_inside attend_design_run_head(const attend_design_run *r,
                                            int head) {
  const pass_head *h = &r->pass->heads[head];
  return (attend_design_inside){h->q, h->k, h->v, r->attention[head], h->o};
}
