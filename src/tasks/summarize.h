/* What the files of summarizing share.
 *
 * summarize.c makes summarizers and writes summaries of documents that fit the
 * encoder; summarize_settings.c reads the model's directory and bounds a summary's words,
 * summarize_sources.c finds their sources. For long documents, summarize_long.c has the
 * handle and linear reading, summarize_tree.c cuts a text into parts and summarizes them
 * and then their summaries, with the journal of summarize_journal.c.
 */
#ifndef TASKS_SUMMARIZE_H
#define TASKS_SUMMARIZE_H

#include "attend/summarize.h"
#include "tasks/tasks.h"

typedef struct word_bounds word_bounds;

struct attend_summarizer {
  attend_context *ctx;
  attend_model *model;
  attend_tokenizer *tokenizer;
  attend_generate_options how;
  char *directory, *prefix;
  int context; /* tokens that the encoder reads; 0: any number */
  int min_words, max_words;
  word_bounds *words; /* NULL: none */
};

/* The length without the white space at its end. */
size_t text_trimmed(const char *text, size_t length);

/* ---- settings and bounds ----------------------------------------------------------- */

/* The prefix, and what is not `given`. */
attend_status settings_read(attend_summarizer *s, unsigned given);

attend_status word_bounds_create(const attend_model *model, const attend_tokenizer *tokenizer,
                                 int min_words, int max_words, word_bounds **bounds);
void word_bounds_free(const attend_context *ctx, word_bounds *bounds);
/* Forbids what would leave the bounds: no end before min_words, no word after
 * max_words. */
void word_bounds_apply(const word_bounds *bounds, const attend_choice *choice);

/* ---- documents --------------------------------------------------------------------- */

typedef struct {
  attend_document in;
  const attend_reading *reading; /* of its out.tokens; or NULL */
  attend_summarized out;         /* its arrays are owned */
} document_job;

struct attend_summaries {
  attend_context *ctx;
  int count;
  document_job *jobs;
};

typedef struct {
  attend_progress progress;
  void (*on_done)(document_job *job, void *user); /* may take out.best */
  void *user;
} job_callbacks;

/* ATTEND_STOPPED: by progress. */
attend_status jobs_write(const attend_summarizer *s, document_job *jobs, int count,
                         const job_callbacks *callbacks);
void jobs_free(const attend_context *ctx, document_job *jobs, int count);
void summaries_free(const attend_context *ctx, const attend_summary *best, int count);
/* Prefix and text as the encoder reads them, truncated where they do not fit. */
attend_status document_encode(const attend_summarizer *s, const attend_document *d,
                              attend_encoding *e);

/* ---- parts of a text --------------------------------------------------------------- */

/* What is cut only if it is longer than a part: a sentence, a summary. */
typedef struct {
  size_t start, end; /* bytes */
  int tokens;
  bool ends_paragraph;
} unit;

typedef struct {
  attend_context *ctx;
  unit *unit;
  size_t count, capacity;
  attend_encoding *encoding;
  int part_tokens; /* the most tokens of a part */
} units;

/* The limit is the context less prefix and special tokens. */
attend_status units_open(const attend_summarizer *s, units *u);
void units_close(units *u);
attend_status units_add(units *u, const char *text, size_t start, size_t end, bool ends_paragraph);
/* The sentences of a text. */
attend_status units_read(units *u, const char *text, size_t length);

typedef struct {
  int first, count; /* of the units */
} part;

/* Parts of similar size that fit, at least `least` of them where there are so many
 * units; *parts is the caller's. */
attend_status parts_cut(const units *u, int min, part **parts, int *count);

/* ---- the journal ------------------------------------------------------------------- */

typedef struct journal journal;

typedef struct { /* digests of what determines a summary besides the text */
  char model[ATTEND_DIGEST_TEXT], options[ATTEND_DIGEST_TEXT];
} journal_identity;
attend_status journal_identify(const attend_summarizer *s, journal_identity *identity);

attend_status journal_open(attend_context *ctx, const char *directory,
                           const journal_identity *identity, journal **j);
void journal_close(journal *j);
/* Whether all that was added is on the disk. */
attend_status journal_sync(journal *j);
/* One summary of the text, copied; *found says whether there is one. */
attend_status journal_find(const journal *j, const char *text, size_t length, attend_summary *one,
                           bool *found);
void journal_add(journal *j, const char *text, size_t length, const attend_summary *one);

/* ---- long documents ---------------------------------------------------------------- */

enum { MOST_LEVELS = 64 };

struct attend_long_summary {
  attend_context *ctx;
  attend_summarizer s;     /* a copy: linear replaces its model */
  attend_summarizer inner; /* of nodes below the last level: one summary, searched */
  attend_document document;
  attend_long_options options;
  attend_long_state state; /* as attend_long_summary_state returned it last */
  char *work;
  struct {
    attend_summary_node *node;
    int count;
  } level[MOST_LEVELS];
  int levels;
  int64_t tokens;
  int written, cut, journaled;
  /* chunks */
  units u;
  journal *journal;
  /* linear */
  attend_model *other; /* with favor, or NULL */
  int32_t *ids;
  size_t n_ids, ids_capacity;
  attend_reading *reading;
};

attend_status tree_open(attend_long_summary *x);
attend_status tree_write(attend_long_summary *x);
attend_status linear_open(attend_long_summary *x);
attend_status linear_write(attend_long_summary *x);
/* The first and last word of the nodes of level 0, which cover the text in order. */
void number_words(const attend_long_summary *x);
/* Asks the caller's progress; true: stop. */
static inline bool is_stopped(const attend_long_summary *x, double done) {
  return x->options.progress && x->options.progress(done, NULL, x->options.user);
}

#endif
