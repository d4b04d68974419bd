# The library. Its objects are compiled once, position independent, hidden
# unless ATTEND_API, and become:
#   attend_shared    libattend.so
#   attend_static    libattend.a, one object whose hidden names are local, so
#                    that a program may have a fail() of its own
#   attend_internal  the same with every name, for the tests; not installed
include(isa)

function(attend_objects name)
  add_library(${name} OBJECT ${ARGN})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/include
                                             ${PROJECT_SOURCE_DIR}/src
                                             ${PROJECT_SOURCE_DIR}/lab)
  target_link_libraries(${name} PRIVATE attend_flags)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON
                                           C_VISIBILITY_PRESET hidden)
  set_property(GLOBAL APPEND PROPERTY attend_objects $<TARGET_OBJECTS:${name}>)
endfunction()

function(attend_isa isa)
  if(NOT ARGN)
    return()
  endif()
  attend_objects(attend_cpu_${isa} ${ARGN})
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

file(GLOB sources CONFIGURE_DEPENDS src/*/*.c lab/*/*.c)
list(FILTER sources EXCLUDE REGEX "/lab/pictures/") # cmake/pictures.cmake
# Tokenizers need two libraries; without them one file says so.
if(ATTEND_TEXT)
  include(text)
  list(FILTER sources EXCLUDE REGEX "/src/text/absent\\.c$")
else()
  list(FILTER sources EXCLUDE REGEX "/src/text/")
  list(APPEND sources src/text/absent.c)
endif()
attend_objects(attend_base ${sources})
target_compile_options(attend_base PRIVATE ${ATTEND_BASE_FLAGS})
get_property(have GLOBAL PROPERTY attend_have)
target_compile_definitions(attend_base PRIVATE ${have})
get_property(objects GLOBAL PROPERTY attend_objects)
include(lapack)

add_library(attend_shared SHARED ${objects})
# Before 1.0 a minor version may change the ABI, and the SONAME says so.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(soversion 0.${PROJECT_VERSION_MINOR})
endif()
set_target_properties(attend_shared PROPERTIES
  OUTPUT_NAME attend VERSION ${PROJECT_VERSION} SOVERSION ${soversion}
  EXPORT_NAME attend LINKER_LANGUAGE C)
target_link_libraries(attend_shared PRIVATE $<BUILD_INTERFACE:attend_flags>
                                            ${ATTEND_TEXT_LIBRARIES})
if(NOT ATTEND_SANITIZE)
  target_link_options(attend_shared PRIVATE -Wl,--no-undefined)
endif()

set(merged ${CMAKE_CURRENT_BINARY_DIR}/attend.o)
add_custom_command(
  OUTPUT ${merged}
  COMMAND ${CMAKE_LINKER} -r -o ${merged} ${objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${merged}
  DEPENDS ${objects}
  COMMAND_EXPAND_LISTS VERBATIM COMMENT "Hiding what is not public")
add_library(attend_static STATIC ${merged})
set_target_properties(attend_static PROPERTIES
  OUTPUT_NAME attend EXPORT_NAME static LINKER_LANGUAGE C)
target_link_libraries(attend_static INTERFACE ${ATTEND_TEXT_LIBRARIES} m)
target_link_options(attend_static INTERFACE -pthread)

foreach(target attend_shared attend_static)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()

add_library(attend_internal STATIC EXCLUDE_FROM_ALL ${objects})
set_target_properties(attend_internal PROPERTIES LINKER_LANGUAGE C)
target_link_libraries(attend_internal INTERFACE ${ATTEND_TEXT_LIBRARIES})
target_include_directories(attend_internal INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src
  ${PROJECT_SOURCE_DIR}/lab)
