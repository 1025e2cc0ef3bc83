/* The bare limit of encryption: one core seals and another opens, in records as TLS has them, by the cipher that it
 * takes first, and nothing else: no socket, no copies, no frames, and what is opened does not come from the other core.
 */
#ifndef TESTS_BENCH_CIPHER_H
#define TESTS_BENCH_CIPHER_H

#include <stddef.h>

/* Seal and open messages of so many bytes for about `seconds`. Returns the slower one's seconds per message. A record
 * that does not open ends the program. */
double cipher_run(size_t bytes, double seconds);

#endif
