# The page of `attend view`, and the server that hands it out.
#   ATTEND_PAGE      a folder with page.html, page.js and page.css; where it is
#                    not given, they are built here from viewer/, by npm
#   attend_page      what embeds them (cli/view/page_data.c)
#   attend_server    the server, for the program and for its test; not there
#                    where programs are static: a static libmicrohttpd brings a
#                    dozen libraries
# The targets exist where they can be; nothing is written among the sources.
set(page_files "/cli/view/page_data\\.c$")
set(server_files
    "/cli/view/(connections|guard|server)\\.c$")
set(page_sources ${cli_sources})
set(server_sources ${cli_sources})
list(FILTER cli_sources EXCLUDE REGEX "${page_files}|${server_files}")
if(NOT ATTEND_VIEW)
  return()
endif()
if(NOT ATTEND_PAGE AND NOT (EXISTS ${PROJECT_SOURCE_DIR}/viewer/page.html AND
                            EXISTS ${PROJECT_SOURCE_DIR}/viewer/src/main.tsx))
  message(STATUS "viewer/ has no page: no server is built")
  return()
endif()

# ---- the page: viewer/ -> page/built -> page/, with each file in gzip, too ----
set(page ${CMAKE_CURRENT_BINARY_DIR}/page)
set(built ${page}/built)
if(ATTEND_PAGE)
  get_filename_component(built ${ATTEND_PAGE} ABSOLUTE
                         BASE_DIR ${PROJECT_SOURCE_DIR})
  foreach(file html js css)
    if(NOT EXISTS ${built}/page.${file})
      message(FATAL_ERROR "ATTEND_PAGE has no page.${file}: name the folder "
                          "page/built of a build, or leave ATTEND_PAGE away")
    endif()
  endforeach()
else()
  find_program(ATTEND_NPM npm)
  if(NOT ATTEND_NPM)
    message(FATAL_ERROR "npm was not found, and the page needs it: run "
                        "tools/setup npm, or configure with -DATTEND_VIEW=OFF")
  endif()
  set(viewer ${PROJECT_SOURCE_DIR}/viewer)
  set(packages ${viewer}/package.json ${viewer}/package-lock.json)
  file(GLOB_RECURSE viewer_sources CONFIGURE_DEPENDS ${viewer}/src/*)
  add_custom_command(
    OUTPUT ${page}/packages
    COMMAND ${CMAKE_COMMAND} -E copy ${packages} ${page}
    COMMAND ${CMAKE_COMMAND} -E chdir ${page} ${ATTEND_NPM} ci
            --ignore-scripts=false --engine-strict --no-audit --no-fund
            --loglevel=error
    COMMAND ${CMAKE_COMMAND} -E touch ${page}/packages
    DEPENDS ${packages} VERBATIM COMMENT "Fetching what the page is built with")
  # The sources are copied, so that they find the packages beside them.
  set(bundle ${page}/node_modules/.bin/esbuild --bundle --minify
             --target=es2020 --log-level=warning)
  set(style ${CMAKE_COMMAND} -E touch ${built}/page.css)
  if(EXISTS ${viewer}/src/page.css)
    set(style ${bundle} ${page}/src/page.css --outfile=${built}/page.css)
  endif()
  add_custom_command(
    OUTPUT ${built}/page.html ${built}/page.js ${built}/page.css
    COMMAND ${CMAKE_COMMAND} -E rm -rf ${page}/src ${built}
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${viewer}/src ${page}/src
    COMMAND ${CMAKE_COMMAND} -E copy ${viewer}/tsconfig.json ${page}
    COMMAND ${bundle} ${page}/src/main.tsx --outfile=${built}/page.js
    COMMAND ${style}
    COMMAND ${CMAKE_COMMAND} -E copy ${viewer}/page.html ${built}
    DEPENDS ${page}/packages ${viewer_sources} ${viewer}/page.html
            ${viewer}/tsconfig.json
    VERBATIM COMMENT "Building the page")
endif()

set(embedded)
foreach(file page.html page.js page.css)
  add_custom_command(
    OUTPUT ${page}/${file} ${page}/${file}.gz
    COMMAND ${CMAKE_COMMAND} -E copy ${built}/${file} ${page}/${file}
    COMMAND gzip -9nkf ${page}/${file}
    DEPENDS ${built}/${file} VERBATIM COMMENT "Packing ${file}")
  list(APPEND embedded ${page}/${file} ${page}/${file}.gz)
endforeach()
file(MAKE_DIRECTORY ${page})
add_custom_target(page DEPENDS ${embedded})

list(FILTER page_sources INCLUDE REGEX ${page_files})
add_library(attend_page STATIC ${page_sources})
add_dependencies(attend_page page)
target_include_directories(attend_page PRIVATE ${PROJECT_SOURCE_DIR}/cli)
target_link_libraries(attend_page PUBLIC attend_flags)
target_compile_definitions(attend_page PRIVATE PAGE_FOLDER="${page}")
set_source_files_properties(${page_sources} PROPERTIES
  OBJECT_DEPENDS "${embedded}")

# ---- the server ----------------------------------------------------------------
if(ATTEND_STATIC OR CMAKE_CROSSCOMPILING)
  return()
endif()
find_file(ATTEND_microhttpd.h microhttpd.h)
if(NOT ATTEND_microhttpd.h)
  message(FATAL_ERROR "microhttpd.h was not found: run tools/setup demo, or "
                      "configure with -DATTEND_VIEW=OFF")
endif()
list(FILTER server_sources INCLUDE REGEX ${server_files})
add_library(attend_server STATIC ${server_sources})
target_include_directories(attend_server PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                ${PROJECT_SOURCE_DIR}/cli)
target_link_libraries(attend_server PUBLIC attend_page attend_flags microhttpd)
