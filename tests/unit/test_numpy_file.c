/* NumPy's files, as NumPy wrote them (tests/golden/make_arrays.py), and as nothing should. */
#include <stdlib.h>
#include <unistd.h>

#include "attend/file.h"
#include "base/files.h"
#include "base/inflate.h"
#include "check.h"

static attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx)
    attend_context_create(
        &(attend_context_options){ATTEND_INIT(attend_context_options), .isa = "scalar"}, &ctx);
  return ctx;
}

static const char *golden(const char *name) {
  static char path[300];
  const char *folder = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/arrays/%s", folder ? folder : "tests/golden", name);
  return path;
}

static attend_tensor_file *opened(const char *name) {
  attend_tensor_file *file;
  CHECK_EQ(attend_tensor_file_open(context(), golden(name), &file), ATTEND_OK);
  if (!file) CHECK_FAIL("%s: %s", name, attend_message(context()));
  return file;
}

static double value_at(const attend_tensor *t, int64_t i) {
  const unsigned char *at =
      (const unsigned char *)t->data + (size_t)i * attend_stored_size(t->stored);
  float f;
  double d;
  int64_t n = 0;
  switch (t->stored) {
    case ATTEND_STORED_F16:
      attend_convert_to_f32(ATTEND_F16, at, 1, &f);
      return (double)f;
    case ATTEND_STORED_F32:
      memcpy(&f, at, 4);
      return (double)f;
    case ATTEND_STORED_F64:
      memcpy(&d, at, 8);
      return d;
    default: /* small and positive, little-endian */
      memcpy(&n, at, attend_stored_size(t->stored));
      return (double)n;
  }
}

/* The numbers 0 to 23 as [2, 3, 4]. */
static void check_x(const attend_tensor *t, attend_stored stored) {
  CHECK(t && t->stored == stored && t->rank == 3 && t->count == 24);
  if (!t || t->count != 24) return;
  CHECK(t->shape[0] == 2 && t->shape[1] == 3 && t->shape[2] == 4);
  for (int i = 0; i < 24; i++) CHECK_NEAR(value_at(t, i), i, 0);
}

TEST(reads_every_dtype_and_version) {
  const struct {
    const char *name;
    attend_stored stored;
  } files[] = {{"f2.npy", ATTEND_STORED_F16},       {"f4.npy", ATTEND_STORED_F32},
               {"f8.npy", ATTEND_STORED_F64},       {"i1.npy", ATTEND_STORED_I8},
               {"i4.npy", ATTEND_STORED_I32},       {"i8.npy", ATTEND_STORED_I64},
               {"u1.npy", ATTEND_STORED_U8},        {"version1.npy", ATTEND_STORED_F32},
               {"version2.npy", ATTEND_STORED_F32}, {"version3.npy", ATTEND_STORED_F32},
               {"fortran.npy", ATTEND_STORED_F32}};
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    attend_tensor_file *f = opened(files[i].name);
    if (!f) continue;
    CHECK_EQ(attend_tensor_file_count(f), 1);
    check_x(attend_tensor_file_find(f, "array"), files[i].stored);
    CHECK_EQ(attend_tensor_file_notes(f), 0);
    attend_tensor_file_free(f);
  }
}

TEST(reads_shapes_and_strings) {
  attend_tensor_file *f = opened("text.npy");
  const attend_tensor *t = attend_tensor_file_get(f, 0);
  CHECK(t->stored == ATTEND_STORED_U32 && t->rank == 2 && t->shape[0] == 4 && t->shape[1] == 5);
  CHECK_NEAR(value_at(t, 5), 'd', 0);
  CHECK_NEAR(value_at(t, 3 * 5 + 2), 0xef, 0); /* naïve */
  attend_tensor_file_free(f);
  f = opened("bytes.npy"), t = attend_tensor_file_get(f, 0);
  CHECK(t->stored == ATTEND_STORED_U8 && t->rank == 2 && t->shape[1] == 4);
  CHECK(!memcmp(t->data, "The\0dogs", 8));
  attend_tensor_file_free(f);
  f = opened("scalar.npy"), t = attend_tensor_file_get(f, 0);
  CHECK(t->rank == 0 && t->count == 1);
  CHECK_NEAR(value_at(t, 0), 2.5, 0);
  attend_tensor_file_free(f);
  f = opened("empty.npy"), t = attend_tensor_file_get(f, 0);
  CHECK(t->rank == 2 && t->count == 0 && t->bytes == 0);
  attend_tensor_file_free(f);
  f = opened("b1.npy"), t = attend_tensor_file_get(f, 0);
  CHECK_EQ(t->stored, ATTEND_STORED_BOOL);
  for (int i = 0; i < 24; i++) CHECK_NEAR(value_at(t, i), i % 2, 0);
  attend_tensor_file_free(f);
}

TEST(reads_archives) {
  static const char *const names[] = {"stored.npz", "deflated.npz"};
  for (int i = 0; i < 2; i++) {
    attend_tensor_file *f = opened(names[i]);
    if (!f) continue;
    CHECK_EQ(attend_tensor_file_count(f), 3);
    check_x(attend_tensor_file_find(f, "x"), ATTEND_STORED_F32);
    check_x(attend_tensor_file_find(f, "y"), ATTEND_STORED_F64);
    CHECK(!attend_tensor_file_find(f, "z"));
    const attend_tensor *t = attend_tensor_file_find(f, "tokens");
    CHECK(t && t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 2);
    attend_tensor_file_free(f);
  }
  attend_tensor_file *f = opened("zip64.npz");
  check_x(attend_tensor_file_find(f, "x"), ATTEND_STORED_F32);
  check_x(attend_tensor_file_find(f, "y"), ATTEND_STORED_F32);
  attend_tensor_file_free(f);
}

/* Stored, fixed and dynamic blocks. */
TEST(decompresses_every_kind_of_block) {
  attend_tensor_file *packed = opened("mixed.npz"), *plain = opened("mixed_stored.npz");
  CHECK_EQ(attend_tensor_file_count(packed), 4);
  for (size_t i = 0; i < attend_tensor_file_count(plain); i++) {
    const attend_tensor *a = attend_tensor_file_get(plain, i),
                        *b = attend_tensor_file_find(packed, a->name);
    CHECK(b && b->bytes == a->bytes && !memcmp(a->data, b->data, a->bytes));
  }
  attend_tensor_file_free(packed);
  attend_tensor_file_free(plain);
}

/* ---- lies ----------------------------------------------------------------------------- */

static char lie[300];

__attribute__((destructor)) static void remove_lie(void) {
  if (*lie) unlink(lie);
}

static void refused(const void *bytes, size_t n, const char *why) {
  attend_tensor_file *file;
  const char *tmp = getenv("TMPDIR");
  if (!*lie) snprintf(lie, sizeof lie, "%s/attend-lie-%d.npy", tmp ? tmp : "/tmp", (int)getpid());
  CHECK_EQ(attend_file_write(context(), lie, bytes, n), ATTEND_OK);
  CHECK_EQ(attend_tensor_file_open(context(), lie, &file), ATTEND_IO);
  CHECK(!file);
  CHECK_SAYS(attend_message(context()), lie);
  CHECK_SAYS(attend_message(context()), why);
}

static void refused_file(const char *name, const char *why) {
  attend_tensor_file *file;
  CHECK_EQ(attend_tensor_file_open(context(), golden(name), &file), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), why);
}

TEST(refuses_what_it_does_not_read) {
  refused_file("big.npy", "big-endian");
  refused_file("object.npy", "Python objects");
  refused_file("complex.npy", "dtype '<c8'");
}

/* A .npy file of this header and so many bytes of data. */
static void refused_header(const char *header, size_t data, const char *why) {
  unsigned char bytes[1000] = "\x93NUMPY\1";
  size_t n = strlen(header);
  bytes[8] = (unsigned char)n, bytes[9] = (unsigned char)(n >> 8);
  memcpy(bytes + 10, header, n);
  refused(bytes, 10 + n + data, why);
}

TEST(refuses_headers_that_lie) {
  static const char odd[] = "header other than", fit[] = "do not fit";
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11, fit);
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 13, fit);
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), ", 12, odd);
  refused_header("{'descr': '<f4', 'fortran_order': Maybe, 'shape': (3,), }", 12, odd);
  refused_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }", 12, odd);
  refused_header("{'descr': '<f4', 'shape': (1,1,1,1,1,1,1,1,1)}", 4, odd);
  refused_header("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", 12, odd);
  refused_header("{'shape': (3,)}", 12, odd);
  refused_header("{'descr': '<U9999999999999999999', 'shape': (3,)}", 12, odd);
  refused_header("{'descr': '<f4', 'shape': (99999999999999999999,)}", 12, odd);
  refused_header("{'descr': '<f4', 'shape': (4294967296, 4294967296)}", 0, "overflows");
  refused_header("{'descr': '<f8', 'shape': (2305843009213693952,)}", 0, fit);
  refused("\x93NUMPY\1\0\xff\xff{}", 12, "cut off");
  refused("\x93NUMPY\4\0\1\0{}", 12, "version");
  refused("\x93NUMPY\2\0\1", 9, "is not a .npy");
}

/* Every file of every length but its own, and with every byte changed: a refusal, or tensors that
 * fit their bytes. */
static void check_whole(const char *path) {
  attend_tensor_file *file;
  if (attend_tensor_file_open(context(), path, &file)) return;
  for (size_t i = 0; i < attend_tensor_file_count(file); i++) {
    const attend_tensor *t = attend_tensor_file_get(file, i);
    CHECK_EQ(t->bytes, (size_t)t->count * attend_stored_size(t->stored));
  }
  attend_tensor_file_free(file);
}

static void check_damaged(const char *name, bool cuts) {
  char *bytes;
  size_t n;
  CHECK_EQ(file_read(context(), golden(name), &bytes, &n), ATTEND_OK);
  refused("no array", 8, "is not one"); /* makes the file */
  FILE *f = fopen(lie, "r+b");
  for (size_t i = 0; i < n && f; i++) {
    attend_tensor_file *file = NULL;
    bytes[i] ^= 0x41;
    CHECK(pwrite(fileno(f), bytes, n, 0) == (ssize_t)n);
    if (cuts) CHECK_EQ(ftruncate(fileno(f), (off_t)i), 0);
    bytes[i] ^= 0x41;
    if (cuts) CHECK_EQ(attend_tensor_file_open(context(), lie, &file), ATTEND_IO);
    attend_tensor_file_free(file);
    if (!cuts) check_whole(lie);
  }
  if (f) fclose(f);
  ctx_free(context(), bytes);
}

TEST(survives_damage) {
  check_damaged("f4.npy", true);
  check_damaged("f4.npy", false);
  check_damaged("deflated.npz", true);
  check_damaged("deflated.npz", false);
  check_damaged("zip64.npz", false);
}

/* A member that claims far more than its bytes can give is refused before memory is taken. */
TEST(bounds_bombs) {
  char *bytes;
  size_t n;
  CHECK_EQ(file_read(context(), golden("deflated.npz"), &bytes, &n), ATTEND_OK);
  for (size_t i = 0; i + 4 < n; i++)
    if (!memcmp(bytes + i, "PK\1\2", 4)) memcpy(bytes + i + 24, "\xff\xff\xff\x7f", 4);
  refused(bytes, n, "claims more bytes");
  ctx_free(context(), bytes);
}

TEST(inflates) {
  /* Fixed codes: "attend attend attend", by zlib at level 9 without its header. */
  static const unsigned char packed[] = {0x4b, 0x2c, 0x29, 0x49, 0xcd, 0x4b,
                                         0x51, 0x48, 0x44, 0xa6, 0x00};
  unsigned char text[21] = {0};
  CHECK(inflate_bytes(packed, sizeof packed, text, 20));
  CHECK(!strcmp((char *)text, "attend attend attend"));
  CHECK(!inflate_bytes(packed, sizeof packed, text, 19));
  CHECK(!inflate_bytes(packed, sizeof packed, text, 21));
  CHECK(!inflate_bytes(packed, sizeof packed - 2, text, 20));
  CHECK_EQ(crc32_of((const unsigned char *)"123456789", 9), 0xcbf43926u);
}
