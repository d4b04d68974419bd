# Fuzzers: tests/fuzz/fuzz_NAME.c becomes tests/fuzz_NAME, on libFuzzer.
# `tools/fuzz` builds and runs them all. Sources that read files are compiled
# once more for them with coverage; the others come without, for those that run
# models.
if(NOT CMAKE_C_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "the fuzzers need clang's libFuzzer: configure with "
                      "CC=clang, or run tools/fuzz")
endif()
if(NOT ATTEND_TEXT)
  message(FATAL_ERROR "the fuzzers need the tokenizers: leave ATTEND_TEXT ON")
endif()

file(GLOB fuzzed CONFIGURE_DEPENDS src/base/*.c src/text/*.c
     src/model/*.c lab/design/*.c lab/score/*.c lab/view/*.c src/train/corpus*.c
     src/train/batches.c src/train/training*.c src/train/run_*.c
     src/tasks/embed_settings.c)
list(FILTER fuzzed EXCLUDE REGEX "/src/text/absent\\.c$")
add_library(attend_fuzzed STATIC EXCLUDE_FROM_ALL ${fuzzed})
target_include_directories(attend_fuzzed PUBLIC ${PROJECT_SOURCE_DIR}/include
                                                ${PROJECT_SOURCE_DIR}/src
                                                ${PROJECT_SOURCE_DIR}/lab)
target_compile_options(attend_fuzzed PRIVATE -fsanitize=fuzzer-no-link)
target_link_libraries(attend_fuzzed PUBLIC attend_flags
                                           ${ATTEND_TEXT_LIBRARIES})

add_custom_target(fuzzers)
file(GLOB fuzz_sources CONFIGURE_DEPENDS tests/fuzz/fuzz_*.c)
foreach(source ${fuzz_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} EXCLUDE_FROM_ALL ${source})
  target_link_libraries(${name} PRIVATE attend_fuzzed)
  if(name STREQUAL fuzz_view_questions) # the program's answers, without it
    target_sources(${name} PRIVATE cli/view/request.c lab/page/answers.c
                                   lab/page/hello.c lab/pictures/captions.c
                                   lab/pictures/words.c)
    foreach(part folders table text)
      target_sources(${name} PRIVATE cli/${part}.c)
    endforeach()
    target_include_directories(${name} PRIVATE cli)
  endif()
  if(name STREQUAL fuzz_unpack) # all that reads a tar file; the rest of pull needs libcurl
    target_sources(${name} PRIVATE lab/pull/unpack.c)
    target_link_libraries(${name} PRIVATE attend_internal z)
  endif()
  if(name STREQUAL fuzz_view_guard)
    target_include_directories(${name} PRIVATE cli)
  endif()
  if(name STREQUAL fuzz_training)
    foreach(part folders table text)
      target_sources(${name} PRIVATE cli/${part}.c)
    endforeach()
    target_include_directories(${name} PRIVATE cli)
  endif()
  file(STRINGS ${source} whole REGEX "\"attend/(model|design)\\.h\"")
  if(whole)
    target_compile_definitions(${name} PRIVATE FUZZ_WHOLE=1)
    target_link_libraries(${name} PRIVATE attend_internal)
  endif()
  target_compile_options(${name} PRIVATE -fsanitize=fuzzer-no-link)
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests)
  add_dependencies(fuzzers ${name})
endforeach()
