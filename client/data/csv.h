/* Internal to ps_data.h: parsing CSV apart from reading files. Pure. */
#ifndef CLIENT_DATA_CSV_H
#define CLIENT_DATA_CSV_H

#include "client/include/psclient/ps_data.h"

/* text: [len] and one '\0' after it; it is cut into fields in place and may be freed afterwards. name is for messages.
 * options are not NULL. */
enum ps_err csv_parse(const char *name, char *text, size_t len, const struct ps_csv_options *options,
                      struct ps_csv *out, struct ps_error *e) PS_MUST_USE;

#endif
