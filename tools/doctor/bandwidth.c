/*
 * bandwidth.c - whether CUDA starts, and how fast copies are: pinned, pageable, and pageable with libturbo.
 *
 * Two workers measure (copy_worker.c), one without and one with libturbo, each a process of its own: what a driver does wrong ends there.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "../turbo/turbo.h"
#include "doctor.h"
#include "tools/timeline/units.h"

#define DEVICES 16
#define GOOD_SHARE 0.7 /* of the link's theoretical speed; 0.87 is usual */
#define BAD_SHARE 0.35
#define STAGED_SHARE 0.6 /* of pinned */
#define START_SECONDS 5

enum { PINNED, PAGEABLE, STAGED, KINDS };

struct speed {
	struct doctor *d;
	bool staged; /* the worker with libturbo */
	bool none, failed;
	int devices, listed;
	double start;
	char bus[DEVICES][32];
	double rate[DEVICES][KINDS][2]; /* GB/s: to, from the device */
	char error[200];
	unsigned said;
};

/* GB/s of a PCIe lane, after encoding. */
static double lane(unsigned generation)
{
	static const double speeds[] = {0, 0.25, 0.5, 0.985, 1.969, 3.938, 7.563};
	return generation < sizeof(speeds) / sizeof(speeds[0]) ? speeds[generation] : 0;
}

/* What the device's link could do; 0: not known. The driver's "0000:3B:00.0" is the kernel's in capitals. */
static double link_of(const struct speed *v, int device, unsigned *index)
{
	const struct doctor_facts *facts = &v->d->board->facts;
	for (unsigned i = 0; i < facts->gpus; i++)
		if (*v->bus[device] && !strcasecmp(facts->gpu[i].bus, v->bus[device])) {
			*index = i;
			return lane(facts->gpu[i].generation) * facts->gpu[i].width;
		}
	return 0;
}

static void take(void *arg, char *line)
{
	struct speed *v = arg;
	char *f[5];
	doctor_fields(line, f, 5);
	int device = atoi(f[1]);
	bool fits = device >= 0 && device < DEVICES;
	if (!strcmp(f[0], "none")) {
		v->none = true;
	} else if (!strcmp(f[0], "version")) {
		if (!v->d->board->facts.cuda_most)
			v->d->board->facts.cuda_most = (unsigned)atoi(f[1]);
	} else if (!strcmp(f[0], "start") && !v->staged) {
		v->start = atof(f[1]);
		v->devices = atoi(f[2]);
	} else if (!strcmp(f[0], "device") && fits) {
		v->listed = device + 1;
		snprintf(v->bus[device], sizeof(v->bus[0]), "%s", f[2]);
	} else if (!strcmp(f[0], "rate") && fits) {
		int kind = v->staged ? STAGED : !strcmp(f[2], "pinned") ? PINNED : PAGEABLE;
		v->rate[device][kind][!strcmp(f[3], "from")] = atof(f[4]);
	} else if (!strcmp(f[0], "error") && !*v->error) {
		snprintf(v->error, sizeof(v->error), "%s: %s (%s)", f[1], f[3], f[2]);
		v->failed = true;
	}
}

/* What libturbo says on stderr: "libturbo[123]: warn: text". */
static void take_words(void *arg, char *line)
{
	struct speed *v = arg;
	char *text = strstr(line, "libturbo");
	if (text && (text = strstr(text, "warn: ")) && v->said++ < 5)
		doctor_say(v->d, F_says, DOCTOR_WARN, NULL, "%s", text + strlen("warn: "));
}

static void judge_start(struct doctor *d, const struct speed *v, int status)
{
	if (v->failed && !d->board->facts.expected && strstr(v->error, "NO_DEVICE")) {
		doctor_say(d, F_cuda_start, DOCTOR_NOT_HERE, NULL, "the driver's library has no device");
		return;
	}
	if (v->failed) {
		doctor_say(d, F_cuda_start, DOCTOR_FAIL, NULL, "%s", v->error);
		return;
	}
	if (status >= 128) {
		doctor_say(d, F_cuda_start, DOCTOR_FAIL, NULL,
				   "the driver ended the process that measured, with signal %d", status - 128);
		return;
	}
	if (!v->listed) {
		doctor_say(d, F_cuda_start, DOCTOR_FAIL, NULL, "the driver has no device");
		return;
	}
	struct finding *f = doctor_say(d, F_cuda_start, v->start > START_SECONDS ? DOCTOR_WARN : DOCTOR_OK, NULL,
								   "%.1f s to the first context, %d device%s", v->start, v->devices,
								   v->devices == 1 ? "" : "s");
	if (v->start > START_SECONDS)
		doctor_do(f, "Turn persistence on; name only the devices that are needed in CUDA_VISIBLE_DEVICES.");
	doctor_value(f, "seconds", v->start);
}

static void values(struct finding *f, const double rate[2])
{
	doctor_value(f, "to_device_gbps", rate[0]);
	doctor_value(f, "from_device_gbps", rate[1]);
}

static void judge_pinned(struct doctor *d, const struct speed *v, int device, const char *where)
{
	const double *rate = v->rate[device][PINNED];
	unsigned index = 0;
	double most = link_of(v, device, &index), low = rate[0] < rate[1] ? rate[0] : rate[1];
	char of[96] = "";
	if (!(low > 0))
		return;
	if (most > 0)
		snprintf(of, sizeof(of), " (gen %u x%u: %.0f)", d->board->facts.gpu[index].generation,
				 d->board->facts.gpu[index].width, most);
	enum doctor_level level = !(most > 0) || low >= GOOD_SHARE * most ? DOCTOR_OK
							  : low >= BAD_SHARE * most               ? DOCTOR_WARN
																	  : DOCTOR_FAIL;
	struct finding *f =
		doctor_say(d, F_pinned, level, where, "%.1f GB/s to, %.1f from the device%s", rate[0], rate[1], of);
	values(f, rate);
	doctor_value(f, "link_gbps", most);
}

static void judge_staged(struct doctor *d, const struct speed *v, int device, const char *where)
{
	const double *rate = v->rate[device][STAGED], *pinned = v->rate[device][PINNED],
				 *pageable = v->rate[device][PAGEABLE];
	if (!(rate[0] > 0) || !(rate[1] > 0))
		return;
	bool slow = false;
	for (int i = 0; i < 2; i++) /* where the driver itself is fast, there is nothing to gain */
		slow |= rate[i] < STAGED_SHARE * pinned[i] && rate[i] < 1.5 * pageable[i];
	struct finding *f =
		doctor_say(d, F_staged, slow ? DOCTOR_WARN : DOCTOR_OK, where,
				   "%.1f GB/s to, %.1f from the device (driver x %.1f, x %.1f)", rate[0], rate[1],
				   units_ratio(rate[0], pageable[0]), units_ratio(rate[1], pageable[1]));
	values(f, rate);
}

static void judge_device(struct doctor *d, const struct speed *v, int device)
{
	char where[16] = "";
	const double *rate = v->rate[device][PAGEABLE];
	unsigned index = (unsigned)device;
	link_of(v, device, &index); /* CUDA's order may be another than NVML's */
	snprintf(where, sizeof(where), "GPU %u", index);
	judge_pinned(d, v, device, where);
	if (rate[0] > 0)
		values(doctor_say(d, F_pageable, DOCTOR_OK, where, "%.1f GB/s to, %.1f from the device", rate[0],
						  rate[1]),
			   rate);
	judge_staged(d, v, device, where);
}

void probe_bandwidth(struct doctor *d)
{
	static struct speed v;
	char preload[8192];
	v.d = d;
	struct doctor_start bare = {.argv = doctor_self("copies"), .clean = true, .out = take, .arg = &v};
	int status = doctor_start(&bare);
	if (v.none) {
		doctor_say(d, F_cuda_start, DOCTOR_NOT_HERE, NULL, "no libcuda.so.1");
		return;
	}
	judge_start(d, &v, status);
	if (v.listed && doctor_preload(preload, sizeof(preload))) {
		v.staged = true;
		struct doctor_start turbo = {
			.argv = doctor_self("staged"), .preload = preload, .out = take, .err = take_words, .arg = &v};
		doctor_start(&turbo);
	}
	for (int i = 0; i < v.listed; i++)
		judge_device(d, &v, i);
}
