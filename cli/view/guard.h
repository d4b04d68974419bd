/* Who may ask, and for what: a request's first lines are judged.
 *
 * Below the server of `attend view`; knows neither sockets nor HTTP's library, so that
 * a fuzzer can call it.
 *
 * A page of another site may reach this server in two ways. By a name of its
 * own that leads to 127.0.0.1 (DNS rebinding): then Host has that name. By
 * asking across sites: then Origin or Sec-Fetch-Site says so. Another user of
 * this machine may reach it as well: he lacks the token, which is in the address
 * of the page and comes back with every question. All of these are looked at
 * before anything is read or computed.
 *
 * The token comes back in a header rather than a cookie: browsers send cookies
 * of 127.0.0.1 to every port of it, and others may serve there. The script and
 * the style need no token: they are part of the program and the same for all.
 */
#ifndef CLI_VIEW_GUARD_H
#define CLI_VIEW_GUARD_H

#include <stdbool.h>
#include <stddef.h>

typedef struct {
  int port;            /* the server's */
  bool remote;         /* other machines may ask */
  const char *machine; /* its name, for those; may be "" */
  const char *token;   /* NULL: none is needed */
} guard_rules;

/* Headers as they came; NULL: there is none. */
typedef struct {
  const char *method, *path;
  const char *host, *origin, *site, *type, *authorization;
  const char *token; /* of the query; NULL likewise */
  bool twice;        /* one of them came more than once */
} guard_request;

typedef enum { ASKS_PAGE, ASKS_SCRIPT, ASKS_STYLE, ASKS_QUESTION } guard_wish;

enum { GUARD_NAME = 24 };

typedef struct {
  int status;           /* 200: go on */
  const char *sentence; /* otherwise what is wrong */
  const char *allow;    /* the methods there are, for 405; else NULL */
  guard_wish wish;
  char name[GUARD_NAME + 1]; /* of the question */
} guard_verdict;

guard_verdict guard_judge(const guard_rules *rules,
                          const guard_request *request);

/* Whether Accept-Encoding allows gzip; the header may be NULL. */
bool guard_takes_gzip(const char *accepted);
/* Whether If-None-Match has the tag; tag comes with its quotes. */
bool guard_has_tag(const char *known, const char *tag);

#endif
