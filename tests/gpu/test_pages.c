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
