/* attend/compare.h - one model and one text under several forms of attention.
 *
 *   const char *forms[] = {"softmax", "favor(m=256)", "elu"};
 *   attend_comparison *c;
 *   attend_comparison_create(model, n, ids, 3, forms, NULL, &c);
 *   const attend_form_result *r;
 *   for (int i = 0; (r = attend_comparison_get(c, i)); i++)
 *     printf("%s: loss %g, agreement %g\n", r->form, r->loss, r->agreement);
 *   attend_comparison_free(c);
 *
 * The first form is the baseline. The weights of the model are packed once and
 * shared by all forms.
 */
#ifndef ATTEND_COMPARE_H
#define ATTEND_COMPARE_H

#include "attend/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  size_t size;
  /* of attend_in: attention of these roles has the form, other roles that of the configuration;
   * 0: all */
  unsigned roles;
  int repeat;        /* passes that are timed; 0: 3 */
  bool no_attention; /* do not compare weights: saves attend_comparison_bytes */
  /* Called before every layer: done is in 0..1; other than 0 stops. */
  attend_progress progress;
  void *user;
} attend_compare_options;

/* One form beside the first. NaN: the model has no such number, or it was not
 * measured. */
typedef struct {
  const char *form; /* as it was given */
  double agreement; /* share of tokens whose largest logit is the first form's */
  double loss;      /* of the text's next tokens, nats per token; decoders */
  double drift;     /* 1 - cosine of the mean hidden states */
  double hidden;    /* |difference| / |first form's|, over all hidden states */
  /* Total variation distance of attention rows, mean over rows, heads and layers:
   * half the sum of |difference of weights|. */
  double attention; /* of the running model, whose layers have drifted apart */
  double direct;    /* given the queries and keys of the first form's pass */
  const double *attention_heads, *direct_heads; /* [layers][heads], or NULL */
  double read_s;                  /* seconds to read the text, the fastest of `repeat` */
  double token_s;                 /* seconds for one token more; decoders */
  size_t cache_bytes, work_bytes; /* of the session after reading */
} attend_form_result;

typedef struct attend_comparison attend_comparison;

/* Runs the model on ids [n], n at least 2, under each of `count` forms, which are
 * parsed as attend_form_parse does. count 0: softmax, and favor, fourier, elu, poly
 * and argmax against it. An encoder-decoder decodes the first form's greedy
 * output, of 32 tokens at most. Weights are compared in the encoder where there is one.
 * On ATTEND_STOPPED *comparison has the forms that were finished; on any other
 * failure it is NULL. options may be NULL. */
ATTEND_API attend_status attend_comparison_create(attend_model *model, int n, const int32_t *ids,
                                                  int count, const char *const *forms,
                                                  const attend_compare_options *options,
                                                  attend_comparison **comparison);
ATTEND_API void attend_comparison_free(attend_comparison *comparison);
/* Form i; NULL past the last. */
ATTEND_API const attend_form_result *attend_comparison_get(const attend_comparison *comparison,
                                                           int i);
/* Layers and heads that the weights are compared over. */
ATTEND_API void attend_comparison_shape(const attend_comparison *comparison, int *layers,
                                        int *heads);
/* Bytes of attention weights that comparing n tokens holds. */
ATTEND_API double attend_comparison_bytes(const attend_model *model, int n);

/* ---- training runs side by side -------------------------------------------------- */

enum {
  ATTEND_RUN_PARAMETERS,
  ATTEND_RUN_STEPS,
  ATTEND_RUN_VALID, /* the best validation loss, nats per token, and its step */
  ATTEND_RUN_BEST_STEP,
  ATTEND_RUN_LAST, /* the last validation loss */
  ATTEND_RUN_STEP_SECONDS,
  ATTEND_RUN_SPEED, /* tokens per second; this and the last: medians of the log */
  ATTEND_RUN_SECONDS,
  ATTEND_RUN_BYTES,
  ATTEND_RUN_ROUGE1, /* of rouge.json in the run's folder, if it is there */
  ATTEND_RUN_ROUGE2,
  ATTEND_RUN_ROUGEL,
  ATTEND_RUN_NUMBERS
};

/* NaN: unknown. low and high: ROUGE's confidence interval; of joined seeds the least
 * and the largest. */
typedef struct {
  double mean, low, high;
} attend_run_number;

typedef struct {
  char *name; /* of the folder */
  char form[64], roles[ATTEND_ROLES_TEXT];
  int encoder_width, decoder_width; /* 0: it has none */
  int seeds;                        /* that are joined here */
  bool measured;                    /* the curve is of validation losses, not of training losses */
  attend_run_number number[ATTEND_RUN_NUMBERS];
  size_t points;                              /* of the curve */
  double *step, *seconds, *loss, *low, *high; /* [points]; seconds of training */
} attend_run_facts;

typedef struct { /* zero means default */
  size_t size;
  bool join_seeds; /* NAME-s1, NAME-s2, .. become NAME, where the first of them is */
} attend_runs_options;

typedef struct attend_runs attend_runs;

/* Folders of attend train --out, finished or still growing; a log alone will do. Runs
 * of one name are called by their paths. options may be NULL. */
ATTEND_API attend_status attend_runs_read(attend_context *ctx, int count,
                                          const char *const *folders,
                                          const attend_runs_options *options, attend_runs **runs);
ATTEND_API void attend_runs_free(attend_runs *runs);
/* Run i; NULL past the last. */
ATTEND_API const attend_run_facts *attend_runs_get(const attend_runs *runs, int i);

#ifdef __cplusplus
}
#endif
#endif
