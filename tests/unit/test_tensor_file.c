/* Tensor files: a good one, and every way in which one can lie. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attend/file.h"
#include "check.h"

static attend_context *context(void) {
  static attend_context *ctx;
  if (!ctx)
    attend_context_create(
        &(attend_context_options){ATTEND_INIT(attend_context_options), .isa = "scalar"}, &ctx);
  return ctx;
}

static char folder[256], path[300];

static void make_folder(void) {
  const char *tmp = getenv("TMPDIR");
  if (*folder) return;
  snprintf(folder, sizeof folder, "%s/attend-test-XXXXXX", tmp ? tmp : "/tmp");
  CHECK(mkdtemp(folder) != NULL);
  snprintf(path, sizeof path, "%s/lie.safetensors", folder);
}

__attribute__((destructor)) static void remove_folder(void) {
  if (!*folder) return;
  unlink(path);
  rmdir(folder);
}

static void write_bytes(const void *bytes, size_t n) {
  make_folder();
  FILE *f = fopen(path, "wb");
  CHECK(f && fwrite(bytes, 1, n, f) == n);
  if (f) fclose(f);
}

/* Header length (the true one plus `more`), header, `data` bytes 0, 1, 2 .. */
static void write_file(const char *header, size_t data, int64_t more) {
  size_t n = strlen(header);
  unsigned char *all = malloc(8 + n + data);
  uint64_t length = n + (uint64_t)more;
  for (int i = 0; i < 8; i++) all[i] = (unsigned char)(length >> 8 * i);
  memcpy(all + 8, header, n);
  for (size_t i = 0; i < data; i++) all[8 + n + i] = (unsigned char)i;
  write_bytes(all, 8 + n + data);
  free(all);
}

static void refuse_written(const char *why) {
  attend_tensor_file *file;
  CHECK_EQ(attend_tensor_file_open(context(), path, &file), ATTEND_IO);
  CHECK(!file);
  CHECK_SAYS(attend_message(context()), path);
  CHECK_SAYS(attend_message(context()), why);
  attend_tensor_file_free(file);
}

static void refuse(const char *header, size_t data, const char *why) {
  write_file(header, data, 0);
  refuse_written(why);
}

#define ENTRY(dtype, shape, offsets) \
  "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(a_good_file) {
  attend_tensor_file *file;
  write_file(
      "{\"__metadata__\":{\"made by\":\"a test\"},\"b\":" ENTRY(
          "F32", "[2,3]",
          "[8,32]") ",\"a\":" ENTRY("I64", "[]",
                                    "[0,8]") ",\"empty\":" ENTRY("U8", "[0,5]",
                                                                 "[8,8]") "}  "
                                                                          " ",
      32, 0);
  CHECK_EQ(attend_tensor_file_open(context(), path, &file), ATTEND_OK);
  if (!file) return;
  CHECK_EQ(attend_tensor_file_count(file), 3);
  const attend_tensor *b = attend_tensor_file_find(file, "b");
  const attend_tensor *a = attend_tensor_file_find(file, "a");
  CHECK(b == attend_tensor_file_get(file, 0));
  CHECK(a == attend_tensor_file_get(file, 1));
  CHECK(!attend_tensor_file_get(file, 3));
  CHECK(!attend_tensor_file_find(file, "c"));
  CHECK(!attend_tensor_file_find(file, "__metadata__"));
  CHECK(b && b->rank == 2 && b->shape[0] == 2 && b->shape[1] == 3);
  CHECK(b && b->stored == ATTEND_STORED_F32 && !strcmp(b->dtype, "F32"));
  CHECK(b && b->bytes == 24 && *(const unsigned char *)b->data == 8);
  CHECK(a && a->rank == 0 && a->count == 1 && a->bytes == 8);
  const char *text;
  CHECK_EQ(attend_tensor_file_notes(file), 1);
  CHECK(!strcmp(attend_tensor_file_note(file, 0, &text), "made by"));
  CHECK(!strcmp(text, "a test"));
  CHECK(!strcmp(attend_tensor_file_note_find(file, "made by"), "a test"));
  CHECK(!attend_tensor_file_note_find(file, "other"));
  attend_tensor_file_free(file);
}

TEST(metadata_may_stand_anywhere) {
  attend_tensor_file *file;
  write_file("{\"a\":" ENTRY("BF16", "[1]", "[0,2]") ",\"__metadata__\":{},\"b\":" ENTRY(
                 "BOOL", "[2]", "[2,4]") "}",
             4, 0);
  CHECK_EQ(attend_tensor_file_open(context(), path, &file), ATTEND_OK);
  if (!file) return;
  const attend_tensor *b = attend_tensor_file_find(file, "b");
  CHECK(b && !strcmp(b->name, "b"));
  b = attend_tensor_file_find(file, "a");
  CHECK(b && !strcmp(b->name, "a"));
  attend_tensor_file_free(file);
}

TEST(no_tensors) {
  attend_tensor_file *file;
  write_file("{}", 0, 0);
  CHECK_EQ(attend_tensor_file_open(context(), path, &file), ATTEND_OK);
  if (file) CHECK_EQ(attend_tensor_file_count(file), 0);
  attend_tensor_file_free(file);
}

TEST(the_file_itself) {
  attend_tensor_file *file;
  make_folder();
  CHECK_EQ(attend_tensor_file_open(context(), "/nowhere/x", &file), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "/nowhere/x");
  CHECK_EQ(attend_tensor_file_open(context(), folder, &file), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "is not a file");
  write_bytes("", 0);
  refuse_written("0 bytes");
  write_bytes("\1\0\0", 3);
  refuse_written("3 bytes");
}

TEST(header_lengths) {
  write_file("{}", 0, 1);
  refuse_written("cut off");
  write_file("{}", 0, -1);
  refuse_written("not valid JSON");
  write_file("{}", 0, -2);
  refuse_written("not valid JSON");
  write_file("{}", 0, INT64_MAX - 2);
  refuse_written("is not one");
  write_file("{}", 0, -3); /* 2^64 - 1 */
  refuse_written("is not one");
}

TEST(headers) {
  refuse("[]", 0, "not an object");
  refuse("{\"a\":1}", 0, "not described by an object");
  refuse("{\"a\":{}}", 0, "no more");
  refuse("{\"a\":" ENTRY("U8", "[1]", "[0,1]") ",\"a\":" ENTRY("U8", "[1]", "[1,2]") "}", 2,
         "comes twice");
  refuse("{\"a\\u0000b\":" ENTRY("U8", "[1]", "[0,1]") "}", 1, "zero byte");
  refuse("{\"__metadata__\":3}", 0, "metadata");
  refuse("{\"__metadata__\":{\"x\":3}}", 0, "\"x\" is not a string");
  refuse("{\"a\":" ENTRY("U8", "[1]", "[0,1]") "", 1, "not valid JSON");
}

TEST(tensors_that_lie) {
  refuse("{\"t\":" ENTRY("F33", "[1]", "[0,4]") "}", 4, "dtype");
  refuse("{\"t\":{\"dtype\":3,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no dtype");
  refuse("{\"t\":" ENTRY("F32", "4", "[0,4]") "}", 4, "no shape");
  refuse("{\"t\":" ENTRY("F32", "[-1]", "[0,4]") "}", 4, "whole number");
  refuse("{\"t\":" ENTRY("F32", "[1.5]", "[0,4]") "}", 4, "whole number");
  refuse("{\"t\":" ENTRY("F32", "[\"1\"]", "[0,4]") "}", 4, "whole number");
  refuse("{\"t\":" ENTRY("U8", "[1,1,1,1,1,1,1,1,1]", "[0,1]") "}", 1, "dimensions");
  refuse("{\"t\":" ENTRY("U8", "[4294967296,4294967296]", "[0,0]") "}", 0, "overflows");
  refuse("{\"t\":" ENTRY("F64", "[2305843009213693952]", "[0,0]") "}", 0, "do not fit");
  refuse("{\"t\":" ENTRY("F32", "[1]", "[0]") "}", 4, "two whole numbers");
  refuse("{\"t\":" ENTRY("F32", "[1]", "[0,4,8]") "}", 8, "two whole numbers");
  refuse("{\"t\":" ENTRY("F32", "[1]", "[4,0]") "}", 4, "backwards");
  refuse("{\"t\":" ENTRY("F32", "[1]", "[-4,0]") "}", 4, "backwards");
  refuse("{\"t\":" ENTRY("F32", "[2]", "[0,8]") "}", 4, "beyond the end");
  refuse("{\"t\":" ENTRY("F32", "[1]", "[0,9223372036854775807]") "}", 4, "beyond the end");
  refuse("{\"t\":" ENTRY("F32", "[1]", "[0,3]") "}", 3, "do not fit");
  refuse("{\"t\":" ENTRY("F32", "[1]", "[0,8]") "}", 8, "do not fit");
}

TEST(tensors_that_do_not_cover) {
  refuse("{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[2,6]") "}", 6,
         "\"b\" overlaps");
  refuse("{\"a\":" ENTRY("U8", "[4]", "[0,4]") ",\"b\":" ENTRY("U8", "[4]", "[0,4]") "}", 4,
         "overlaps");
  refuse("{\"a\":" ENTRY("U8", "[2]", "[0,2]") ",\"b\":" ENTRY("U8", "[2]", "[4,6]") "}", 6,
         "\"b\" has a hole before it");
  refuse("{\"a\":" ENTRY("U8", "[2]", "[1,3]") "}", 3, "hole");
  refuse("{\"a\":" ENTRY("U8", "[2]", "[0,2]") "}", 5, "3 bytes after");
  refuse("{}", 1, "1 bytes after");
}

TEST(every_length_of_a_file) { /* cut anywhere, it is refused */
  const char *header = "{\"a\":" ENTRY("F32", "[2]", "[0,8]") "}";
  size_t n = strlen(header);
  write_file(header, 8, 0);
  for (size_t size = 0; size < 8 + n + 8; size++) {
    attend_tensor_file *file;
    write_file(header, 8, 0);
    CHECK(!truncate(path, (off_t)size));
    CHECK_EQ(attend_tensor_file_open(context(), path, &file), ATTEND_IO);
  }
}

TEST(a_pipe_is_written_to_and_stays) { /* as /dev/null and /dev/stdout do */
  char got[8] = "";
  struct stat s;
  make_folder();
  unlink(path);
  CHECK(!mkfifo(path, 0600));
  int out = open(path, O_RDONLY | O_NONBLOCK);
  CHECK(out >= 0);
  CHECK_EQ(attend_file_write(context(), path, "words", 5), ATTEND_OK);
  CHECK_EQ(read(out, got, sizeof got), 5);
  CHECK(!strcmp(got, "words"));
  CHECK(!stat(path, &s) && S_ISFIFO(s.st_mode));
  if (out >= 0) close(out);
}

/* ---- two writers of one path ------------------------------------------------------ */

enum { LONG = 100000 };

static int files_in(const char *name) {
  DIR *dir = opendir(name);
  int n = 0;
  for (struct dirent *e; dir && (e = readdir(dir));) n += e->d_name[0] != '.';
  if (dir) closedir(dir);
  return n;
}

static attend_status fill_while_another_writes(size_t i, void *to, void *user) {
  static float one[3] = {7, 8, 9};
  attend_tensor t = {
      .name = "inner", .stored = ATTEND_STORED_F32, .rank = 1, .shape = {3}, .data = one};
  memset(to, (int)i + 1, LONG);
  if (i == 1) CHECK(!attend_tensor_file_write(context(), path, 1, &t));
  return user ? ATTEND_IO : ATTEND_OK;
}

static attend_status write_around(void *give_up) {
  attend_tensor outer[3];
  static const char *const names[] = {"a", "b", "c"};
  for (int i = 0; i < 3; i++)
    outer[i] =
        (attend_tensor){.name = names[i], .stored = ATTEND_STORED_U8, .rank = 1, .shape = {LONG}};
  return attend_tensor_file_make(context(), path, 3, outer, fill_while_another_writes, give_up);
}

/* One writes the path while another is at it: each file is whole, the last to
 * finish stays, and no draft is left. */
TEST(two_writers_of_one_path_do_not_mix) {
  attend_tensor_file *file;
  make_folder();
  unlink(path);
  CHECK_EQ(write_around(NULL), ATTEND_OK);
  CHECK_EQ(attend_tensor_file_open(context(), path, &file), ATTEND_OK);
  if (!file) return;
  CHECK_EQ(attend_tensor_file_count(file), 3);
  for (size_t i = 0; i < attend_tensor_file_count(file); i++) {
    const attend_tensor *t = attend_tensor_file_get(file, i);
    const unsigned char *bytes = t->data;
    CHECK(bytes[0] == i + 1 && bytes[LONG - 1] == i + 1);
  }
  attend_tensor_file_free(file);
  CHECK_EQ(files_in(folder), 1);
}

TEST(a_writer_that_gives_up_leaves_the_other_file) {
  attend_tensor_file *file;
  int give_up = 1;
  attend_draft *draft, *other;
  make_folder();
  unlink(path);
  CHECK_EQ(write_around(&give_up), ATTEND_IO); /* at the first tensor */
  CHECK_EQ(files_in(folder), 0);
  CHECK_EQ(attend_draft_open(context(), path, &draft), ATTEND_OK);
  CHECK_EQ(attend_draft_put(draft, "half", 4), ATTEND_OK);
  CHECK_EQ(attend_draft_open(context(), path, &other), ATTEND_OK);
  CHECK_EQ(attend_draft_put(other, "whole", 5), ATTEND_OK);
  CHECK_EQ(attend_draft_keep(other), ATTEND_OK);
  attend_draft_drop(draft);
  CHECK_EQ(attend_tensor_file_open(context(), path, &file), ATTEND_IO);
  CHECK_SAYS(attend_message(context()), "5 bytes");
  CHECK_EQ(files_in(folder), 1);
}
