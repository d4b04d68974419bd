/* What a viewer of the program has beside the session of attend/view.h: a training
 * run, what a page opens with; and the list of requests.
 *
 * A request comes as JSON, is decoded (request.h), computed by attend/view.h and
 * encoded (encode.h). Only the page uses requests: pictures, still pages,
 * the terminal and --json use the session's structs.
 */
#ifndef CLI_VIEW_VIEWER_H
#define CLI_VIEW_VIEWER_H

#include "attend/train.h"
#include "attend/json.h"
#include "attend/view.h"
#include "cli.h"
#include "view/answer.h"

struct attend_training_run;

struct viewer {
  attend_context *ctx;
  attend_viewer *session;
  struct attend_training_run *training; /* whose steps model 0 has; NULL: none */
  const struct view_state *start;       /* what a page opens with; NULL: nothing */
  const int *kept;                      /* [n_kept] the steps of a still page; 0: all */
  int n_kept;
  bool gallery, live; /* live: a server answers */
};

typedef struct {
  const char *run; /* a training run, the first model; NULL: none */
  char **paths;    /* [n], as model_path gives them */
  int n;
  attend_weights weights;
  size_t most_bytes; /* of recorded runs; 0: 2 GiB */
  bool gallery;
} viewer_options;

/* An exit code, after a complaint. */
int viewer_open(attend_context *ctx, const viewer_options *o, viewer **v);
void viewer_close(viewer *v);
/* The index of the model that has this id, or -1. */
int viewer_model(const viewer *v, const char *id);
/* The training run of a model, or NULL. */
struct attend_training_run *viewer_training(const viewer *v, const char *model);
/* Indices of at most n checkpoints, evenly spaced, the first and the last among them. */
int training_some(const struct attend_training_run *run, int n, int *places /* [n] */);

/* A case as options and requests give it. */
typedef struct {
  char *model, *text, *second; /* model: an id. second NULL: none */
  char attention[ATTEND_VIEW_FORM];
  bool untrained;
  uint64_t seed;
  int pad;
  int step; /* of a training run; -1: the model has none */
} view_case;

void case_free(view_case *c);
/* The same for the session; false after a sentence in error. */
bool case_find(const viewer *v, const view_case *c, attend_view_case *to, char error[640]);

#endif
