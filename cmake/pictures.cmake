# Still pictures of `attend view`: .svg and .png, drawn by the program itself
# with a font that is built in. Needs zlib, and at build time the font files.
# attend_pictures is what tests link to draw without the rest of the program.
set(pictures_need "/lab/pictures/(draw|glyphs|raster|png_write|picture)[^/]*$")
set(pictures_share "/lab/pictures/(letters|palette|terminal_(map|design))[^/]*$")
set(picture_sources ${cli_sources})
list(FILTER cli_sources EXCLUDE REGEX ${pictures_need})
if(NOT ATTEND_VIEW OR CMAKE_CROSSCOMPILING)
  return()
endif()

find_path(ATTEND_FONTS DejaVuSans.ttf
  PATHS /usr/share/fonts PATH_SUFFIXES truetype/dejavu dejavu TTF NO_DEFAULT_PATH)
find_package(ZLIB)
if(NOT ATTEND_FONTS OR NOT ZLIB_FOUND)
  message(FATAL_ERROR "the DejaVu fonts or zlib were not found: run tools/setup "
                      "demo, or configure with -DATTEND_VIEW=OFF")
endif()

list(FILTER picture_sources INCLUDE REGEX "${pictures_need}|${pictures_share}")
list(FILTER cli_sources EXCLUDE REGEX ${pictures_share})
add_library(attend_pictures OBJECT ${picture_sources})
target_link_libraries(attend_pictures PUBLIC attend_flags)
target_include_directories(attend_pictures
  PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lab
         ${PROJECT_SOURCE_DIR}/cli)
if(ATTEND_STATIC)
  target_link_libraries(attend_pictures PUBLIC libz.a)
else()
  target_link_libraries(attend_pictures PUBLIC ZLIB::ZLIB)
endif()
set(plain ${ATTEND_FONTS}/DejaVuSans.ttf)
set(bold ${ATTEND_FONTS}/DejaVuSans-Bold.ttf)
set_source_files_properties(lab/pictures/glyphs_font.c PROPERTIES
  OBJECT_DEPENDS "${plain};${bold}"
  COMPILE_DEFINITIONS
  "ATTEND_FONT_PLAIN=\"${plain}\";ATTEND_FONT_BOLD=\"${bold}\"")
