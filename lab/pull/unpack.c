/* Unpacking a package's tarball where it can do no harm.
 *
 * A tar file is blocks of 512 bytes: a header, then the bytes of the file it describes.
 * Names that are too long for a header come in an entry of their own before it, in the
 * manner of POSIX (pax) or of GNU.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "pull/pull.h"

enum { BLOCK = 512, LONGEST_EXTRA = 1 << 16 };

typedef struct { /* layout in the file */
  char name[100], mode[8], uid[8], gid[8], size[12], time[12], sum[8], kind;
  char link[100], magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155],
      rest[12];
} header;
_Static_assert(sizeof(header) == BLOCK, "a header fills a block");

typedef struct {
  pull *p;
  gzFile in;
  const char *folder;
  path_text name; /* that the next entry has instead of its own; "": none */
  int64_t size;   /* likewise; -1: none */
  bool ended;
} archive;

/* ---- reading blocks -------------------------------------------------------------- */

static attend_status wrong(archive *a, const char *why) {
  return fail(a->p->ctx, ATTEND_IO, "the package is not unpacked: %s", why);
}

static attend_status read_blocks(archive *a, void *blocks, unsigned bytes) {
  bool whole = gzread(a->in, blocks, bytes) == (int)bytes;
  return whole ? ATTEND_OK : wrong(a, "it is cut short or damaged");
}

/* Octal, ended by a space or a zero byte; -1 if it is anything else. */
static int64_t octal(const char *field, size_t size) {
  int64_t n = 0;
  size_t i = 0;
  while (i < size && field[i] == ' ') i++;
  size_t from = i;
  for (; i < size && field[i] >= '0' && field[i] <= '7'; i++) n = 8 * n + (field[i] - '0');
  if (i == from || (i < size && field[i] && field[i] != ' ')) return -1;
  return n;
}

/* The sum is over the header with its own field blank. */
static bool is_sound(const header *h) {
  const unsigned char *bytes = (const unsigned char *)h;
  const size_t from = offsetof(header, sum), end = from + sizeof h->sum;
  int64_t sum = 0;
  for (size_t i = 0; i < BLOCK; i++) sum += i >= from && i < end ? ' ' : bytes[i];
  return octal(h->sum, sizeof h->sum) == sum;
}

static bool is_blank(const header *h) {
  static const header blank;
  return !memcmp(h, &blank, BLOCK);
}

/* ---- what precedes an entry -------------------------------------------------------- */

static attend_status take_name(archive *a, const char *name, size_t length) {
  if (length >= sizeof a->name) return wrong(a, "a name in it is too long");
  memcpy(a->name, name, length);
  a->name[length] = 0;
  return ATTEND_OK;
}

static attend_status take_member(archive *a, const char *member, size_t length) {
  if (length > 5 && !strncmp(member, "path=", 5)) return take_name(a, member + 5, length - 5);
  if (length > 5 && !strncmp(member, "size=", 5)) a->size = strtoll(member + 5, NULL, 10);
  return ATTEND_OK;
}

/* Lines "LENGTH NAME=VALUE\n", where LENGTH counts all of the line. */
static attend_status take_pax(archive *a, const char *text, size_t size) {
  for (size_t at = 0; at < size;) {
    char *end;
    unsigned long length = strtoul(text + at, &end, 10);
    size_t digits = (size_t)(end - (text + at)) + 1;
    if (*end != ' ' || length <= digits || length > size - at)
      return wrong(a, "a name in it is damaged");
    ATTEND_TRY(take_member(a, end + 1, length - digits - 1));
    at += length;
  }
  return ATTEND_OK;
}

/* An entry whose text describes the next one. */
static attend_status take_extra(archive *a, char kind, int64_t size) {
  char *text;
  if (size < 0 || size > LONGEST_EXTRA) return wrong(a, "a name in it is too long");
  const size_t padded = round_up((size_t)size, BLOCK);
  ATTEND_TRY(ctx_alloc(a->p->ctx, padded + 1, "a name", &text));
  attend_status status = read_blocks(a, text, (unsigned)padded);
  text[size] = 0;
  if (!status && kind == 'x') status = take_pax(a, text, (size_t)size);
  if (!status && kind == 'L') status = take_name(a, text, strlen(text));
  ctx_free(a->p->ctx, text);
  return status;
}

/* ---- entries ------------------------------------------------------------------------- */

static void name_of(archive *a, const header *h, path_text name) {
  bool posix = !memcmp(h->magic, "ustar", 6);
  if (*a->name)
    strcpy(name, a->name);
  else if (posix && *h->prefix)
    snprintf(name, ATTEND_PATH_SIZE, "%.155s/%.100s", h->prefix, h->name);
  else
    snprintf(name, ATTEND_PATH_SIZE, "%.100s", h->name);
  *a->name = 0;
}

static attend_status write_all(archive *a, int out, const char *bytes, size_t count) {
  while (count) {
    ssize_t done = write(out, bytes, count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return wrong(a, strerror(errno));
    bytes += done;
    count -= (size_t)done;
  }
  return ATTEND_OK;
}

static attend_status copy_bytes(archive *a, int out, int64_t size) {
  char blocks[16 * BLOCK];
  for (int64_t left = size; left > 0; left -= (int64_t)sizeof blocks) {
    size_t n = (size_t)min64(left, sizeof blocks);
    ATTEND_TRY(pull_report(a->p));
    ATTEND_TRY(read_blocks(a, blocks, (unsigned)round_up(n, BLOCK)));
    ATTEND_TRY(write_all(a, out, blocks, n));
  }
  return fsync(out) ? wrong(a, strerror(errno)) : ATTEND_OK;
}

static attend_status write_file(archive *a, const char *path, int64_t size) {
  ATTEND_TRY(folder_make_above(a->p->ctx, path));
  int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (out < 0) return wrong(a, strerror(errno));
  attend_status status = copy_bytes(a, out, size);
  if (close(out) && !status) status = wrong(a, strerror(errno));
  return status;
}

/* Folders are created for their files; their own entries are redundant. */
static attend_status take_entry(archive *a, const header *h, int64_t size) {
  bool plain = h->kind == '0' || h->kind == 0, folder = h->kind == '5';
  path_text name, path;
  name_of(a, h, name);
  size_t length = strlen(name);
  while (folder && length && name[length - 1] == '/') name[--length] = 0;
  const char *slash = strchr(name, '/');
  if (!plain && !folder) return wrong(a, "it has links or devices in it");
  if (!attend_name_is_safe(name, length)) return wrong(a, "a name in it leads out of its folder");
  if (!plain) return ATTEND_OK;
  if (!slash || size < 0) return wrong(a, "it is no package of npm's");
  ATTEND_TRY(path_put(a->p->ctx, path, "%s%s", a->folder, slash));
  return write_file(a, path, size);
}

static attend_status take_next(archive *a) {
  header h;
  ATTEND_TRY(read_blocks(a, &h, BLOCK));
  a->ended = is_blank(&h);
  if (a->ended) return ATTEND_OK;
  if (!is_sound(&h)) return wrong(a, "it is damaged");
  int64_t size = octal(h.size, sizeof h.size);
  if (h.kind == 'x' || h.kind == 'g' || h.kind == 'L') return take_extra(a, h.kind, size);
  if (a->size >= 0) size = a->size;
  a->size = -1;
  return take_entry(a, &h, size);
}

/* ---- the tarball ----------------------------------------------------------------------- */

/* What follows the end is padding, and then gzip's checksum. */
static bool drain(archive *a) {
  char block[BLOCK];
  int n;
  while ((n = gzread(a->in, block, sizeof block)) > 0) continue;
  return n == 0 && !gzdirect(a->in);
}

attend_status pull_unpack(pull *p, const char *tarball, const char *folder) {
  archive a = {.p = p, .in = gzopen(tarball, "rbe"), .folder = folder, .size = -1};
  if (!a.in)
    return fail(p->ctx, ATTEND_IO, "%.300s cannot be opened: %s", tarball, strerror(errno));
  attend_status status = ATTEND_OK;
  while (!status && !a.ended) status = take_next(&a);
  bool sound = status || drain(&a);
  if ((gzclose(a.in) || !sound) && !status) status = wrong(&a, "it is cut short or damaged");
  return status;
}
