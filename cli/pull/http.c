/* HTTP requests. The only file that includes libcurl. */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include "progress.h"
#include "pull/pull.h"

enum { RETRIES = 3, MOST_HOPS = 10, MOST_TEXT = 1 << 28 };

struct http {
  CURL *curl;
  char *home, *token;
  char why[CURL_ERROR_SIZE];
};

/* Where a body goes: text that grows, or a file. */
typedef struct {
  CURL *curl;
  char *text;
  size_t length, capacity;
  int file; /* -1: into the text */
  int64_t at, before, size;
  bool started;
  int error; /* errno of the file */
} sink;

http *http_open(const char *home, const char *token) {
  http *h = need(1, sizeof *h);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  h->curl = curl_easy_init();
  h->home = need_copy(home);
  if (token) h->token = path_of("Authorization: Bearer %s", token);
  if (h->curl) return h;
  complain("libcurl cannot be started: check its installation");
  http_close(h);
  return NULL;
}

void http_close(http *h) {
  if (!h) return;
  curl_easy_cleanup(h->curl);
  curl_global_cleanup();
  free(h->home);
  free(h->token);
  free(h);
}

/* ---- addresses ------------------------------------------------------------------- */

/* Scheme, host and port identify a server. */
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

static bool is_home(const http *h, const char *url) {
  char *ours = origin_of(h->home), *theirs = origin_of(url);
  bool same = *ours && !strcasecmp(ours, theirs);
  free(ours);
  free(theirs);
  return same;
}

/* Where the last response redirects to; NULL: nowhere, or from https to anything else. */
static char *next_url(const http *h, const char *url, bool *redirects) {
  char *next = NULL;
  curl_easy_getinfo(h->curl, CURLINFO_REDIRECT_URL, &next);
  *redirects = next;
  bool safe = next && (!strncmp(next, "https://", 8) ||
                       (!strncmp(next, "http://", 7) && !strncmp(url, "http://", 7)));
  return safe ? need_copy(next) : NULL;
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

/* A server without range support starts over: so does the file. */
static bool start_file(sink *s, long status) {
  const char *range = header_of(s->curl, "Content-Range");
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
  progress_bytes((size_t)s->at, (size_t)s->before);
  return true;
}

/* Bodies of redirects and errors are discarded. */
static size_t take_body(char *bytes, size_t one, size_t n, void *user) {
  sink *s = user;
  long status = 0;
  curl_easy_getinfo(s->curl, CURLINFO_RESPONSE_CODE, &status);
  if (status != 200 && status != 206) return one * n;
  if (s->file < 0) return append_text(s, bytes, n) ? n : 0;
  if (!s->started && !start_file(s, status)) return 0;
  return append_file(s, bytes, n) ? n : 0;
}

/* ---- one request ----------------------------------------------------------------- */

/* `s` is NULL for a HEAD. */
static CURLcode ask(http *h, const char *url, sink *s, answer *a) {
  CURL *c = h->curl;
  const char *bundle = getenv("SSL_CERT_FILE");
  char range[32];
  /* Sizes and hashes are those of the bytes as they are stored. */
  struct curl_slist *lines = curl_slist_append(NULL, "Accept-Encoding: identity");
  if (h->token && is_home(h, url)) lines = curl_slist_append(lines, h->token);
  curl_easy_reset(c);
  curl_easy_setopt(c, CURLOPT_URL, url);
  curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(c, CURLOPT_USERAGENT, "attend/" ATTEND_VERSION);
  curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT, 30L);
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L); /* a minute of silence */
  curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 60L);
  curl_easy_setopt(c, CURLOPT_ERRORBUFFER, h->why);
  curl_easy_setopt(c, CURLOPT_HTTPHEADER, lines);
  curl_easy_setopt(c, CURLOPT_NOBODY, s ? 0L : 1L);
  if (bundle && *bundle) curl_easy_setopt(c, CURLOPT_CAINFO, bundle);
  if (s) {
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, take_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, s);
  }
  if (s && s->at > 0) {
    snprintf(range, sizeof range, "%lld-", (long long)s->at);
    curl_easy_setopt(c, CURLOPT_RANGE, range);
  }
  h->why[0] = 0;
  CURLcode code = curl_easy_perform(c);
  take_headers(c, a);
  curl_slist_free_all(lines);
  return code;
}

/* Follows redirects; for a HEAD only those on the same server. */
static CURLcode ask_on(http *h, const char *url, sink *s, answer *a) {
  char *at = need_copy(url);
  CURLcode code = CURLE_TOO_MANY_REDIRECTS;
  *a = (answer){.linked_size = -1};
  for (int hop = 0; at && hop < MOST_HOPS; hop++) {
    bool redirects;
    CURLcode last = ask(h, at, s, a);
    char *next = next_url(h, at, &redirects);
    if (last || !redirects || (!s && (!next || !is_home(h, next)))) {
      free(next);
      code = last;
      break;
    }
    free(at);
    at = next;
  }
  free(at);
  return code;
}

/* ---- retrying, and giving up ----------------------------------------------------- */

static bool is_passing(CURLcode code) {
  return code == CURLE_PARTIAL_FILE || code == CURLE_GOT_NOTHING || code == CURLE_RECV_ERROR ||
         code == CURLE_SEND_ERROR || code == CURLE_OPERATION_TIMEDOUT || code == CURLE_HTTP2 ||
         code == CURLE_HTTP2_STREAM;
}

/* Whether to retry; if so, after a wait. */
static bool wait_to_retry(CURLcode code, const answer *a, int tries) {
  bool worth = code ? is_passing(code) : a->status >= 500 || a->status == 429;
  if (!worth || tries >= RETRIES) return false;
  long ms = 500L << tries;
  struct timespec time = {ms / 1000, ms % 1000 * 1000000};
  progress_note("the server failed: trying again");
  nanosleep(&time, NULL);
  progress_end();
  return true;
}

static void complain_broken(const http *h, CURLcode code) {
  const char *why = *h->why ? h->why : curl_easy_strerror(code);
  if (code == CURLE_TOO_MANY_REDIRECTS)
    complain("%s redirects without end, or to an unsafe address: check HF_ENDPOINT", h->home);
  else if (is_passing(code))
    complain("the connection to %s broke %d times (%s): pull again, it resumes where it stopped",
             h->home, RETRIES + 1, why);
  else
    complain(
        "%s cannot be reached (%s): check the network, or take what the cache has with --offline",
        h->home, why);
}

bool http_head(http *h, const char *url, answer *a) {
  CURLcode code;
  int tries = 0;
  do {
    code = ask_on(h, url, NULL, a);
  } while (wait_to_retry(code, a, tries++));
  if (code) complain_broken(h, code);
  return !code;
}

bool http_text(http *h, const char *url, answer *a, char **text, size_t *length) {
  sink s = {.curl = h->curl, .file = -1};
  CURLcode code;
  int tries = 0;
  do {
    s.length = 0;
    code = ask_on(h, url, &s, a);
  } while (wait_to_retry(code, a, tries++));
  *text = s.text ? s.text : need(1, 1);
  *length = s.length;
  if (code) complain_broken(h, code);
  return !code;
}

/* Whether the file is complete; a truncated one is a broken connection. */
static CURLcode fill_file(http *h, sink *s, const char *url, answer *a) {
  s->started = false;
  s->before = s->at;
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

bool http_file(http *h, const char *url, const char *path, int64_t size, answer *a) {
  sink s = {.curl = h->curl, .size = size};
  CURLcode code = CURLE_OK;
  int tries = 0;
  s.file = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  s.at = s.file < 0 ? -1 : lseek(s.file, 0, SEEK_END);
  if (s.at < 0) s.error = errno;
  while (!s.error) {
    code = fill_file(h, &s, url, a);
    if (s.error || !wait_to_retry(code, a, tries++)) break;
  }
  if (!code && !s.error && (ftruncate(s.file, s.at) || fsync(s.file))) s.error = errno;
  if (s.file >= 0 && close(s.file) && !s.error) s.error = errno;
  if (s.error)
    complain(
        "%s cannot be written (%s): free some space and pull again, it resumes where it stopped",
        path, strerror(s.error));
  else if (code == CURLE_WRITE_ERROR)
    complain("%s sends other bytes than it announced: pull again later", h->home);
  else if (code)
    complain_broken(h, code);
  return !code && !s.error;
}
