# The program: build/attend, on the public headers, lab/page, lab/pictures and two headers
# of src/base, folders.h and json_write.h.
file(GLOB cli_sources CONFIGURE_DEPENDS cli/*.c cli/*/*.c
     lab/page/*.c lab/pictures/*.c lab/svg/*.c)
if(NOT cli_sources)
  message(STATUS "cli/ is empty: no program is built")
  return()
endif()
include(cmake/pictures.cmake)
include(cmake/viewer.cmake)
file(GLOB designs CONFIGURE_DEPENDS models/designs/*.json)
set_source_files_properties(cli/design/specs.c PROPERTIES
  OBJECT_DEPENDS "${designs}"
  COMPILE_DEFINITIONS DESIGN_FOLDER="${PROJECT_SOURCE_DIR}/models/designs")
add_executable(attend_cli ${cli_sources})
target_include_directories(attend_cli PRIVATE ${PROJECT_SOURCE_DIR}/cli
                                              ${PROJECT_SOURCE_DIR}/lab
                                              ${PROJECT_SOURCE_DIR}/src)
set_target_properties(attend_cli PROPERTIES OUTPUT_NAME attend)
target_link_libraries(attend_cli PRIVATE attend_lab_static)
attend_program(attend_cli)
if(TARGET attend_pictures)
  target_link_libraries(attend_cli PRIVATE attend_pictures)
  target_compile_definitions(attend_cli PRIVATE ATTEND_HAVE_PICTURES=1)
endif()
if(TARGET attend_page)
  target_link_libraries(attend_cli PRIVATE attend_page)
  target_compile_definitions(attend_cli PRIVATE ATTEND_HAVE_PAGE=1)
endif()
if(TARGET attend_server)
  target_link_libraries(attend_cli PRIVATE attend_server)
  target_compile_definitions(attend_cli PRIVATE ATTEND_HAVE_SERVER=1)
endif()

# OpenBLAS and LAPACKE are opened at first use (cli/bench/blas.c): their headers will do.
# Static programs cannot open them.
if(ATTEND_BLAS AND NOT ATTEND_STATIC)
  find_package(PkgConfig REQUIRED)
  pkg_check_modules(OPENBLAS openblas)
  if(NOT OPENBLAS_FOUND)
    message(FATAL_ERROR "OpenBLAS was not found: run tools/setup demo, or "
                        "configure with -DATTEND_BLAS=OFF")
  endif()
  target_include_directories(attend_cli SYSTEM PRIVATE ${OPENBLAS_INCLUDE_DIRS})
  target_compile_definitions(attend_cli PRIVATE ATTEND_HAVE_OPENBLAS=1)
  target_link_libraries(attend_cli PRIVATE ${CMAKE_DL_LIBS})
  if(ATTEND_LAPACKE_FILE)
    set_property(SOURCE cli/bench/blas.c APPEND PROPERTY COMPILE_DEFINITIONS
                 ATTEND_HAVE_LAPACKE=1)
    set_property(SOURCE cli/bench/blas.c APPEND PROPERTY INCLUDE_DIRECTORIES
                 ${ATTEND_LAPACKE_INCLUDE})
  endif()
endif()
