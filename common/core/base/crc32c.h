/* CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum of what lies on a disk. It finds every error of one bit
 * up to three, and every burst of at most 32, in a value of the store's sizes.
 *
 * Processors with SSE 4.2 and PCLMULQDQ compute it at the speed of their memory, three stripes at a time (Gopal et al.,
 * "Fast CRC Computation for iSCSI Polynomial Using CRC32 Instruction", Intel, 2011); others go through a table. */
#ifndef COMMON_CORE_BASE_CRC32C_H
#define COMMON_CORE_BASE_CRC32C_H

#include "common/core/base/base.h"

/* Of len bytes that follow those that crc is of; 0: of none. Any thread. */
uint32_t crc32c(uint32_t crc, const void *bytes, size_t len);

/* The same through the table. */
uint32_t crc32c_by_table(uint32_t crc, const void *bytes, size_t len);

#endif
