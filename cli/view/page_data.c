/* The page of `attend view`, as it was built from viewer/: PAGE_FOLDER has the files, which
 * cmake/viewer.cmake makes.
 */
#include "incbin.h"
#include "view/server.h"

EMBED(embedded_html, PAGE_FOLDER "/page.html");
EMBED(embedded_html_gz, PAGE_FOLDER "/page.html.gz");
EMBED(embedded_js, PAGE_FOLDER "/page.js");
EMBED(embedded_js_gz, PAGE_FOLDER "/page.js.gz");
EMBED(embedded_css, PAGE_FOLDER "/page.css");
EMBED(embedded_css_gz, PAGE_FOLDER "/page.css.gz");

#define FILE_OF(type, part)                                                        \
  (page_file) {                                                                    \
    type, embedded_##part, embedded_##part##_gz, (size_t)embedded_##part##_length, \
        (size_t)embedded_##part##_gz_length                                        \
  }

page_file page_data(page_part part) {
  if (part == PAGE_SCRIPT) return FILE_OF("text/javascript; charset=utf-8", js);
  if (part == PAGE_STYLE) return FILE_OF("text/css; charset=utf-8", css);
  return FILE_OF("text/html; charset=utf-8", html);
}
