/* A viewer: models that are open, runs that were recorded, and a request.
 *
 * What the files behind view_answer.h share.
 *
 * One thread computes (view_queue.c), and of the long requests, which alone make
 * and drop runs, there is one at a time. A run is kept until others need its
 * room: the one that was not asked for longest goes first.
 */
#ifndef CLI_VIEW_CORE_H
#define CLI_VIEW_CORE_H

#include "cli.h"
#include "model_open.h"
#include "view/answer.h"

enum {
  VIEW_LONGEST = 131072, /* tokens of a text */
  VIEW_CELLS = 1 << 18,  /* of a block */
  VIEW_FORM = 128,       /* letters of a form */
  VIEW_NEW = 512,        /* tokens to generate at most */
  VIEW_OTHERS = 4,       /* forms that a run is looked at through at once */
  VIEW_FRESH = 4,        /* untrained weights of a model at once */
  VIEW_STEPS = 3,        /* steps of a course at once: two are compared */
  VIEW_SEEN = ATTEND_AT_RESIDUAL | ATTEND_AT_QUERY | ATTEND_AT_KEY |
              ATTEND_AT_VALUE | ATTEND_AT_HEAD_OUTPUT | ATTEND_AT_DENOMINATOR
};

/* ---- models ---------------------------------------------------------------- */

typedef struct {
  attend_checkpoint *files;
  attend_model *model; /* NULL: not opened */
  uint64_t seed;       /* of untrained ones */
  int step;            /* of those of a course */
  uint64_t used;       /* when they were last asked for */
  int held;            /* long requests that work with them: they stay */
} view_weights;

typedef struct {
  char id[12];
  const char *name;      /* the last part of its path */
  char *path;            /* of a course: its last step's, when it was opened */
  struct course *course; /* NULL: a model by itself */
  attend_config config;
  attend_tokenizer *tokenizer; /* NULL: texts are numbers */
  view_weights trained, fresh[VIEW_FRESH], steps[VIEW_STEPS];
} view_model;

/* ---- runs --------------------------------------------------------------------- */

typedef struct {
  char *model, *text, *second; /* second NULL: none */
  char attention[VIEW_FORM];
  bool untrained;
  uint64_t seed;
  int pad;
  int step; /* of a course; -1: the model has none */
} view_case;

typedef struct { /* a side's tokens */
  int n, real;   /* beyond real is padding */
  int32_t *ids;
  signed char *part;
} view_side;

typedef struct {
  int32_t id;
  double p;
} view_candidate;

enum { VIEW_CANDIDATES = 10 };

typedef struct { /* a token that was generated */
  int32_t id;
  double p;
  int position, length;
  size_t cache_bytes;
  int n;
  view_candidate candidate[VIEW_CANDIDATES];
} view_step;

typedef struct {
  char form[VIEW_FORM];
  attend_lens *lens;
} view_other;

typedef struct view_tile { /* one that was computed exactly */
  struct view_tile *next;
  char *key;
  float *cells;
  int height, width;
} view_tile;

typedef struct view_run {
  struct view_run *next; /* asked for less recently */
  char id[20];
  view_case c;
  view_model *of;
  view_weights *weights;
  attend_model *model; /* the weights' own, or with another form */
  attend_trace *trace;
  attend_lens *lens;
  view_other other[VIEW_OTHERS];
  view_tile *tiles;
  view_side side[2]; /* encoder, decoder; n 0: there is none */
  view_step *steps;
  int n_steps, generated;
  double seconds;
  bool lost; /* a hidden state is not finite */
  char notice[256];
  struct asking *reader; /* while it is read: who asked, */
  double done, total;    /* and how far it is, in layers */
} view_run;

struct view_queue;

struct viewer {
  attend_context *ctx;
  attend_weights weights;
  view_model *models; /* [n_models] */
  int n_models;
  view_run *runs; /* the last asked for first */
  size_t most_bytes;
  const struct view_state *start; /* what a page opens with; NULL: nothing */
  const int *kept; /* [n_kept] the steps that are told of; 0: all */
  int n_kept;
  uint64_t clock; /* counts questions for weights */
  bool gallery;
  struct view_queue *queue; /* NULL: who asks computes */
};

typedef struct {
  const char *run; /* a course of training, the first model; NULL: none */
  char **paths;    /* [n], as model_path gives them */
  int n;
  attend_weights weights;
  size_t most_bytes; /* of recorded runs; 0: 2 GiB */
  bool gallery;
} viewer_options;

/* An exit code, after a complaint. */
int viewer_open(attend_context *ctx, const viewer_options *o, viewer **v);
void viewer_close(viewer *v);
/* From here on one thread computes, and several may ask. An exit code. */
int viewer_share(viewer *v);
/* Between the steps of long work: answers what is quick and waits. */
void viewer_yield(viewer *v);
void viewer_unshare(viewer *v); /* all are answered, and the thread has ended */
void models_close(viewer *v);

/* ---- a request ------------------------------------------------------------------ */

typedef struct asking {
  viewer *v;
  const attend_json *q;
  view_reply *reply;
  view_say say; /* long ones */
  void *user;
  double said; /* when progress was said last */
  int status;  /* 0: all is well so far */
  bool gone;   /* the run is not there any more */
  char error[640];
} asking;

/* False, so that a check is one line. */
bool ask_fail(asking *a, int status, const char *sentence, ...)
    __attribute__((format(printf, 3, 4)));
bool ask_status(asking *a, attend_status status); /* true if it is ok */

bool ask_text(asking *a, const char *name, const char *otherwise,
              const char **text);
bool ask_integer(asking *a, const char *name, int64_t low, int64_t high,
                 int64_t otherwise, int *number);
/* The run that is meant, moved to the front; from `q`. */
bool ask_run(asking *a, const attend_json *q, view_run **run);
bool ask_role(asking *a, const view_run *run, attend_role *role,
              attend_lens_shape *shape);
bool ask_place(asking *a, const view_run *run, attend_head_id *at,
               attend_lens_shape *shape);
/* The run's lens, or that of the form that q's "attention" names. */
bool ask_lens(asking *a, const attend_json *q, view_run *run,
              attend_lens **lens);
/* What most questions are about: a run's role, or one head, through a lens. */
typedef struct {
  view_run *run;
  attend_head_id at; /* of ask_heads: the role alone */
  attend_lens_shape s;
  attend_lens *lens;
} asked;
bool ask_heads(asking *a, asked *h);
bool ask_head(asking *a, asked *h);
/* "row", "rows", "key", "keys": all of them if not said. */
typedef struct {
  int row, rows, key, keys;
} view_range;
bool ask_range(asking *a, int rows, int keys, int64_t most, view_range *range);

/* Says how far it is, ten times a second at most; true if nobody listens. */
bool ask_progress(asking *a, double done, double total, const char *what);
/* The same as a lens's step; user is an asking. */
int ask_step(double done, void *user);

/* ---- replies --------------------------------------------------------------------- */

bool reply_json(asking *a, attend_json_writer *w);

typedef enum { PART_F32, PART_F16, PART_U8, PART_I32 } part_type;

typedef struct {
  const char *name;
  part_type type;
  int rank, shape[4];
  const void *data; /* f32 for f16 and u8 too: they are made of it */
} reply_part;

/* extra writes further members of the header; may be NULL. */
bool reply_parts(asking *a, int n, const reply_part *parts,
                 void (*extra)(attend_json_writer *w, const void *with),
                 const void *with);

/* ---- runs ------------------------------------------------------------------------- */

bool case_read(asking *a, const attend_json *q, view_case *c);
void case_free(view_case *c);
void case_write(attend_json_writer *w, const view_case *c);
bool case_id(asking *a, const view_case *c, const char *more, char id[20]);

view_run *runs_find(viewer *v, const char *id);
/* Makes room for so many bytes; false after a failure. */
bool runs_room(asking *a, size_t bytes);
void runs_add(viewer *v, view_run *run);
void run_free(view_run *run);
void run_write(attend_json_writer *w, const view_run *run);
void step_write(attend_json_writer *w, const view_model *m, const view_step *s);

bool models_find(asking *a, const char *id, view_model **m);
/* The weights that a case asks for, loaded, and its form's model. */
bool models_take(asking *a, const view_case *c, view_run *run);
void model_write(attend_json_writer *w, const view_model *m);
/* Opens a checkpoint; and closes it, with the runs that were made with it. */
bool weights_load(asking *a, const char *path, bool fresh, view_weights *w);
void weights_drop(viewer *v, view_weights *w);

/* The weights of a step of a model that is a course, loaded. */
bool steps_take(asking *a, view_model *m, int step, view_weights **w);
/* The course that a model is, or NULL. */
struct course *steps_course(const viewer *v, const char *model);
/* Looks which steps there are now; false if there are none any more. */
bool steps_look(asking *a);
/* COURSE of viewer/README.md, or null. */
void steps_write(attend_json_writer *w, const viewer *v);

/* A token as it is shown. */
void put_token_text(attend_json_writer *w, const view_model *m, int32_t id);

int candidates_of(const float *logits, int n, int most, view_candidate *to);

/* view_finite.c: notes hidden states that are not finite; fails if there were. */
void run_check(view_run *run, const attend_hooked *sight);
bool run_is_finite(struct asking *a, const view_run *run);

/* ---- the list of requests ------------------------------------------------------------ */

bool answer_hello(asking *a);
bool answer_course(asking *a);
bool answer_run(asking *a);
bool answer_generate(asking *a);
bool answer_thumbs(asking *a);
bool answer_patterns(asking *a);
bool answer_block(asking *a);
bool answer_stats(asking *a);
bool answer_vectors(asking *a);
bool answer_tile(asking *a);
bool answer_refine(asking *a);
bool answer_flow(asking *a);
bool answer_compare(asking *a);
bool answer_candidates(asking *a);
bool answer_embeddings(asking *a);
bool answer_positions(asking *a);
bool answer_picture(asking *a);

/* view_answer for whoever computes already; say may be NULL. */
void view_answer_here(viewer *v, const char *name, const char *body,
                      size_t length, view_say say, view_reply *reply);

#endif
