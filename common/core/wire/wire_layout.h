/* How a declared variable is cut into blocks. Pure. */
#ifndef COMMON_CORE_WIRE_WIRE_LAYOUT_H
#define COMMON_CORE_WIRE_WIRE_LAYOUT_H

#include "common/core/model/layout.h"
#include "proto/psd.pb-c.h"

/* The layout of a declaration, which was checked: it follows from the shape and the optimizer alone. */
void wire_layout(const Psd__Declare *declare, struct layout *out);

#endif
