/* What the files of this directory share: the design, its layout, a pass.
 *
 * spec.c reads a spec, heads.c compiles what it says of heads and
 * readout, pass.c runs batches through model/'s layers and back. All weights
 * of a twin are one array, split by the list of parts.
 */
#ifndef DESIGN_DESIGN_H
#define DESIGN_DESIGN_H

#include "attend/design.h"
#include "attend/json.h"
#include "model/transformer.h"

enum {
  MOST_TOKENS = 64,
  MOST_PLACES = 64,
  MOST_ANSWERS = 66,
  MOST_LAYERS = 8,
  MOST_HEADS = 16, /* of all layers */
  MOST_FEATURES = 256,
  MOST_COLUMNS = 128, /* of a head's Qm */
  DESIGN_PARTS = 3 * MOST_HEADS + 3,
  MOST_STEPS = 1000000,
  NAME = 32
};

typedef enum { KIND_TOKEN, KIND_POSITION, KIND_NUMBER } variable_kind;

typedef struct { /* features [at, at + width) of the stream, of [at, at + slot) that are its own */
  char name[NAME];
  variable_kind kind;
  int at, width, slot;
} variable;

typedef struct {
  char name[NAME];
  int layer, dim, dim_v, reads;
  int slot; /* the first feature that it writes */
  attend_ties ties;
  char column[MOST_COLUMNS][NAME];
} design_head;

/* An input, and its answers: one for each letter, or one alone. */
typedef struct {
  int n;
  int8_t letter[MOST_PLACES], answer[MOST_PLACES]; /* ATTEND_NO_TARGET: none */
} design_input;

struct attend_design {
  attend_context *ctx;
  attend_design_facts facts;
  char *text; /* the spec */
  char name[NAME], about[512], example[ATTEND_INPUT_TEXT], says[256];
  char token[MOST_TOKENS][NAME], answer[MOST_ANSWERS][NAME];
  int letters, tokens, answers;
  int start, end; /* tokens, -1: none */
  int shortest, longest, places;
  bool causal;
  attend_design_positions positions;
  attend_design_readout at;
  const struct design_task *task;    /* NULL: examples */
  int depth;                         /* a parameter of tasks */
  int8_t answer_of[MOST_TOKENS + 1]; /* by letter; the last: no letter */
  design_input *examples;
  size_t n_examples;
  variable variables[MOST_HEADS + 2];
  int n_variables;
  design_head heads[MOST_HEADS];
  int n_heads, layers;
  int features, embedded;
  char feature[MOST_FEATURES][2 * NAME];
  bool is_read[MOST_FEATURES]; /* the readout sees it */
  int steps, batch;
  double rate, decay;
  uint64_t seed;
  attend_design_part parts[DESIGN_PARTS];
  char part_name[DESIGN_PARTS][48];
  int n_parts;
  size_t count; /* of numbers of a twin */
  float *weights[ATTEND_TWINS];
};

/* ---- reading a spec -------------------------------------------------------------- */

/* Reading goes on after a failure, which the status keeps: what is read then counts
 * for nothing, and must be harmless. */
typedef struct {
  attend_design *d;
  const char *what;
  char place[96];       /* "head \"previous\"", in sentences */
  attend_status status; /* the first failure */
  int reads;            /* features that variables may lie in, where it is read */
  design_head *h;       /* that is read, and what its terms gave so far */
  struct compiled *c;
} reading;

/* Fails with the sentence unless ok. True: nothing failed so far. */
bool spec_check(reading *r, bool ok, const char *sentence, ...)
    __attribute__((format(printf, 3, 4)));
/* Refuses members that are not in `known`, a list of words between spaces. */
bool spec_members(reading *r, const attend_json *object, const char *known);
/* Whether it is a list of so many at least and at most. */
bool spec_is_list(const attend_json *value, size_t min, size_t max);
/* Copies a string of 1 to NAME - 1 bytes. */
void spec_name(reading *r, const attend_json *value, const char *of, char to[NAME]);
/* Members of an object. A word is one of `words`, by its number. */
int spec_integer(reading *r, const attend_json *object, const char *of, int low, int high,
                 int otherwise);
int spec_word(reading *r, const attend_json *object, const char *of, const char *const *words,
              int otherwise);
int spec_find(const char (*names)[NAME], int count, const char *name);
/* heads.c. Adds a variable behind the others, and names its features. */
void spec_add_variable(attend_design *d, variable v);
void spec_heads(reading *r, const attend_json *layers);
void spec_readout(reading *r, const attend_json *readout);
/* tasks.c. The letters of an input, if it is one. */
void spec_input(reading *r, const char *text, design_input *x);
void spec_task(reading *r, const attend_json *root);

/* ---- inputs ------------------------------------------------------------------------- */

/* Inputs from the shortest to a length; UINT64_MAX: more. */
uint64_t design_inputs(const attend_design *d, int longest);
/* Of those how many the task answers: all, or the examples; and one of these. */
uint64_t design_total(const attend_design *d, int longest);
void design_number(const attend_design *d, uint64_t index, design_input *x);
/* The answers to x's letters; ATTEND_NO_TARGET where no example has them. */
void design_answer(const attend_design *d, design_input *x);
void design_text(const attend_design *d, const design_input *x, char to[ATTEND_INPUT_TEXT]);

/* Fails if there is no such twin. */
attend_status design_has(const attend_design *d, attend_twin twin);

/* ---- a pass over a batch -------------------------------------------------------------- */

typedef struct {
  const attend_design *d;
  attend_context own; /* as many threads as the batch is worth */
  attend_model model; /* one layer for each head */
  pass p;
  attend_plan *plans[MOST_HEADS];
  activations at[MOST_HEADS];
  head_rows readout;
  /* of the host */
  float *logits;     /* [B][places][padded answers]; the others lie behind */
  int32_t *ids;      /* [B][places], -1: nothing is there */
  int32_t *expected; /* [B][places] */
  int32_t *lengths;  /* [B] */
  /* of the device */
  int32_t *device_ids, *device_expected;
  float *values, *gradients; /* [count]; gradients NULL: no way back */
  size_t count, learned;     /* learned: the first, without one-hot tables */
  float *dx, *losses;        /* [B][places][padded features], [B][places] */
} design_pass;

/* weights: a twin's, all of its parts. sharpness 0: argmax. */
attend_status pass_create(const attend_design *d, const float *weights, double sharpness, int batch,
                          bool backward, design_pass **to);
void pass_free(design_pass *p);
/* Puts an input and its targets into place b of the batch. */
void pass_put(design_pass *p, int b, const design_input *x);
/* The same with number `index` of what the task has. */
void pass_put_number(design_pass *p, int b, uint64_t index);
attend_status pass_forward(design_pass *p);
/* The mean cross-entropy of the targets. The device's logits become its gradient,
 * the host's are lost. */
double pass_loss(design_pass *p);
/* From the gradient in the device's logits to gradients. */
attend_status pass_backward(design_pass *p);
/* A head's attention of the first rows of each input: [B][rows][places]. */
attend_status pass_attention(const design_pass *p, int head, int rows, float *weights);
/* The answer of a row of logits, and the lead of `expected` (if it is one). */
int pass_answer(const attend_design *d, const float *logits, int expected, double *lead);

/* Other weights; and from values or gradients back to parts. */
attend_status pass_weights(design_pass *p, const float *weights);
attend_status pass_parts(design_pass *p, const float *from, float *parts);

static inline int qkv_width(const design_head *h) { return 2 * h->dim + h->dim_v; }
static inline const float *logits_at(const design_pass *p, int b, int place) {
  return p->logits +
         ((size_t)b * (size_t)p->d->places + (size_t)place) * (size_t)padded(p->d->answers);
}
static inline const attend_design_part *head_part(const attend_design *d, int head, int which) {
  return &d->parts[3 * head + which];
}
static inline const attend_design_part *readout_part(const attend_design *d) {
  return &d->parts[3 * d->n_heads];
}
/* The tables are behind the matrices; together they are [embedded][embedded]. */
static inline size_t tables_at(const attend_design *d) {
  const attend_design_part *last = readout_part(d);
  return last->at + (size_t)last->rows * (size_t)last->columns;
}

#endif
