/*
 * stacks.h - where the program's threads are: at the issue of a call, and at a verdict.
 *
 * At the issue the calling thread reads its own Python frames out of the interpreter's memory, by the offsets that
 * the interpreter publishes (3.13 and later) or a table of them (3.9 to 3.12); it never takes the GIL. A stack
 * that was seen before costs a walk over some frames and a look into a table; its text, and the native stack, are
 * made once.
 */
#ifndef TURBO_STACKS_H
#define TURBO_STACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "flight_page.h"

/* Looks for an interpreter in the process (dlsym of Py_GetVersion and so on), once and again when there was none.
 * Not on an issuing thread. Returns major << 8 | minor, 0: none or one that is not known. */
uint32_t stacks_python(void);

/*
 * The site of the calling thread's present stack: byte offset + 1 in page->sites, 0: not known, or no room. Its text
 * has lines as in stacks_dump(), without "thread": first "  python ...", then "  native ...", each innermost first.
 * `caller` and `frame`: return address and frame address of the NCCL call. Issuing thread; no lock that another
 * thread holds while it makes a text is waited for: 0 then.
 */
uint32_t stacks_site(struct flight_page *page, const void *caller, const void *frame);

/*
 * Text of all the threads that matter (the main one, and those with calls in flight): Python asked of the
 * interpreter by a disposable thread with a deadline; where it does not get the GIL, each thread asked by a
 * real-time signal (only if its disposition is the default, put back afterwards) for its own frames; native stacks
 * the same way. At most `ms` altogether. Lines: "thread TID NAME", "  python FILE:LINE FUNCTION", "  native SYMBOL",
 * "  note TEXT". Returns the bytes written. The watch's thread; never an issuing one.
 */
unsigned stacks_dump(char *text, unsigned size, const uint32_t *threads, unsigned count, unsigned ms);

/* Asks Python to run something of ours (Py_AddPendingCall) that stores the time in *tick. Watch's thread. */
void stacks_tick(_Atomic uint64_t *tick);

void stacks_fork_child(void);

#endif
