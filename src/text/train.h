/* Training a tokenizer: what its files share.
 *
 * Text is split by an untrained tokenizer of the same kind, loaded like any other
 * (train.c), and its words are counted (train_words.c), by each thread in a table of
 * its own. Words become sequences of letters (train_words.c), the most frequent pairs
 * become merges (train_merges.c), and the result is written as a tokenizer.json
 * (train_write.c), which is loaded in turn, and saved.
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
} counted_word;

typedef struct { /* open addressing; a slot is an index + 1, 0 is free */
  counted_word *word;
  size_t count, capacity;
  uint32_t *slot;
  size_t slots; /* 0 or a power of 2, more than twice count */
  hash_key hash;
  pool pool;
} word_counts;

attend_status counts_add(attend_context *ctx, word_counts *t, const char *text, size_t length,
                         uint64_t times);
/* Adds all counts of the other, which is empty afterwards. */
attend_status counts_join(attend_context *ctx, word_counts *t, word_counts *other);
void counts_free(const attend_context *ctx, word_counts *t);

/* ---- the result ------------------------------------------------------------------------ */

typedef struct {
  chars name;       /* as in files */
  uint32_t letters; /* of the piece */
} trained_piece;

typedef struct {
  int32_t left, right, made;
  uint64_t count;
} trained_merge;

/* The distinct words as rows of pieces, one after the other, with a gap before,
 * between and after them. A piece stands where its first letter stood; the positions
 * of its other letters are dead. So the next piece is as many positions on as it has
 * letters, and `back` leads to the previous one. */
enum { ROW_GAP = -1, ROW_DEAD = -2 };
typedef struct {
  int32_t *id;    /* [places] a piece, ROW_GAP or ROW_DEAD */
  uint32_t *back; /* [places] at the end of a piece: its start */
  uint32_t *word; /* [places] the word, whose count applies */
  size_t places;
} word_rows;

/* ---- the trainer ----------------------------------------------------------------------- */

enum { LONGEST_BYTES = 128, LONGEST_CHARS = 100, MOST_SPECIALS = 1024 };

typedef struct {      /* one thread */
  attend_context ctx; /* with a message of its own */
  scratch s;
  word_counts words;
  uint64_t tokens; /* special tokens in the text */
  attend_status status;
} count_worker;

typedef struct { /* a range of the buffered bytes */
  size_t start, end;
} held_part;

struct attend_text_trainer {
  attend_context *ctx;
  attend_text_train_options o; /* complete parts */
  const struct like *like;
  pool pool; /* strings of pieces */
  attend_tokenizer *cutter;
  pthread_mutex_t memory; /* around the caller's allocator */
  count_worker *worker;   /* [workers] */
  int workers;
  char *held; /* buffered, not yet counted */
  size_t held_length, held_capacity;
  size_t open, looked;   /* start of the open part; no seam before `looked` */
  bool text_open, begun; /* begun: to learn */
  held_part *part;       /* complete */
  size_t parts, part_capacity;
  trained_piece *piece;
  size_t pieces, piece_capacity;
  trained_merge *merge;
  size_t merges, merge_capacity;
  word_rows rows;
  uint64_t row_pieces; /* remaining tokens, weighted by word counts */
  int32_t specials, letters;
  attend_tokenizer *tokenizer; /* once trained */
  attend_text_trained report;
};

/* The settings that `like` selects. */
typedef struct like {
  const char *name, *class; /* class: of Hugging Face's transformers */
  bool wordpiece;
  const char *special[6]; /* in the order of ids, up to NULL */
  const char *role[ATTEND_SPECIALS];
} like;

/* train_words.c */
const like *like_of(attend_like which);
attend_status specials_find(attend_text_trainer *r);
attend_status bytes_put(attend_text_trainer *r); /* the 256 byte letters */
/* The letters of WordPiece; then, for both kinds, the words as rows of letters. */
attend_status alphabet_find(attend_text_trainer *r, const word_counts *words);
attend_status piece_put(attend_text_trainer *r, const char *name, size_t length, uint32_t letters);
/* The special token of that name, or -1. */
int32_t special_named(const attend_text_trainer *r, const char *name, size_t length);
void rows_free(const attend_context *ctx, word_rows *rows);

attend_status workers_start(attend_text_trainer *r);
void workers_free(attend_text_trainer *r);
/* Counts the buffered text; all counts are then in the first worker's table. */
attend_status words_gather(attend_text_trainer *r);

/* train_merges.c: from the rows, which are consumed. */
attend_status merges_learn(attend_text_trainer *r);

/* train_write.c: into *w, which is finished. */
attend_status write_tokenizer_json(const attend_text_trainer *r, json_writer *w);

#endif
