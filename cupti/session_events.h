/* session_events.h - libturbo's own events, from their queue into the ring. The helper. */
#ifndef TURBO_CUPTI_SESSION_EVENTS_H
#define TURBO_CUPTI_SESSION_EVENTS_H

void session_drain_events(void);

#endif
