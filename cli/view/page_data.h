/* The page of `attend view`, as it was built from viewer/.
 *
 * Embedded in the program; served, or written into still pages.
 */
#ifndef CLI_PAGE_DATA_H
#define CLI_PAGE_DATA_H

#include <stddef.h>

typedef struct {
  const char *name;            /* page.html, page.js, page.css */
  const char *type;            /* as Content-Type has it */
  const unsigned char *bytes;  /* [length] */
  const unsigned char *packed; /* [packed_length] the same in gzip */
  size_t length, packed_length;
} page_file;

typedef enum { PAGE_HTML, PAGE_SCRIPT, PAGE_STYLE, PAGE_FILES } page_part;

page_file page_data(page_part part);

#endif
