/* A viewer: open models, recorded runs, and the queue of calls.
 *
 * Read session.c (models and weights), runs.c (running a case), heads.c (weights of
 * heads), then what interests you; queue.c stands by itself.
 */
#ifndef VIEW_SESSION_H
#define VIEW_SESSION_H

#include "attend/viewer.h"
#include "base/base.h"
#include "base/options.h"

enum {
  OTHER_FORMS = 4, /* lenses of a run at once, beside its own */
  FRESH = 4,       /* untrained weights of a model at once */
  STEPS = 3,       /* of a training run at once: two are compared */
  RECORDED = ATTEND_AT_RESIDUAL | ATTEND_AT_QUERY | ATTEND_AT_KEY | ATTEND_AT_VALUE |
             ATTEND_AT_HEAD_OUTPUT | ATTEND_AT_DENOMINATOR
};

/* ---- models ------------------------------------------------------------------------ */

typedef struct {
  attend_checkpoint *files;
  attend_model *model; /* NULL: not loaded */
  uint64_t seed;       /* of untrained ones */
  int step;            /* of a training run */
  uint64_t used;       /* the viewer's clock at the last use */
  int held;            /* long calls that use them: they stay */
} view_weights;

typedef struct {
  attend_viewer_model is;
  char *path, *name;
  attend_config *config;
  attend_tokenizer *tokenizer;
  int (*step_path)(int step, char *path, size_t capacity, void *user);
  void *user;
  view_weights trained, fresh[FRESH], steps[STEPS];
  struct view_tensors *tensors; /* in place of weights; NULL: a model */
} view_model;

/* ---- runs --------------------------------------------------------------------------- */

typedef struct {
  char form[ATTEND_VIEWER_FORM];
  attend_lens *lens;
} form_lens;

typedef struct exact_tile {
  struct exact_tile *next;
  char key[400];
  int height, width;
  float cells[];
} exact_tile;

typedef struct {
  int n, real;
  int32_t *ids;
  signed char *part;
  int32_t *start, *end;
} view_side;

typedef struct view_run {
  attend_viewer_run is;  /* first: the public pointer is this struct's */
  struct view_run *next; /* used less recently */
  view_model *of;
  view_weights *weights;
  attend_model *model; /* the weights' own, or with another form */
  attend_trace *trace;
  attend_lens *lens;
  form_lens other[OTHER_FORMS];
  exact_tile *tiles;
  view_side side[2];                 /* is.side while tokens are added */
  view_side from;                    /* is.from likewise */
  attend_intervention *intervention; /* NULL: none */
  attend_viewer_step *steps;
  bool lost; /* a hidden state is not finite */
  int held;  /* long calls that read it: it stays */
} view_run;

struct view_queue;

/* The latest map of a sweep, so that a picture of it is not computed again. */
typedef struct {
  char key[400]; /* "": none */
  attend_viewer_map map;
} swept;

struct attend_viewer {
  attend_context *ctx;
  attend_viewer_options options;
  view_model **models; /* [n_models] */
  size_t n_models, model_room;
  view_run *runs; /* the most recently used first */
  uint64_t clock;
  swept last;
  attend_attributor *attributor;  /* of the model that was attributed to last, or NULL */
  const attend_model *attributed; /* that model */
  struct view_queue *queue;       /* NULL: no thread */
};

/* A long call in progress. */
typedef struct {
  attend_viewer *v;
  attend_viewer_listener listener; /* size 0: there is none, and no call waits */
  double reported;                 /* when progress was reported last */
} view_job;

static inline attend_status job_open(attend_viewer *v, const attend_viewer_listener *listener,
                                     view_job *j) {
  *j = (view_job){.v = v};
  return listener ? OPTIONS_READ(v->ctx, attend_viewer_listener, listener, &j->listener)
                  : ATTEND_OK;
}

/* Between the steps of a long call: runs the quick calls that wait, and reports. Other
 * than 0: stop. */
int job_progress(view_job *j, double done, const char *what);

/* The weights of a case, loaded, and the model with its form. */
attend_status model_take(view_job *j, const attend_viewer_case *c, view_run *run);
/* Frees the runs that are made with these weights. */
void runs_forget(attend_viewer *v, const view_weights *w);
void run_free(attend_viewer *v, view_run *run);

/* The cosine of two vectors; 0 where one is zero. */
double view_cosine(const float *x, const float *y, int n);

/* Pins the run and its weights against eviction. */
static inline void run_hold(view_run *run, int by) {
  run->held += by;
  run->weights->held += by;
}

/* ---- tokens: runs.c ------------------------------------------------------------------ */

/* The tokens of a text as the run's encoder, or its only side, reads them. */
attend_status encode_from(attend_context *ctx, view_run *run, const char *text, view_side *to);
void side_free(attend_context *ctx, view_side *s);
/* What the run read, without padding; *types to be freed by ctx_free. */
attend_status tokens_of_run(attend_context *ctx, const view_run *run, attend_tokens *x,
                            int32_t **types);

/* ---- interventions: changes.c -------------------------------------------------------- */

/* Makes run->intervention of the case's changes; its tokens are known. */
attend_status changes_make(attend_context *ctx, view_run *run);
/* Frees the attributor of a model. */
void attributor_forget(attend_viewer *v, const attend_model *model);
/* Position -1 becomes the default, see attend/viewer.h. */
attend_status position_of(attend_context *ctx, const view_run *run, int *position);

/* ---- hidden states: states.c --------------------------------------------------------- */

/* The stream of the side with the head before a layer, -1: after the last. */
attend_status head_states(attend_context *ctx, const view_run *run, int layer, attend_hooked *x);
/* A session whose head reads rows of the run. */
attend_status head_open(const view_run *run, int rows, attend_session **session);

attend_status copy_string(attend_context *ctx, const char *text, char **to);
/* Room for one more model. */
attend_status models_room(attend_viewer *v);
void model_free(attend_viewer *v, view_model *m);
/* tensors.c: what a role's weights follow from, of tensors (user: view_tensors) or a run. */
bool tensors_describe(attend_role role, int layer, attend_desc *desc, void *tensors);
void tensors_free(attend_context *ctx, struct view_tensors *t);
/* Whether a row of cross-attention is the step that writes the next token. */
bool tensors_steps(const struct view_tensors *t);
bool tensors_separator(const char *token);
const char *tensors_token(const struct view_tensors *t, int32_t id);
/* The one run of a model that is tensors, or NULL. */
view_run *tensors_run(attend_viewer *v, int model);
/* Fails where a run is of tensors: what is asked needs a model. */
attend_status needs_model(attend_context *ctx, const view_run *run);
/* Side and roles of a run, as its caller sees them. */
void run_publish(view_run *run);
/* The most probable of n logits, sorted. */
int candidates_of(const float *logits, int n, int max, attend_viewer_candidate *to);

/* NULL, or why vectors of two runs have no cosine. */
const char *word_pair_refused(const attend_viewer_run *run, const attend_viewer_run *other);
/* The run behind a head and the lens that shows it; whole: `at` must be a head. */
attend_status head_lens(attend_viewer *v, const attend_viewer_head *head, bool whole,
                        view_run **run, attend_lens **lens);
/* A new lens of the run with a form (NULL: its own). */
attend_status lens_open(attend_context *ctx, const view_run *run, const char *form,
                        attend_lens **lens);
/* Sets NULL to all rows and keys; fails outside of them. */
attend_status range_check(attend_context *ctx, const attend_viewer_range *given, int rows, int keys,
                          attend_viewer_range *range);

#endif
