/* stub_offsets.h - what the count stubs have built in, for the assembler; asserted in hooks.c. */
#ifndef TURBO_STUB_OFFSETS_H
#define TURBO_STUB_OFFSETS_H

#define STUB_LANES_OFF 4096 /* offsetof(struct stats_area, lanes) */
#define STUB_TLS_LANE 8     /* offsetof(struct turbo_tls, lane) */

#endif
