/* Which requests are allowed, by their request line and headers. */
#include "view/guard.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LONGEST_HOST = 253, HTTP_PORT = 80 };

/* ---- hosts ----------------------------------------------------------------- */

/* HOST[:PORT]; family 0: a name. */
typedef struct {
  char name[LONGEST_HOST + 1];
  int family, port;
  struct in6_addr six;
  struct in_addr four;
} place;

static bool read_port(const char *text, int *port) {
  size_t digits = strspn(text, "0123456789");
  if (digits < 1 || digits > 5 || text[digits] || *text == '0') return false;
  *port = atoi(text);
  return *port < 1 << 16;
}

static bool is_name(const char *name) {
  static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
  return *name && !name[strspn(name, letters)];
}

static bool read_place(const char *text, place *p) {
  bool six = *text == '[';
  const char *start = text + six;
  size_t length = strcspn(start, six ? "]" : ":");
  const char *rest = start + length;
  memset(p, 0, sizeof *p);
  p->port = HTTP_PORT;
  if (length > LONGEST_HOST || (six && *rest++ != ']')) return false;
  memcpy(p->name, start, length);
  if (*rest && (*rest != ':' || !read_port(rest + 1, &p->port))) return false;
  if (six) return p->family = AF_INET6, inet_pton(AF_INET6, p->name, &p->six);
  if (inet_pton(AF_INET, p->name, &p->four)) p->family = AF_INET;
  return is_name(p->name);
}

static bool is_loopback(const place *p) {
  if (p->family == AF_INET) return ntohl(p->four.s_addr) >> 24 == 127;
  if (p->family == AF_INET6) return IN6_IS_ADDR_LOOPBACK(&p->six);
  return !strcasecmp(p->name, "localhost");
}

static bool is_ours(const guard_rules *r, const place *p) {
  if (p->port != r->port) return false;
  if (is_loopback(p)) return true;
  if (!r->remote) return false;
  return p->family || (*r->machine && !strcasecmp(p->name, r->machine));
}

static bool same_place(const place *a, const place *b) {
  if (a->family != b->family || a->port != b->port) return false;
  if (a->family == AF_INET6) return !memcmp(&a->six, &b->six, sizeof a->six);
  return !strcasecmp(a->name, b->name);
}

/* ---- the origin of a request ------------------------------------------------ */

/* A link on another site may open the page, whose requests are then its own. */
static bool opens_page(const guard_request *q) {
  return !q->origin && q->method && !strcmp(q->method, "GET") && q->path && !strcmp(q->path, "/");
}

static bool is_own_page(const guard_request *q, const place *host) {
  static const char scheme[] = "http://";
  place origin;
  if (opens_page(q)) return true;
  if (q->site && strcmp(q->site, "same-origin") && strcmp(q->site, "none")) return false;
  if (!q->origin) return true;
  return !strncasecmp(q->origin, scheme, sizeof scheme - 1) &&
         read_place(q->origin + sizeof scheme - 1, &origin) && same_place(&origin, host);
}

static const char *why_refused(const guard_rules *r, const guard_request *q) {
  place host;
  if (q->twice) return "a header or a token that may come once came twice";
  if (!q->host || !read_place(q->host, &host) || !is_ours(r, &host))
    return "the request names another host: open the address that attend view printed";
  if (!is_own_page(q, &host))
    return "the request comes from a page of another site, and only this program's own is allowed: "
           "type the address that attend view printed";
  return NULL;
}

/* Takes as long wherever they differ. The length is no secret. */
static bool same_token(const char *given, const char *token) {
  volatile unsigned char different = 0;
  if (!given || strlen(given) != strlen(token)) return false;
  for (size_t i = 0; token[i]; i++) different |= (unsigned char)(given[i] ^ token[i]);
  return !different;
}

static bool has_token(const guard_rules *r, const guard_request *q, guard_target target) {
  static const char scheme[] = "Bearer ";
  if (!r->token || target == TARGET_SCRIPT || target == TARGET_STYLE) return true;
  if (target == TARGET_PAGE) return same_token(q->token, r->token);
  return q->authorization && !strncasecmp(q->authorization, scheme, sizeof scheme - 1) &&
         same_token(q->authorization + sizeof scheme - 1, r->token);
}

/* ---- its target ------------------------------------------------------------- */

static bool read_name(const char *path, char name[GUARD_NAME + 1]) {
  static const char below[] = "/api/";
  if (strncmp(path, below, sizeof below - 1)) return false;
  path += sizeof below - 1;
  size_t length = strspn(path, "abcdefghijklmnopqrstuvwxyz");
  if (!length || length > GUARD_NAME || path[length]) return false;
  memcpy(name, path, length + 1);
  return true;
}

static bool read_target(const char *path, guard_verdict *v) {
  static const char *const files[] = {"/", "/page.js", "/page.css"};
  for (int i = TARGET_PAGE; i <= TARGET_STYLE; i++)
    if (!strcmp(path, files[i])) return v->target = (guard_target)i, true;
  v->target = TARGET_REQUEST;
  return read_name(path, v->name);
}

static bool is_json(const char *type) {
  static const char json[] = "application/json";
  if (!type || strncasecmp(type, json, sizeof json - 1)) return false;
  type += sizeof json - 1;
  type += strspn(type, " \t");
  return !*type || *type == ';';
}

static const char *why_not_method(const guard_request *q, guard_verdict *v) {
  bool post = !strcmp(q->method, "POST");
  bool get = !strcmp(q->method, "GET") || !strcmp(q->method, "HEAD");
  if (v->target == TARGET_REQUEST && !post) return v->allow = "POST", "API requests use POST";
  if (v->target != TARGET_REQUEST && !get)
    return v->allow = "GET, HEAD", "the page is read with GET";
  return NULL;
}

static guard_verdict refuse(guard_verdict v, int status, const char *why) {
  v.status = status;
  v.sentence = why;
  return v;
}

guard_verdict guard_check(const guard_rules *r, const guard_request *q) {
  guard_verdict v = {.status = 200};
  const char *why = why_refused(r, q);
  if (why) return refuse(v, 403, why);
  if (!read_target(q->path, &v))
    return refuse(v, 404, "there is nothing at this address: the page is at /");
  why = why_not_method(q, &v);
  if (why) return refuse(v, 405, why);
  if (v.target == TARGET_REQUEST && !is_json(q->type))
    return refuse(v, 415, "send Content-Type: application/json");
  if (!has_token(r, q, v.target))
    return refuse(v, 403,
                  "the request lacks the token of this server: open the whole "
                  "address that attend view printed");
  return v;
}

/* ---- lists in headers ------------------------------------------------------ */

/* Whether ";q=0" or the like follows: a weight of nothing. */
static bool has_zero_weight(const char *text, size_t length) {
  const char *q = memchr(text, '=', length);
  if (!q || q == text || (q[-1] != 'q' && q[-1] != 'Q')) return false;
  size_t left = length - (size_t)(q + 1 - text);
  return left && strspn(q + 1, "0. \t") >= left;
}

bool guard_takes_gzip(const char *accepted) {
  bool any = false;
  while (accepted && *accepted) {
    accepted += strspn(accepted, ", \t");
    size_t whole = strcspn(accepted, ","), name = strcspn(accepted, ",; \t");
    bool takes = !has_zero_weight(accepted + name, whole - name);
    if (name == 4 && !strncasecmp(accepted, "gzip", 4)) return takes;
    if (name == 1 && *accepted == '*') any = takes;
    accepted += whole;
  }
  return any;
}

bool guard_has_tag(const char *known, const char *tag) {
  while (known && *known) {
    known += strspn(known, ", \t");
    size_t length = strcspn(known, ", \t");
    if (length == 1 && *known == '*') return true;
    size_t weak = length > 2 && !strncmp(known, "W/", 2) ? 2 : 0;
    if (length - weak == strlen(tag) && !strncmp(known + weak, tag, length - weak)) return true;
    known += length;
  }
  return false;
}
