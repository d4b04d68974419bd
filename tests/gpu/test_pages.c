/* Pages of the KV cache on the GPU: where appended keys and values lie, and attention over them.
 */
#include "attend/problem.h"
#include "base/base.h"
#include "gpu.h"

/* ---- pages of some sequences --------------------------------------------------------- */

enum { MOST_PAGES = 64, MOST_BATCH = 8 };

typedef struct {
  attend_dtype dtype;
  int batch, kv_heads, dim, dim_v;
  size_t element, part[2], bytes;
  int64_t length[MOST_BATCH];
  bool padded;
  void *memory, *table; /* of the GPU */
} paged;

static paged paged_make(attend_dtype dtype, int batch, int kv_heads, int dim, int dim_v) {
  paged p = {dtype, batch, kv_heads, dim,   dim_v, attend_dtype_size(dtype),
             {0},   0,     {0},      false, 0,     0};
  p.part[0] = cuda_page_part(p.element, dim), p.part[1] = cuda_page_part(p.element, dim_v);
  p.bytes = ((size_t)kv_heads * (p.part[0] + p.part[1]) + ATTEND_PAGE + 1023) / 1024 * 1024;
  const size_t all = p.bytes * (size_t)batch * MOST_PAGES;
  void *page[MOST_BATCH][MOST_PAGES], *noise = malloc(all);
  memset(noise, 0xff, all); /* NaN in every dtype */
  p.memory = cuda->alloc(gpu, all);
  cuda->write(gpu, p.memory, noise, all);
  free(noise);
  for (int b = 0; b < batch; b++)
    for (int i = 0; i < MOST_PAGES; i++) /* later pages first */
      page[b][i] = (char *)p.memory + p.bytes * (size_t)((MOST_PAGES - 1 - i) * batch + b);
  p.table = cuda->alloc(gpu, sizeof page);
  cuda->write(gpu, p.table, page, sizeof(void *) * (size_t)batch * MOST_PAGES);
  return p;
}

static void paged_free(paged *p) { cuda->free(gpu, p->memory), cuda->free(gpu, p->table); }

static attend_desc paged_desc(const paged *p) {
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .batch = p->batch,
                   .heads = p->kv_heads,
                   .kv_heads = p->kv_heads,
                   .dim = p->dim,
                   .dim_v = p->dim_v,
                   .dtype = p->dtype,
                   .purpose = ATTEND_FOR_EXTEND};
  return d;
}

/* n rows of k and v [B,G,n,..] behind each sequence's keys. */
static void append_rows(paged *p, int n, attend_view k, attend_view v, const int32_t *lengths,
                        const uint8_t *key_mask) {
  int64_t before[MOST_BATCH];
  attend_desc d = paged_desc(p);
  d.mask.lengths = lengths, d.mask.key_mask = key_mask;
  memcpy(before, p->length, sizeof before);
  for (int b = 0; b < p->batch; b++) p->length[b] += lengths ? lengths[b] : n;
  cuda->pages_append(gpu, &(struct cuda_append){
                              &d, n, k, v, {p->table, MOST_PAGES, p->length, p->padded}, before});
}

/* Random numbers in the dtype. */
static twin numbers(attend_dtype dtype, size_t n, uint64_t stream, float factor) {
  float *x = malloc((n ? n : 1) * sizeof *x);
  void *y = malloc((n ? n : 1) * sizeof *x);
  attend_random_normal((attend_random){3, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] *= factor;
  if (dtype == ATTEND_F32)
    memcpy(y, x, n * sizeof *x);
  else
    attend_convert_from_f32(dtype, x, n, y);
  twin t = twin_of(y, n * attend_dtype_size(dtype));
  free(x), free(y);
  return t;
}

/* ---- appending ----------------------------------------------------------------------- */

static void check_row(const paged *p, const unsigned char *page, int g, int kind, int slot,
                      const unsigned char *want /* or NULL: zeros */) {
  const int width = kind ? p->dim_v : p->dim;
  const unsigned char *head =
      page + (size_t)g * (p->part[0] + p->part[1]) + (kind ? p->part[0] : 0);
  static const unsigned char zeros[8];
  for (int i = 0; i < (int)cuda_page_width(p->element, width); i++) {
    const unsigned char *is =
        head + p->element * (size_t)cuda_page_at((int)p->element, width, slot, i);
    const unsigned char *should = want && i < width ? want + p->element * (size_t)i : zeros;
    if (memcmp(is, should, p->element))
      CHECK_FAIL("head %d slot %d element %d differs", g, slot, i);
  }
}

static void check_append(attend_dtype dtype, int dim, int dim_v, bool bthd) {
  enum { B = 3, G = 2, STEPS = 4 };
  static const int rows[STEPS] = {100, 1, 27, 70};
  static const int32_t real[STEPS][B] = {{100, 3, 64}, {1, 1, 0}, {27, 0, 5}, {70, 70, 70}};
  const int width[2] = {dim, dim_v};
  paged p = paged_make(dtype, B, G, dim, dim_v);
  size_t page_at = 0;
  unsigned char *whole = malloc(p.bytes * B * MOST_PAGES);
  for (int s = 0; s < STEPS; s++) {
    const int n = rows[s];
    uint8_t mask[B * 100];
    twin x[2];
    attend_view view[2];
    int64_t before[B];
    memcpy(before, p.length, sizeof before);
    for (int i = 0; i < B * n; i++) mask[i] = i % 5 != 2;
    for (int kind = 0; kind < 2; kind++) {
      x[kind] = numbers(dtype, (size_t)(B * G * n * width[kind]), (uint64_t)(s * 2 + kind), 1);
      view[kind] =
          bthd ? attend_bthd(x[kind].at[1], G, n, width[kind]) : attend_bhtd(x[kind].at[1]);
    }
    append_rows(&p, n, view[0], view[1], s == 1 ? NULL : real[s], s % 2 ? NULL : mask);
    cuda->read(gpu, whole, p.memory, p.bytes * B * MOST_PAGES);
    for (int b = 0; b < B; b++)
      for (int64_t key = before[b]; key < (p.length[b] + 63) / 64 * 64; key++) {
        const int i = (int)(key - before[b]), slot = (int)(key % 64);
        if (key >= p.length[b] && key / 64 * 64 < before[b]) continue;
        const bool is = key < p.length[b] && (s % 2 || mask[b * n + i]);
        page_at = p.bytes * (size_t)((MOST_PAGES - 1 - (int)(key / 64)) * B + b);
        CHECK_EQ(whole[page_at + G * (p.part[0] + p.part[1]) + (size_t)slot], is);
        for (int g = 0; g < G; g++)
          for (int kind = 0; kind < 2; kind++) {
            const size_t row = bthd ? (size_t)((b * n + i) * G + g) : (size_t)((b * G + g) * n + i);
            check_row(
                &p, whole + page_at, g, kind, slot,
                is ? (unsigned char *)x[kind].at[0] + row * (size_t)width[kind] * p.element : NULL);
          }
      }
    twin_free(&x[0]), twin_free(&x[1]);
  }
  free(whole);
  paged_free(&p);
}

TEST(append) {
  static const attend_dtype dtypes[] = {ATTEND_F32, ATTEND_F16, ATTEND_BF16};
  for (int i = 0; i < 3; i++)
    for (int bthd = 0; bthd < 2; bthd++) {
      check_append(dtypes[i], 64, 64, bthd);
      check_append(dtypes[i], 20, 12, bthd);
      check_append(dtypes[i], 33, 130, bthd);
    }
}

/* ---- attention over pages -------------------------------------------------------------- */

typedef struct {
  attend_dtype dtype;
  int batch, heads, kv_heads, dim, dim_v;
  attend_causal causal;
  int window;
  attend_bias_kind bias;
  float cap;
  bool padded;
} decoding;

typedef struct {
  decoding p;
  paged pages;
  twin k, v, q, o, alone, slopes; /* k, v [B,G,most,..] */
  uint8_t *key_mask;              /* [B,most] */
  int most;
} cache;

static cache cache_make(decoding p, int most, int rows) {
  const size_t keys = (size_t)p.batch * p.kv_heads * most, q = (size_t)p.batch * p.heads * rows;
  cache c = {p,
             paged_make(p.dtype, p.batch, p.kv_heads, p.dim, p.dim_v),
             numbers(p.dtype, keys * p.dim, 1, 1.5f),
             numbers(p.dtype, keys * p.dim_v, 2, 1),
             numbers(p.dtype, q * p.dim, 3, 1.5f),
             numbers(p.dtype, q * p.dim_v, 4, NAN),
             numbers(p.dtype, q * p.dim_v, 5, NAN),
             normals((size_t)p.heads * 32, 6, 0.05f),
             malloc((size_t)p.batch * most),
             most};
  for (int i = 0; i < p.batch * most; i++) c.key_mask[i] = !p.padded || i % 13 != 4;
  c.pages.padded = p.padded;
  return c;
}

static void cache_free(cache *c) {
  paged_free(&c->pages);
  twin_free(&c->k), twin_free(&c->v), twin_free(&c->q), twin_free(&c->o), twin_free(&c->alone);
  twin_free(&c->slopes);
  free(c->key_mask);
}

/* The next keys of each sequence; real: of n. */
static void cache_append(cache *c, int n, const int32_t *real) {
  const decoding *p = &c->p;
  const int width[2] = {p->dim, p->dim_v};
  const twin *from[2] = {&c->k, &c->v};
  uint8_t *mask = malloc((size_t)p->batch * n);
  attend_view view[2];
  void *all[2];
  for (int kind = 0; kind < 2; kind++) {
    const size_t row = (size_t)width[kind] * 2, bytes = row * (size_t)(p->batch * p->kv_heads * n);
    char *rows = calloc(1, bytes);
    for (int b = 0; b < p->batch; b++)
      for (int g = 0; g < p->kv_heads; g++)
        for (int i = 0; i < real[b]; i++)
          memcpy(rows + row * (size_t)((b * p->kv_heads + g) * n + i),
                 (char *)from[kind]->at[0] +
                     row * (size_t)((b * p->kv_heads + g) * c->most + c->pages.length[b] + i),
                 row);
    all[kind] = cuda->alloc(gpu, bytes);
    cuda->write(gpu, all[kind], rows, bytes);
    view[kind] = attend_bhtd(all[kind]);
    free(rows);
  }
  for (int b = 0; b < p->batch; b++)
    for (int i = 0; i < n; i++)
      mask[b * n + i] = i < real[b] && c->key_mask[b * c->most + c->pages.length[b] + i];
  append_rows(&c->pages, n, view[0], view[1], real, p->padded ? mask : NULL);
  for (int kind = 0; kind < 2; kind++) cuda->free(gpu, all[kind]);
  free(mask);
}

static void run(struct cuda_attention a) {
  const char *refusal = cuda->attention_refusal(gpu, a.desc);
  if (refusal) CHECK_FAIL("refused: %s", refusal);
  a.work = cuda->alloc(gpu, cuda->attention_bytes(gpu, &a));
  cuda->attention_forward(gpu, &a);
  cuda->free(gpu, a.work);
  if (cuda->error(gpu)) CHECK_FAIL("%s", cuda->error(gpu));
}

static attend_desc cache_desc(const cache *c) {
  const decoding *p = &c->p;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .batch = p->batch,
                   .heads = p->heads,
                   .kv_heads = p->kv_heads,
                   .q_len = 64,
                   .dim = p->dim,
                   .dim_v = p->dim_v,
                   .mask = {.causal = p->causal, .window = p->window},
                   .bias = {.kind = p->bias,
                            .slopes = c->slopes.at[1],
                            .table = c->slopes.at[1],
                            .one_sided = true},
                   .soft_cap = p->cap,
                   .dtype = p->dtype,
                   .purpose = ATTEND_FOR_EXTEND};
  CHECK(!attend_desc_complete(host(), &d));
  return d;
}

/* n queries at the end of each sequence, real[b] of them: the bits of views of one sequence. */
static void check_query(cache *c, int n, const int32_t *real) {
  const decoding *p = &c->p;
  attend_desc d = cache_desc(c);
  int64_t before[MOST_BATCH];
  const struct cuda_pages pages = {c->pages.table, MOST_PAGES, c->pages.length, p->padded};
  for (int b = 0; b < p->batch; b++) before[b] = c->pages.length[b] - real[b];
  d.mask.lengths = real;
  run((struct cuda_attention){.desc = &d,
                              .n = n,
                              .q = attend_bhtd(c->q.at[1]),
                              .o = attend_bhtd(c->o.at[1]),
                              .pages = &pages,
                              .before = before});
  uint16_t *got = fetched(&c->o);
  for (int b = 0; b < p->batch; b++) {
    attend_desc one = cache_desc(c);
    const int length = (int)c->pages.length[b];
    const size_t head = (size_t)n * p->dim_v;
    one.purpose = 0, one.batch = 1, one.q_len = real[b], one.kv_len = length;
    one.mask.causal = p->causal ? ATTEND_CAUSAL_BOTTOM : ATTEND_NOT_CAUSAL;
    one.mask.key_mask = p->padded ? c->key_mask + (size_t)b * c->most : NULL;
    attend_view k =
        attend_bhtd((uint16_t *)c->k.at[1] + (size_t)b * p->kv_heads * c->most * p->dim);
    attend_view v =
        attend_bhtd((uint16_t *)c->v.at[1] + (size_t)b * p->kv_heads * c->most * p->dim_v);
    attend_view q = attend_bhtd((uint16_t *)c->q.at[1] + (size_t)b * p->heads * n * p->dim);
    const ptrdiff_t most = c->most;
    k.stride[1] = most * p->dim, k.stride[2] = p->dim, k.stride[3] = 1;
    v.stride[1] = most * p->dim_v, v.stride[2] = p->dim_v, v.stride[3] = 1;
    q.stride[1] = (ptrdiff_t)n * p->dim, q.stride[2] = p->dim, q.stride[3] = 1;
    if (real[b])
      run((struct cuda_attention){
          .desc = &one, .n = real[b], .q = q, .k = k, .v = v, .o = attend_bhtd(c->alone.at[1])});
    uint16_t *want = fetched(&c->alone);
    for (int h = 0; h < p->heads; h++) {
      const uint16_t *is = got + ((size_t)b * p->heads + (size_t)h) * head;
      if (memcmp(is, want + (size_t)h * real[b] * p->dim_v, (size_t)real[b] * p->dim_v * 2))
        CHECK_FAIL(
            "B %d H %d G %d D %d M %d causal %d window %d bias %d padded %d: %d of %d rows of "
            "sequence %d of %d keys, head %d, have other bits",
            p->batch, p->heads, p->kv_heads, p->dim, p->dim_v, p->causal, p->window, p->bias,
            p->padded, real[b], n, b, length, h);
      for (size_t i = (size_t)real[b] * p->dim_v; i < head; i++) CHECK_EQ(is[i], 0);
    }
    free(want);
  }
  free(got);
}

static void check_decoding(decoding p) {
  static const int32_t steps[][4] = {{200, 200, 63, 1},   {1, 1, 1, 1}, {900, 700, 900, 1},
                                     {40, 64, 3, 40},     {1, 1, 1, 1}, {600, 2, 600, 600},
                                     {300, 300, 300, 10}, {1, 0, 1, 1}};
  cache c = cache_make(p, 2500, 900);
  for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
    int n = 1;
    for (int b = 0; b < p.batch; b++) n = steps[s][b] > n ? steps[s][b] : n;
    cache_append(&c, n, steps[s]);
    check_query(&c, n, steps[s]);
  }
  cache_free(&c);
}

TEST(queries) {
  check_decoding((decoding){ATTEND_BF16, 4, 4, 4, 64, 64, ATTEND_CAUSAL_BOTTOM, 0, 0, 0, false});
  check_decoding((decoding){ATTEND_F16, 3, 8, 2, 128, 128, ATTEND_CAUSAL_BOTTOM, 0, 0, 0, false});
  check_decoding((decoding){ATTEND_BF16, 2, 7, 1, 128, 64, ATTEND_CAUSAL_BOTTOM, 100, 0, 0, false});
  check_decoding((decoding){ATTEND_BF16, 1, 4, 2, 64, 128, ATTEND_NOT_CAUSAL, 0, 0, 0, true});
}

TEST(queries_biased) {
  check_decoding(
      (decoding){ATTEND_BF16, 2, 4, 2, 64, 64, ATTEND_CAUSAL_BOTTOM, 0, ATTEND_ALIBI, 0, true});
  check_decoding((decoding){ATTEND_BF16, 2, 6, 2, 128, 128, ATTEND_CAUSAL_BOTTOM, 0, ATTEND_BUCKETS,
                            0, false});
  check_decoding((decoding){ATTEND_F16, 3, 2, 1, 64, 64, ATTEND_CAUSAL_BOTTOM, 700, 0, 30, false});
}

TEST(queries_wide) {
  check_decoding((decoding){ATTEND_BF16, 2, 4, 2, 256, 256, ATTEND_CAUSAL_BOTTOM, 0, 0, 0, false});
  check_decoding((decoding){ATTEND_BF16, 2, 4, 4, 96, 96, ATTEND_CAUSAL_BOTTOM, 0, 0, 0, false});
  check_decoding((decoding){ATTEND_F16, 2, 4, 1, 192, 128, ATTEND_CAUSAL_BOTTOM, 0, 0, 0, true});
}
