/* Summaries: what writes them, and what the parts of attend summarize share.
 *
 * summaries.c writes them for whoever has documents (eval --rouge and the long modes
 * too), summary_settings.c has what a folder says, cmd_summarize.c the verb.
 *
 *   summary_options how = summary_defaults();
 *   summarizer s;
 *   code = summarizer_open(&common, &model, &how, &s);
 *   code = summaries_write(&s, docs, count, NULL);
 *   use(docs[0].best[0].text);
 *   summaries_free(docs, count);
 *   summarizer_close(&s);
 */
#ifndef CLI_SUMMARIZE_H
#define CLI_SUMMARIZE_H

#include "attend/generate.h"
#include "attend/json.h"
#include "sampling.h"
#include "summarize/extract.h"
#include "summarize/long_options.h"
#include "model_open.h"

/* ---- how ------------------------------------------------------------------------ */

/* What was asked for by name: else a folder's word counts. */
enum {
  SUMMARY_BEAMS = 1,
  SUMMARY_PENALTY = 2, /* length_penalty */
  SUMMARY_REPEAT = 4,  /* no_repeat      */
  SUMMARY_LEAST = 8,   /* min_new        */
  SUMMARY_MOST = 16,   /* max_new        */
  SUMMARY_EARLY = 32,  /* early_stop     */
  SUMMARY_SAMPLES = 64,
  SUMMARY_DIVERSITY = 128
};

typedef struct {
  attend_generate_options how; /* callbacks are not the caller's */
  unsigned given;
  sampling draw;
  int least, most; /* words; 0: as many as the model likes */
} summary_options;

/* Beams, 128 tokens, one summary of each document. */
summary_options summary_defaults(void);

/* --beams, --samples, --length, ..: summary_options.c. The input is a
 * summary_options that began as summary_defaults. */
extern const struct argp options_summary;

/* Bounds in words, which a model counts in tokens: summary_words.c. */
typedef struct word_bounds word_bounds;
attend_status word_bounds_make(const attend_model *model,
                               const attend_tokenizer *tokenizer, int least,
                               int most, word_bounds **bounds);
void word_bounds_free(word_bounds *bounds);
/* Forbids what would leave them: no end before `least`, no word after `most`. */
void word_bounds_keep(const word_bounds *bounds, const attend_choice *choice);

/* Where --attention is unless --attention-roles says: what reads the document.
 * What a decoder has said so far is short. */
#define SUMMARY_ROLES "encoder,cross"

/* ---- the model ------------------------------------------------------------------ */

typedef struct {
  model_opened m;
  attend_generate_options how; /* as asked, and as the folder says */
  char *prefix;                /* of each document: "summarize: ", or "" */
  int reads;          /* tokens that the encoder takes; 0: any number */
  word_bounds *words; /* NULL: none */
} summarizer;

/* The path of the options may be NULL: attend:summarizer. Complains of a model
 * that is no encoder-decoder or has no tokenizer. An exit code;
 * summarizer_close is right after any. */
int summarizer_open(const options *common, const model_options *model,
                    const summary_options *o, summarizer *s);
void summarizer_close(summarizer *s);

/* What a folder says of summaries, where nothing else was asked for:
 * generation_config.json, config.json, and before both what config.json has in
 * task_specific_params.summarization, as pipelines read it. */
int summary_settings_read(summarizer *s, unsigned given);

/* ---- summaries ------------------------------------------------------------------ */

typedef struct {
  char *text;
  int32_t *ids; /* [count] that the decoder wrote, the end token too */
  int count;
  double log_probability; /* of the ids, in nats                        */
  double score;           /* the mean of a token: log_probability / count */
  attend_finish_reason end;
} summary;

typedef struct {
  char
      *name; /* "notes.txt", "line 3 of notes.txt"; the caller's, as the text */
  char *text; /* [length] */
  size_t length;
  int number; /* what is drawn depends on it, on nothing else in the list */
  const attend_reading *reading; /* of its `tokens`, done before; or NULL */
  /* the answer */
  int32_t *ids;  /* [tokens] that the encoder read, with prefix and marks */
  int tokens;    /* 0: there was nothing to read                          */
  size_t read;   /* bytes of the text that they cover                     */
  int cut;       /* tokens that were left out                             */
  summary *best; /* [count], best first; fewer than asked for: there were no
                    more different ones                                   */
  int count;
  bool done; /* false: interrupted before                                 */
} summary_document;

typedef struct { /* members may be NULL */
  /* Called before each step, with documents that are done. */
  void (*on_step)(int done, int count, void *user);
  /* Called for each document when it is done, in any order; one with nothing
   * to read too. */
  void (*on_done)(summary_document *one, void *user);
  void *user;
} summary_watch;

/* Writes the summaries of `count` documents, those of alike length together.
 * Stops at an interrupt (interrupt.h) with what is done. An exit code, 0 when
 * interrupted; says what the library complains of and nothing else. */
int summaries_write(summarizer *s, summary_document *docs, int count,
                    const summary_watch *watch);
/* What the encoder reads of a document: the prefix and the text, cut at the end
 * where it does not fit. */
attend_status document_encode(const summarizer *s, const summary_document *d,
                              attend_encoding *e);
/* The answers; they may then be written again. */
void summaries_free(summary_document *docs, int count);

/* ---- the verb ------------------------------------------------------------------- */

typedef struct {
  options common;
  model_options model; /* path NULL: attend:summarizer */
  summary_options how;
  extract_options extract;
  char **files; /* [n_files]; none: the standard input */
  int n_files;
  bool lines;  /* each line is a document */
  char *field; /* of JSON lines; NULL: document */
  int sources; /* of each word, to print; 0: none */
  bool show;   /* in the view, */
  char *out;   /* or a still page or a picture of it */
  long_options longer;
} summarize_options;

/* What the files say, or the standard input; an exit code. Numbered from 0. */
int documents_read(const summarize_options *o, summary_document **docs,
                   int *count);
void documents_free(summary_document *docs, int count); /* and their answers */
/* Whether each line of what is read is one. */
bool documents_are_rows(const summarize_options *o);

/* Says summaries as they are there: summary_print.c. */
typedef struct {
  int done, empty, cut, few, context; /* documents; context: summaries */
  const char *first_empty;
  const summary_document *first_cut, *first_few;
} summary_notices;

typedef struct {
  const summarize_options *o;
  const summarizer *s;
  int count; /* of all documents */
  bool rows; /* a line of input is a line of output */
  attend_json_writer w;
  summary_notices notices;
} summary_printer;

void summary_printer_start(summary_printer *p, const summarize_options *o,
                           const summarizer *s, int count);
/* The next documents, which must stay until the end; those that are not done are
 * passed over. Exit codes. */
int summary_printer_put(summary_printer *p, const summary_document *docs,
                        int count);
/* JSON is whole after a failure too, whose `code` is given back. */
int summary_printer_end(summary_printer *p, int code);
/* Says which documents are blank, `first` the first of them. Files that are
 * all blank are a failure; `rows` of a file may be. */
int say_empty(int empty, int count, const char *first, bool rows);

/* Where the words of a summary come from: summary_sources.c. */
int sources_print(const summarize_options *o, const summarizer *s,
                  const summary_document *d, const summary *one, bool several);
void sources_put(const summarize_options *o, const summarizer *s,
                 const summary_document *d, const summary *one,
                 attend_json_writer *w);

/* The view of a document and a summary of it: summary_show.c. */
int summary_show(const summarize_options *o, const summarizer *s,
                 const summary_document *d);

/* --extract: extract.c. An exit code. */
int summarize_extract(const summarize_options *o);

#endif
