# Tests, by place:
#   tests/unit/test_NAME.c   a program on the internals, with the harness check.h;
#                       the other tests/unit/*.c are linked into each of them
#   examples/NN_NAME.c  a program on the public headers; exit 0 is a pass
#   tests/cli/NAME.sh   a script; ATTEND is the program
#   tests/browser       the page of `attend view`, in Chromium
# All run in the top folder of the sources; ATTEND_GOLDEN is tests/golden,
# ATTEND_TEXT, ATTEND_PULL and ATTEND_VIEW are ON or OFF as the program was
# built.
include(cmake/steps.cmake)
function(attend_test name label)
  add_test(NAME ${name} COMMAND ${ARGN} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  in_step(check ${name} check)
  if(check)
    list(APPEND label check)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${label}" TIMEOUT 600
    ENVIRONMENT "${environment}")
endfunction()

set(runner ${CMAKE_CURRENT_BINARY_DIR}/attend)
if(CMAKE_CROSSCOMPILING AND CMAKE_CROSSCOMPILING_EMULATOR)
  set(runner ${CMAKE_CURRENT_BINARY_DIR}/attend-emulated)
  string(JOIN " " emulator ${CMAKE_CROSSCOMPILING_EMULATOR})
  file(WRITE ${runner} "#!/bin/sh\n"
    "exec ${emulator} '${CMAKE_CURRENT_BINARY_DIR}/attend' \"$@\"\n")
  file(CHMOD ${runner} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
       GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
endif()

set(environment ATTEND=${runner} "ATTEND_SANITIZE=${ATTEND_SANITIZE}"
                ATTEND_GOLDEN=${PROJECT_SOURCE_DIR}/tests/golden)
foreach(part TEXT PULL)
  set(built OFF)
  if(ATTEND_${part})
    set(built ON)
  endif()
  list(APPEND environment ATTEND_${part}=${built})
endforeach()
if(TARGET attend_server)
  list(APPEND environment ATTEND_VIEW=ON)
else()
  list(APPEND environment ATTEND_VIEW=OFF)
endif()

if(ATTEND_BUILD_TESTS)
  file(GLOB test_sources CONFIGURE_DEPENDS tests/unit/test_*.c)
  file(GLOB shared_sources CONFIGURE_DEPENDS tests/unit/*.c)
  if(test_sources)
    list(REMOVE_ITEM shared_sources ${test_sources})
  endif()
  if(NOT ATTEND_TEXT)
    list(FILTER test_sources EXCLUDE REGEX "/test_(text|sessions|tasks)[^/]*$")
  endif()
  if(NOT TARGET attend_pictures)
    list(FILTER test_sources EXCLUDE REGEX "/test_(draw|picture)[^/]*$")
  endif()
  if(shared_sources)
    add_library(attend_check OBJECT ${shared_sources})
    target_link_libraries(attend_check PRIVATE attend_internal attend_flags)
  endif()
  get_property(have GLOBAL PROPERTY attend_have)
  foreach(source ${test_sources})
    get_filename_component(name ${source} NAME_WE)
    in_step("${ATTEND_STEP}" ${name} wanted)
    if(NOT wanted)
      continue()
    endif()
    add_executable(${name} ${source})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/unit)
    target_compile_definitions(${name} PRIVATE ${have})
    # gcc 12 for Arm stops with an error of its own at some loops it vectorizes.
    target_compile_options(${name} PRIVATE -fno-tree-vectorize)
    if(TARGET attend_check)
      target_sources(${name} PRIVATE $<TARGET_OBJECTS:attend_check>)
    endif()
    target_link_libraries(${name} PRIVATE attend_internal)
    if(name MATCHES "^test_(draw|picture)")
      target_link_libraries(${name} PRIVATE attend_pictures)
      target_link_options(${name} PRIVATE -Wl,--wrap=calloc,--wrap=malloc)
    elseif(name MATCHES "^test_(svd|study)")
      target_link_libraries(${name} PRIVATE ${ATTEND_LAPACK_LIBRARIES})
    endif()
    attend_program(${name})
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests)
    attend_test(${name} unit ${name})
    in_step(trap ${name} trapped)
    if(trapped AND NOT ATTEND_STEP) # on a device whose memory is out of reach
      attend_test(trap_${name} unit ${name})
      set_tests_properties(trap_${name} PROPERTIES
        ENVIRONMENT "${environment};ATTEND_DEVICE=trap")
    endif()
  endforeach()

  file(GLOB cli_tests CONFIGURE_DEPENDS tests/cli/*.sh)
  if(TARGET attend_server) # view_hostile.sh attacks it with a viewer of its own
    add_executable(view_echo tests/cli/view_echo.c)
    target_link_libraries(view_echo PRIVATE attend_server)
    attend_program(view_echo)
    set_target_properties(view_echo PROPERTIES RUNTIME_OUTPUT_DIRECTORY tests)
  else()
    list(FILTER cli_tests EXCLUDE REGEX "/view_hostile\\.sh$")
  endif()
  # Sanitizers and emulators reserve more addresses than this one allows.
  if(ATTEND_SANITIZE OR CMAKE_CROSSCOMPILING)
    list(FILTER cli_tests EXCLUDE REGEX "/address_space\\.sh$")
  endif()
  if(TARGET attend_cli)
    foreach(script ${cli_tests})
      get_filename_component(name ${script} NAME_WE)
      in_step("${ATTEND_STEP}" cli_${name} wanted)
      if(wanted)
        attend_test(cli_${name} cli bash ${script})
      endif()
    endforeach()
  endif()

  # tests/browser needs words, and what npm put beside the built page. A bound on
  # memory says nothing under a sanitizer.
  if(TARGET attend_cli AND TARGET attend_server AND ATTEND_TEXT)
    set(packages ${CMAKE_CURRENT_BINARY_DIR}/page)
    if(ATTEND_PAGE)
      get_filename_component(packages ${ATTEND_PAGE}/.. ABSOLUTE
                             BASE_DIR ${PROJECT_SOURCE_DIR})
    endif()
    set(browser bash tests/browser/browser.sh ${runner} ${packages})
    attend_test(browser browser ${browser})
    set(browser_tests browser)
    if(NOT ATTEND_SANITIZE)
      attend_test(browser_long browser ${browser} long)
      list(APPEND browser_tests browser_long)
    endif()
    # A browser and a program at once: two cores. They take longest, and begin.
    set_tests_properties(${browser_tests} PROPERTIES PROCESSORS 2 COST 1000)
  endif()
endif()

if(ATTEND_BUILD_EXAMPLES)
  file(GLOB examples CONFIGURE_DEPENDS examples/[0-9][0-9]_*.c)
  foreach(source ${examples})
    get_filename_component(name ${source} NAME_WE)
    add_executable(example_${name} ${source})
    target_link_libraries(example_${name} PRIVATE attend_lab_static)
    attend_program(example_${name})
    set_target_properties(example_${name} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY examples)
    set(arguments)
    if(name MATCHES million AND (CMAKE_CROSSCOMPILING OR ATTEND_SANITIZE))
      set(arguments 50000) # slow builds: the lesson is the same
    endif()
    attend_test(example_${name} example example_${name} ${arguments})
  endforeach()
endif()
