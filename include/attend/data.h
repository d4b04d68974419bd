/* attend/data.h - training data: texts as ids, cut into batches.
 *
 *   attend_corpus *texts;
 *   attend_batches *batches;
 *   attend_corpus_create(ctx, &texts);
 *   attend_corpus_read(texts, "train.txt", &how);
 *   attend_batches_create(texts, &cut, &batches);
 *   attend_batches_get(batches, 7, &batch);        the eighth
 *
 * A batch depends on the corpus, the options and its number alone: there is no state
 * to save or restore. Every document is used once in an epoch; each epoch has another
 * order.
 */
#ifndef ATTEND_DATA_H
#define ATTEND_DATA_H

#include "attend/text.h"
#include "attend/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a corpus: documents, or pairs of a document and its answer ----------------- */

typedef struct attend_corpus attend_corpus;

ATTEND_API attend_status attend_corpus_create(attend_context *ctx, attend_corpus **corpus);
ATTEND_API void attend_corpus_free(attend_corpus *corpus);

/* One document: ids [n], and of a pair answer [n_answer]. All documents of a
 * corpus are pairs, or none is. */
ATTEND_API attend_status attend_corpus_add(attend_corpus *corpus, size_t n, const int32_t *ids,
                                           size_t n_answer, const int32_t *answer);

typedef enum {
  ATTEND_LEARN_CAUSAL = 0, /* predict the next token                          */
  ATTEND_LEARN_MASKED,     /* predict masked tokens                           */
  ATTEND_LEARN_PAIRS       /* predict the second text from the first          */
} attend_task;

typedef struct { /* zero means default */
  size_t size;
  const attend_tokenizer *tokenizer;
  attend_task task;
  attend_parts parts;       /* of the model: for a decoder, pairs are one text      */
  int end;                  /* appended to documents, and to the answer of a pair where the
              tokenizer appends none; negative: none                          */
  const char *field;        /* of JSONL: the text; NULL: "text", or of pairs
                        "document" or "source"                                */
  const char *answer_field; /* of pairs; NULL: "summary" or "target"          */
  size_t source_length, target_length; /* of pairs: ids at most; 0: any       */
  /* Called now and then; other than 0 stops. */
  int (*progress)(size_t done, size_t total, void *user);
  void *user;
} attend_corpus_options;

/* Adds a file. *.jsonl: an object a line. *.tsv: a pair a line, with a tab between;
 * further columns are passed over. Other files are text: one document, or several
 * with a line between them that is nothing but the end-of-text token, as the
 * tokenizer writes it or <|endoftext|>. Pairs come from .jsonl and .tsv alone. A
 * line that is wrong is refused with its number, and nothing of the file is added.
 * The file is read whole first; one that is shortened meanwhile is ATTEND_IO. */
ATTEND_API attend_status attend_corpus_read(attend_corpus *corpus, const char *path,
                                            const attend_corpus_options *options);

ATTEND_API size_t attend_corpus_documents(const attend_corpus *corpus);
ATTEND_API size_t attend_corpus_tokens(const attend_corpus *corpus);
/* Bytes of text that was read, and ids that were cut off by a length. */
ATTEND_API size_t attend_corpus_bytes(const attend_corpus *corpus);
ATTEND_API size_t attend_corpus_dropped(const attend_corpus *corpus);
/* Digest of the documents in their order. */
ATTEND_API uint64_t attend_corpus_digest(const attend_corpus *corpus);

/* Moves about a share of a corpus to another: pairs or documents that a seed
 * chooses, or where there are fewer than 20 documents, the end of the last one,
 * half of it at most. */
ATTEND_API attend_status attend_corpus_split(attend_corpus *corpus, double share, uint64_t seed,
                                             attend_corpus **held);

/* ---- batches -------------------------------------------------------------------- */

typedef struct { /* zero means default */
  size_t size;
  attend_task task;
  attend_parts parts; /* of the model: pairs are one sequence for a decoder   */
  int batch;          /* sequences in a batch; 0: 8                          */
  int length;         /* tokens of a sequence; of pairs, those at most; 0: 256 */
  int in_order;       /* one pass, in the corpus' order, for validation */
  uint64_t seed;
  int start;          /* of decoders beside an encoder: the first token; must
                         not be negative                                     */
  int pad;            /* negative: 0                                         */
  int mask, cls, sep; /* masked: ids; cls and sep negative: none             */
  int vocab;          /* masked: of ids that are drawn                       */
  float mask_share;   /* 0: 0.15. Of these 0.8 are masked, 0.1 drawn         */
} attend_batch_options;

typedef struct attend_batches attend_batches;

/* The corpus must stay, and stay as it is. */
ATTEND_API attend_status attend_batches_create(const attend_corpus *corpus,
                                               const attend_batch_options *options,
                                               attend_batches **batches);
ATTEND_API void attend_batches_free(attend_batches *batches);
/* Batches of an epoch, rounded up. */
ATTEND_API uint64_t attend_batches_epoch(const attend_batches *batches);
/* Fills ids, lengths and targets, valid until the next call; the other fields are
 * left as they are. Past an epoch in order: a count of 0. */
ATTEND_API attend_status attend_batches_get(attend_batches *batches, uint64_t number,
                                            attend_batch *batch);
/* Positions of a batch that are scored; tokens without padding, of both sides. */
ATTEND_API int attend_batch_scored(const attend_batch *batch);
ATTEND_API int64_t attend_batch_tokens(const attend_batch *batch);

#ifdef __cplusplus
}
#endif
#endif
