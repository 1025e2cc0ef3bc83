/* A file that appears whole or not at all: it is written under another name beside it, synced, and renamed. Ctrl-C,
 * TERM and HUP remove what was begun. One at a time in a process. Blocks on the disk.
 *
 *     struct new_file f;
 *     err = new_file_begin(&f, "model.safetensors", &e);
 *     ... write to f.fd ...
 *     err = new_file_end(&f, &e);
 *     new_file_close(&f); */
#ifndef CLIENT_TOOLS_SHARED_NEW_FILE_H
#define CLIENT_TOOLS_SHARED_NEW_FILE_H

#include "common/include/psclient/ps_err.h"

struct new_file {
    char *path, *partial; /* partial: its name until its end; NULL: it does not exist */
    int fd;               /* to read and write; -1: none */
};

/* A file that is at path already stays until the end; anything but a file there is PS_ERR_INVALID. PS_ERR_IO,
 * PS_ERR_FULL, PS_ERR_NOMEM. */
enum ps_err new_file_begin(struct new_file *f, const char *path, struct ps_error *e) PS_MUST_USE;
enum ps_err new_file_end(struct new_file *f, struct ps_error *e) PS_MUST_USE;
void new_file_close(struct new_file *f); /* one that new_file_begin() was given; removes an unfinished file */

#endif
