/* Hashes of files, compared with the hub's etags; computed by OpenSSL. */
#include "pull/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"

enum { CHUNK = 1 << 20 };

static bool take_all(EVP_MD_CTX *hash, FILE *f) {
  unsigned char *chunk = need(CHUNK, 1);
  size_t n;
  bool fine = true;
  while (fine && (n = fread(chunk, 1, CHUNK, f)) > 0) fine = EVP_DigestUpdate(hash, chunk, n);
  free(chunk);
  return fine && !ferror(f);
}

static bool finish(EVP_MD_CTX *hash, char hex[SHA256_DIGITS + 1]) {
  unsigned char bytes[EVP_MAX_MD_SIZE];
  unsigned length = 0;
  if (!EVP_DigestFinal_ex(hash, bytes, &length)) return false;
  for (unsigned i = 0; i < length && i < SHA256_DIGITS / 2; i++)
    snprintf(hex + 2 * i, 3, "%02x", bytes[i]);
  return true;
}

/* `before` goes in ahead of the file, with its zero byte; NULL: nothing. */
static bool digest(const char *path, const EVP_MD *kind, const char *before,
                   char hex[SHA256_DIGITS + 1]) {
  FILE *f = fopen(path, "rb");
  EVP_MD_CTX *hash = EVP_MD_CTX_new();
  bool fine = f && hash && EVP_DigestInit_ex(hash, kind, NULL) &&
              (!before || EVP_DigestUpdate(hash, before, strlen(before) + 1)) &&
              take_all(hash, f) && finish(hash, hex);
  if (!fine) complain("%s cannot be checked: %s", path, strerror(errno));
  EVP_MD_CTX_free(hash);
  if (f) fclose(f);
  return fine;
}

bool digest_sha256(const char *path, char hex[SHA256_DIGITS + 1]) {
  return digest(path, EVP_sha256(), NULL, hex);
}

bool digest_git(const char *path, char hex[SHA256_DIGITS + 1]) {
  char before[32];
  snprintf(before, sizeof before, "blob %lld", (long long)file_bytes(path));
  return digest(path, EVP_sha1(), before, hex);
}
