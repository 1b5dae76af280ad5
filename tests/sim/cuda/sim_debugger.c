/*
 * sim_debugger.c - the variables of the debugger's handshake. A debugger finds them by name and writes
 * into the process; nothing here reads them.
 */
#include "sim_internal.h"

#pragma GCC visibility push(default)
extern uint32_t cudbgIpcFlag;
uint32_t cudbgIpcFlag; /* not 0: a debugger is ready to hear from the driver */
#pragma GCC visibility pop
