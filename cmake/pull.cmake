# What lab/pull needs: libcurl (transfers), OpenSSL (hashes) and zlib. Programs to carry
# elsewhere do without: a static libcurl brings a dozen libraries, and names of hosts are
# found by the C library's shared parts alone. There lab/pull/absent.c says so; what was
# pulled is found all the same.
file(GLOB pull_sources CONFIGURE_DEPENDS lab/pull/*.c)
set(ATTEND_PULL_LIBRARIES)
set(ATTEND_PULL_LINK)
if(ATTEND_STATIC OR CMAKE_CROSSCOMPILING OR NOT ATTEND_PULL)
  set(ATTEND_PULL OFF)
  list(FILTER pull_sources INCLUDE REGEX "/absent\\.c$")
  return()
endif()
foreach(header curl/curl.h openssl/evp.h zlib.h)
  find_file(ATTEND_${header} ${header})
  if(NOT ATTEND_${header})
    message(FATAL_ERROR "${header} was not found: run tools/setup demo, or "
                        "configure with -DATTEND_PULL=OFF")
  endif()
endforeach()
list(FILTER pull_sources EXCLUDE REGEX "/absent\\.c$")
set(ATTEND_PULL_LIBRARIES curl crypto z)
string(JOIN " " ATTEND_PULL_LINK -lcurl -lcrypto -lz)
