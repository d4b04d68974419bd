/* A build without libcurl and OpenSSL: compiled instead of the other files where ATTEND_PULL is
 * OFF. */
#include "attend/pull.h"
#include "base/base.h"

attend_status attend_pull(attend_context *ctx, const char *name, const attend_pull_options *options,
                          attend_pulled **pulled) {
  (void)options;
  *pulled = NULL;
  return fail(ctx, ATTEND_UNSUPPORTED,
              "this build has no pull, so that %.200s is not pulled: build attend with "
              "-DATTEND_PULL=ON, not statically",
              name);
}

/* Unreachable, since nothing can be pulled. */
void attend_pulled_free(attend_pulled *pulled) { (void)pulled; }
const char *attend_pulled_path(const attend_pulled *pulled) { return (void)pulled, ""; }
const char *attend_pulled_version(const attend_pulled *pulled) { return (void)pulled, ""; }
const attend_pulled_file *attend_pulled_get(const attend_pulled *pulled, size_t i) {
  return (void)pulled, (void)i, NULL;
}
