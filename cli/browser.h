/* Whoever opens pages on this machine. */
#ifndef CLI_BROWSER_H
#define CLI_BROWSER_H

/* That there is nobody is no failure: the address is said. */
void browser_open(const char *address);

/* An empty file /tmp/attend-NAME-XXXXXX.html for a page that is shown and not kept
 * by a name; the caller frees the path. NULL after a complaint. */
char *browser_file(const char *name);

#endif
