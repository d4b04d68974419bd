/* attend/summarize.h - summaries of texts, by encoder-decoder models (BART, T5).
 *
 *   attend_summarizer *s;
 *   attend_summaries *all;
 *   attend_document d = {.text = text, .length = strlen(text)};
 *   attend_summarizer_create(model, "models/summarizer", NULL, &s);
 *   attend_summarize(s, 1, &d, NULL, &all);
 *   puts(attend_summaries_get(all, 0)->best[0].text);
 *   attend_summaries_free(all);
 *   attend_summarizer_free(s);
 *
 * A text that is longer than the encoder's context is truncated there;
 * attend_long_summary summarizes texts of any length.
 *
 * A summarizer and what is made with it are used by one thread at a time; several
 * summarizers may share one model. Failure sentences are in the model's context
 * (attend_message).
 */
#ifndef ATTEND_SUMMARIZE_H
#define ATTEND_SUMMARIZE_H

#include "attend/generate.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- summarizers ----------------------------------------------------------------- */

/* Members of attend_summarize_options.generate that override the settings of the
 * model's directory. */
enum {
  ATTEND_SUMMARY_BEAMS = 1,
  ATTEND_SUMMARY_LENGTH_PENALTY = 2,
  ATTEND_SUMMARY_NO_REPEAT = 4,
  ATTEND_SUMMARY_MIN_NEW = 8,
  ATTEND_SUMMARY_MAX_NEW = 16,
  ATTEND_SUMMARY_EARLY_STOP = 32
};

typedef struct { /* zero means default */
  size_t size;
  /* How summaries are generated, beams 0: 4, batch 0: 32; what the directory sets replaces it.
   * Its context, where not 0, is the most tokens that the encoder reads; callbacks, streams
   * and tokenizer are not used. NULL: all defaults. */
  const attend_generate_options *generate;
  unsigned given;           /* of the enum above: not taken from the directory */
  int min_words, max_words; /* of a summary; 0: no bound */
} attend_summarize_options;

typedef struct attend_summarizer attend_summarizer;

/* directory: the model's, with its tokenizer. Settings are read from
 * generation_config.json and config.json, and from config.json's
 * task_specific_params.summarization (prefix, num_beams, max_length, ..); the last
 * one counts, as in pipelines. The model must stay. options may be NULL. */
ATTEND_API attend_status attend_summarizer_create(attend_model *model, const char *directory,
                                                  const attend_summarize_options *options,
                                                  attend_summarizer **summarizer);
ATTEND_API void attend_summarizer_free(attend_summarizer *summarizer);
/* The effective settings. */
ATTEND_API const attend_generate_options *attend_summarizer_generate(
    const attend_summarizer *summarizer);
/* Tokens that the encoder reads at most; 0: any number. */
ATTEND_API int attend_summarizer_context(const attend_summarizer *summarizer);
/* What precedes each document: "summarize: ", or "". */
ATTEND_API const char *attend_summarizer_prefix(const attend_summarizer *summarizer);
ATTEND_API const attend_tokenizer *attend_summarizer_tokenizer(const attend_summarizer *summarizer);

/* ---- documents that fit the encoder ------------------------------------------------ */

typedef struct {
  const char *text; /* [length], the caller's; must stay as long as the results */
  size_t length;
  int number; /* selects the random numbers of its samples */
} attend_document;

typedef struct {
  const char *text;
  /* [count] of the decoder, with the end token; NULL: the summary comes from a journal */
  const int32_t *ids;
  int count;
  double log_probability; /* of the ids, in nats */
  double score;           /* log_probability / count */
  attend_finish_reason end;
} attend_summary;

typedef struct {
  const int32_t *ids; /* [tokens] of the encoder, with prefix and special ones */
  int tokens;         /* 0: the text is blank */
  size_t read;        /* bytes of the text that the ids cover */
  int cut;            /* tokens that were truncated */
  /* [count] best first; fewer than samples where there were no more different ones */
  const attend_summary *best;
  int count;
  bool done; /* false: the call was stopped before */
} attend_summarized;

typedef struct { /* members may be NULL */
  size_t size;
  /* Called before each step; done is the share of the tokens of all documents
   * whose summaries are written. Other than 0 ends the call with ATTEND_STOPPED;
   * what is done is in the results. */
  attend_progress progress;
  /* Called for each document when it is done, in any order. */
  void (*on_done)(int document, const attend_summarized *one, void *user);
  void *user;
} attend_summarize_callbacks;
typedef struct attend_summaries attend_summaries;

/* Summaries of `count` documents, in batches of similar length. A summary depends
 * on its document and number alone, not on the batch. *summaries is also set when
 * the call is stopped. callbacks may be NULL. */
ATTEND_API attend_status attend_summarize(attend_summarizer *summarizer, int count,
                                          const attend_document *documents,
                                          const attend_summarize_callbacks *callbacks,
                                          attend_summaries **summaries);
ATTEND_API void attend_summaries_free(attend_summaries *summaries);
/* NULL past the last. */
ATTEND_API const attend_summarized *attend_summaries_get(const attend_summaries *summaries,
                                                         int document);

/* ---- sources ----------------------------------------------------------------------- */

/* Where the words of a summary come from: the document's words with the largest
 * cross-attention weights, averaged over layers and heads. */
typedef struct {
  const char *word; /* of the document */
  double weight;
} attend_source;

typedef struct {
  const char *word;            /* of the summary */
  const attend_source *source; /* [count], the largest weight first */
  int count;
} attend_sourced_word;

enum { ATTEND_MOST_SOURCES = 16 };
typedef struct attend_sources attend_sources;

/* Of summary i of a document; `most` sources of each word, 1 to 16. */
ATTEND_API attend_status attend_sources_create(attend_summarizer *summarizer,
                                               const attend_summaries *summaries, int document,
                                               int i, int max, attend_sources **sources);
ATTEND_API void attend_sources_free(attend_sources *sources);
/* Word i of the summary; NULL past the last. */
ATTEND_API const attend_sourced_word *attend_sources_get(const attend_sources *sources, int i);

/* ---- documents of any length -------------------------------------------------------- */

/*   attend_long_options o = {ATTEND_INIT(attend_long_options)};
 *   o.work = "work";                              may be killed and started again
 *   attend_long_summary_create(s, &d, &o, &x);
 *   attend_long_summary_write(x);
 *   const attend_summary_node *top = attend_long_summary_node(x, levels - 1, 0);
 */
typedef enum {
  /* A tree: summaries of parts that fit the encoder, then of these summaries. */
  ATTEND_LONG_CHUNKS = 0,
  /* The encoder reads the whole text with linear attention (attend_reading); the
   * result is one node. */
  ATTEND_LONG_LINEAR
} attend_long_mode;

typedef struct { /* zero means default */
  size_t size;
  attend_long_mode mode;
  int parts;  /* chunks: stop at so few summaries; 0: 1 */
  int levels; /* chunks: of the tree at most; 0: as many as needed */
  /* Directory that holds the work that is done. Chunks: a journal, a line for each
   * summary, found again by the text that it is of; linear: the encoder's sums. A
   * process that is killed loses nothing that is there. NULL: none. */
  const char *work;
  /* linear: fail if the model's form is not linear; 0: read with favor(m=256) then */
  bool own_form;
  /* Called between steps; other than 0 ends attend_long_summary_write with
   * ATTEND_STOPPED. */
  attend_progress progress;
  void *user;
} attend_long_options;
typedef struct {
  size_t start, end;            /* bytes of the document that it covers */
  size_t first_word, last_word; /* from 1 */
  int first, count;             /* children: nodes of the level below; 0: a part of the text */
  const attend_summary *best;   /* [n_best]; 0: not written yet */
  int n_best;
} attend_summary_node;

typedef struct {
  int64_t tokens;  /* of the document */
  int levels;      /* so far */
  int written;     /* nodes of the last of them that are done */
  int part_tokens; /* chunks: that a part may have */
  int cut;         /* chunks: tokens that did not fit */
  int journaled;   /* summaries that came from the journal */
  double read;     /* linear: share of the reading that is done */
  size_t bytes;    /* linear: of the reading and the ids */
  bool other_form; /* linear: favor(m=256) is in place of the model's form */
} attend_long_state;

typedef struct attend_long_summary attend_long_summary;

/* Cuts the text into parts, or makes a reading; opens the work directory. The
 * summarizer and the text must stay. options may be NULL. */
ATTEND_API attend_status attend_long_summary_create(attend_summarizer *summarizer,
                                                    const attend_document *document,
                                                    const attend_long_options *options,
                                                    attend_long_summary **summary);
/* Writes the summaries. After ATTEND_STOPPED another call continues. */
ATTEND_API attend_status attend_long_summary_write(attend_long_summary *summary);
ATTEND_API void attend_long_summary_free(attend_long_summary *summary);
/* Valid until the next call. */
ATTEND_API const attend_long_state *attend_long_summary_state(const attend_long_summary *summary);
/* Estimated peak memory of the process while it writes: model, text and batches. */
ATTEND_API double attend_long_summary_bytes(const attend_long_summary *summary);
/* Nodes of a level, 0 being the parts of the document; 0 past the last. A blank
 * document has none. */
ATTEND_API int attend_long_summary_count(const attend_long_summary *summary, int level);
/* NULL past the last. */
ATTEND_API const attend_summary_node *attend_long_summary_node(const attend_long_summary *summary,
                                                               int level, int i);

#ifdef __cplusplus
}
#endif
#endif
