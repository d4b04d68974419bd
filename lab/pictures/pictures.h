/* Pictures of attention: what each shows, as plain data.
 *
 * Pictures know neither models nor lenses: tokens are strings, weights are
 * floats. They fit the given width and choose their height.
 * Names that do not fit are cut, thinned or left out, never drawn over others.
 *
 * Letters: L layers, H heads, T rows (queries), S keys, D and M the widths of
 * keys and values.
 */
#ifndef PICTURES_PICTURES_H
#define PICTURES_PICTURES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pictures/draw.h"

typedef struct {
  double width; /* px; 0: 1200. Less than 480 is taken as 480 */
  bool dark;
} picture_look;

/* For the title and the caption. */
typedef struct {
  const char *model;  /* "gpt2" */
  const char *form;   /* "softmax" */
  const char *role;   /* "encoder", "decoder", "cross"; NULL: omitted */
  int layer, head;    /* from 0; -1: not one alone */
  const char *notice; /* NULL, or a sentence more: "From 512 of 4096 rows." */
  const char *step;   /* of cross-attention, a token whose step is a row; NULL: not said */
} picture_about;

typedef struct {
  const char *const *text; /* [count], UTF-8; what is not is replaced */
  int count;
} picture_tokens;

/* Why a cell has no weight. */
enum {
  PICTURE_SEEN = 0,
  PICTURE_LATER,   /* after the query: causal */
  PICTURE_FAR,     /* outside the window */
  PICTURE_PADDING, /* no token */
  PICTURE_MASKS
};

/* ---- captions ---------------------------------------------------------------- */

typedef struct {
  const char *name; /* of a view, "matrix"; "head.token": of a view with a token chosen */
  const char *text; /* with names in braces */
} picture_caption;

typedef struct { /* NULL: there is none */
  const char *attention, *query, *position, *least, *layer, *first, *second, *answer, *metric;
} picture_facts;

enum { PICTURE_WORDS = 160, PICTURE_CAPTION = 1024 };

const picture_caption *picture_captions(int *count);
/* The caption of this name with the facts in place of their names; returns `to`. */
char *picture_caption_fill(const char *name, const picture_facts *facts, char *to, size_t size);
/* "softmax self-attention of the decoder" */
const char *picture_attention(const picture_about *about, char to[PICTURE_WORDS]);
/* A token's label within a sentence: without the mark of a space or of a word that goes on. */
const char *picture_spelled(const char *label);

/* Each draws into `out`, which it starts and the caller frees, and returns NULL,
 * or the sentence that says why there is nothing to draw; out is then empty. */

/* ---- all heads -------------------------------------------------------------- */

typedef struct {
  picture_about about; /* layer and head: the one that is marked */
  int layers, heads;
  int height, width;       /* cells of a thumbnail */
  const uint8_t *cells;    /* [L, H, height, width], 255: the head's largest */
  const char *const *does; /* [L, H] "previous", "": nothing special; or NULL */
} picture_model_data;

const char *picture_model(const picture_model_data *d, const picture_look *look, drawing *out);

/* ---- a head, or several, as curves from token to token ---------------------- */

typedef struct {
  picture_about about; /* head: not said, see `head` */
  picture_tokens rows, keys;
  int heads;
  const int *head;      /* [heads] their numbers, which choose the colours */
  const float *weights; /* [heads, T, S] */
  int token;            /* the one query to show, -1: all */
} picture_head_data;

const char *picture_head(const picture_head_data *d, const picture_look *look, drawing *out);

/* ---- one query, number by number --------------------------------------------- */

typedef struct {
  picture_about about;
  const char *query;    /* its token */
  int row;              /* its place */
  picture_tokens keys;  /* those that it sees */
  int first;            /* place of the first of them */
  int dim, dim_v;       /* D, M */
  double scale;         /* of q.k */
  const float *q;       /* [D] */
  const float *k;       /* [S, D] */
  const float *v;       /* [S, M] */
  const float *weights; /* [S] */
  const float *out;     /* [M] head output */
} picture_neuron_data;

const char *picture_neuron(const picture_neuron_data *d, const picture_look *look, drawing *out);

/* A word in two texts. */
typedef struct {
  const char *word, *other;
  const char *why;      /* NULL, or why there are no cosines */
  int layers;           /* L */
  const double *cosine; /* [L + 1] of its hidden states; the last: after all layers */
  int layer, head;
  double q, k, v; /* in that head; NaN: not said */
} picture_word_data;

/* Two queries: the products with each key, on one scale. text: what each query stands in. */
const char *picture_neuron_pair(const picture_neuron_data d[2], const char *const text[2],
                                const picture_word_data *word, const picture_look *look,
                                drawing *out);

/* ---- the matrix of a head ------------------------------------------------------ */

typedef struct {
  picture_about about;
  picture_tokens rows, keys; /* all of them, though cells may be fewer */
  int height, width;         /* cell (y, x) holds rows [y T / height, ..) x .. */
  const float *cells;        /* [height, width] */
  const uint8_t *mask;       /* [height, width] PICTURE_SEEN..; NULL: all seen */
  double max;                /* the scale's end; 0: the largest cell */
  bool is_signed;            /* weights may be negative */
  int token, key;            /* a row and a column to mark, -1: none */
  const float *entropy;      /* [height] nats, drawn beside; NULL: left out */
} picture_matrix_data;

const char *picture_matrix(const picture_matrix_data *d, const picture_look *look, drawing *out);

/* ---- heads over the steps of training ---------------------------------------------- */

typedef struct {
  double step, loss;
} picture_point;

typedef struct {
  picture_about about;
  picture_tokens rows, keys;
  int heads;
  const int *head; /* [heads] their numbers */
  int frames;
  const double *step; /* [frames] rising */
  const double *loss; /* [frames] NaN: not known */
  bool left_out;      /* there are more steps */
  int height, width;
  const float *cells;  /* [heads, frames, height, width] */
  const uint8_t *mask; /* [height, width] or NULL */
  bool is_signed;
  const picture_point *curve, *valid; /* the loss, in training and else */
  int losses, valids;
} picture_film_data;

const char *picture_film(const picture_film_data *d, const picture_look *look, drawing *out);

/* ---- how a token is reached through the layers -------------------------------------- */

typedef struct {
  int layer, from, to, head; /* head -1: the token itself */
  float share;               /* of a rollout */
} picture_edge;

typedef struct {
  picture_about about; /* layer, head: not said */
  picture_tokens tokens;
  int layers;
  int token;                 /* followed from after the last layer to the input */
  const float *shares;       /* [L + 1, T] rollout; NULL: argmax, which has .. */
  const uint8_t *reached;    /* [L + 1, T] 1: reached */
  const picture_edge *edges; /* from `from` after `layer` to `to` before it; of a rollout with
                                their shares, the largest of a layer first */
  int edge_count;
} picture_flow_data;

const char *picture_flow(const picture_flow_data *d, const picture_look *look, drawing *out);

/* ---- two of them ---------------------------------------------------------------------- */

typedef struct {
  picture_about about;
  const char *name, *other_name; /* "softmax", "favor(m=256)" */
  picture_tokens rows, keys;
  int height, width;
  const float *cells, *other;                            /* [height, width] */
  const uint8_t *mask;                                   /* [height, width] or NULL */
  double distance, output_error, entropy, other_entropy; /* NaN: not said */
  int layers, heads;
  const float *distances; /* [L, H] of every head; NULL: left out */
} picture_compare_data;

const char *picture_compare(const picture_compare_data *d, const picture_look *look, drawing *out);

/* ---- two models, or two texts of different lengths ------------------------------------------ */

typedef struct {
  const char *name, *place; /* "gpt2"; "layer 0, head 3" */
  int tokens, layers, heads;
  int layer, head; /* marked */
  bool causal;
  double visible;                        /* share of pairs of query and key */
  const int32_t *counts;                 /* [L + 1, patterns + 1] heads; the last row: all layers */
  const char *const *examples;           /* [patterns] "3.1 0.44, .." */
  const double *entropy, *broad, *later; /* [L + 1] means; the last: all layers */
  int height, width;
  const uint8_t *cells; /* [L, H, height, width] thumbnails */
  const float *words;   /* [W, 1 + W]: the first column is of tokens in no word */
  /* the head token by token, where there are no words; NULL: it is too long */
  picture_tokens queries, keys;
  const float *weights; /* [T, S] */
} picture_side;

typedef struct {
  picture_about about;
  picture_side side[2];
  picture_tokens words;    /* W, the same of both */
  const char *const *keys; /* [1 + W] names of the columns */
  const char *why_words;   /* NULL, or why there are none */
  const char *why;         /* NULL, or why heads have no distance */
  int patterns;
  const char *const *labels; /* [patterns + 1], the last: none */
} picture_beside_data;

const char *picture_beside(const picture_beside_data *d, const picture_look *look, drawing *out);

/* ---- tokens as they were chosen -------------------------------------------------------- */

typedef struct {
  const char *text;
  double p;
} picture_candidate;

typedef struct {
  const char *text;                    /* the token that was chosen */
  double p;                            /* NaN: not known */
  const picture_candidate *candidates; /* most probable first */
  int candidate_count;
  double cache_bytes; /* NaN: not known */
} picture_step;

typedef struct {
  picture_about about;
  const char *prompt;
  const picture_step *steps;
  int step_count;
} picture_generate_data;

const char *picture_generate(const picture_generate_data *d, const picture_look *look,
                             drawing *out);

/* ---- tokens as vectors, and their positions ------------------------------------------------ */

typedef struct {
  picture_about about; /* layer: states before it; L: after the last */
  picture_tokens rows, keys;
  int height, width;             /* cells, as in a matrix */
  const float *cosine;           /* [height, width]; NULL: positions alone */
  const picture_word_data *word; /* rows and keys are of two texts; NULL: of one */
  int count, dim;                /* sinusoidal positions; 0: tokens alone */
  const float *table;            /* [count, dim] */
  const float *shift;            /* [dim, dim] M with p_(t+1) = M p_t */
  double shift_error;            /* largest |p_(t+1) - M p_t|; NaN: not said */
} picture_embeddings_data;

const char *picture_embeddings(const picture_embeddings_data *d, const picture_look *look,
                               drawing *out);

/* ---- a designed head above its learned twin ---------------------------------------------- */

enum { PICTURE_GRIDS = 8 };

typedef struct {
  const char *title; /* "Km" */
  int rows, columns;
  const float *cells;              /* [rows, columns] */
  const char *const *row_names;    /* [rows]; NULL: numbers */
  const char *const *column_names; /* [columns]; NULL: numbers */
  bool is_weight;                  /* 0 to 1; otherwise signed */
} picture_grid;

typedef struct {
  const char *name; /* "layer 0, head same" */
  int grids, twins; /* twins: 1 or 2, designed and learned */
  picture_grid grid[2][PICTURE_GRIDS];
} picture_design_head;

typedef struct {
  const char *title;
  const char *const *sentences; /* [n_sentences], paragraphs below the maps */
  int n_sentences;
  const picture_design_head *head; /* [heads] */
  int heads;
} picture_design_data;

const char *picture_design(const picture_design_data *d, const picture_look *look, drawing *out);

/* ---- numbers or words with named rows and columns: sweeps, contributions, the logit lens -------- */

typedef struct {
  const char *title, *caption;
  const char *row_axis, *column_axis; /* "layer", "head" */
  const char *what;                   /* a cell is: "change of the logit" */
  picture_tokens rows, columns;       /* text NULL: their numbers */
  const float *cells;                 /* [rows, columns] */
  bool is_signed;
  const char *const *words; /* [rows, columns] written into the cells; NULL: the numbers */
} picture_map_data;

const char *picture_map(const picture_map_data *d, const picture_look *look, drawing *out);

/* ---- a text, each token with a score -------------------------------------------------------- */

typedef struct {
  const char *title, *caption;
  const char *what; /* "score" */
  picture_tokens tokens;
  const float *scores; /* [count], signed */
  int marked;          /* a token in a frame; -1: none */
} picture_scores_data;

const char *picture_scores(const picture_scores_data *d, const picture_look *look, drawing *out);

/* ---- a prediction: with changes and without, and what it comes from ------------------------- */

typedef struct {
  const char *label;
  double p, before;
} picture_shift;

typedef struct {
  const char *name;
  double value, before; /* before NaN: a value alone */
} picture_fact;

enum { PICTURE_MAPS = 2, PICTURE_FACTS = 8 };

/* What there is, in this order: probabilities, scores of tokens, maps, numbers. Titles of scores
 * and maps stand above them; their captions below that. */
typedef struct {
  picture_about about;
  const char *title, *caption;
  const picture_shift *shift; /* [shifts] with changes, and before */
  int shifts;
  const picture_scores_data *scores; /* NULL: none */
  picture_map_data map[PICTURE_MAPS];
  int maps;
  picture_fact fact[PICTURE_FACTS];
  int facts;
} picture_prediction_data;

const char *picture_prediction(const picture_prediction_data *d, const picture_look *look,
                               drawing *out);

/* ---- the same data in a terminal -------------------------------------------------------- */

typedef enum {
  TERMINAL_SHADES, /* ░▒▓█, for a file or without colour */
  TERMINAL_256,
  TERMINAL_TRUE /* 24 bits */
} terminal_colours;

typedef struct {
  int columns;
  terminal_colours colours;
  bool dark; /* the terminal's background */
} terminal_look;

/* Of a stream: its width, or COLUMNS, or 80; colours by COLORTERM, NO_COLOR, TERM
 * and COLORFGBG. */
terminal_look terminal_look_of(FILE *out);

/* Sets the colour of letters, or of what is behind them; no-op for shades. */
void terminal_colour(FILE *out, const terminal_look *look, bool behind, colour c);
void terminal_plain(FILE *out, const terminal_look *look);

/* Cells are pooled by their largest where they are more than columns. Fails
 * without memory, before anything is written. */
attend_status terminal_matrix(FILE *out, const picture_matrix_data *d, const terminal_look *look);
void terminal_model(FILE *out, const picture_model_data *d, const terminal_look *look);
/* Numbers of two models, and of a word in two texts. */
void terminal_beside(FILE *out, const picture_beside_data *d, const terminal_look *look);
void terminal_word(FILE *out, const picture_word_data *d, const terminal_look *look);
/* The first, the second, and the first minus the second. */
attend_status terminal_compare(FILE *out, const picture_compare_data *d, const terminal_look *look);
/* The caption of the picture with this name, and its notice. */
void terminal_caption(FILE *out, const char *name, const picture_about *about, picture_facts facts,
                      const terminal_look *look);
void terminal_prediction(FILE *out, const picture_prediction_data *d, const terminal_look *look);
void terminal_design(FILE *out, const picture_design_data *d, const terminal_look *look);
/* A line for each key: q.k, the score, the weight and a bar. */
void terminal_neuron(FILE *out, const picture_neuron_data *d, const terminal_look *look);
/* A line for each step: the token, its probability, the candidates. */
void terminal_generate(FILE *out, const picture_generate_data *d, const terminal_look *look);
/* Columns that do not fit follow below, in another map. */
void terminal_map(FILE *out, const picture_map_data *d, const terminal_look *look);
/* The tokens in a line, and each in a line of its own with its score and a bar. */
void terminal_scores(FILE *out, const picture_scores_data *d, const terminal_look *look);

#endif
