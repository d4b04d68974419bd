/* The page of `attend view`, as it was built from viewer/.
 *
 * PAGE_FOLDER has the files, which cmake/viewer.cmake makes; the assembler puts them
 * in as they are.
 */
#include "view/page_data.h"

#include "incbin.h"

EMBED(embedded_html, PAGE_FOLDER "/page.html");
EMBED(embedded_html_gz, PAGE_FOLDER "/page.html.gz");
EMBED(embedded_js, PAGE_FOLDER "/page.js");
EMBED(embedded_js_gz, PAGE_FOLDER "/page.js.gz");
EMBED(embedded_css, PAGE_FOLDER "/page.css");
EMBED(embedded_css_gz, PAGE_FOLDER "/page.css.gz");

#define FILE_OF(name, type, part)                                                        \
  (page_file) {                                                                          \
    name, type, embedded_##part, embedded_##part##_gz, (size_t)embedded_##part##_length, \
        (size_t)embedded_##part##_gz_length                                              \
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
