/* Hashes of files, compared with the hub's etags; computed by OpenSSL. */
#ifndef CLI_PULL_DIGEST_H
#define CLI_PULL_DIGEST_H

#include "cli.h"

enum { GIT_DIGITS = 40, SHA256_DIGITS = 64 };

/* SHA-256 of a file's bytes, and the name that git gives them: SHA-1 of
 * "blob SIZE", a zero byte, and the bytes. In hexadecimal digits. Complain. */
bool digest_sha256(const char *path, char hex[SHA256_DIGITS + 1]);
bool digest_git(const char *path, char hex[SHA256_DIGITS + 1]);

#endif
