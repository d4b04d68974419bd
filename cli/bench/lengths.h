/* What benches by length share: lists of lengths and forms, models that are long
 * enough, memory as the system counts it.
 *
 * For summarize.c and the curve of train.c.
 */
#ifndef CLI_BENCH_LENGTHS_H
#define CLI_BENCH_LENGTHS_H

#include "attend/model.h"
#include "cli.h"

enum { MOST_LENGTHS = 24, MOST_FORMS = 6 };

typedef struct {
  int count;
  int tokens[MOST_LENGTHS];
} length_list;
/* "256..65536": 256, 512, .. and the last; or one number. False: neither. */
bool lengths_parse(const char *text, length_list *list);

typedef struct {
  int count;
  attend_form form[MOST_FORMS];
  char name[MOST_FORMS][64];
} form_list;
/* "softmax,favor(m=64)"; an exit code. */
int forms_parse(attend_context *ctx, const char *text, form_list *list);

/* Random weights for a folder's config.json, if need be with positions for texts
 * of so many tokens, untrained. start: initialised as for training. An exit code. */
int checkpoint_for_length(attend_context *ctx, const char *path, int tokens, bool start,
                          attend_checkpoint **files);

/* The most that the process has held since peak_watch, beyond what it held then;
 * NaN where the system does not say. */
typedef struct {
  double before;
} peak;
peak peak_watch(void);
double peak_since(peak p);

#endif
