/*
 * verify.h - TURBO_VERIFY: read back and compare.
 */
#ifndef TURBO_COPY_VERIFY_H
#define TURBO_COPY_VERIFY_H

#include <stdbool.h>

#include "stage.h"

/* True when this copy is one of those to compare. */
bool verify_due(void);
/* Before the copy: true when nothing may lawfully write its source from now on. A copy on
 * the program's stream is read at once and its source may be written before its turn. */
bool verify_settled(struct stage *st);
/*
 * Reads the device side again on our own stream and compares with the host side. A copy
 * on the program's stream is compared in the ring, and on the device too when it gets
 * there soon: its stream may wait for this very thread. The source counts when it is
 * `settled`. False on a difference (counted and logged); a failed read counts as equal: it says nothing about the copy.
 */
bool verify_equal(struct stage *st, bool settled);

#endif
