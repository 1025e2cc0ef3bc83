/* The files of the page that psd serves, which are part of the program: server/http/page/embed.py makes them a table.
 */
#ifndef SERVER_HTTP_PAGE_PAGE_H
#define SERVER_HTTP_PAGE_PAGE_H

#include <stddef.h>

struct page_file {
    const char *path, *type; /* "/page.css", "text/css; charset=utf-8" */
    const unsigned char *bytes;
    size_t len;
};
extern const struct page_file page_files[];
extern const size_t page_files_len;

#endif
