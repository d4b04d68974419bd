/* The verb design: its options, results, and showing them.
 *
 * design.c reads options, work.c calls the library, the others print, draw
 * and write.
 */
#ifndef CLI_DESIGN_SHOW_H
#define CLI_DESIGN_SHOW_H

#include <stdio.h>

#include "attend/design.h"
#include "attend/json.h"
#include "options.h"
#include "pictures/pictures.h"

enum { DESIGN_HEADS = 16, DESIGNS_MOST = 16 };

typedef struct {
  options common;
  const char *name; /* of a shipped design, or a file */
  const char *input, *out;
  bool all, list, spec, check, least, learn, argmax, terminal, open, dark;
  double sharpness; /* 0: argmax */
  int length, steps, batch, width;
  double rate;
  bool has_seed;
  uint64_t most_inputs;
} design_options;

typedef struct { /* a design and its results so far */
  attend_context *ctx;
  attend_design *d;
  attend_design_facts facts;
  attend_way way;
  attend_verdict verdict;
  bool has_least;
  attend_least least;
  bool has_learned, studied; /* studied: here, and curve says how */
  attend_curve curve;
  double seconds; /* of learning */
  uint64_t seed;
  attend_verdict learned;
  attend_likeness like[DESIGN_HEADS];
} designed;

/* ---- results (work.c); each an exit code ---------------------------------- */

int design_open(attend_context *ctx, const char *name, designed *g);
void design_close(designed *g);
/* Checks it in the requested way. */
int design_check(designed *g, const design_options *o);
int design_least(designed *g, const design_options *o);
/* Trains a twin if requested; checks and compares it if there is one. */
int design_learn(designed *g, const design_options *o);
/* The counterexample as one sentence on stderr; EXIT_FAILED. */
int design_refuse(const designed *g);

/* ---- printing (print.c, words.c) ----------------------------------------- */

void design_print_list(FILE *out);
void design_print(const designed *g, FILE *out);
/* One row for each, as a table or as JSON. */
int design_print_rows(const designed *all, int n, bool json, FILE *out);
/* The answers to one input, place by place. */
int design_print_run(const designed *g, const design_options *o, FILE *out);
/* "argmax", "softmax of sharpness 4" */
const char *design_way_text(attend_way way, char to[64]);

/* What is alike in the twins and what is not, and why; to be freed. */
enum { WORDS_MOST = DESIGN_HEADS + 2 };
int design_words(const designed *g, char *to[WORDS_MOST]);

/* ---- the eight maps (maps.c) ------------------------------------------------------ */

enum { MAPS_NAMES = 6 * DESIGN_HEADS + 8 };

typedef struct { /* a picture's data, and what holds them */
  picture_design_data data;
  picture_design_head heads[DESIGN_HEADS + 1]; /* and the readout */
  attend_design_run *run[ATTEND_TWINS];
  const char **names[MAPS_NAMES]; /* of rows and columns */
  int n_names;
  char head_name[DESIGN_HEADS + 1][64];
  char title[128];
  char *words[WORDS_MOST];
} design_maps;

/* Both twins on an input (NULL: the spec's example); an exit code. */
int design_maps_make(const designed *g, const char *input, design_maps *m);
void design_maps_free(design_maps *m);

/* ---- writing (write.c, json.c) ------------------------------------------------ */

int design_draw_terminal(const designed *g, const design_options *o, FILE *out);
int design_write(const designed *all, int n, const design_options *o);
int design_open_page(const designed *all, int n);
int design_put_json(attend_json_writer *w, const designed *all, int n);

#endif
