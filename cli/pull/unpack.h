/* Unpacking a package's tarball where it can do no harm.
 *
 * Between npm, which fetched it, and the cache.
 */
#ifndef CLI_PULL_UNPACK_H
#define CLI_PULL_UNPACK_H

#include "cli.h"

/* Unpacks a .tgz into a folder that is empty and nobody else's, without the
 * first part of each name ("package/"). Plain files and folders alone: what
 * has a link, a device, an absolute name or a ".." is refused as a whole.
 * Complains. */
bool unpack(const char *tarball, const char *folder);

#endif
