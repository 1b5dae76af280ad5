/*
 * ras.h - what NCCL's own RAS service (2.24 and later) knows of ranks on other machines.
 *
 * A thread of NCCL in each process listens at NCCL_RAS_ADDR (localhost:28028) and speaks lines of text, as the ncclras
 * program does. Its answer is shown as it came: it is of whichever job listens there, and is judged by nobody. No
 * malloc, no names looked up, no signal; never on a thread of the program's.
 */
#ifndef TURBO_NCCL_RAS_H
#define TURBO_NCCL_RAS_H

#include <stdbool.h>
#include <stdint.h>

#define RAS_NCCL 22400  /* ncclGetVersion of the first that has it */
#define RAS_MS 2000     /* for all of a question */
#define RAS_BYTES 65536 /* of an answer that are kept */
#define RAS_WHERE 72

struct ras_answer {
	const char *none;      /* why there is no answer; NULL: there is one */
	const char *cut;       /* why it is not the whole one; NULL: it is */
	char where[RAS_WHERE]; /* who was asked */
	unsigned dead, silent; /* processes that RAS takes for dead; that did not answer it in time */
	unsigned bytes;
	char text[RAS_BYTES + 1]; /* lines, untrusted; without a 0 but the last */
};

/* Reads NCCL_RAS_ADDR and NCCL_RAS_ENABLE. Before there are threads of ours. */
void ras_start(void);
/* There is a service to ask, and there are ranks to ask it about. */
bool ras_wanted(uint64_t nccl, uint32_t missing);
/* At most `limit_ms`, less when `go_on`, asked every 100 ms and between, says no. errno is not kept. */
void ras_ask(struct ras_answer *a, unsigned limit_ms, bool (*go_on)(void *), void *arg);

#endif
