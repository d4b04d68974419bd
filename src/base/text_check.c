/* What is surely no text, told by how it begins.
 *
 * For everything that learns from files of texts.
 */
#include <string.h>

#include "attend/file.h"
#include "base/base.h"

static const struct {
  const char *begins;
  size_t length;
  const char *is;
} others[] = {{"\x1f\x8b", 2, "packed by gzip: unpack it"},
              {"\x28\xb5\x2f\xfd", 4, "packed by zstd: unpack it"},
              {"\xfd"
               "7zXZ",
               5, "packed by xz: unpack it"},
              {"PK\3\4", 4, "a zip archive: unpack it"},
              {"PAR1\x15", 5, "a Parquet file: write it as .jsonl"},
              {"\xff\xfe", 2, "UTF-16: write it as UTF-8"},
              {"\xfe\xff", 2, "UTF-16: write it as UTF-8"}};

attend_status attend_text_check(attend_context *ctx, const char *name,
                                const char *bytes, size_t length) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (length >= others[i].length &&
        !memcmp(bytes, others[i].begins, others[i].length))
      return fail(ctx, ATTEND_IO, "%.300s is no text, but %s first", name,
                  others[i].is);
  return ATTEND_OK;
}
