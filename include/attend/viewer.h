/* attend/viewer.h - viewing attention: texts run through models, and what their heads do.
 *
 *   attend_viewer *v;
 *   attend_viewer_create(ctx, NULL, &v);
 *   attend_viewer_add(v, &(attend_viewer_source){ATTEND_INIT(attend_viewer_source), .path = "models/gutenberg"});
 *   const attend_viewer_run *run;
 *   attend_viewer_case c = {ATTEND_INIT(attend_viewer_case), .text = "It was"};
 *   attend_viewer_run_case(v, &c, NULL, &run);
 *   attend_viewer_head head = {.run = run, .at = {ATTEND_DECODER_SELF, 1, 2}};
 *   attend_viewer_block b;
 *   attend_viewer_get_block(v, &head, NULL, &b);        b.weights [b.rows, b.keys]
 *   attend_viewer_release(v, b.memory);
 *   attend_viewer_free(v);
 *
 * This is the session behind `attend view`: the page, the pictures, the terminal and
 * --json all show the numbers of these calls. A viewer opens models when they are
 * first used and records each run (attend/hooks.h); weights are computed from the
 * record when they are read (attend/lens.h). Runs share a bounded amount of memory:
 * the least recently used one is dropped first.
 *
 * Results are structs whose arrays lie in one block, `memory`, which the caller gives
 * to attend_viewer_release. A failed call leaves memory NULL; the error message is
 * attend_message of the context.
 *
 * A viewer belongs to one thread. A program with several threads calls
 * attend_viewer_start and then uses the viewer inside attend_viewer_call only.
 */
#ifndef ATTEND_VIEWER_H
#define ATTEND_VIEWER_H

#include "attend/attribute.h"
#include "attend/generate.h"
#include "attend/lens.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ATTEND_VIEWER_LONGEST = 131072, /* tokens of a text */
  ATTEND_VIEWER_CELLS = 1 << 18,  /* weights of one call: rows x keys */
  ATTEND_VIEWER_FORM = 128,       /* bytes of a form's name, its end included */
  ATTEND_VIEWER_NEW = 512,        /* tokens to generate */
  ATTEND_VIEWER_TILE = 256,       /* cells a side */
  ATTEND_VIEWER_LEVELS = 16,      /* of tiles: a cell has 2^level tokens a side */
  ATTEND_VIEWER_CANDIDATES = 10,
  ATTEND_VIEWER_CHANGES = 64,    /* in one case, at most */
  ATTEND_VIEWER_SWEPT = 1024,    /* tokens of a text for a sweep or an attribution, at most */
  ATTEND_VIEWER_GRADIENTS = 256, /* tokens of a text for gradients at attention weights, at most */
  ATTEND_VIEWER_SCORED = 512     /* last rows of a text that an effect is measured on */
};

/* ---- viewers and their models --------------------------------------------------- */

typedef struct attend_viewer attend_viewer;

typedef struct { /* zero means default */
  size_t size;
  attend_weights weights;
  size_t most_bytes; /* of recorded runs; 2 GiB */
} attend_viewer_options;
/* options may be NULL. */
ATTEND_API attend_status attend_viewer_create(attend_context *ctx,
                                              const attend_viewer_options *options,
                                              attend_viewer **viewer);
/* Ends the thread, if there is one. Accepts NULL. */
ATTEND_API void attend_viewer_free(attend_viewer *viewer);
/* Frees the memory of a result. Accepts NULL. */
ATTEND_API void attend_viewer_release(attend_viewer *viewer, void *memory);

typedef struct {
  size_t size;
  const char *path; /* the directory of a checkpoint; copied */
  const char *name; /* in sentences; NULL: the path; copied */
  /* Models of a training run have weights by step: writes the directory of a
   * step's checkpoint, returns 0 where there is none. NULL: one set of weights. */
  int (*step_path)(int step, char *path, size_t capacity, void *user);
  void *user;
} attend_viewer_source;

/* Reads configuration and tokenizer; the model's index is the count of those added
 * before. Weights are loaded by the first run. */
ATTEND_API attend_status attend_viewer_add(attend_viewer *viewer,
                                           const attend_viewer_source *source);

typedef struct {
  const char *name;
  const attend_config *config;
  const attend_tokenizer *tokenizer; /* NULL: texts are ids between spaces */
  bool has_steps;
  /* of tensors (attend_viewer_add_tensors): the one run, whatever the case; NULL: a model */
  const struct attend_viewer_run *run;
} attend_viewer_model;

/* NULL past the last. */
ATTEND_API const attend_viewer_model *attend_viewer_get_model(const attend_viewer *viewer,
                                                              int model);

enum { ATTEND_VIEWER_TOKEN = 260 };
/* A token's piece: SentencePiece's U+2581 is a space; without a tokenizer the id.
 * Returns its bytes, which may include zero bytes; a zero byte follows them. */
ATTEND_API size_t attend_viewer_token_text(const attend_viewer_model *model, int32_t id,
                                           char text[ATTEND_VIEWER_TOKEN]);
/* The token as it is shown (attend_tokenizer_label). Returns its length. A label of a row of
 * cross-attention: attend_viewer_row_label. */
ATTEND_API size_t attend_viewer_token_label(const attend_viewer_model *model, int32_t id,
                                            char label[ATTEND_VIEWER_TOKEN]);

/* ---- runs ------------------------------------------------------------------------- */

typedef struct {
  size_t size;
  int model;
  const char *text;
  /* the other sentence of a pair (encoders), or the decoder's text (encoder-decoders; NULL: it
   * is generated) */
  const char *second;
  /* a form, "favor(m=64)@encoder,cross" in these roles; NULL: softmax */
  const char *attention;
  bool untrained; /* weights as PyTorch initialises them, drawn from seed */
  uint64_t seed;
  int pad;  /* pads an encoder's text to so many tokens */
  int step; /* of a training run; -1: the weights at the model's path */
  /* The run is computed with these changes (attend_changes_parse), and recorded as changed. NULL:
   * none */
  const char *changes;
  /* The text that patches, and means, take their values from. NULL: means are those of the text
   * itself */
  const char *from;
} attend_viewer_case;

typedef struct { /* the tokens of encoder or decoder */
  int n;         /* 0: the model has no such side */
  int real;      /* tokens that are not padding */
  const int32_t *ids;
  const signed char *part;    /* 0, 1: of the second text, -1: special, padding */
  const int32_t *start, *end; /* bytes [start, end) of that text; start = end: none */
} attend_viewer_side;

typedef struct {
  int32_t id;
  double p;
} attend_viewer_candidate;

typedef struct { /* a generated token */
  int32_t id;
  double p;
  int position, length; /* its own; of the text with it */
  size_t cache_bytes;
  int n; /* of candidate, the likeliest first */
  attend_viewer_candidate candidate[ATTEND_VIEWER_CANDIDATES];
} attend_viewer_step;

typedef struct attend_viewer_run {
  char id[20]; /* a hash of the case (and of how it was continued), in hex */
  attend_viewer_case c;
  double seconds;
  size_t bytes;                          /* recorded */
  attend_viewer_side side[2];            /* encoder, decoder */
  bool has_role[ATTEND_ROLES];           /* by attend_role */
  attend_lens_shape shape[ATTEND_ROLES]; /* of those it has */
  char notice[256];                      /* "": none */
  int generated;                         /* of the decoder's last tokens, chosen by the model */
  const attend_viewer_step *steps;       /* [n_steps] */
  int n_steps;
  attend_viewer_side from; /* the tokens of c.from: of the encoder, or of the only side */
} attend_viewer_run;

/* What happens during a long call, in the thread that computes. Other than 0 stops
 * the call: ATTEND_STOPPED. Members may be NULL. */
typedef struct {
  size_t size;
  attend_progress progress;                                 /* ten times a second at most */
  int (*token)(const attend_viewer_step *step, void *user); /* generated */
  void *user;
} attend_viewer_listener;

/* Runs a case, or finds the run that was recorded of it. *run is valid until it is
 * evicted: find it again by its id. listener may be NULL. */
ATTEND_API attend_status attend_viewer_run_case(attend_viewer *viewer, const attend_viewer_case *c,
                                                const attend_viewer_listener *listener,
                                                const attend_viewer_run **run);

typedef struct { /* zero means default */
  size_t size;
  int new_tokens; /* 20 */
  float temperature;
  int top_k;
  float top_p; /* 1 */
  uint64_t seed;
} attend_viewer_generate_options;

/* As attend_viewer_run_case, then generates new_tokens. Candidates are those of the model itself. */
ATTEND_API attend_status attend_viewer_generate(attend_viewer *viewer, const attend_viewer_case *c,
                                                const attend_viewer_generate_options *options,
                                                const attend_viewer_listener *listener,
                                                const attend_viewer_run **run);

/* NULL: it is not there any more. */
ATTEND_API const attend_viewer_run *attend_viewer_find(attend_viewer *viewer, const char *id);
/* Everything recorded, for attend_trace_save. */
ATTEND_API const attend_trace *attend_viewer_run_trace(const attend_viewer_run *run);

/* Everything recorded as safetensors, with metadata for attend_viewer_add_file: tokens, mask,
 * scale, form, bias. */
ATTEND_API attend_status attend_viewer_save(attend_viewer *viewer, const attend_viewer_run *run,
                                            const char *path);

/* ---- tensors of the caller's own ----------------------------------------------------------- */

/*   attend_const_view w[] = {{layer_0}, {layer_1}};                 each [1,H,T,S]
 *   attend_viewer_attention a = {.role = ATTEND_ENCODER_SELF, .layers = 2, .weights = w,
 *                              .of = {ATTEND_INIT(attend_desc), .heads = H, .q_len = T, .kv_len = S}};
 *   attend_viewer_add_tensors(v, &(attend_viewer_tensors){ATTEND_INIT(attend_viewer_tensors),
 *                             .n = 1, .attention = &a, .tokens[0] = {T, tokens}});
 *
 * Attention that no attend_model computed: weights, or queries and keys from which they follow. It
 * has the index of a model; attend_viewer_run_case returns its one run for any text. Calls that
 * need a model fail with an error message. */

typedef struct {
  attend_role role;
  int layers;
  /* heads, kv_heads, q_len, kv_len; with queries dim, dim_v, form, mask, bias and scale, in every
   * layer. Its lengths, causal and window also say what is hidden where weights are given */
  attend_desc of;
  const int *windows; /* [L] where layers differ, in place of the mask's; or NULL */
  bool is_signed;     /* weights may be negative */
  /* Views by layer, f32, all strides zero: contiguous. They are copied. */
  const attend_const_view *weights; /* [L] of [1,H,T,S]; NULL: they follow from q and k */
  const attend_const_view *q, *k;   /* [L] of [1,H,T,D], [1,G,S,D]; NULL: weights alone */
  const attend_const_view *v;       /* [L] of [1,G,S,M]; NULL: none */
  /* [L] of [1,H,T,M], [1,H,T,1], as attend_forward returns them; NULL: computed from q, k, v */
  const attend_const_view *out, *lse;
} attend_viewer_attention;

typedef struct {
  int n;                   /* 0: tokens are shown as their positions */
  const char *const *text; /* [n] as a tokenizer writes them: "Ġthe", "▁the", "##ing", " the" */
} attend_viewer_tokens;

typedef struct {
  size_t size;
  const char *name; /* in sentences and captions; NULL: "tensors" */
  int n;
  const attend_viewer_attention *attention; /* [n], at most one of each role */
  attend_viewer_tokens tokens[2]; /* of encoder and decoder, as in attend_viewer_run.side */
  const char *form;               /* that queries and keys were computed with; NULL: "softmax" */
  bool steps; /* a row of cross-attention is the step that writes the next token */
} attend_viewer_tensors;

ATTEND_API attend_status attend_viewer_add_tensors(attend_viewer *viewer,
                                                   const attend_viewer_tensors *tensors);

typedef struct {
  size_t size;
  const char *name; /* NULL: the file's own, or the last part of its path */
  /* Tokens of the rows and of the keys (NULL: the same): a file .json or .txt, a list in JSON, or
   * words between spaces. NULL: from the file */
  const char *tokens, *key_tokens;
  /* "causal", the number of keys that are not padding, or the name of a tensor in the file.
   * NULL: from the file */
  const char *mask;
  bool is_signed;
} attend_viewer_file;

/* The tensors of a .safetensors, .npz or .npy file. Names and shapes: docs/tensors.md. */
ATTEND_API attend_status attend_viewer_add_file(attend_viewer *viewer, const char *path,
                                                const attend_viewer_file *options);

/* ---- heads ------------------------------------------------------------------------- */

typedef struct {
  const attend_viewer_run *run;
  attend_head_id at; /* calls about all heads of a role read the role alone */
  const char *form;  /* of the weights, on the run's queries and keys; NULL: its own */
} attend_viewer_head;

typedef struct {
  int row, rows, key, keys;
} attend_viewer_range;

typedef struct {
  void *memory;
  int layers, heads, height, width;
  float *cells;           /* [layers, heads, height, width] 0 to 255: the head's largest |weight| */
  float *max;             /* [layers, heads] that weight; a cell is the largest in it */
  int rows_sampled, rows; /* fewer than rows: a sample */
} attend_viewer_thumbs;

/* Every head of a role in at most size x size cells, size from 4 to 256. */
ATTEND_API attend_status attend_viewer_get_thumbs(attend_viewer *viewer,
                                                  const attend_viewer_head *head, int size,
                                                  attend_viewer_thumbs *thumbs);

typedef struct {
  void *memory;
  int layers, heads;
  attend_pattern_scores *scores; /* [layers, heads] */
  int rows_sampled, rows;
} attend_viewer_patterns;

ATTEND_API attend_status attend_viewer_get_patterns(attend_viewer *viewer,
                                                    const attend_viewer_head *head,
                                                    attend_viewer_patterns *patterns);

typedef struct {
  void *memory;
  int rows, keys;
  float *weights; /* [rows, keys] */
} attend_viewer_block;

/* range NULL: all of the head. At most ATTEND_VIEWER_CELLS weights. */
ATTEND_API attend_status attend_viewer_get_block(attend_viewer *viewer,
                                                 const attend_viewer_head *head,
                                                 const attend_viewer_range *range,
                                                 attend_viewer_block *block);

typedef struct {
  void *memory;
  int rows, keys;
  float *entropy;    /* [rows] nats */
  int32_t *top;      /* [rows] the key with the largest weight, -1: none */
  float *top_weight; /* [rows] */
  float *mass;       /* [keys] weight received from all rows */
} attend_viewer_stats;

ATTEND_API attend_status attend_viewer_get_stats(attend_viewer *viewer,
                                                 const attend_viewer_head *head,
                                                 attend_viewer_stats *stats);

typedef struct {
  void *memory;
  int rows, keys, dim, dim_v;
  float *q;       /* [rows, dim] */
  float *k;       /* [keys, dim] */
  float *v;       /* [keys, dim_v] */
  float *out;     /* [rows, dim_v] */
  float *lse;     /* [rows] log of the denominator; signed forms: itself */
  float *weights; /* [rows, keys] */
  float scale;
} attend_viewer_vectors;

ATTEND_API attend_status attend_viewer_get_vectors(attend_viewer *viewer,
                                                   const attend_viewer_head *head,
                                                   const attend_viewer_range *range,
                                                   attend_viewer_vectors *vectors);

/* ---- tiles -------------------------------------------------------------------------- */

typedef struct {
  attend_viewer_head head;
  int level, x, y; /* from key x * 256 * 2^level, row y * 256 * 2^level on */
  attend_pool pool;
  const attend_viewer_run *minus; /* NULL, or subtracted: max keeps the largest |difference| */
  const char *minus_form;         /* of minus, as in attend_viewer_head */
} attend_viewer_place;

typedef struct {
  void *memory;
  int height, width; /* at most 256 each */
  float *cells;      /* [height, width] */
  double rows_each;  /* rows computed of those in a cell */
  bool exact;        /* all of them */
} attend_viewer_tile;

/* A large tile is sampled, unless attend_viewer_refine computed it before. */
ATTEND_API attend_status attend_viewer_get_tile(attend_viewer *viewer,
                                                const attend_viewer_place *place,
                                                attend_viewer_tile *tile);
/* A long call: computes the tile from all its rows, for later calls. */
ATTEND_API attend_status attend_viewer_refine(attend_viewer *viewer,
                                              const attend_viewer_place *place,
                                              const attend_viewer_listener *listener);

/* A query as it is shown: its token; in cross-attention the token that this step of the decoder
 * writes, "→ dog", since that is what it looks at the encoder's text for. */
ATTEND_API size_t attend_viewer_row_label(const attend_viewer_model *model,
                                          const attend_viewer_run *run, attend_role role, int row,
                                          char label[ATTEND_VIEWER_TOKEN]);

/* ---- through the layers; two runs ----------------------------------------------------- */

typedef struct {
  int layer, from, to; /* from a token after the layer to one before it */
  float share;         /* of the token that is followed; all of a layer add up to 1 */
} attend_viewer_link;

typedef struct {
  void *memory;
  int layers, tokens;
  float *shares; /* [layers + 1, tokens], row `layers` is 1 at the token */
  double passed; /* largest share of a layer that was not followed (attend_lens_rollout) */
  /* Those that carry a share, the largest of each layer, from the last layer down; none for
   * texts of more than ATTEND_VIEWER_LINKED tokens. */
  attend_viewer_link *links;
  int n_links;
} attend_viewer_rollout;

enum { ATTEND_VIEWER_LINKED = 160 };

/* Attention rollout (Abnar and Zuidema 2020) of a token of a self-attention role. */
ATTEND_API attend_status attend_viewer_get_rollout(attend_viewer *viewer,
                                                   const attend_viewer_head *head, int token,
                                                   attend_viewer_rollout *rollout);

typedef struct {
  void *memory;
  int layers, tokens;
  uint8_t *reached; /* [layers + 1, tokens] */
  attend_reach_edge *edges;
  int n_edges;
} attend_viewer_reach;

/* The tokens reached where each head follows its largest weight alone. */
ATTEND_API attend_status attend_viewer_get_reach(attend_viewer *viewer,
                                                 const attend_viewer_head *head, int token,
                                                 attend_viewer_reach *reach);

typedef struct {
  void *memory;
  const char *why; /* NULL, or why the runs cannot be compared */
  int layers, heads;
  attend_difference *difference; /* [layers, heads]; NULL with why */
  double *hidden;                /* [layers + 1] relative error of hidden states; NULL: one run */
  int rows_sampled, rows;
} attend_viewer_comparison;

/* The run with another run; or with head->form on its own queries and keys, where
 * other is NULL. */
ATTEND_API attend_status attend_viewer_compare(attend_viewer *viewer,
                                               const attend_viewer_head *head,
                                               const attend_viewer_run *other,
                                               attend_viewer_comparison *comparison);

/* ---- two models; two texts ------------------------------------------------------------------ */

enum { ATTEND_VIEWER_BEST = 3 }; /* example heads of a pattern */

typedef struct { /* all heads of a role, by layer */
  void *memory;
  int layers, heads, rows, keys;
  bool causal;
  double visible;                /* as attend_lens_visible */
  attend_pattern_summary *layer; /* [layers + 1]; the last: all layers */
  /* by pattern: layer * heads + head of those with the highest scores, -1: no more */
  int best[ATTEND_HEAD_PATTERNS][ATTEND_VIEWER_BEST];
  double best_score[ATTEND_HEAD_PATTERNS][ATTEND_VIEWER_BEST];
  int rows_sampled;
} attend_viewer_summary;

/* Head patterns of a role, counted. Runs of any two models can be compared by it. */
ATTEND_API attend_status attend_viewer_get_summary(attend_viewer *viewer,
                                                   const attend_viewer_head *head,
                                                   attend_viewer_summary *summary);

/* The attention of `other` to show beside a role of another run: the same, or else its own
 * self-attention. */
ATTEND_API attend_role attend_viewer_role_beside(const attend_viewer_run *other, attend_role role);
/* Maps row `row` of max(layers, others) rows to a layer of each model, by relative depth. */
static inline void attend_viewer_depth(int layers, int others, int row, int *layer, int *other) {
  int rows = layers > others ? layers : others;
  *layer = row * layers / rows, *other = row * others / rows;
}

typedef struct {
  void *memory;
  const char *why; /* NULL, or why there are no words to compare */
  char *text;      /* the words are parts of it */
  int words, tokens;
  int32_t *start, *end; /* [words] bytes of text */
  int32_t *of;          /* [tokens] the word of a token of the run, -1: none */
  float *weights;       /* [words, 1 + words], the first column: tokens that are in no word */
} attend_viewer_words;

/* A head of self-attention by words instead of tokens: the weight of a word is summed over its
 * tokens as keys and averaged over its tokens as queries, so rows sum to 1. Words are those of
 * the text, joined where a token of this run, or of `other` (NULL: none), covers several: heads
 * of models with different tokenizers that read the same text have the same words. */
ATTEND_API attend_status attend_viewer_get_words(attend_viewer *viewer,
                                                 const attend_viewer_head *head,
                                                 const attend_viewer_run *other,
                                                 attend_viewer_words *words);

typedef struct {
  int from, n; /* its tokens */
} attend_viewer_span;

typedef struct {
  void *memory;
  const char *why; /* NULL, or why there are no cosines */
  attend_viewer_span word, other;
  bool same; /* it is the same word */
  int layers, heads;
  double *hidden;    /* [layers + 1] cosine of the hidden states before a layer; after the last */
  double *q, *k, *v; /* [layers, heads] cosine of its queries, keys, values */
} attend_viewer_word_pair;

/* A word in two runs of one model: cosines of its vectors, averaged over its tokens. The word
 * is that of `token`; token -1: the first that both texts have after different words.
 * other_token -1: the first place of the same word in the other text, or else the same token. */
ATTEND_API attend_status attend_viewer_get_word_pair(attend_viewer *viewer,
                                                     const attend_viewer_run *run,
                                                     const attend_viewer_run *other,
                                                     attend_role side, int token, int other_token,
                                                     attend_viewer_word_pair *pair);
/* Where a text has a word, the case of ASCII letters ignored; nth: 0 the first. n = 0: it has
 * none. */
ATTEND_API attend_status attend_viewer_find_word(attend_viewer *viewer,
                                                 const attend_viewer_run *run, attend_role side,
                                                 const char *word, int nth,
                                                 attend_viewer_span *span);

/* ---- interventions ---------------------------------------------------------------------- */

/* Position -1: the last of a decoder; of an encoder the first mask, else its first token that the
 * tokenizer did not add. Tokens of a target that are -1 are the model's own choice without changes
 * (attend/intervene.h). */

/* Position -1 becomes that default; others are checked. */
ATTEND_API attend_status attend_viewer_get_position(attend_viewer *viewer,
                                                    const attend_viewer_run *run, int *position);

typedef struct {
  int32_t id;
  double p, before; /* probability with and without the changes */
  float logit, logit_before;
} attend_viewer_shift;

typedef struct {
  void *memory;
  attend_target target;       /* resolved */
  double value, before;       /* of the target: its logit, or the difference of two */
  int n;                      /* of shift, the likeliest in either run first */
  attend_viewer_shift *shift; /* [n] */
  int rows;                   /* that loss and divergence are the mean over, the last ones */
  double loss, loss_before; /* of the tokens that follow; encoders: of the text's own. NaN: none */
  double divergence;        /* KL(p ‖ q), p from `before`, q from the run; mean over rows */
  double state;             /* |change| / |vector| of the hidden states after the last layer */
  bool has_head;            /* false: n is 0, and there is no target, loss or divergence */
} attend_viewer_effect;

/* What the changes of a run do to a prediction. before: the run of the same case without changes. */
ATTEND_API attend_status attend_viewer_get_effect(attend_viewer *viewer,
                                                  const attend_viewer_run *run,
                                                  const attend_viewer_run *before,
                                                  const attend_target *target, int top,
                                                  attend_viewer_effect *effect);

typedef struct { /* zero means default */
  size_t size;
  attend_sweep_axis axis;
  attend_change_kind kind;
  attend_point point;
  attend_role role;
  attend_pin pin;
  const char *from; /* as in a case */
  attend_metric_kind metric;
  attend_target target; /* {-1, -1, -1}: all of it the model's choice */
} attend_viewer_sweep_options;

typedef struct {
  void *memory;
  attend_target target; /* resolved */
  int layers, columns;  /* of a stream one layer more: after the last */
  double before;        /* the metric without a change */
  double *map;          /* [layers, columns] with the change in that place alone */
} attend_viewer_map;

/* A long call: one change in every place by itself, without those of the run. */
ATTEND_API attend_status attend_viewer_sweep(attend_viewer *viewer, const attend_viewer_run *run,
                                             const attend_viewer_sweep_options *sweep,
                                             const attend_viewer_listener *listener,
                                             attend_viewer_map *map);

/* ---- attributions ------------------------------------------------------------------------ */

typedef enum {
  ATTEND_VIEWER_BY_GRADIENT = 0, /* gradient x input, a score for each token */
  ATTEND_VIEWER_BY_INTEGRATED,   /* integrated gradients, from a text of masks or padding */
  ATTEND_VIEWER_BY_ATTENTION,    /* weight x gradient, summed over each head */
  ATTEND_VIEWER_BY_DIRECT        /* direct contributions of heads and mlps */
} attend_viewer_method;

typedef struct { /* zero means default */
  size_t size;
  attend_viewer_method method;
  attend_target target; /* {-1, -1, -1}: all of it the model's choice */
  attend_head_id at;    /* BY_ATTENTION: the role, and the head of `map` */
} attend_viewer_attribute_options;

typedef struct {
  void *memory;
  attend_target target;   /* resolved */
  double logit;           /* the target's value */
  double baseline;        /* what the sum is compared with: logit - baseline. NaN: nothing */
  double sum;             /* of all scores */
  int steps;              /* INTEGRATED */
  int n;                  /* of scores: the encoder's tokens, then the decoder's; 0: none */
  float *scores;          /* [n]; ATTENTION: of the role's keys */
  int layers, heads;      /* 0: no scores of heads */
  float *head;            /* [layers, heads] of self-attention, or of the role asked for */
  float *cross;           /* [layers, heads] DIRECT of encoder-decoders, else NULL */
  float *mlp;             /* [layers] DIRECT, else NULL */
  double embedding, rest; /* DIRECT; else NaN */
  int rows, keys;         /* ATTENTION, else 0 */
  float *map;             /* [rows, keys] weight x gradient of one head */
} attend_viewer_attribution;

/* A long call. Of the model without changes. */
ATTEND_API attend_status attend_viewer_attribute(attend_viewer *viewer,
                                                 const attend_viewer_run *run,
                                                 const attend_viewer_attribute_options *options,
                                                 const attend_viewer_listener *listener,
                                                 attend_viewer_attribution *attribution);

typedef struct {
  void *memory;
  int layers, row, rows, top; /* layers: one more than the model has */
  int32_t *token;             /* [layers, rows, top] the likeliest first */
  double *p;                  /* [layers, rows, top] */
} attend_viewer_logit_lens;

/* A long call. Logit lens of rows of the side with the head: logits of the LM head applied to the
 * residual stream before each layer, and after the last. range NULL: all rows; its keys are not
 * read. */
ATTEND_API attend_status attend_viewer_get_logit_lens(attend_viewer *viewer,
                                                      const attend_viewer_run *run,
                                                      const attend_viewer_range *range, int top,
                                                      const attend_viewer_listener *listener,
                                                      attend_viewer_logit_lens *lens);

/* ---- tokens as vectors ---------------------------------------------------------------- */

/* The likeliest tokens after `position` (decoders) or at it (masked language models).
 * side: ATTEND_ENCODER_SELF or ATTEND_DECODER_SELF. */
ATTEND_API attend_status attend_viewer_get_candidates(attend_viewer *viewer,
                                                      const attend_viewer_run *run,
                                                      attend_role side, int position, int top,
                                                      attend_viewer_candidate *list /* [top] */,
                                                      int *n);

typedef struct {
  void *memory;
  int rows, keys;
  float *cosine; /* [rows, keys] */
  float *norm;   /* [rows] */
} attend_viewer_embeddings;

/* Hidden states before a layer; `layers`: after the last. other: keys are its tokens, of the
 * same side; NULL: the run's own. */
ATTEND_API attend_status attend_viewer_get_embeddings(attend_viewer *viewer,
                                                      const attend_viewer_run *run,
                                                      const attend_viewer_run *other,
                                                      attend_role side, int layer,
                                                      const attend_viewer_range *range,
                                                      attend_viewer_embeddings *embeddings);

typedef struct {
  void *memory;
  int count, width;
  float *table;       /* [count, width] sinusoidal positions */
  float *cosine;      /* [count, count] */
  float *shift;       /* [width, width] M with p_(t+1) = M p_t */
  float *learned;     /* [count, count] cosines of the model's own; NULL: none */
  double shift_error; /* the largest |p_(t+1) - M p_t| */
} attend_viewer_positions;

/* count and width from 2 to 512. model -1: no learned ones. */
ATTEND_API attend_status attend_viewer_get_positions(attend_viewer *viewer, int model, int step,
                                                     int count, int width,
                                                     attend_viewer_positions *positions);

/* ---- several threads ------------------------------------------------------------------ */

/* Starts the one thread that computes from here on. */
ATTEND_API attend_status attend_viewer_start(attend_viewer *viewer);
/* Finishes what is queued and ends the thread; long calls are stopped. */
ATTEND_API void attend_viewer_stop(attend_viewer *viewer);

typedef struct {
  void (*work)(void *user); /* may use the viewer */
  bool is_long; /* long tasks run one at a time, others between the steps of their calls */
  /* Called five times a second until the work begins: other than 0 cancels. May be
   * NULL. */
  int (*waiting)(void *user);
  void *user;
} attend_viewer_task;

/* Queues the work and waits for it; without a thread, does it at once. False: it was
 * cancelled before it began. */
ATTEND_API bool attend_viewer_call(attend_viewer *viewer, const attend_viewer_task *task);

#ifdef __cplusplus
}
#endif
#endif
