# Still pictures of `attend view`: .svg and .png, drawn by the program itself
# with a built-in font. Needs zlib, and at build time stb_truetype.h and the font
# files. Tests link attend_pictures to draw without the rest of the program. lab/svg
# is compiled into the library too, whose copy is hidden. Without pictures the
# program still draws in the terminal.
set(picture_sources ${cli_sources})
list(FILTER picture_sources INCLUDE REGEX "/lab/(pictures|svg)/")
list(FILTER cli_sources EXCLUDE REGEX "/lab/(pictures|svg)/")
if(NOT ATTEND_VIEW OR CMAKE_CROSSCOMPILING)
  list(FILTER picture_sources EXCLUDE REGEX "/(png|raster)\\.c$")
  # gcc 12 for Arm stops with an error of its own at some loops it vectorizes.
  set_source_files_properties(${picture_sources} PROPERTIES COMPILE_OPTIONS -fno-tree-vectorize)
  list(APPEND cli_sources ${picture_sources})
  return()
endif()
list(FILTER picture_sources EXCLUDE REGEX "/without_fonts\\.c$")

find_path(ATTEND_FONTS DejaVuSans.ttf
  PATHS /usr/share/fonts PATH_SUFFIXES truetype/dejavu dejavu TTF NO_DEFAULT_PATH)
find_path(ATTEND_STB stb/stb_truetype.h)
find_package(ZLIB)
if(NOT ATTEND_FONTS OR NOT ATTEND_STB OR NOT ZLIB_FOUND)
  message(FATAL_ERROR "the DejaVu fonts, stb_truetype.h or zlib were not found: "
                      "run tools/setup demo, or configure with -DATTEND_VIEW=OFF")
endif()

add_library(attend_pictures OBJECT ${picture_sources})
target_link_libraries(attend_pictures PUBLIC attend_flags)
target_include_directories(attend_pictures
  PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/lab)
target_include_directories(attend_pictures SYSTEM PRIVATE ${ATTEND_STB})
if(ATTEND_STATIC)
  target_link_libraries(attend_pictures PUBLIC libz.a)
else()
  target_link_libraries(attend_pictures PUBLIC ZLIB::ZLIB)
endif()
set(plain ${ATTEND_FONTS}/DejaVuSans.ttf)
set(bold ${ATTEND_FONTS}/DejaVuSans-Bold.ttf)
set_source_files_properties(lab/pictures/raster.c PROPERTIES
  OBJECT_DEPENDS "${plain};${bold}"
  COMPILE_DEFINITIONS
  "ATTEND_FONT_PLAIN=\"${plain}\";ATTEND_FONT_BOLD=\"${bold}\"")
