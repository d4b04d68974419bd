/* The sentences of a text that say most of it: attend summarize --extract.
 *
 * extract_options.c reads options, extract_rank.c cuts, ranks and chooses,
 * extract_words.c does without a model, extract.c runs, extract_print.c and
 * extract_page.c show.
 */
#ifndef CLI_EXTRACT_H
#define CLI_EXTRACT_H

#include "embed/vectors.h"
#include "options.h"

typedef struct {
  bool asked;
  int count;         /* sentences, or 0 */
  double share;      /* of the sentences, where count is 0 */
  const char *embed; /* a model, or words; NULL: what was pulled */
  double tau;
  double jump;  /* of the walk */
  double lead;  /* how much more the begin of a text counts; 0: no more */
  double alike; /* cosine above which a sentence says what a chosen one says */
  bool ranks;   /* all sentences, as a table */
  bool bare;    /* no ranks */
} extract_options;

extract_options extract_defaults(void);
/* --extract, --embed, ..; the input is an extract_options. */
extern const struct argp options_extract;

typedef struct {
  size_t start, length; /* bytes of the text */
  bool ends_paragraph;
  bool words;        /* false: no letter and no digit, a rule */
  double centrality; /* of all with words the sum is 1 */
  int rank;          /* from 1; 0: has no words */
  bool chosen;
  int same; /* the chosen sentence that it was passed over for, or -1 */
} ranked;

typedef struct {
  const char *name, *text; /* the caller's */
  size_t length;
  ranked *sentence; /* [count] */
  int count, words; /* words: those that have any */
  int chosen;
  double least, most; /* centrality */
  bool done;
} extraction;

/* Sentences, not yet ranked. */
void extraction_cut(extraction *x, const char *name, const char *text,
                    size_t length);
void extraction_free(extraction *x);
/* Vectors of the words that sentences share, without a model: of the document's
 * texts [words]. Returns their width. */
int extraction_words(const extraction *x, embed_text *texts);
/* Ranks and chooses; texts [words] are those that have words. ATTEND_STOPPED
 * after an interrupt. */
attend_status extraction_rank(extraction *x, attend_context *ctx,
                              const extract_options *o, const embed_text *texts,
                              int width);
/* How central among the text's: 0 the least, 1 the most. Shares alone lie too
 * close for the eye. */
double extraction_height(const extraction *x, int sentence);
/* The sentence on one line; the caller frees it. */
char *extraction_line(const extraction *x, int sentence);

/* Exit codes. */
int extractions_print(const extract_options *o, bool json, attend_context *ctx,
                      const extraction *x, int count);
int extractions_page(attend_context *ctx, const char *path, double tau,
                     const char *model, const extraction *x, int count);

#endif
