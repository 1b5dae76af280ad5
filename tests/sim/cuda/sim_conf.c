/*
 * sim_conf.c - SIM_* environment, read once when the library is loaded.
 */
#include <stdlib.h>
#include <string.h>

#include "sim_internal.h"

#define SIM_VERSION 13000

struct sim_conf sim_conf = {.version = SIM_VERSION, .devices = 2, .mem_bytes = 1024ull << 20, .seed = 1};

static unsigned long long number(const char *name, unsigned long long standard)
{
	const char *text = getenv(name);
	if (!text || !*text)
		return standard;
	char *end;
	unsigned long long value = strtoull(text, &end, 0);
	return *end ? standard : value;
}

__attribute__((constructor)) static void conf_read(void)
{
	unsigned long long devices = number("SIM_DEVICES", 2);
	sim_conf.devices = devices > SIM_MAX_DEVICES ? SIM_MAX_DEVICES : (int)devices;
	sim_conf.version = (int)number("SIM_VERSION", SIM_VERSION);
	sim_conf.mem_bytes = number("SIM_MEM_MB", 1024) << 20;
	sim_conf.ctx_bytes = number("SIM_CTX_MB", 0) << 20;
	sim_conf.dma_us = (unsigned)number("SIM_DMA_US", 0);
	sim_conf.jitter_us = (unsigned)number("SIM_JITTER_US", 0);
	sim_conf.seed = number("SIM_SEED", 1);
	sim_conf.hmm = number("SIM_HMM", 0) != 0;
	sim_conf.ats = number("SIM_ATS", 0) != 0;
	sim_conf.quiet = number("SIM_QUIET", 0) != 0;
	sim_conf.costs = number("SIM_COSTS", 0) != 0;
	const char *peer = getenv("SIM_PEER");
	sim_conf.peer_strict = peer && !strcmp(peer, "strict");
	const char *gbps = getenv("SIM_GBPS");
	sim_conf.gbps = gbps ? strtod(gbps, NULL) : 0;
	sim.jitter_state = sim_conf.seed;
	sim_fail_parse(getenv("SIM_FAIL"));
}
