/* guard.c - storage of the per-thread word of guard.h. */
#include "guard.h"

__thread struct turbo_tls turbo_tls __attribute__((tls_model("initial-exec"), visibility("hidden")));
