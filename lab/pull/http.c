/* HTTP requests. The only file that includes libcurl. */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "pull/pull.h"

#if LIBCURL_VERSION_NUM < 0x075400
#error "libcurl 7.84 or later is needed: before, its initialisation was not safe in threads"
#endif

enum { RETRIES = 3, MOST_HOPS = 10, MOST_TEXT = 1 << 28 };

struct http {
  pull *p;
  CURL *curl;
  bool started; /* the library */
  path_text home;
  char token[1200]; /* a header; "": none */
  char why[CURL_ERROR_SIZE];
};

/* Where a body goes: text that grows, or a file. */
typedef struct {
  http *h;
  char *text;
  size_t length, capacity;
  int file; /* -1: into the text */
  int64_t at, size;
  bool started;
  int error;            /* errno of the file */
  attend_status status; /* of the text */
} sink;

attend_status http_open(pull *p, const char *home, const char *token, http **to) {
  http *h;
  ATTEND_TRY(ctx_alloc_zeroed(p->ctx, sizeof *h, "a connection", &h));
  h->p = p;
  *to = h;
  h->started = !curl_global_init(CURL_GLOBAL_DEFAULT); /* libcurl counts these, and locks */
  h->curl = h->started ? curl_easy_init() : NULL;
  if (!h->curl)
    return fail(p->ctx, ATTEND_UNSUPPORTED, "libcurl cannot be started: check its installation");
  if (*token) snprintf(h->token, sizeof h->token, "Authorization: Bearer %s", token);
  return path_put(p->ctx, h->home, "%s", home);
}

void http_close(http *h) {
  if (!h) return;
  curl_easy_cleanup(h->curl);
  if (h->started) curl_global_cleanup();
  ctx_free(h->p->ctx, h);
}

/* ---- addresses ------------------------------------------------------------------- */

static bool is_same_part(CURLU *a, CURLU *b, CURLUPart part) {
  char *x = NULL, *y = NULL;
  bool same = !curl_url_get(a, part, &x, CURLU_DEFAULT_PORT) &&
              !curl_url_get(b, part, &y, CURLU_DEFAULT_PORT) && !strcasecmp(x, y);
  curl_free(x);
  curl_free(y);
  return same;
}

/* Scheme, host and port identify a server. */
static bool is_home(const http *h, const char *url) {
  CURLU *a = curl_url(), *b = curl_url();
  bool same = a && b && !curl_url_set(a, CURLUPART_URL, h->home, 0) &&
              !curl_url_set(b, CURLUPART_URL, url, 0) && is_same_part(a, b, CURLUPART_SCHEME) &&
              is_same_part(a, b, CURLUPART_HOST) && is_same_part(a, b, CURLUPART_PORT);
  curl_url_cleanup(a);
  curl_url_cleanup(b);
  return same;
}

/* Where the last response redirects to; NULL: nowhere, or from https to anything else. */
static const char *next_url(const http *h, const char *url, bool *redirects) {
  char *next = NULL;
  curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &next);
  *redirects = next;
  bool safe = next && (!strncmp(next, "https://", 8) ||
                       (!strncmp(next, "http://", 7) && !strncmp(url, "http://", 7)));
  return safe ? next : NULL;
}

/* ---- headers --------------------------------------------------------------------- */

/* Of the last response; "" if it has no such header. */
static const char *header_of(CURL *curl, const char *name) {
  struct curl_header *header;
  return curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &header) ? "" : header->value;
}

/* An etag may be weak, W/"...", and is quoted. An earlier response's value stays if
 * this one has none. */
static void take_text(CURL *curl, const char *name, char to[HEADER_SIZE]) {
  const char *value = header_of(curl, name);
  if (!*value) return;
  if (!strncmp(value, "W/", 2)) value += 2;
  size_t size = strlen(value);
  if (size > 1 && *value == '"') value++, size -= 2;
  if (size < HEADER_SIZE) snprintf(to, HEADER_SIZE, "%.*s", (int)size, value);
}

static int64_t number_in(const char *text) {
  char *end;
  errno = 0;
  long long n = strtoll(text, &end, 10);
  return errno || end == text || n < 0 ? -1 : n;
}

static void take_headers(CURL *curl, answer *a) {
  curl_off_t length = -1;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &a->status);
  curl_easy_getinfo(curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  a->length = length;
  *a->etag = 0;
  take_text(curl, "ETag", a->etag);
  take_text(curl, "X-Linked-Etag", a->linked_etag);
  take_text(curl, "X-Error-Code", a->error);
  const char *size = header_of(curl, "X-Linked-Size");
  if (*size) a->linked_size = number_in(size);
}

/* ---- bodies ---------------------------------------------------------------------- */

static bool append_text(sink *s, const char *bytes, size_t n) {
  if (s->length + n > MOST_TEXT) return false;
  s->status =
      grow(s->h->p->ctx, &s->text, &s->capacity, s->length + n + 1, 1, "bytes of a response");
  if (s->status) return false;
  memcpy(s->text + s->length, bytes, n);
  s->text[s->length += n] = 0;
  return true;
}

static bool empty_file(sink *s) {
  s->at = 0;
  s->h->p->now.before = 0;
  if (!ftruncate(s->file, 0)) return true;
  s->error = errno;
  return false;
}

/* A server without range support starts over: so does the file. */
static bool start_file(sink *s, long status) {
  const char *range = header_of(s->h->curl, "Content-Range");
  s->started = true;
  if (status == 206) return !strncmp(range, "bytes ", 6) && number_in(range + 6) == s->at;
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
  s->h->p->now.done = s->at;
  return true;
}

/* Bodies of redirects and errors are discarded. */
static size_t take_body(char *bytes, size_t one, size_t n, void *user) {
  sink *s = user;
  long status = 0;
  curl_easy_getinfo(s->h->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 && status != 206) return one * n;
  if (s->file < 0) return append_text(s, bytes, n) ? n : 0;
  if (!s->started && !start_file(s, status)) return 0;
  return append_file(s, bytes, n) ? n : 0;
}

/* ---- one request ----------------------------------------------------------------- */

/* libcurl calls this whenever something arrives, and once a second. */
static int report(void *user, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d) {
  (void)a, (void)b, (void)c, (void)d;
  return pull_report(user);
}

/* A broken connection and a limit on the size of files are errors here, not signals: these
 * are held back from this thread during a transfer. libcurl would otherwise ignore SIGPIPE
 * in the whole process. */
static CURLcode perform(CURL *curl) {
  sigset_t ours, old, pending;
  sigemptyset(&ours);
  sigaddset(&ours, SIGPIPE);
  sigaddset(&ours, SIGXFSZ);
  sigpending(&pending);
  if (sigismember(&pending, SIGPIPE)) sigdelset(&ours, SIGPIPE);
  if (sigismember(&pending, SIGXFSZ)) sigdelset(&ours, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &ours, &old);
  CURLcode code = curl_easy_perform(curl);
  int taken;
  do {
    taken = sigtimedwait(&ours, NULL, &(struct timespec){0});
  } while (taken > 0 || (taken < 0 && errno == EINTR));
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return code;
}

static bool add_line(struct curl_slist **lines, const char *line) {
  struct curl_slist *more = curl_slist_append(*lines, line);
  if (more) *lines = more;
  return more;
}

static void set_options(http *h, sink *s, const struct curl_slist *lines) {
  CURL *c = h->curl;
  const char *bundle = getenv("SSL_CERT_FILE");
  curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_USERAGENT, "attend/" ATTEND_VERSION);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L); /* a minute of silence */
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(c, CURLOPT_NOBODY, s ? 0L : 1L);
  curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, report);
  curl_easy_setopt(c, CURLOPT_XFERINFODATA, h->p);
  if (bundle && *bundle) curl_easy_setopt(c, CURLOPT_CAINFO, bundle);
  if (!s) return;
  curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
  curl_easy_setopt(c, CURLOPT_WRITEDATA, s);
}

/* `s` is NULL for a HEAD. */
static CURLcode ask(http *h, const char *url, sink *s, answer *a) {
  CURLcode code = CURLE_OUT_OF_MEMORY;
  struct curl_slist *lines = NULL;
  char range[32];
  curl_easy_reset(h->curl);
  /* Sizes and hashes are those of the bytes as they are stored. */
  bool ready = add_line(&lines, "Accept-Encoding: identity") &&
               (!*h->token || !is_home(h, url) || add_line(&lines, h->token)) &&
               !curl_easy_setopt(h->curl, CURLOPT_URL, url);
  set_options(h, s, lines);
  if (s && s->at > 0) {
    snprintf(range, sizeof range, "%lld-", (long long)s->at);
    curl_easy_setopt(h->curl, CURLOPT_RANGE, range);
  }
  h->why[0] = 0;
  if (ready) code = perform(h->curl);
  take_headers(h->curl, a);
  curl_slist_free_all(lines);
  return code;
}

/* Follows redirects; for a HEAD only those on the same server. */
static CURLcode ask_on(http *h, const char *url, sink *s, answer *a) {
  attend_context *ctx = h->p->ctx;
  char *at = NULL;
  CURLcode code = CURLE_TOO_MANY_REDIRECTS;
  *a = (answer){.linked_size = -1};
  for (int hop = 0; url && hop < MOST_HOPS; hop++) {
    bool redirects;
    CURLcode last = ask(h, url, s, a);
    const char *next = next_url(h, url, &redirects);
    if (last || !redirects || (!s && (!next || !is_home(h, next)))) {
      code = last;
      break;
    }
    char *copy = NULL; /* libcurl's is valid until the next request */
    if (next && text_keep(ctx, next, strlen(next), &copy)) code = CURLE_OUT_OF_MEMORY;
    ctx_free(ctx, at);
    url = at = copy;
  }
  ctx_free(ctx, at);
  return code;
}

/* Whether the file is complete; a truncated one is a broken connection. */
static CURLcode fill_file(http *h, sink *s, const char *url, answer *a) {
  s->started = false;
  h->p->now.done = h->p->now.before = s->at;
  if (s->size >= 0 && s->at > s->size && !empty_file(s)) return CURLE_WRITE_ERROR;
  if (s->at == s->size) {
    a->status = 200;
    return CURLE_OK;
  }
  CURLcode code = ask_on(h, url, s, a);
  if (!code && a->status == 416) /* it is longer than the server's */
    code = empty_file(s) ? ask_on(h, url, s, a) : CURLE_WRITE_ERROR;
  bool good = !code && (a->status == 200 || a->status == 206);
  return good && s->size >= 0 && s->at < s->size ? CURLE_PARTIAL_FILE : code;
}

/* ---- retrying, and giving up ----------------------------------------------------- */

static bool is_passing(CURLcode code) {
  return code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
         code == CURLE_SEND_ERROR || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_HTTP2 ||
         code == CURLE_HTTP2_STREAM;
}

static attend_status wait_to_retry(pull *p, int tries) {
  for (int tenth = 0; tenth < 5 << tries; tenth++)
    ATTEND_TRY(pull_wait(p, "the server failed: trying again"));
  return ATTEND_OK;
}

static attend_status failed(const http *h, CURLcode code) {
  attend_context *ctx = h->p->ctx;
  const char *why = *h->why ? h->why : curl_easy_strerror(code);
  if (code == CURLE_ABORTED_BY_CALLBACK) return ATTEND_STOPPED;
  if (code == CURLE_OUT_OF_MEMORY)
    return fail(ctx, ATTEND_NO_MEMORY, "no memory for a request to %.200s", h->home);
  if (code == CURLE_TOO_MANY_REDIRECTS)
    return fail(ctx, ATTEND_IO,
                "%.200s redirects without end, or to an unsafe address: check HF_ENDPOINT",
                h->home);
  if (is_passing(code))
    return fail(ctx, ATTEND_IO,
                "the connection to %.150s broke %d times (%.150s): pull again, it resumes where it "
                "stopped",
                h->home, RETRIES + 1, why);
  return fail(ctx, ATTEND_IO,
              "%.150s cannot be reached (%.150s): check the network, or take what the cache has "
              "with --offline",
              h->home, why);
}

static attend_status write_failed(const http *h, const sink *s, const char *path) {
  if (s->status) return s->status;
  if (s->error)
    return fail(h->p->ctx, ATTEND_IO,
                "%.300s cannot be written (%s): free some space and pull again, it resumes where "
                "it stopped",
                path, strerror(s->error));
  return fail(h->p->ctx, ATTEND_IO, "%.200s sends other bytes than it announced: pull again later",
              h->home);
}

/* The whole of a request: `path` is the file's, if it goes into one. */
static attend_status request(http *h, const char *url, sink *s, const char *path, answer *a) {
  for (int tries = 0;; tries++) {
    if (s) s->length = 0;
    CURLcode code = path ? fill_file(h, s, url, a) : ask_on(h, url, s, a);
    if (s && (s->status || s->error || code == CURLE_WRITE_ERROR)) return write_failed(h, s, path);
    bool again = code ? is_passing(code) : a->status >= 500 || a->status == 429;
    if (!again || tries == RETRIES) return code ? failed(h, code) : ATTEND_OK;
    ATTEND_TRY(wait_to_retry(h->p, tries));
  }
}

attend_status http_head(http *h, const char *url, answer *a) {
  return request(h, url, NULL, NULL, a);
}

attend_status http_text(http *h, const char *url, answer *a, char **text, size_t *length) {
  sink s = {.h = h, .file = -1};
  attend_status status = request(h, url, &s, NULL, a);
  if (!status && !s.text) status = text_keep(h->p->ctx, "", 0, &s.text);
  *text = s.text;
  *length = s.length;
  return status;
}

attend_status http_file(http *h, const char *url, const char *path, int64_t size, answer *a) {
  sink s = {.h = h, .size = size};
  s.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  s.at = s.file < 0 ? -1 : lseek(s.file, 0, SEEK_END);
  if (s.at < 0) s.error = errno;
  attend_status status = s.error ? write_failed(h, &s, path) : request(h, url, &s, path, a);
  if (!status && (ftruncate(s.file, s.at) || fsync(s.file))) s.error = errno;
  if (s.file >= 0 && close(s.file) && !s.error) s.error = errno;
  return !status && s.error ? write_failed(h, &s, path) : status;
}
