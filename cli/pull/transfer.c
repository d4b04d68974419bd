/* HTTP requests. The only file that includes libcurl. */
#include "pull/transfer.h"

#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "folders.h"
#include "progress.h"

enum { RETRIES = 3, MOST_HOPS = 10, MOST_TEXT = 1 << 28 };

struct transfer {
  CURL *curl;
  char *home, *token;
  char *location; /* of the last redirect */
  char why[CURL_ERROR_SIZE];
};

/* Where a body goes: text that grows, or a file. */
typedef struct {
  transfer *t;
  const answer *a;
  char *text;
  size_t length, capacity;
  int file; /* -1: into the text */
  int64_t at, before, size;
  bool started;
  int error; /* errno of the file */
} sink;

transfer *transfer_open(const char *home, const char *token) {
  transfer *t = need(1, sizeof *t);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  t->curl = curl_easy_init();
  t->home = need_copy(home);
  if (token) t->token = path_of("Authorization: Bearer %s", token);
  if (t->curl) return t;
  complain("libcurl cannot be started: check its installation");
  transfer_close(t);
  return NULL;
}

void transfer_close(transfer *t) {
  if (!t) return;
  curl_easy_cleanup(t->curl);
  curl_global_cleanup();
  free(t->home);
  free(t->token);
  free(t->location);
  free(t);
}

/* ---- addresses --------------------------------------------------------------- */

char *transfer_escape(transfer *t, const char *name, bool slashes) {
  char *escaped = curl_easy_escape(t->curl, name, 0);
  char *to = need(strlen(name) * 3 + 1, 1), *at = to;
  for (const char *from = escaped; from && *from;) {
    bool slash = slashes && !strncmp(from, "%2F", 3);
    *at++ = slash ? '/' : *from;
    from += slash ? 3 : 1;
  }
  curl_free(escaped);
  return to;
}

/* Scheme, host and port: what one server is. */
static char *origin_of(const char *url) {
  CURLU *parts = curl_url();
  char *scheme = NULL, *host = NULL, *port = NULL, *origin = NULL;
  if (parts && !curl_url_set(parts, CURLUPART_URL, url, 0) &&
      !curl_url_get(parts, CURLUPART_SCHEME, &scheme, 0) &&
      !curl_url_get(parts, CURLUPART_HOST, &host, 0) &&
      !curl_url_get(parts, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT))
    origin = path_of("%s://%s:%s", scheme, host, port);
  curl_free(scheme);
  curl_free(host);
  curl_free(port);
  curl_url_cleanup(parts);
  return origin ? origin : need_copy("");
}

static bool is_home(const transfer *t, const char *url) {
  char *ours = origin_of(t->home), *theirs = origin_of(url);
  bool same = *ours && !strcasecmp(ours, theirs);
  free(ours);
  free(theirs);
  return same;
}

/* What a redirect from `url` leads to; NULL where it may not lead. */
static char *next_url(const char *url, const char *location) {
  CURLU *parts = curl_url();
  char *found = NULL, *next = NULL;
  if (parts && !curl_url_set(parts, CURLUPART_URL, url, 0) &&
      !curl_url_set(parts, CURLUPART_URL, location, 0) &&
      !curl_url_get(parts, CURLUPART_URL, &found, 0) &&
      (!strncmp(found, "https://", 8) ||
       (!strncmp(found, "http://", 7) && !strncmp(url, "http://", 7))))
    next = need_copy(found);
  curl_free(found);
  curl_url_cleanup(parts);
  return next;
}

/* ---- headers ----------------------------------------------------------------- */

/* The value if the line is this header, without the spaces around it. */
static bool is_header(const char *line, size_t length, const char *name, const char **value,
                      size_t *size) {
  size_t n = strlen(name);
  if (length <= n || strncasecmp(line, name, n) || line[n] != ':') return false;
  const char *from = line + n + 1, *end = line + length;
  while (from < end && (*from == ' ' || *from == '\t')) from++;
  while (end > from && strchr(" \t\r\n", end[-1])) end--;
  *value = from;
  *size = (size_t)(end - from);
  return true;
}

/* An etag may be weak, W/"...", and is quoted. */
static void keep_text(char to[HEADER_SIZE], const char *value, size_t size) {
  if (size > 2 && !strncmp(value, "W/", 2)) value += 2, size -= 2;
  if (size > 1 && value[0] == '"') value++, size -= 2;
  if (size < HEADER_SIZE) snprintf(to, HEADER_SIZE, "%.*s", (int)size, value);
}

static int64_t number_of(const char *value, size_t size) {
  char digits[24];
  snprintf(digits, sizeof digits, "%.*s", (int)(size < 20 ? size : 20), value);
  char *end;
  errno = 0;
  long long n = strtoll(digits, &end, 10);
  return errno || end == digits || n < 0 ? -1 : n;
}

typedef struct {
  transfer *t;
  answer *a;
} headers;

static size_t take_header(char *line, size_t one, size_t length, void *user) {
  headers *h = user;
  answer *a = h->a;
  const char *value;
  size_t size;
  if (is_header(line, length, "ETag", &value, &size))
    keep_text(a->etag, value, size);
  else if (is_header(line, length, "X-Linked-Etag", &value, &size))
    keep_text(a->linked_etag, value, size);
  else if (is_header(line, length, "X-Repo-Commit", &value, &size))
    keep_text(a->commit, value, size);
  else if (is_header(line, length, "X-Error-Code", &value, &size))
    keep_text(a->error, value, size);
  else if (is_header(line, length, "X-Linked-Size", &value, &size))
    a->linked_size = number_of(value, size);
  else if (is_header(line, length, "Content-Length", &value, &size))
    a->length = number_of(value, size);
  else if (is_header(line, length, "Content-Range", &value, &size) && size > 6 &&
           !strncmp(value, "bytes ", 6))
    a->range = number_of(value + 6, size - 6);
  else if (is_header(line, length, "Location", &value, &size)) {
    free(h->t->location);
    h->t->location = path_of("%.*s", (int)size, value);
    a->location = h->t->location;
  }
  return one * length;
}

/* ---- bodies ------------------------------------------------------------------ */

static bool append_text(sink *s, const char *bytes, size_t n) {
  if (s->length + n > MOST_TEXT) return false;
  if (s->length + n + 1 > s->capacity) {
    s->capacity = 2 * (s->length + n + 1);
    s->text = need_more(s->text, s->length, s->capacity, 1);
  }
  memcpy(s->text + s->length, bytes, n);
  s->text[s->length += n] = 0;
  return true;
}

static bool empty_file(sink *s) {
  s->at = s->before = 0;
  if (!ftruncate(s->file, 0)) return true;
  s->error = errno;
  return false;
}

/* A server without range support restarts: truncate the file. */
static bool start_file(sink *s, long status) {
  s->started = true;
  if (status == 206) return s->a->range == s->at;
  return s->at == 0 || empty_file(s);
}

static bool append_file(sink *s, const char *bytes, size_t n) {
  if (s->size >= 0 && s->at + (int64_t)n > s->size) return false;
  while (n) {
    ssize_t done = pwrite(s->file, bytes, n, s->at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) s->error = errno;
    if (done < 0) return false;
    bytes += done;
    n -= (size_t)done;
    s->at += done;
  }
  progress_bytes((size_t)s->at, (size_t)s->before);
  return true;
}

/* Bodies of redirects and errors are discarded. */
static size_t take_body(char *bytes, size_t one, size_t n, void *user) {
  sink *s = user;
  long status = 0;
  curl_easy_getinfo(s->t->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 && status != 206) return one * n;
  if (s->file < 0) return append_text(s, bytes, n) ? n : 0;
  if (!s->started && !start_file(s, status)) return 0;
  return append_file(s, bytes, n) ? n : 0;
}

/* ---- one question ------------------------------------------------------------ */

static void set_up(transfer *t, const char *url, headers *h) {
  CURL *c = t->curl;
  const char *bundle = getenv("SSL_CERT_FILE");
  curl_easy_reset(c);
  curl_easy_setopt(c, CURLOPT_URL, url);
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_USERAGENT, "attend/" ATTEND_VERSION);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L); /* a minute of silence */
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, t->why);
  curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, take_header);
  curl_easy_setopt(c, CURLOPT_HEADERDATA, h);
  if (bundle && *bundle) curl_easy_setopt(c, CURLOPT_CAINFO, bundle);
}

/* `s` is NULL for a HEAD. */
static CURLcode ask(transfer *t, const char *url, sink *s, answer *a) {
  headers h = {t, a};
  char range[32];
  /* Sizes and hashes are those of the bytes as they are stored. */
  struct curl_slist *lines = curl_slist_append(NULL, "Accept-Encoding: identity");
  if (t->token && is_home(t, url)) lines = curl_slist_append(lines, t->token);
  set_up(t, url, &h);
  curl_easy_setopt(t->curl, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(t->curl, CURLOPT_NOBODY, s ? 0L : 1L);
  if (s) {
    curl_easy_setopt(t->curl, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(t->curl, CURLOPT_WRITEDATA, s);
  }
  if (s && s->at > 0) {
    snprintf(range, sizeof range, "%lld-", (long long)s->at);
    curl_easy_setopt(t->curl, CURLOPT_RANGE, range);
  }
  a->length = a->range = -1;
  a->etag[0] = 0;
  a->location = NULL;
  t->why[0] = 0;
  CURLcode code = curl_easy_perform(t->curl);
  curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &a->status);
  curl_slist_free_all(lines);
  return code;
}

/* Follows redirects; for a HEAD only those on the same server. */
static CURLcode ask_on(transfer *t, const char *url, sink *s, answer *a) {
  char *at = need_copy(url);
  CURLcode code = CURLE_TOO_MANY_REDIRECTS;
  *a = (answer){.linked_size = -1};
  for (int hop = 0; hop < MOST_HOPS; hop++) {
    code = ask(t, at, s, a);
    if (code || a->status / 100 != 3 || !a->location) break;
    char *next = next_url(at, a->location);
    if (!s && (!next || !is_home(t, next))) {
      free(next);
      break;
    }
    free(at);
    at = next;
    code = CURLE_TOO_MANY_REDIRECTS;
    if (!at) break;
  }
  free(at);
  return code;
}

/* ---- again, and giving up ------------------------------------------------------ */

static bool is_passing(CURLcode code) {
  switch (code) {
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

/* Whether to retry; if so, after a wait. */
static bool wait_to_retry(CURLcode code, const answer *a, int tries) {
  bool worth = code ? is_passing(code) : a->status >= 500 || a->status == 429;
  if (!worth || tries >= RETRIES) return false;
  long ms = 500L << tries;
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  progress_note("the server does not answer well: trying again");
  nanosleep(&time, NULL);
  progress_end();
  return true;
}

static bool complain_broken(const transfer *t, CURLcode code) {
  const char *why = *t->why ? t->why : curl_easy_strerror(code);
  if (code == CURLE_TOO_MANY_REDIRECTS)
    complain(
        "%s redirects without end, or to where it is not safe: check "
        "HF_ENDPOINT",
        t->home);
  else if (is_passing(code))
    complain(
        "the connection to %s broke %d times (%s): pull again, it goes "
        "on from where it stopped",
        t->home, RETRIES + 1, why);
  else
    complain(
        "%s cannot be reached (%s): check the network, or take what the "
        "cache has with --offline",
        t->home, why);
  return false;
}

/* ---- accessors ---------------------------------------------------------------- */

bool transfer_head(transfer *t, const char *url, answer *a) {
  CURLcode code;
  int tries = 0;
  do {
    code = ask_on(t, url, NULL, a);
  } while (wait_to_retry(code, a, tries++));
  return code ? complain_broken(t, code) : true;
}

bool transfer_text(transfer *t, const char *url, answer *a, char **text, size_t *length) {
  sink s = {.t = t, .a = a, .file = -1};
  CURLcode code;
  int tries = 0;
  do {
    s.length = 0;
    code = ask_on(t, url, &s, a);
  } while (wait_to_retry(code, a, tries++));
  *text = s.text ? s.text : need(1, 1);
  *length = s.length;
  return code ? complain_broken(t, code) : true;
}

/* Whether the file is complete; a truncated one is a broken connection. */
static CURLcode fill_file(sink *s, const char *url, answer *a) {
  s->started = false;
  s->before = s->at;
  if (s->size >= 0 && s->at > s->size && !empty_file(s)) return CURLE_WRITE_ERROR;
  if (s->at == s->size) {
    a->status = 200;
    return CURLE_OK;
  }
  CURLcode code = ask_on(s->t, url, s, a);
  if (!code && a->status == 416) /* it is longer than the server's */
    code = empty_file(s) ? ask_on(s->t, url, s, a) : CURLE_WRITE_ERROR;
  bool good = !code && (a->status == 200 || a->status == 206);
  return good && s->size >= 0 && s->at < s->size ? CURLE_PARTIAL_FILE : code;
}

static bool complain_written(const sink *s, const char *path, CURLcode code) {
  if (s->error)
    complain(
        "%s cannot be written (%s): make room and pull again, it goes on "
        "from where it stopped",
        path, strerror(s->error));
  else if (code == CURLE_WRITE_ERROR)
    complain("%s sends other bytes than it announced: pull again later", s->t->home);
  else
    complain_broken(s->t, code);
  return false;
}

bool transfer_file(transfer *t, const char *url, const char *path, int64_t size, answer *a) {
  sink s = {.t = t, .a = a, .size = size};
  CURLcode code;
  int tries = 0;
  s.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  s.at = s.file < 0 ? 0 : lseek(s.file, 0, SEEK_END);
  s.error = s.file < 0 || s.at < 0 ? errno : 0;
  if (s.error) return complain_written(&s, path, CURLE_WRITE_ERROR);
  do {
    code = fill_file(&s, url, a);
  } while (!s.error && wait_to_retry(code, a, tries++));
  if (!code && !s.error && ftruncate(s.file, s.at)) s.error = errno;
  if (!code && !s.error && fsync(s.file)) s.error = errno;
  if (close(s.file) && !s.error) s.error = errno;
  return code || s.error ? complain_written(&s, path, code) : true;
}
