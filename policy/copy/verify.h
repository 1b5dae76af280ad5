/*
 * verify.h - TURBO_VERIFY: read back and compare.
 */
#ifndef TURBO_COPY_VERIFY_H
#define TURBO_COPY_VERIFY_H

#include <stdbool.h>

#include "stage.h"

/* True when this copy is one of those to compare. */
bool verify_due(void);
/*
 * Reads the device side again on our own stream and compares with the host side. A copy
 * that waits on the program's stream, perhaps for this very thread, is compared in its
 * slots instead. False on a difference (counted and logged); a failed read counts as
 * equal: it says nothing about the copy.
 */
bool verify_equal(struct stage *st);

#endif
