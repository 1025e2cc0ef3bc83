/* A hash of arrays, for fingerprints of data. Eight bytes at a time in four lanes: data is read at the memory's speed.
 * Made of words of 32 bits, which all machines that psd runs on store alike. */
#ifndef CLIENT_DATA_FINGERPRINT_H
#define CLIENT_DATA_FINGERPRINT_H

#include "common/core/base/base.h"

/* Of what came before, and then of these bytes. data: NULL when there are none. */
uint64_t fingerprint_add(uint64_t before, const void *data, size_t bytes);

/* The same of one number. */
uint64_t fingerprint_number(uint64_t before, uint64_t number);

#endif
