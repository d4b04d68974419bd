/* The first lines of a request to `attend view`: method, path, Host, Origin,
 * Sec-Fetch-Site, Content-Type, Accept-Encoding, If-None-Match, Authorization and
 * the token of the query, each up to a line's end; a line that is "-" is one that
 * did not come. The first byte has the server's rules. */
#include "../../cli/view/guard.c"
#include "fuzz.h"

enum { LINES = 10, PORT = 8080 };
static const char token[] = "0123456789abcdef";

/* Cuts the text into lines, which are strings then. */
static void cut(char *text, const char *line[LINES]) {
  for (int i = 0; i < LINES; i++) {
    line[i] = text;
    text += strcspn(text, "\n");
    if (*text) *text++ = 0;
    if (!strcmp(line[i], "-")) line[i] = NULL;
  }
}

/* What may go on has a host of ours, our port, and no other site's name. */
static void check_allowed(const guard_rules *r, const guard_request *q, const guard_verdict *v) {
  size_t length = strlen(q->host);
  MUST(!q->twice && length > 5 && !strcmp(q->host + length - 5, ":8080"));
  if (!r->remote)
    MUST(!strncasecmp(q->host, "localhost:", 10) || !strncmp(q->host, "127.", 4) ||
         *q->host == '[');
  if (q->origin) MUST(!strncasecmp(q->origin, "http://", 7));
  bool opens = !strcmp(q->method, "GET") && !strcmp(q->path, "/");
  if (q->site && !opens) MUST(!strcmp(q->site, "none") || !strcmp(q->site, "same-origin"));
  MUST(!strstr(q->path, "..") && !strchr(q->path, '%'));
  MUST((v->target == TARGET_REQUEST) == (v->name[0] != 0));
  MUST((v->target == TARGET_REQUEST) == !strcmp(q->method, "POST"));
  if (r->token && v->target == TARGET_PAGE) MUST(!strcmp(q->token, token));
  if (r->token && v->target == TARGET_REQUEST)
    MUST(!strncasecmp(q->authorization, "bearer ", 7) && !strcmp(q->authorization + 7, token));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  const char *line[LINES];
  if (!length) return 0;
  char *text = malloc(length);
  MUST(text);
  memcpy(text, bytes + 1, length - 1);
  text[length - 1] = 0;
  cut(text, line);
  guard_rules r = {PORT, bytes[0] & 1, bytes[0] & 2 ? "machine" : "", bytes[0] & 8 ? token : NULL};
  guard_request q = {.method = line[0] ? line[0] : "", .path = line[1] ? line[1] : ""};
  q.host = line[2], q.origin = line[3], q.site = line[4], q.type = line[5];
  q.authorization = line[8], q.token = line[9];
  q.twice = bytes[0] & 4;
  guard_verdict v = guard_check(&r, &q);
  if (v.status == 200) check_allowed(&r, &q, &v);
  MUST((v.status == 200) == !v.sentence && (v.status == 405) == !!v.allow);
  (void)guard_takes_gzip(line[6]);
  if (guard_has_tag(line[7], "\"0123\"")) MUST(strstr(line[7], "\"0123\"") || strchr(line[7], '*'));
  free(text);
  return 0;
}
