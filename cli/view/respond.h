/* HTTP responses: files of the page, answers, streams, refusals, with their headers.
 *
 * All return whether the response was queued; *bytes is the length of its body.
 */
#ifndef CLI_VIEW_RESPOND_H
#define CLI_VIEW_RESPOND_H

#include <microhttpd.h>

#include "view/page_data.h"
#include "view/answer.h"

enum { TAG_SIZE = 24 };

/* ETags of the files, plain and in gzip. */
typedef struct {
  char plain[PAGE_FILES][TAG_SIZE], packed[PAGE_FILES][TAG_SIZE];
} page_tags;

void page_tags_make(page_tags *tags);

enum MHD_Result respond_page(struct MHD_Connection *c, const page_tags *tags, page_part part,
                             size_t *bytes);
/* Takes the reply's bytes. */
enum MHD_Result respond_answer(struct MHD_Connection *c, view_reply *reply, size_t *bytes);
/* allow: for 405, else NULL. */
enum MHD_Result respond_refusal(struct MHD_Connection *c, int status, const char *sentence,
                                const char *allow, size_t *bytes);

/* Where a stream's bytes come from, and its end; as HTTP's library has them. */
typedef struct {
  MHD_ContentReaderCallback read;
  MHD_ContentReaderFreeCallback leave;
  void *user;
} respond_source;
/* Leaves the source even where it fails. */
enum MHD_Result respond_stream(struct MHD_Connection *c, const respond_source *source);

#endif
