/* NumPy's files: .npy, an array, and .npz, a zip file of them.
 *
 * .npy: "\x93NUMPY", a version, the length of a header, and the header, a dict of Python with
 * descr, fortran_order and shape; then the data. An array in Fortran's order is copied into C's.
 * Strings become codes with one more dimension: '<U5' [T] is U32 [T, 5], 'S5' [T] is U8 [T, 5].
 *
 * .npz: members that are stored are used where they lie in the mapped file; deflated ones are
 * decompressed into memory, at most 1,033 bytes for a byte of the file. The file is untrusted:
 * every offset and length is checked against its size.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/inflate.h"
#include "base/tensor_file.h"

static uint64_t little(const unsigned char *at, int bytes) {
  uint64_t n = 0;
  for (int i = bytes - 1; i >= 0; i--) n = n << 8 | at[i];
  return n;
}

static attend_status take_block(attend_tensor_file *f, size_t bytes, unsigned char **data) {
  tensor_block *b;
  ATTEND_TRY(ctx_alloc(f->ctx, size_add(sizeof *b, bytes), "an array", &b));
  b->next = f->blocks;
  f->blocks = b;
  *data = b->bytes;
  return ATTEND_OK;
}

static attend_status refuse(const attend_tensor_file *f, const char *name, const char *why) {
  return fail(f->ctx, ATTEND_IO, "%s: array \"%.100s\" %s", f->path, name, why);
}

/* ---- the header of an array ----------------------------------------------------------- */

typedef struct {
  const char *at, *end; /* the rest of the header */
  char descr[16];
  bool fortran;
  int rank;
  int64_t shape[ATTEND_TENSOR_RANK];
} header;

static bool skip(header *h, char c) {
  while (h->at < h->end && (*h->at == ' ' || *h->at == '\n')) h->at++;
  if (h->at == h->end || *h->at != c) return false;
  h->at++;
  return true;
}

static bool skip_word(header *h, const char *word) {
  size_t n = strlen(word);
  skip(h, ' '); /* spaces before it */
  if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n)) return false;
  h->at += n;
  return true;
}

static bool read_string(header *h, char *to, size_t size) {
  size_t n = 0;
  char quote = skip(h, '\'') ? '\'' : skip(h, '"') ? '"' : 0;
  while (quote && h->at < h->end && *h->at != quote && n + 1 < size) to[n++] = *h->at++;
  to[n] = 0;
  return quote && skip(h, quote);
}

static bool read_dimension(header *h, int64_t *n) {
  const char *from = h->at;
  for (*n = 0; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++)
    if (__builtin_mul_overflow(*n, 10, n) || __builtin_add_overflow(*n, *h->at - '0', n))
      return false;
  bool any = h->at > from;
  if (h->at < h->end && *h->at == 'L') h->at++; /* Python 2 */
  return any;
}

/* "(3, 4)", "(3,)", "()" */
static bool read_shape(header *h) {
  if (!skip(h, '(')) return false;
  while (!skip(h, ')')) {
    skip(h, ' ');
    if (h->rank == ATTEND_TENSOR_RANK || !read_dimension(h, &h->shape[h->rank++])) return false;
    if (!skip(h, ',')) return skip(h, ')');
  }
  return true;
}

static bool read_member(header *h) {
  char name[16];
  if (!read_string(h, name, sizeof name) || !skip(h, ':')) return false;
  if (!strcmp(name, "descr")) return read_string(h, h->descr, sizeof h->descr);
  if (!strcmp(name, "shape")) return read_shape(h);
  if (strcmp(name, "fortran_order")) return false;
  h->fortran = skip_word(h, "True");
  return h->fortran || skip_word(h, "False");
}

static bool read_dict(header *h) {
  if (!skip(h, '{')) return false;
  while (!skip(h, '}')) {
    if (!read_member(h)) return false;
    if (!skip(h, ',')) return skip(h, '}') && *h->descr;
  }
  return *h->descr;
}

/* ---- dtypes --------------------------------------------------------------------------- */

static const struct {
  char descr[4]; /* without the order of bytes */
  attend_stored stored;
} kinds[] = {{"b1", ATTEND_STORED_BOOL}, {"u1", ATTEND_STORED_U8},  {"i1", ATTEND_STORED_I8},
             {"u2", ATTEND_STORED_U16},  {"i2", ATTEND_STORED_I16}, {"f2", ATTEND_STORED_F16},
             {"u4", ATTEND_STORED_U32},  {"i4", ATTEND_STORED_I32}, {"f4", ATTEND_STORED_F32},
             {"u8", ATTEND_STORED_U64},  {"i8", ATTEND_STORED_I64}, {"f8", ATTEND_STORED_F64}};

/* 'U5', 'S5': one more dimension. */
static bool read_text_dtype(header *h, attend_tensor *t) {
  const char *at = h->descr + 1;
  if (*at != 'U' && *at != 'S') return false;
  char *end;
  long n = strtol(at + 1, &end, 10);
  if (end == at + 1 || *end || n < 0 || h->rank == ATTEND_TENSOR_RANK) return false;
  t->stored = *at == 'U' ? ATTEND_STORED_U32 : ATTEND_STORED_U8;
  h->shape[h->rank++] = n;
  return true;
}

static attend_status read_dtype(const attend_tensor_file *f, header *h, attend_tensor *t) {
  const char order = h->descr[0], *kind = h->descr + 1;
  if (*kind == 'O')
    return refuse(f, t->name,
                  "holds Python objects: save arrays of numbers or of str (np.array(list, str))");
  if (order == '>')
    return refuse(f, t->name, "is big-endian: save x.astype(x.dtype.newbyteorder('<'))");
  bool known = (order == '<' || order == '|' || order == '=') && read_text_dtype(h, t);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !known; i++) {
    known = (order == '<' || order == '|' || order == '=') && !strcmp(kind, kinds[i].descr);
    if (known) t->stored = kinds[i].stored;
  }
  if (!known)
    return fail(f->ctx, ATTEND_IO,
                "%s: array \"%.100s\" has dtype '%s', which is not read: save it as float32",
                f->path, t->name, h->descr);
  t->dtype = attend_stored_name(t->stored);
  return ATTEND_OK;
}

/* ---- an array --------------------------------------------------------------------------- */

static attend_status count_elements(const attend_tensor_file *f, const header *h, size_t room,
                                    attend_tensor *t) {
  int64_t bytes;
  t->rank = h->rank;
  t->count = 1;
  for (int i = 0; i < h->rank; i++) {
    t->shape[i] = h->shape[i];
    if (__builtin_mul_overflow(t->count, h->shape[i], &t->count))
      return refuse(f, t->name, "has a shape whose product overflows");
  }
  if (__builtin_mul_overflow(t->count, (int64_t)attend_stored_size(t->stored), &bytes) ||
      (uint64_t)bytes != room)
    return fail(f->ctx, ATTEND_IO,
                "%s: array \"%.100s\" has %zu bytes of data, which do not fit its shape and dtype",
                f->path, t->name, room);
  t->bytes = (size_t)bytes;
  return ATTEND_OK;
}

/* Fortran's order: the first dimension is adjacent. A string's characters are adjacent in both. */
static attend_status transpose(attend_tensor_file *f, const header *h, attend_tensor *t) {
  size_t one = attend_stored_size(t->stored);
  bool text = h->descr[1] == 'U' || h->descr[1] == 'S';
  int rank = t->rank - text;
  int64_t index[ATTEND_TENSOR_RANK] = {0}, n = 1;
  unsigned char *to;
  if (text) one *= (size_t)t->shape[rank];
  if (!t->bytes || rank < 2) return ATTEND_OK;
  for (int i = 0; i < rank; i++) n *= t->shape[i];
  ATTEND_TRY(take_block(f, t->bytes, &to));
  for (int64_t k = 0; k < n; k++) {
    int64_t at = 0;
    for (int i = rank - 1; i >= 0; i--) at = at * t->shape[i] + index[i];
    memcpy(to + (size_t)k * one, (const unsigned char *)t->data + (size_t)at * one, one);
    for (int i = rank - 1; i >= 0 && ++index[i] == t->shape[i]; i--) index[i] = 0;
  }
  t->data = to;
  return ATTEND_OK;
}

static const char magic[] = "\x93NUMPY";
enum { MAGIC = sizeof magic - 1 };

static attend_status read_array(attend_tensor_file *f, const unsigned char *bytes, size_t length,
                                attend_tensor *t) {
  static const char not_one[] =
      "is not a .npy file (tensors of a PyTorch file: save them by safetensors.torch.save_file)";
  if (length < MAGIC + 4 || memcmp(bytes, magic, MAGIC)) return refuse(f, t->name, not_one);
  int version = bytes[MAGIC], wide = version == 1 ? 2 : 4;
  size_t at = MAGIC + 2 + (size_t)wide;
  if (version < 1 || version > 3)
    return refuse(f, t->name, "has a version of the format other than 1, 2 and 3");
  if (length < at) return refuse(f, t->name, not_one);
  uint64_t text = little(bytes + MAGIC + 2, wide);
  if (text > length - at) return refuse(f, t->name, "was cut off in its header");
  header h = {.at = (const char *)bytes + at, .end = (const char *)bytes + at + text};
  if (!read_dict(&h))
    return refuse(f, t->name,
                  "has a header other than descr, fortran_order and shape of at most 8");
  ATTEND_TRY(read_dtype(f, &h, t));
  t->data = bytes + at + text;
  ATTEND_TRY(count_elements(f, &h, length - at - (size_t)text, t));
  return h.fortran ? transpose(f, &h, t) : ATTEND_OK;
}

/* ---- zip -------------------------------------------------------------------------------- */

enum { LOCAL = 30, CENTRAL = 46, END = 22, END_64 = 56, LOCATOR = 20 };

typedef struct {
  unsigned method, flags;
  uint32_t crc;
  uint64_t packed, bytes, local;
  size_t next; /* where the next entry is */
} zip_entry;

static bool is_signature(const attend_tensor_file *f, uint64_t at, size_t room, const char *two) {
  return at <= f->size && room <= f->size - at && !memcmp(f->map + at, "PK", 2) &&
         !memcmp(f->map + at + 2, two, 2);
}

/* Where the central directory begins, and its number of entries. */
static bool find_directory(const attend_tensor_file *f, uint64_t *at, uint64_t *entries) {
  size_t lowest = f->size > END + 0xffff ? f->size - END - 0xffff : 0, end = f->size - END;
  while (!is_signature(f, end, END, "\5\6")) {
    if (end == lowest) return false;
    end--;
  }
  *entries = little(f->map + end + 10, 2);
  *at = little(f->map + end + 16, 4);
  if (*entries != 0xffff && *at != 0xffffffffu) return true;
  if (end < LOCATOR || !is_signature(f, end - LOCATOR, LOCATOR, "\6\7")) return true;
  uint64_t wide = little(f->map + end - LOCATOR + 8, 8);
  if (!is_signature(f, wide, END_64, "\6\6")) return false;
  *entries = little(f->map + wide + 32, 8);
  *at = little(f->map + wide + 48, 8);
  return true;
}

/* Sizes that do not fit 32 bits are in an extra field, in this order. */
static bool read_wide(const unsigned char *extra, size_t length, zip_entry *e) {
  uint64_t *const fields[] = {&e->bytes, &e->packed, &e->local};
  size_t at = 0;
  while (length - at >= 4 && little(extra + at, 2) != 1) {
    size_t n = 4 + (size_t)little(extra + at + 2, 2);
    if (n > length - at) return false;
    at += n;
  }
  bool found = length - at >= 4;
  size_t end = found ? at + 4 + (size_t)little(extra + at + 2, 2) : 0;
  if (end > length) return false;
  at += 4;
  for (int i = 0; i < 3; i++) {
    if (*fields[i] != 0xffffffffu) continue;
    if (!found || at + 8 > end) return false;
    *fields[i] = little(extra + at, 8);
    at += 8;
  }
  return true;
}

/* "attention.npy" -> "attention" */
static attend_status read_name(attend_tensor_file *f, size_t at, size_t length, attend_tensor *t) {
  unsigned char *name;
  if (length > 4 && !memcmp(f->map + at + length - 4, ".npy", 4)) length -= 4;
  ATTEND_TRY(take_block(f, length + 1, &name));
  memcpy(name, f->map + at, length);
  name[length] = 0;
  t->name = (const char *)name;
  if (strlen(t->name) != length) return refuse(f, t->name, "has a zero byte in its name");
  return ATTEND_OK;
}

static attend_status read_entry(attend_tensor_file *f, uint64_t at, zip_entry *e,
                                attend_tensor *t) {
  if (!is_signature(f, at, CENTRAL, "\1\2"))
    return fail(f->ctx, ATTEND_IO, "%s: its directory was cut off: it is no .npz file", f->path);
  const unsigned char *p = f->map + at;
  size_t name = (size_t)little(p + 28, 2), extra = (size_t)little(p + 30, 2);
  size_t next = at + CENTRAL + name + extra + (size_t)little(p + 32, 2);
  if (next > f->size)
    return fail(f->ctx, ATTEND_IO, "%s: its directory was cut off: it is no .npz file", f->path);
  *e = (zip_entry){.flags = (unsigned)little(p + 8, 2),
                   .method = (unsigned)little(p + 10, 2),
                   .crc = (uint32_t)little(p + 16, 4),
                   .packed = little(p + 20, 4),
                   .bytes = little(p + 24, 4),
                   .local = little(p + 42, 4),
                   .next = next};
  ATTEND_TRY(read_name(f, at + CENTRAL, name, t));
  if (!read_wide(p + CENTRAL + name, extra, e))
    return refuse(f, t->name, "has no sizes of 64 bits where it must have them");
  return ATTEND_OK;
}

static attend_status unpack(attend_tensor_file *f, const zip_entry *e, const unsigned char *data,
                            const char *name, const unsigned char **bytes) {
  unsigned char *to;
  if (e->flags & 1) return refuse(f, name, "is encrypted");
  if (!e->method) {
    *bytes = data;
    return e->packed == e->bytes ? ATTEND_OK : refuse(f, name, "has two different sizes");
  }
  if (e->method != 8)
    return refuse(f, name, "is compressed otherwise than by deflate: use np.savez_compressed");
  if (e->bytes > inflate_most((size_t)e->packed))
    return refuse(f, name, "claims more bytes than its compressed data can give");
  ATTEND_TRY(take_block(f, (size_t)e->bytes, &to));
  if (!inflate_bytes(data, (size_t)e->packed, to, (size_t)e->bytes) ||
      crc32_of(to, (size_t)e->bytes) != e->crc)
    return refuse(f, name, "has compressed data that is damaged");
  *bytes = to;
  return ATTEND_OK;
}

/* `spent` counts the compressed bytes of all members: members that share them would give far
 * more than the file holds. */
static attend_status read_packed(attend_tensor_file *f, const zip_entry *e, uint64_t *spent,
                                 attend_tensor *t) {
  const unsigned char *bytes = NULL;
  static const char outside[] = "lies beyond the end of the file";
  if (!is_signature(f, e->local, LOCAL, "\3\4")) return refuse(f, t->name, outside);
  const unsigned char *p = f->map + e->local;
  uint64_t data = e->local + LOCAL + little(p + 26, 2) + little(p + 28, 2);
  if (data > f->size || e->packed > f->size - data) return refuse(f, t->name, outside);
  *spent += e->packed;
  if (*spent > f->size) return refuse(f, t->name, "overlaps another");
  ATTEND_TRY(unpack(f, e, f->map + data, t->name, &bytes));
  return read_array(f, bytes, (size_t)e->bytes, t);
}

static attend_status read_archive(attend_tensor_file *f) {
  uint64_t at, entries, spent = 0;
  if (f->size < END || !find_directory(f, &at, &entries))
    return fail(f->ctx, ATTEND_IO, "%s: it has no directory of its members: it was cut off",
                f->path);
  if (entries > f->size / CENTRAL)
    return fail(f->ctx, ATTEND_IO, "%s: it claims more members than fit into it", f->path);
  ATTEND_TRY(ctx_alloc_zeroed(f->ctx, (size_t)entries * sizeof *f->tensor, "the list of arrays",
                              &f->tensor));
  for (uint64_t i = 0; i < entries; i++) {
    attend_tensor *t = &f->tensor[f->count];
    zip_entry e = {0};
    ATTEND_TRY(read_entry(f, at, &e, t));
    ATTEND_TRY(read_packed(f, &e, &spent, t));
    at = e.next;
    f->count++;
  }
  return ATTEND_OK;
}

/* ---- either ------------------------------------------------------------------------------- */

static bool is_array(const attend_tensor_file *f) { return !memcmp(f->map, magic, MAGIC); }

bool numpy_file_is(const attend_tensor_file *f) {
  return is_array(f) || !memcmp(f->map, "PK\3\4", 4) || !memcmp(f->map, "PK\5\6", 4);
}

attend_status numpy_file_read(attend_tensor_file *f) {
  if (!is_array(f)) return read_archive(f);
  ATTEND_TRY(ctx_alloc_zeroed(f->ctx, sizeof *f->tensor, "the list of arrays", &f->tensor));
  f->tensor[0].name = "array";
  ATTEND_TRY(read_array(f, f->map, f->size, &f->tensor[0]));
  f->count = 1;
  return ATTEND_OK;
}
