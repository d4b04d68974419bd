/* Unpacking a package's tarball safely. */
#ifndef CLI_PULL_UNPACK_H
#define CLI_PULL_UNPACK_H

#include "cli.h"

/* Unpacks a .tgz into an empty private folder, without the first part of each name
 * ("package/"). Only plain files and folders: an archive with a link, a device, an
 * absolute name or a ".." is rejected as a whole. Prints errors. */
bool unpack(const char *tarball, const char *folder);

#endif
