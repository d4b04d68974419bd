# The libraries. Their objects are compiled once, position independent, hidden
# unless ATTEND_API, and become:
#   attend_shared      libattend.so
#   attend_static      libattend.a, one object whose hidden names are local, so
#                      that a program may have a fail() of its own
#   attend_lab         libattend-lab.so: studies, designs, plots, scores, pulling models
#   attend_lab_static  libattend-lab.a; lab/pull is a member of its own, so that static
#                      programs without attend_pull do without its libraries
#   attend_internal    both with every name, for the tests; not installed
# What lab/ and cli/ use of src/ beyond the public headers is marked FOR_LAB (base/for_lab.h) and
# exported as attendlab_NAME: the two libraries must be of one version.
include(cmake/isa.cmake)

# attend_objects(NAME LIBRARY SOURCE...)
function(attend_objects name library)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                             ${PROJECT_SOURCE_DIR}/src
                                             ${PROJECT_SOURCE_DIR}/lab)
  target_link_libraries(${name} PRIVATE attend_flags)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
                                           C_VISIBILITY_PRESET hidden)
  set_property(GLOBAL APPEND PROPERTY ${library}_objects $<TARGET_OBJECTS:${name}>)
endfunction()

function(attend_isa isa)
  if(NOT ARGN)
    return()
  endif()
  attend_objects(attend_cpu_${isa} attend ${ARGN})
  string(TOUPPER ${isa} upper)
  target_compile_options(attend_cpu_${isa} PRIVATE ${ATTEND_BASE_FLAGS}
                                                   ${ATTEND_FLAGS_${isa}})
  target_compile_definitions(attend_cpu_${isa} PRIVATE ISA=${isa}
                                                       ISA_${upper}=1)
  set_property(GLOBAL APPEND PROPERTY attend_have ATTEND_HAVE_${upper}=1)
endfunction()

file(GLOB cpu_sources CONFIGURE_DEPENDS src/kernels/cpu/*.c)
foreach(isa ${ATTEND_ISAS})
  attend_isa(${isa} ${cpu_sources})
endforeach()
if(ATTEND_FLAGS_amx)
  file(GLOB amx_sources CONFIGURE_DEPENDS src/kernels/cpu/amx/*.c)
  attend_isa(amx ${amx_sources})
  if(TARGET attend_cpu_amx) # its vectors are those of AVX-512
    target_compile_definitions(attend_cpu_amx PRIVATE ISA_AVX512=1)
  endif()
endif()

file(GLOB sources CONFIGURE_DEPENDS src/*/*.c)
# Where an installed program finds libattend-cuda, from its folder.
set_source_files_properties(src/device/cuda.c PROPERTIES COMPILE_DEFINITIONS
                            ATTEND_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")
# Tokenizers need two libraries; without them one file says so.
if(ATTEND_TEXT)
  include(cmake/text.cmake)
  list(FILTER sources EXCLUDE REGEX "/src/text/absent\\.c$")
else()
  list(FILTER sources EXCLUDE REGEX "/src/text/")
  list(APPEND sources src/text/absent.c)
endif()
attend_objects(attend_base attend ${sources})
get_property(have GLOBAL PROPERTY attend_have)
target_compile_definitions(attend_base PRIVATE ${have})
file(GLOB lab_sources CONFIGURE_DEPENDS lab/*/*.c)
list(FILTER lab_sources EXCLUDE REGEX "/lab/(page|pictures|pull)/") # cmake/pictures.cmake
attend_objects(attend_lab_base attend_lab ${lab_sources})
include(cmake/pull.cmake)
attend_objects(attend_pull_base attend_pull ${pull_sources})
foreach(target attend_base attend_lab_base attend_pull_base)
  target_compile_options(${target} PRIVATE ${ATTEND_BASE_FLAGS})
endforeach()
include(cmake/lapack.cmake)

# Before 1.0 a minor version may change the ABI, and the SONAME says so.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(soversion 0.${PROJECT_VERSION_MINOR})
endif()
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/symbols.map CONTENT
  "ATTEND_${soversion} { global: attend_*; local: *; };
ATTEND_LAB_${PROJECT_VERSION} { global: attendlab_*; };
")

# attend_library(LIBRARY FILE PART...): LIBRARY_shared, LIBRARY_static from PART_objects;
# each part is a member of the archive
function(attend_library library file)
  set(objects)
  set(members)
  foreach(part ${ARGN})
    get_property(part_objects GLOBAL PROPERTY ${part}_objects)
    list(APPEND objects ${part_objects})
    set(merged ${CMAKE_CURRENT_BINARY_DIR}/${part}.o)
    list(APPEND members ${merged})
    add_custom_command(
      OUTPUT ${merged}
      COMMAND ${CMAKE_LINKER} -r -o ${merged} ${part_objects}
      COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${merged}
      DEPENDS ${part_objects}
      COMMAND_EXPAND_LISTS VERBATIM COMMENT "Hiding what is not public")
  endforeach()
  add_library(${library}_shared SHARED ${objects})
  set_target_properties(${library}_shared PROPERTIES
    OUTPUT_NAME ${file} VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
    LINKER_LANGUAGE C
    LINK_DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/symbols.map)
  target_link_options(${library}_shared PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_BINARY_DIR}/symbols.map)
  if(NOT ATTEND_SANITIZE)
    target_link_options(${library}_shared PRIVATE -Wl,--no-undefined)
  endif()
  target_link_libraries(${library}_shared PRIVATE $<BUILD_INTERFACE:attend_flags>)

  add_library(${library}_static STATIC ${members})
  set_target_properties(${library}_static PROPERTIES OUTPUT_NAME ${file}
                                                     LINKER_LANGUAGE C)
  foreach(kind shared static)
    target_include_directories(${library}_${kind} INTERFACE
      $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  endforeach()
endfunction()

attend_library(attend attend attend)
set_target_properties(attend_shared PROPERTIES EXPORT_NAME attend)
set_target_properties(attend_static PROPERTIES EXPORT_NAME static)
target_link_libraries(attend_shared PRIVATE ${ATTEND_TEXT_LIBRARIES})
target_link_libraries(attend_static INTERFACE ${ATTEND_TEXT_LIBRARIES} m)
target_link_options(attend_static INTERFACE -pthread)
attend_library(attend_lab attend-lab attend_lab attend_pull)
set_target_properties(attend_lab_shared PROPERTIES EXPORT_NAME lab)
set_target_properties(attend_lab_static PROPERTIES EXPORT_NAME lab_static)
target_link_libraries(attend_lab_shared PUBLIC attend_shared PRIVATE ${ATTEND_PULL_LIBRARIES})
target_link_libraries(attend_lab_static INTERFACE attend_static ${ATTEND_PULL_LIBRARIES})
add_library(attend::attend ALIAS attend_shared)
add_library(attend::static ALIAS attend_static)
add_library(attend::lab ALIAS attend_lab_shared)
add_library(attend::lab_static ALIAS attend_lab_static)

get_property(objects GLOBAL PROPERTY attend_objects)
get_property(lab_objects GLOBAL PROPERTY attend_lab_objects)
get_property(pull_objects GLOBAL PROPERTY attend_pull_objects)
add_library(attend_internal STATIC EXCLUDE_FROM_ALL ${objects} ${lab_objects} ${pull_objects})
set_target_properties(attend_internal PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(attend_internal INTERFACE ${ATTEND_TEXT_LIBRARIES})
target_include_directories(attend_internal INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/lab)
