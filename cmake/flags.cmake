# How every file is compiled. Results must not depend on the compiler's mood:
# no -ffast-math, and only an fma that the source wrote is one.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Kind of build" FORCE)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O3 -g -DNDEBUG")
set(CMAKE_C_FLAGS_RELEASE "-O3 -DNDEBUG")
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # gnu17: POSIX names, vector types
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_C_COMPILER_ID MATCHES "^(GNU|Clang)$")
  message(FATAL_ERROR "${CMAKE_C_COMPILER_ID} has not been tried: build with "
                      "gcc or clang (CC=gcc make)")
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(attend_flags INTERFACE)
target_compile_options(attend_flags INTERFACE
  -ffp-contract=off -fno-math-errno
  -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes
  -Wpointer-arith -Wwrite-strings -Wformat=2 -Wold-style-definition -Wno-psabi
  $<$<BOOL:${ATTEND_WERROR}>:-Werror>)
target_link_libraries(attend_flags INTERFACE Threads::Threads m)

if(ATTEND_SANITIZE)
  if(ATTEND_STATIC)
    message(FATAL_ERROR "sanitizers need shared libraries: choose "
                        "ATTEND_SANITIZE or ATTEND_STATIC")
  endif()
  target_compile_options(attend_flags INTERFACE
    -fsanitize=${ATTEND_SANITIZE} -fno-sanitize-recover=all
    -fno-omit-frame-pointer)
  target_link_options(attend_flags INTERFACE -fsanitize=${ATTEND_SANITIZE})
  target_compile_definitions(attend_flags INTERFACE ATTEND_SANITIZED=1)
endif()

# A program that runs on this machine alone, or one to carry elsewhere.
function(attend_program target)
  target_link_libraries(${target} PRIVATE attend_flags)
  if(ATTEND_STATIC)
    target_link_options(${target} PRIVATE -static)
    # Else CMake goes back to shared libraries after the first static one.
    set_target_properties(${target} PROPERTIES LINK_SEARCH_START_STATIC ON
                                               LINK_SEARCH_END_STATIC ON)
  endif()
endfunction()
