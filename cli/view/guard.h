/* Which requests are allowed, by their request line and headers.
 *
 * Pure functions without sockets or libmicrohttpd, so that a fuzzer can call them.
 *
 * A page of another site may reach this server by a name of its own that resolves to
 * 127.0.0.1 (DNS rebinding): then Host has that name; or by a cross-site request: then
 * Origin or Sec-Fetch-Site says so. Another user of this machine lacks the token, which
 * is in the page's address and in every request. All of this is checked before a body is
 * read or anything is computed.
 *
 * The token is in a header rather than a cookie: browsers send cookies of 127.0.0.1 to
 * every port of it, also to servers of other users. The script and the style need no
 * token: they are part of the program.
 */
#ifndef CLI_VIEW_GUARD_H
#define CLI_VIEW_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  int port;            /* the server's */
  bool remote;         /* other machines are allowed */
  const char *machine; /* this one's host name, for those; may be "" */
  const char *token;   /* NULL: none is needed */
} guard_rules;

/* Headers as they came; NULL: there is none. */
typedef struct {
  const char *method, *path;
  const char *host, *origin, *site, *type, *authorization;
  const char *token; /* of the query; NULL likewise */
  bool twice;        /* one of them came more than once */
} guard_request;

typedef enum { TARGET_PAGE, TARGET_SCRIPT, TARGET_STYLE, TARGET_REQUEST } guard_target;

enum { GUARD_NAME = 24 };

typedef struct {
  int status;           /* 200: go on */
  const char *sentence; /* otherwise the error */
  const char *allow;    /* the methods there are, for 405; else NULL */
  guard_target target;
  char name[GUARD_NAME + 1]; /* of the API request */
} guard_verdict;

guard_verdict guard_check(const guard_rules *rules, const guard_request *request);

/* Whether Accept-Encoding allows gzip; the header may be NULL. */
bool guard_takes_gzip(const char *accepted);
/* Whether If-None-Match has the tag; tag comes with its quotes. */
bool guard_has_tag(const char *known, const char *tag);

#endif
