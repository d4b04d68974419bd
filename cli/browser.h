/* Opening a page in the user's browser. */
#ifndef CLI_BROWSER_H
#define CLI_BROWSER_H

/* No browser is no failure: the address is printed. */
void browser_open(const char *address);

/* An empty temporary file /tmp/attend-NAME-XXXXXX.html; the caller frees the path.
 * NULL after an error message. */
char *browser_file(const char *name);

#endif
