# What the tokenizers need: utf8proc (Unicode) and PCRE2 (regular expressions).
# They are named, not pathed: the same names serve static programs and what is
# installed.
foreach(header utf8proc.h pcre2.h)
  find_file(ATTEND_${header} ${header})
  if(NOT ATTEND_${header})
    message(FATAL_ERROR "${header} was not found: run tools/setup demo, or "
                        "configure with -DATTEND_TEXT=OFF")
  endif()
endforeach()
set(ATTEND_TEXT_LIBRARIES utf8proc pcre2-8)
string(JOIN " " ATTEND_TEXT_LINK -lutf8proc -lpcre2-8)
