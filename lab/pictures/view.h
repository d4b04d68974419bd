/* A view of `attend view` as a picture: from the session of attend/viewer.h to pictures.h. */
#ifndef PICTURES_VIEW_H
#define PICTURES_VIEW_H

#include <math.h>

#include "attend/train.h"
#include "attend/viewer.h"
#include "pictures/pictures.h"

enum {
  VIEW_HEADS = 64,
  VIEW_CELLS = 256, /* a head is drawn in full up to so many a side, else in cells */
  VIEW_ERROR = 640
};

/* The form compared with by default. */
#define VIEW_OTHER_FORM "favor(m=256)"

/* "previous token" */
static inline const char *view_pattern_label(attend_head_pattern p) {
  static const char *const labels[ATTEND_HEAD_PATTERNS] = {
      "previous token", "next token", "first token", "separator", "same word",
      "itself",         "broad",      "positional",  "induction"};
  return labels[p];
}

/* What is viewed: runs, and role, head and settings of the view. A link of the page holds
 * all of it; viewer/README.md lists the members. Strings belong to the caller. */
typedef struct {
  const char *view; /* "model", "head", .. */
  attend_viewer_case c, other;
  bool has_other;
  const char *role; /* "": the first that the run has */
  int layer, head;  /* -1: not given */
  int heads[VIEW_HEADS], n_heads;
  int token, key; /* -1: none */
  /* Of the other run, beside the head and the token: -1: the layer at the same depth, the same
   * head, the same word. */
  int other_layer, other_head, other_token;
  const char *filter, *pool, *way;
  const char *form; /* compared with; "": the default */
  const char *sort;
  int target, against;        /* token ids of a prediction; -1: the likeliest, none */
  const char *method;         /* of attributions: "gradient", "integrated", .., "lens" */
  bool sweep;                 /* every place is changed, one after the other, */
  const char *metric;         /* measured by "logit", "probability", .. */
  const char *change, *point; /* by "ablate", "mean", "patch" of "head_output", .. */
} view_state;

/* A state with its runs. */
typedef struct {
  attend_context *ctx;
  attend_viewer *viewer;
  const view_state *state;
  const attend_viewer_run *run, *other; /* other NULL: none */
  const attend_viewer_run *before;      /* of a prediction: without changes */
  attend_viewer_head head;              /* the head of run that is viewed */
  /* A picture of all heads shows the chosen ones at the steps of a training run; NULL: it
   * does not. The listener is of running these steps. */
  const attend_training_run *steps;
  const attend_viewer_listener *listener;
} view_subject;

/* Another model, or tokens that are not as many: heads stand side by side, without a
 * difference. */
static inline bool view_is_beside(const attend_viewer_run *run, const attend_viewer_run *other,
                                  attend_role role) {
  const attend_lens_shape *s = &run->shape[role], *o = &other->shape[role];
  return run->c.model != other->c.model || !other->has_role[role] || s->rows != o->rows ||
         s->keys != o->keys;
}

/* The head of another run to show beside one of `run`. */
static inline attend_viewer_head view_head_beside(const view_state *s, attend_viewer_head head,
                                                  const attend_viewer_run *other) {
  attend_role role = attend_viewer_role_beside(other, head.at.role);
  const attend_lens_shape *a = &head.run->shape[head.at.role], *b = &other->shape[role];
  int deeper = a->layers > b->layers ? a->layers : b->layers, own, layer;
  /* the last row of its depth, so that the last layer stands beside the last */
  int row = ((head.at.layer + 1) * deeper - 1) / a->layers;
  attend_viewer_depth(a->layers, b->layers, row, &own, &layer);
  if (s->other_layer >= 0) layer = s->other_layer;
  int given = s->other_head >= 0 ? s->other_head : head.at.head;
  return (attend_viewer_head){.run = other,
                              .at = {role, layer < b->layers ? layer : b->layers - 1,
                                     given < b->heads ? given : b->heads - 1}};
}

static inline const attend_lens_shape *view_shape(const view_subject *s) {
  return &s->run->shape[s->head.at.role];
}

/* The query whose numbers are shown: the token that is given, or the last; beside another run
 * those of one word in both. */
static inline attend_status view_queries(const view_subject *s, int *token, int *other) {
  const view_state *of = s->state;
  attend_viewer_word_pair p;
  *token = of->token < 0 ? view_shape(s)->rows - 1 : of->token;
  *other = -1;
  if (!s->other) return ATTEND_OK;
  attend_role role = s->head.at.role;
  attend_status status = attend_viewer_get_word_pair(
      s->viewer, s->run, s->other, role == ATTEND_CROSS ? ATTEND_DECODER_SELF : role, of->token,
      of->other_token, &p);
  if (status) return status;
  *token = of->token < 0 ? p.word.from : of->token;
  *other = of->other_token < 0 ? p.other.from : of->other_token;
  attend_viewer_release(s->viewer, p.memory);
  return ATTEND_OK;
}

/* The level of detail at which a head has at most VIEW_CELLS cells a side. */
static inline int view_level(const attend_lens_shape *s) {
  int level = 0;
  while (s->rows >> level > VIEW_CELLS || s->keys >> level > VIEW_CELLS) level++;
  return level;
}

/* Cells as the page gets them where they are many: a byte stands for low + scale * byte. */
typedef struct {
  double low, scale;
} view_levels;

static inline view_levels view_levels_of(const float *x, size_t n) {
  double min = 0, max = 0;
  for (size_t i = 0; i < n; i++) {
    if (!isfinite(x[i])) continue;
    min = fmin(min, (double)x[i]);
    max = fmax(max, (double)x[i]);
  }
  return (view_levels){min, max > min ? (max - min) / 255 : 1};
}

static inline uint8_t view_level_byte(view_levels l, float x) {
  double level = isfinite(x) ? ((double)x - l.low) / l.scale : 0;
  return (uint8_t)lrint(fmax(0, fmin(255, level)));
}

static inline float view_level_value(view_levels l, uint8_t byte) {
  return (float)(l.low + l.scale * byte);
}

enum { VIEW_TOP = 10, VIEW_LENS_TOP = 3, VIEW_LENS = 24, VIEW_PLACES = 96 };

/* The tokens of a logit lens that are shown: as many as fit, with those before `position`. */
static inline attend_viewer_range view_lens_range(int tokens, int position) {
  int row = position - VIEW_LENS + 4;
  if (row > tokens - VIEW_LENS) row = tokens - VIEW_LENS;
  if (row < 0) row = 0;
  return (attend_viewer_range){row, tokens - row < VIEW_LENS ? tokens - row : VIEW_LENS, 0, 0};
}

/* What is asked of a prediction, -1: the model's choice. */
static inline attend_target view_target(const view_state *s) {
  return (attend_target){s->token, s->target, s->against};
}

/* Indices of words of the state: attend_change_kind of "ablate", and so on. -1: there is no
 * such word. A press may pin, a sweep cannot: it ablates then. */
int view_kind_of(const char *change);
int view_metric_of(const char *metric);
int view_method_of(const char *method);
int view_point_of(const char *point);
/* The sweep of a state, for a model with a head or without. */
attend_viewer_sweep_options view_sweep(const view_state *s, attend_role role, bool has_head);

/* n of count indices, evenly spaced, the first and the last among them. Returns how many. */
static inline int view_spread(int count, int n, int *index /* [n] */) {
  if (n > count) n = count;
  for (int i = 0; i < n; i++)
    index[i] = n == 1 ? count - 1 : (int)((int64_t)i * (count - 1) / (n - 1));
  return n;
}

/* as: "svg" or "png"; bytes to be freed by free(). False after a sentence in error. */
bool view_picture(const view_subject *s, const picture_look *look, const char *as, void **bytes,
                  size_t *length, char error[VIEW_ERROR]);
/* The state's view. */
bool view_terminal(const view_subject *s, const terminal_look *look, FILE *out,
                   char error[VIEW_ERROR]);

#endif
