/* The page of `attend view`, as it was built from viewer/.
 *
 * Place: cli/ - embedded in the program. PAGE_FOLDER has the files, which
 * cmake/viewer.cmake makes; the assembler puts them in as they are.
 */
#include "page_data.h"

#include <stdint.h>

/* NAME, and NAME_length with its number of bytes. */
#define EMBED(name, file)                                                  \
  __asm__(                                                                 \
      ".pushsection .rodata\n"                                             \
      ".global " #name ", " #name                                          \
      "_length\n"                                                          \
      ".hidden " #name ", " #name                                          \
      "_length\n"                                                          \
      ".balign 16\n" #name                                                 \
      ":\n"                                                                \
      ".incbin \"" PAGE_FOLDER "/" file                                    \
      "\"\n"                                                               \
      ".L" #name                                                           \
      "_end:\n"                                                            \
      ".byte 0\n"                                                          \
      ".balign 8\n" #name                                                  \
      "_length:\n"                                                         \
      ".quad .L" #name "_end - " #name                                     \
      "\n"                                                                 \
      ".popsection\n");                                                    \
  extern const unsigned char name[] __attribute__((visibility("hidden"))); \
  extern const uint64_t name##_length __attribute__((visibility("hidden")))

EMBED(embedded_html, "page.html");
EMBED(embedded_html_gz, "page.html.gz");
EMBED(embedded_js, "page.js");
EMBED(embedded_js_gz, "page.js.gz");
EMBED(embedded_css, "page.css");
EMBED(embedded_css_gz, "page.css.gz");

#define FILE_OF(name, type, part)                                             \
  (page_file) {                                                               \
    name, type, embedded_##part, embedded_##part##_gz,                        \
        (size_t)embedded_##part##_length, (size_t)embedded_##part##_gz_length \
  }

page_file page_data(page_part part) {
  switch (part) {
    case PAGE_SCRIPT:
      return FILE_OF("page.js", "text/javascript; charset=utf-8", js);
    case PAGE_STYLE:
      return FILE_OF("page.css", "text/css; charset=utf-8", css);
    default:
      return FILE_OF("page.html", "text/html; charset=utf-8", html);
  }
}
