/* A corpus cut into batches, in a seeded random order.
 *
 * Documents without an answer are one cyclic stream; an epoch cuts it into windows from
 * a random offset and takes them in random order. Pairs are shuffled too; within a pool
 * of batches pairs of like length go together, so that little is padded.
 *
 * The order is a permutation with random access (random_place), so a batch is computed
 * from its number, and there is no state to be saved.
 */
#include <stdlib.h>
#include <string.h>

#include "base/files.h"
#include "base/options.h"
#include "train/corpus.h"

enum { POOL = 64 }; /* batches whose pairs are sorted together */

enum { STREAM_ORDER = 1, STREAM_OFFSET, STREAM_MASK, STREAM_POOL };

typedef struct {
  uint32_t pair, length;
} pooled;

struct attend_batches {
  attend_context *ctx;
  const attend_corpus *c;
  attend_batch_options o;
  int content;    /* tokens of a window that come from the corpus */
  uint64_t units; /* windows, or pairs, of an epoch */
  size_t longest; /* of ids in a row; of answers */
  size_t answered;
  void *block; /* of what follows */
  int32_t *ids, *targets, *decoder_ids, *lengths, *decoder_lengths;
  pooled *pool; /* [POOL batch] of pairs: what is in it */
  uint64_t pool_number, pool_count;
};

/* ---- order ------------------------------------------------------------------------ */

static attend_random random_of(const attend_batches *b, uint64_t stream, uint64_t key) {
  return (attend_random){b->o.seed, stream << 56 ^ key};
}

static uint64_t order_of(const attend_batches *b, uint64_t epoch, uint64_t place) {
  if (b->o.in_order) return place;
  return random_place(random_of(b, STREAM_ORDER, epoch), b->units, place);
}

/* ---- windows of a stream ------------------------------------------------------------- */

static uint64_t window_start(const attend_batches *b, uint64_t unit, uint64_t *number) {
  uint64_t epoch = unit / b->units;
  uint64_t window = order_of(b, epoch, unit % b->units);
  *number = b->o.in_order ? window : unit;
  uint64_t from = window * (uint64_t)b->content;
  if (!b->o.in_order) from += random_word(random_of(b, STREAM_OFFSET, epoch), 0) % b->c->count;
  return from;
}

static void fill_causal(const attend_batches *b, uint64_t from, int32_t *ids, int32_t *targets) {
  const attend_corpus *c = b->c;
  for (int t = 0; t < b->o.length; t++) {
    uint64_t at = from + (uint64_t)t;
    bool past = b->o.in_order && at + 1 >= c->count;
    ids[t] = past ? 0 : c->ids[at % c->count];
    targets[t] = past ? -1 : c->ids[(at + 1) % c->count];
  }
}

static int32_t filler(const attend_batches *b) { return b->o.pad < 0 ? 0 : b->o.pad; }

static bool is_content(const attend_batches *b, int32_t id) {
  return id != b->o.cls && id != b->o.sep && id != b->o.pad;
}

/* BERT's masking (Devlin et al. 2018): of the masked positions 80 % get the mask token,
 * 10 % a random one, 10 % stay. */
static void mask_token(const attend_batches *b, uint64_t number, int t, int32_t *id,
                       int32_t *target) {
  float draw[3];
  attend_random_uniform(random_of(b, STREAM_MASK, number), 4 * (uint64_t)t, 3, draw);
  if (!is_content(b, *id) || draw[0] >= b->o.mask_share) return;
  *target = *id;
  if (draw[1] < 0.8f)
    *id = b->o.mask;
  else if (draw[1] < 0.9f)
    *id = (int32_t)((double)draw[2] * b->o.vocab);
}

static int fill_masked(const attend_batches *b, uint64_t from, uint64_t number, int32_t *ids,
                       int32_t *targets) {
  const attend_corpus *c = b->c;
  int n = 0;
  for (int t = 0; t < b->o.length; t++) targets[t] = -1;
  for (int t = 0; t < b->o.length; t++) ids[t] = filler(b);
  if (b->o.cls >= 0) ids[n++] = b->o.cls;
  for (int t = 0; t < b->content; t++) {
    uint64_t at = from + (uint64_t)t;
    if (b->o.in_order && at >= c->count) break;
    ids[n] = c->ids[at % c->count];
    mask_token(b, number, t, &ids[n], &targets[n]);
    n++;
  }
  if (b->o.sep >= 0) ids[n++] = b->o.sep;
  return n;
}

static void get_windows(attend_batches *b, uint64_t number, attend_batch *batch) {
  uint64_t first = number * (uint64_t)b->o.batch, left = b->units - first;
  int rows = b->o.batch, length = b->o.length;
  bool masked = b->o.task == ATTEND_LEARN_MASKED;
  if (b->o.in_order && left < (uint64_t)rows) rows = (int)left;
  for (int i = 0; i < rows; i++) {
    uint64_t mark, from = window_start(b, first + (uint64_t)i, &mark);
    int32_t *ids = b->ids + (size_t)i * (size_t)length;
    int32_t *targets = b->targets + (size_t)i * (size_t)length;
    if (masked)
      b->lengths[i] = fill_masked(b, from, mark, ids, targets);
    else
      fill_causal(b, from, ids, targets);
  }
  batch->count = rows;
  batch->length = length;
  if (!masked) batch->lengths = NULL;
}

/* ---- pairs ------------------------------------------------------------------------------ */

static int by_length(const void *a, const void *b) {
  const pooled *x = a, *y = b;
  if (x->length != y->length) return x->length < y->length ? -1 : 1;
  return (x->pair > y->pair) - (x->pair < y->pair);
}

/* The pool that a place of an epoch is in, numbered over all epochs. */
static void fill_pool(attend_batches *b, uint64_t epoch, uint64_t pool) {
  uint64_t size = (uint64_t)POOL * (uint64_t)b->o.batch;
  uint64_t pools = (b->units + size - 1) / size, from = pool * size;
  uint64_t mark = epoch * pools + pool + 1;
  if (b->pool_number == mark) return;
  b->pool_number = mark;
  b->pool_count = b->units - from < size ? b->units - from : size;
  for (uint64_t i = 0; i < b->pool_count; i++) {
    uint64_t pair = order_of(b, epoch, from + i);
    b->pool[i] = (pooled){
        (uint32_t)pair, (uint32_t)(part_length(b->c, 2 * pair) + part_length(b->c, 2 * pair + 1))};
  }
  qsort(b->pool, b->pool_count, sizeof *b->pool, by_length);
}

/* The pairs of a batch: *rows of them in the pool. */
static const pooled *choose(attend_batches *b, uint64_t number, int *rows) {
  uint64_t batch = (uint64_t)b->o.batch, each = attend_batches_epoch(b);
  uint64_t epoch = number / each, place = number % each;
  uint64_t pool = place / POOL, within = place % POOL;
  fill_pool(b, epoch, pool);
  uint64_t batches = (b->pool_count + batch - 1) / batch;
  if (!b->o.in_order)
    within = random_place(random_of(b, STREAM_POOL, b->pool_number), batches, within);
  uint64_t from = within * batch, left = b->pool_count - from;
  *rows = (int)(left < batch ? left : batch);
  return b->pool + from;
}

static void copy_part(const attend_corpus *c, size_t part, int32_t *to, int width, int32_t filler,
                      int32_t *length) {
  size_t n = part_length(c, part);
  memcpy(to, c->ids + part_start(c, part), n * sizeof *to);
  for (int t = (int)n; t < width; t++) to[t] = filler;
  *length = (int32_t)n;
}

static int longest_of(const attend_corpus *c, const pooled *p, int rows, size_t side) {
  size_t max = 0;
  for (int i = 0; i < rows; i++) {
    size_t n = part_length(c, 2 * (size_t)p[i].pair + side);
    if (n > max) max = n;
  }
  return (int)max;
}

/* The decoder reads the start token and the answer without its last token. */
static void fill_two(attend_batches *b, const pooled *p, int rows, attend_batch *batch) {
  int n = longest_of(b->c, p, rows, 0), m = longest_of(b->c, p, rows, 1);
  int32_t pad = filler(b);
  for (int i = 0; i < rows; i++) {
    size_t at = 2 * (size_t)p[i].pair;
    int32_t *targets = b->targets + (ptrdiff_t)i * m;
    int32_t *decoder_ids = b->decoder_ids + (ptrdiff_t)i * m;
    copy_part(b->c, at, b->ids + (ptrdiff_t)i * n, n, pad, &b->lengths[i]);
    copy_part(b->c, at + 1, targets, m, -1, &b->decoder_lengths[i]);
    decoder_ids[0] = b->o.start;
    for (int t = 1; t < m; t++) decoder_ids[t] = targets[t - 1] < 0 ? pad : targets[t - 1];
  }
  batch->length = n;
  batch->decoder_length = m;
  batch->decoder_ids = b->decoder_ids;
  batch->decoder_lengths = b->decoder_lengths;
}

static void fill_joined(attend_batches *b, const pooled *p, int rows, attend_batch *batch) {
  const int n = (int)p[rows - 1].length - 1; /* they are sorted */
  int32_t pad = filler(b);
  for (int i = 0; i < rows; i++) {
    size_t at = 2 * (size_t)p[i].pair;
    int before = (int)part_length(b->c, at), all = (int)p[i].length;
    const int32_t *from = b->c->ids + part_start(b->c, at);
    for (int t = 0; t < n; t++) {
      bool real = t + 1 < all;
      b->ids[(ptrdiff_t)i * n + t] = real ? from[t] : pad;
      b->targets[(ptrdiff_t)i * n + t] = real && t + 1 >= before ? from[t + 1] : -1;
    }
    b->lengths[i] = all - 1;
  }
  batch->length = n;
}

static void get_pairs(attend_batches *b, uint64_t number, attend_batch *batch) {
  const pooled *p = choose(b, number, &batch->count);
  if (b->o.parts == ATTEND_DECODER)
    fill_joined(b, p, batch->count, batch);
  else
    fill_two(b, p, batch->count, batch);
}

/* ---- access ------------------------------------------------------------------------------- */

uint64_t attend_batches_epoch(const attend_batches *b) {
  return (b->units + (uint64_t)b->o.batch - 1) / (uint64_t)b->o.batch;
}

attend_status attend_batches_get(attend_batches *b, uint64_t number, attend_batch *batch) {
  batch->count = 0;
  if (b->o.in_order && number >= attend_batches_epoch(b)) return ATTEND_OK;
  batch->ids = b->ids;
  batch->targets = b->targets;
  batch->lengths = b->lengths;
  if (b->o.task == ATTEND_LEARN_PAIRS)
    get_pairs(b, number, batch);
  else
    get_windows(b, number, batch);
  return ATTEND_OK;
}

int attend_batch_scored(const attend_batch *batch) {
  int64_t places =
      (int64_t)batch->count * (batch->decoder_length ? batch->decoder_length : batch->length);
  int scored = 0;
  for (int64_t i = 0; i < places; i++) scored += batch->targets[i] >= 0;
  return scored;
}

static int64_t real_tokens(int count, int length, const int32_t *lengths) {
  int64_t sum = 0;
  for (int i = 0; i < count; i++) sum += lengths ? lengths[i] : length;
  return sum;
}

int64_t attend_batch_tokens(const attend_batch *batch) {
  return real_tokens(batch->count, batch->length, batch->lengths) +
         real_tokens(batch->count, batch->decoder_length, batch->decoder_lengths);
}

/* ---- digest ----------------------------------------------------------------------- */

uint64_t batches_corpus_digest(const attend_batches *b) { return attend_corpus_digest(b->c); }

uint64_t batches_digest(const attend_batches *b) {
  const attend_batch_options *o = &b->o;
  uint64_t words[] = {attend_corpus_digest(b->c), o->seed,
                      (uint64_t)o->task,          (uint64_t)o->parts,
                      (uint64_t)o->batch,         (uint64_t)o->length,
                      (uint64_t)o->start,         (uint64_t)o->pad,
                      (uint64_t)o->mask,          (uint64_t)o->cls,
                      (uint64_t)o->sep,           (uint64_t)o->vocab,
                      float_bits(o->mask_share)};
  attend_digest sum = {0};
  attend_digest_add(&sum, words, sizeof words);
  return digest_word(&sum);
}

/* ---- life ------------------------------------------------------------------------------------ */

static attend_status measure_pairs(attend_batches *b) {
  const attend_corpus *c = b->c;
  ATTEND_CHECK(b->ctx, c->pairs && c->parts,
               "pairs of texts are needed, and the corpus holds none");
  ATTEND_CHECK(b->ctx, c->parts / 2 < UINT32_MAX, "a corpus of %zu pairs is too large",
               c->parts / 2);
  ATTEND_CHECK(b->ctx, b->o.parts == ATTEND_DECODER || b->o.start >= 0,
               "the decoder needs a first token: the model's configuration "
               "names none");
  for (size_t i = 0; i < c->parts; i += 2) {
    size_t n = part_length(c, i), m = part_length(c, i + 1);
    bool joined = b->o.parts == ATTEND_DECODER;
    ATTEND_CHECK(b->ctx, n && m, "pair %zu is empty on one side", i / 2 + 1);
    size_t row = joined ? n + m - 1 : n;
    ATTEND_CHECK(b->ctx, row <= (size_t)b->o.length && m <= (size_t)b->o.length,
                 "pair %zu has %zu and %zu tokens: more than the length of %d", i / 2 + 1, n, m,
                 b->o.length);
    if (row > b->longest) b->longest = row;
    if (m > b->answered) b->answered = m;
  }
  b->units = c->parts / 2;
  return ATTEND_OK;
}

static attend_status measure_stream(attend_batches *b) {
  const attend_batch_options *o = &b->o;
  bool masked = o->task == ATTEND_LEARN_MASKED;
  uint64_t count = b->c->count;
  ATTEND_CHECK(b->ctx, !b->c->pairs,
               "the corpus holds pairs of texts: choose "
               "the task pairs");
  ATTEND_CHECK(b->ctx, count >= 2, "the corpus holds %zu tokens: too few", b->c->count);
  b->content = o->length - (masked && o->cls >= 0) - (masked && o->sep >= 0);
  ATTEND_CHECK(b->ctx, b->content > 0, "a length of %d leaves no place for text", o->length);
  ATTEND_CHECK(b->ctx, !masked || (o->mask >= 0 && o->vocab > 0),
               "masked training needs a tokenizer with a mask token");
  uint64_t width = (uint64_t)b->content;
  uint64_t whole = o->in_order ? (count - !masked + width - 1) / width : count / width;
  b->units = whole ? whole : 1;
  b->longest = b->answered = (size_t)o->length;
  return ATTEND_OK;
}

/* Returns their bytes, and cuts them out of a block, if there is one. */
static size_t cut_rows(attend_batches *b, void *block) {
  arena a = {block, 0};
  size_t batch = (size_t)b->o.batch, list = batch * sizeof(int32_t);
  size_t row = b->longest * list, answer = b->answered * list;
  b->ids = arena_cut(&a, row);
  b->targets = arena_cut(&a, row > answer ? row : answer);
  b->decoder_ids = arena_cut(&a, answer);
  b->lengths = arena_cut(&a, list);
  b->decoder_lengths = arena_cut(&a, list);
  if (b->o.task == ATTEND_LEARN_PAIRS) b->pool = arena_cut(&a, POOL * batch * sizeof *b->pool);
  return a.used;
}

static attend_status open_batches(attend_batches *b) {
  attend_batch_options *o = &b->o;
  if (!o->batch) o->batch = 8;
  if (!o->length) o->length = 256;
  if (o->mask_share == 0) o->mask_share = 0.15f;
  ATTEND_CHECK(b->ctx, o->batch > 0 && o->batch <= 1 << 20 && o->length > 0,
               "a batch of %d texts of %d tokens cannot be made", o->batch, o->length);
  if (o->task == ATTEND_LEARN_PAIRS)
    ATTEND_TRY(measure_pairs(b));
  else
    ATTEND_TRY(measure_stream(b));
  ATTEND_TRY(ctx_alloc(b->ctx, cut_rows(b, NULL), "a batch", &b->block));
  cut_rows(b, b->block);
  return ATTEND_OK;
}

attend_status attend_batches_create(const attend_corpus *corpus,
                                    const attend_batch_options *options, attend_batches **batches) {
  attend_batches *b;
  *batches = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(corpus->ctx, sizeof *b, "the batches", &b));
  b->ctx = corpus->ctx;
  b->c = corpus;
  attend_status status = OPTIONS_READ(b->ctx, attend_batch_options, options, &b->o);
  if (!status) status = open_batches(b);
  if (status)
    attend_batches_free(b);
  else
    *batches = b;
  return status;
}

void attend_batches_free(attend_batches *b) {
  if (!b) return;
  ctx_free(b->ctx, b->block);
  ctx_free(b->ctx, b);
}
