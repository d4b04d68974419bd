/* Learning a tokenizer, taken apart.
 *
 * What the files that learn share.
 *
 * Text is cut by an untrained tokenizer of the same kind, loaded as any other
 * is (trainer_feed.c), and its words are counted (tally.c), by each thread in a
 * table of its own. Words become lists of letters (alphabet.c), letters become
 * merges (learn_merges.c, pairs.c), and the result is written as a
 * tokenizer.json (trained_json.c), which is loaded in turn, and saved.
 */
#ifndef TEXT_TRAINER_H
#define TEXT_TRAINER_H

#include <pthread.h>

#include "attend/text_train.h"
#include "text/loader.h"

/* ---- words and how often they occur ------------------------------------------------- */

typedef struct {
  chars text;
  uint64_t times;
  uint32_t hash;
} tally_word;

typedef struct { /* open addressing; a slot is an index + 1, 0 is free */
  tally_word *word;
  size_t count, capacity;
  uint32_t *slot;
  size_t slots; /* 0 or a power of 2, more than twice count */
  hash_key hash;
  pool pool;
} tally;

attend_status tally_add(attend_context *ctx, tally *t, const char *text,
                        size_t length, uint64_t times);
/* All of the other's, which is empty afterwards. */
attend_status tally_join(attend_context *ctx, tally *t, tally *other);
void tally_free(const attend_context *ctx, tally *t);

/* ---- what is learnt -------------------------------------------------------------------- */

typedef struct {
  chars name;       /* as files write it */
  uint32_t letters; /* it is made of */
} learnt_piece;

typedef struct {
  int32_t left, right, made;
  uint64_t count;
} learnt_merge;

/* The different words as rows of pieces, one behind the other with a gap
 * before, between and behind them. A piece stands where its first letter
 * stood, and what was the place of its other letters is dead; so the next piece
 * is as many places on as it has letters, and `back` leads to the one before. */
enum { ROW_GAP = -1, ROW_DEAD = -2 };
typedef struct {
  int32_t *id;    /* [places] a piece, ROW_GAP or ROW_DEAD */
  uint32_t *back; /* [places] where a piece ends: where it starts */
  uint32_t *word; /* [places] whose times count */
  size_t places;
} word_rows;

/* ---- the trainer ----------------------------------------------------------------------- */

enum { LONGEST_BYTES = 128, LONGEST_CHARS = 100, MOST_SPECIALS = 1024 };

typedef struct {      /* of one thread */
  attend_context ctx; /* with a sentence of its own */
  scratch s;
  tally words;
  uint64_t tokens; /* special ones that the text has */
  attend_status status;
} tally_worker;

typedef struct { /* of the bytes that are held */
  size_t start, end;
} held_part;

struct attend_text_trainer {
  attend_context *ctx;
  attend_text_train_options o; /* complete */
  const struct like *like;
  pool pool; /* names */
  attend_tokenizer *cutter;
  pthread_mutex_t memory; /* for the caller's allocator */
  tally_worker *worker;   /* [workers] */
  int workers;
  char *held; /* fed, not yet counted */
  size_t held_length, held_capacity;
  size_t open, looked;   /* where the open part starts; no seam up to there */
  bool text_open, begun; /* begun: to learn */
  held_part *part;       /* complete */
  size_t parts, part_capacity;
  learnt_piece *piece;
  size_t pieces, piece_capacity;
  learnt_merge *merge;
  size_t merges, merge_capacity;
  word_rows rows;
  uint64_t row_pieces; /* left in the rows, as often as their words occur */
  int32_t specials, letters;
  attend_tokenizer *tokenizer; /* once it has learnt */
  attend_text_trained report;
};

/* What `like` stands for. */
typedef struct like {
  const char *name, *class; /* class: of Hugging Face's transformers */
  bool wordpiece;
  const char *special[6]; /* in the order of their ids, up to NULL */
  const char *role[ATTEND_SPECIALS];
} like;

/* alphabet.c */
const like *like_of(attend_like which);
attend_status specials_find(attend_text_trainer *r);
attend_status bytes_put(attend_text_trainer *r); /* the 256 letters of bytes */
/* The letters of WordPiece; then, of either kind, the words as rows of them. */
attend_status alphabet_find(attend_text_trainer *r, const tally *words);
attend_status piece_put(attend_text_trainer *r, const char *name, size_t length,
                        uint32_t letters);
/* The special token of that name, or -1. */
int32_t special_named(const attend_text_trainer *r, const char *name,
                      size_t length);
void rows_free(const attend_context *ctx, word_rows *rows);

/* trainer_feed.c */
attend_status workers_start(attend_text_trainer *r);
void workers_free(attend_text_trainer *r);
/* Counts what is held; all words are then in the first worker's table. */
attend_status words_gather(attend_text_trainer *r);

/* learn_merges.c: from the rows, which they use up. */
attend_status merges_learn(attend_text_trainer *r);

/* trained_json.c: each into *w, which is finished. */
attend_status write_tokenizer_json(const attend_text_trainer *r,
                                   attend_json_writer *w);
attend_status write_vocab_json(const attend_text_trainer *r,
                               attend_json_writer *w);
attend_status write_config_json(const attend_text_trainer *r,
                                attend_json_writer *w);
attend_status write_specials_json(const attend_text_trainer *r,
                                  attend_json_writer *w);

#endif
