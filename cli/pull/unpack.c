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

#include "attend/model.h"
#include "pull/pull.h"

enum { BLOCK = 512, LONGEST_EXTRA = 1 << 16 };

typedef struct { /* layout in the file */
  char name[100], mode[8], uid[8], gid[8], size[12], time[12], sum[8], kind;
  char link[100], magic[6], version[2], owner[32], group[32], major[8], minor[8], prefix[155],
      rest[12];
} header;
_Static_assert(sizeof(header) == BLOCK, "a header fills a block");

typedef struct {
  gzFile in;
  const char *folder;
  char *name;      /* that the next entry has instead of its own */
  int64_t size;    /* likewise; -1: none */
  const char *why; /* what is wrong with it */
  bool reported;   /* the error has been printed */
} archive;

/* ---- reading blocks -------------------------------------------------------------- */

static bool wrong(archive *a, const char *why) {
  if (!a->why) a->why = why;
  return false;
}

static bool read_block(archive *a, void *block) {
  return gzread(a->in, block, BLOCK) == BLOCK || wrong(a, "it is cut short or damaged");
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

/* The text of an entry that describes the next one. */
static char *read_extra(archive *a, int64_t size) {
  char block[BLOCK];
  if (size < 0 || size > LONGEST_EXTRA) {
    wrong(a, "a name in it is too long");
    return NULL;
  }
  char *text = need((size_t)size + BLOCK + 1, 1);
  for (int64_t at = 0; at < size; at += BLOCK) {
    if (!read_block(a, block)) {
      free(text);
      return NULL;
    }
    memcpy(text + at, block, BLOCK);
  }
  text[size] = 0;
  return text;
}

static void take_member(archive *a, const char *member, size_t length) {
  if (length > 5 && !strncmp(member, "path=", 5)) {
    free(a->name);
    a->name = path_of("%.*s", (int)(length - 5), member + 5);
  } else if (length > 5 && !strncmp(member, "size=", 5)) {
    a->size = strtoll(member + 5, NULL, 10);
  }
}

/* Lines "LENGTH NAME=VALUE\n", where LENGTH counts all of the line. */
static bool take_pax(archive *a, const char *text, size_t size) {
  for (size_t at = 0; at < size;) {
    char *end;
    unsigned long length = strtoul(text + at, &end, 10);
    size_t digits = (size_t)(end - (text + at)) + 1;
    if (*end != ' ' || length <= digits || length > size - at)
      return wrong(a, "a name in it is damaged");
    take_member(a, end + 1, length - digits - 1);
    at += length;
  }
  return true;
}

static bool take_extra(archive *a, char kind, int64_t size) {
  char *text = read_extra(a, size);
  bool fine = text;
  if (text && kind == 'x') fine = take_pax(a, text, (size_t)size);
  if (text && kind == 'L') {
    free(a->name);
    a->name = need_copy(text);
  }
  free(text);
  return fine;
}

/* ---- entries ------------------------------------------------------------------------- */

static char *name_of(archive *a, const header *h) {
  char *name = a->name;
  a->name = NULL;
  if (name) return name;
  bool posix = !memcmp(h->magic, "ustar", 6);
  return posix && *h->prefix ? path_of("%.155s/%.100s", h->prefix, h->name)
                             : path_of("%.100s", h->name);
}

static bool write_bytes(archive *a, int out, int64_t size) {
  char block[BLOCK];
  for (int64_t left = size; left > 0; left -= BLOCK) {
    size_t n = left < BLOCK ? (size_t)left : BLOCK;
    if (!read_block(a, block)) return false;
    for (size_t at = 0; at < n;) {
      ssize_t done = write(out, block + at, n - at);
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) return wrong(a, strerror(errno));
      at += (size_t)done;
    }
  }
  return !fsync(out) || wrong(a, strerror(errno));
}

static bool write_file(archive *a, const char *path, int64_t size) {
  a->reported = !make_room(path);
  if (a->reported) return wrong(a, "it has no room");
  int out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (out < 0) return wrong(a, strerror(errno));
  bool fine = write_bytes(a, out, size);
  return (!close(out) || wrong(a, strerror(errno))) && fine;
}

/* Folders are created for their files; their own entries are redundant. */
static bool take_entry(archive *a, const header *h, int64_t size) {
  bool plain = h->kind == '0' || h->kind == 0, folder = h->kind == '5';
  char *name = name_of(a, h);
  size_t length = strlen(name);
  while (folder && length && name[length - 1] == '/') name[--length] = 0;
  const char *slash = strchr(name, '/');
  bool fine = true;
  if (!plain && !folder)
    fine = wrong(a, "it has links or devices in it");
  else if (!attend_name_is_safe(name, length))
    fine = wrong(a, "a name in it leads out of its folder");
  else if (plain && (!slash || size < 0))
    fine = wrong(a, "it is no package of npm's");
  if (fine && plain) {
    char *path = path_of("%s%s", a->folder, slash);
    fine = write_file(a, path, size);
    free(path);
  }
  free(name);
  return fine;
}

/* False at the end, or once something is wrong. */
static bool take_next(archive *a) {
  header h;
  if (!read_block(a, &h) || is_blank(&h)) return false;
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

bool unpack(const char *tarball, const char *folder) {
  archive a = {.in = gzopen(tarball, "rb"), .folder = folder, .size = -1};
  if (!a.in) {
    complain("%s cannot be opened: %s", tarball, strerror(errno));
    return false;
  }
  while (take_next(&a)) continue;
  bool sound = a.why || drain(&a);
  if (gzclose(a.in) || !sound) wrong(&a, "it is cut short or damaged");
  free(a.name);
  if (a.why && !a.reported) complain("the package is not unpacked: %s", a.why);
  return !a.why;
}
