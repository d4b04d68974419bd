/* The verb view: its options (view.c reads them) and its outputs. */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "model_open.h"
#include "view/state.h"

enum { VIEW_MODELS = 8 };

typedef struct {
  options common;
  model_options model; /* --attention, --weights */
  const char *models[VIEW_MODELS];
  int n_models;
  const char *run;               /* what attend train made; NULL: none */
  const char *step, *other_step; /* as given: a number, best, last; or NULL */
  view_state state;
  const char *texts[2];
  int n_texts;
  const char *file; /* that the text is in */
  const char *out;
  bool terminal, gallery, open, allow_remote, no_token, dark;
  const char *bind;
  int port, width, new_tokens;
  size_t memory;
} view_options;

/* A file, written beside its place first; - is the output. */
int view_write_bytes(attend_context *ctx, const char *path, const void *bytes, size_t length);

/* Each an exit code. */
int view_serve(viewer *v, const view_options *o);
int view_write(viewer *v, const view_options *o); /* --out */
int view_print_json(viewer *v, const view_options *o, const char *path);
int view_draw_terminal(viewer *v, const view_options *o);
int view_write_still(viewer *v, const view_options *o);
/* The page around its answers, JSON in a script element of that id: "still",
 * "design". */
int view_write_page(attend_context *ctx, const char *path, const char *id, const char *answers,
                    size_t length);
int view_write_picture(viewer *v, const view_options *o, const char *as);

#endif
