/* Texts in metadata, before they are unpacked: protobuf-c ends a string at its first byte 0, so that a peer's "a\0b"
 * would be the name "a". Pure. */
#ifndef COMMON_CORE_WIRE_WIRE_STRINGS_H
#define COMMON_CORE_WIRE_WIRE_STRINGS_H

#include <protobuf-c/protobuf-c.h>

#include "common/core/base/base.h"
#include "common/include/psclient/ps_err.h"

/* bytes, [len]: of a message that protobuf-c has unpacked. PS_ERR_INVALID, with the field's name: a text has a byte
 * 0. */
enum ps_err wire_strings_check(const ProtobufCMessageDescriptor *type, const uint8_t *bytes, size_t len,
                               struct ps_error *e) PS_MUST_USE;

#endif
