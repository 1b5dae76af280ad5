/*
 * gpu.c - one GPU's heat, clocks, power, memory errors and modes.
 */
#include <string.h>

#include "doctor.h"
#include "nvml.h"
#include "tools/timeline/units.h"

#define DEGREES_NEAR 5    /* below the limit */
#define SLOWDOWN_USUAL 90 /* where NVML does not know the limit */

static void temperature(const struct gpu *g)
{
	unsigned now, limit;
	if (NVML(g->nvml, nvmlDeviceGetTemperature, g->device, 0, &now) != NVML_OK)
		return;
	if (NVML(g->nvml, nvmlDeviceGetTemperatureThreshold, g->device, NVML_TEMPERATURE_SLOWDOWN, &limit) !=
			NVML_OK ||
		!limit)
		limit = SLOWDOWN_USUAL;
	enum doctor_level level = now >= limit                  ? DOCTOR_FAIL
							  : now + DEGREES_NEAR >= limit ? DOCTOR_WARN
															: DOCTOR_OK;
	struct finding *f =
		doctor_say(g->d, F_temperature, level, g->where, "%u C; it slows down at %u C", now, limit);
	doctor_value(f, "celsius", now);
	doctor_value(f, "slowdown_celsius", limit);
}

static void reasons(const struct gpu *g)
{
	static const struct {
		uint64_t bit;
		enum doctor_level level;
		const char *what;
	} known[] = {
		{NVML_REASON_HW_THERMAL, DOCTOR_FAIL, "heat (hardware)"},
		{NVML_REASON_POWER_BRAKE, DOCTOR_FAIL, "power brake of the machine"},
		{NVML_REASON_HW_SLOWDOWN, DOCTOR_FAIL, "hardware slowdown"},
		{NVML_REASON_SW_THERMAL, DOCTOR_WARN, "heat (driver)"},
		{NVML_REASON_POWER_CAP, DOCTOR_WARN, "the power limit is reached"},
	};
	uint64_t bits = 0;
	char text[200] = "";
	enum doctor_level level = DOCTOR_OK;
	if (NVML(g->nvml, nvmlDeviceGetCurrentClocksEventReasons, g->device, &bits) != NVML_OK &&
		NVML(g->nvml, nvmlDeviceGetCurrentClocksThrottleReasons, g->device, &bits) != NVML_OK)
		return;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t used = strlen(text);
		if (!(bits & known[i].bit))
			continue;
		snprintf(text + used, sizeof(text) - used, "%s%s", used ? ", " : "", known[i].what);
		level = known[i].level > level ? known[i].level : level;
	}
	doctor_say(g->d, F_throttle, level, g->where, "%s", *text ? text : "by nothing");
}

static void clocks(const struct gpu *g)
{
	unsigned now, most, set = 0, usual = 0;
	if (NVML(g->nvml, nvmlDeviceGetClockInfo, g->device, NVML_CLOCK_SM, &now) != NVML_OK ||
		NVML(g->nvml, nvmlDeviceGetMaxClockInfo, g->device, NVML_CLOCK_SM, &most) != NVML_OK)
		return;
	NVML(g->nvml, nvmlDeviceGetApplicationsClock, g->device, NVML_CLOCK_SM, &set);
	NVML(g->nvml, nvmlDeviceGetDefaultApplicationsClock, g->device, NVML_CLOCK_SM, &usual);
	bool low = set && usual && set < usual;
	struct finding *f =
		low ? doctor_say(g->d, F_clocks, DOCTOR_WARN, g->where,
						 "set to %u MHz; the default is %u, the most %u", set, usual, most)
			: doctor_say(g->d, F_clocks, DOCTOR_OK, g->where, "none: %u MHz now, %u at most", now, most);
	doctor_value(f, "sm_mhz", now);
	doctor_value(f, "sm_mhz_most", most);
}

static void power(const struct gpu *g)
{
	unsigned limit, usual;
	if (NVML(g->nvml, nvmlDeviceGetPowerManagementLimit, g->device, &limit) != NVML_OK ||
		NVML(g->nvml, nvmlDeviceGetPowerManagementDefaultLimit, g->device, &usual) != NVML_OK)
		return;
	struct finding *f =
		limit + 1000 < usual
			? doctor_say(g->d, F_power_limit, DOCTOR_WARN, g->where, "%u W; the default is %u W",
						 limit / 1000, usual / 1000)
			: doctor_say(g->d, F_power_limit, DOCTOR_OK, g->where, "%u W, the default", limit / 1000);
	doctor_value(f, "watts", limit / 1000.0);
}

void gpu_health(const struct gpu *g)
{
	int on;
	temperature(g);
	reasons(g);
	clocks(g);
	power(g);
	if (NVML(g->nvml, nvmlDeviceGetPersistenceMode, g->device, &on) == NVML_OK)
		doctor_say(g->d, F_persistence, on ? DOCTOR_OK : DOCTOR_WARN, g->where, on ? "on" : "off");
}

void gpu_memory_errors(const struct gpu *g)
{
	int current = 0, pending = 0, retired = 0;
	unsigned corrected = 0, uncorrected = 0, waiting = 0, failed = 0;
	uint64_t now = 0, ever = 0;
	int mode = NVML(g->nvml, nvmlDeviceGetEccMode, g->device, &current, &pending);
	if (mode == NVML_OK && !current)
		doctor_say(g->d, F_ecc_off, DOCTOR_WARN, g->where, pending ? "off until the GPU is reset" : "off");
	if (mode == NVML_OK && current) {
		NVML(g->nvml, nvmlDeviceGetTotalEccErrors, g->device, NVML_UNCORRECTED, NVML_VOLATILE, &now);
		NVML(g->nvml, nvmlDeviceGetTotalEccErrors, g->device, NVML_UNCORRECTED, NVML_AGGREGATE, &ever);
	}
	NVML(g->nvml, nvmlDeviceGetRemappedRows, g->device, &corrected, &uncorrected, &waiting, &failed);
	NVML(g->nvml, nvmlDeviceGetRetiredPagesPendingStatus, g->device, &retired);
	struct finding *f = NULL;
	if (now)
		f = doctor_say(g->d, F_ecc, DOCTOR_FAIL, g->where,
					   "%s uncorrected since the driver was loaded, %s ever", units_count(now).s,
					   units_count(ever).s);
	else if (failed)
		f = doctor_say(g->d, F_ecc, DOCTOR_FAIL, g->where,
					   "rows of memory could not be remapped: there are no spare ones left");
	else if (waiting || retired == 1)
		f = doctor_say(g->d, F_ecc, DOCTOR_WARN, g->where, "bad memory is put out of use at the next reset");
	else if (ever)
		f = doctor_say(g->d, F_ecc, DOCTOR_WARN, g->where, "none now; %s uncorrected ever, %u row%s remapped",
					   units_count(ever).s, corrected + uncorrected, corrected + uncorrected == 1 ? "" : "s");
	else if (mode == NVML_OK && current)
		f = doctor_say(g->d, F_ecc, DOCTOR_OK, g->where, "none, ECC is on");
	if (f && ever)
		doctor_value(f, "uncorrected", (double)ever);
}

static void mig(const struct gpu *g)
{
	unsigned current = 0, pending = 0, most = 0, parts = 0;
	nvml_device part;
	if (NVML(g->nvml, nvmlDeviceGetMigMode, g->device, &current, &pending) != NVML_OK)
		return;
	if (NVML(g->nvml, nvmlDeviceGetMaxMigDeviceCount, g->device, &most) != NVML_OK)
		most = 0;
	for (unsigned i = 0; current && i < most && i < 64; i++)
		parts += NVML(g->nvml, nvmlDeviceGetMigDeviceHandleByIndex, g->device, i, &part) == NVML_OK;
	if (!current && !pending)
		doctor_say(g->d, F_mig, DOCTOR_OK, g->where, "off: a job gets the whole GPU");
	else if (current != pending)
		doctor_say(g->d, F_mig, DOCTOR_WARN, g->where, "will be %s when the GPU is reset",
				   pending ? "on" : "off");
	else if (parts)
		doctor_say(g->d, F_mig, DOCTOR_WARN, g->where, "on: the GPU is cut into %u part%s", parts,
				   parts == 1 ? "" : "s");
	else
		doctor_say(g->d, F_mig, DOCTOR_FAIL, g->where, "on, and there is no part that could be used");
}

void gpu_mode(const struct gpu *g)
{
	static const char *const modes[] = {"shared", "exclusive, one thread", "prohibited",
										"exclusive, one process"};
	struct nvml_fabric fabric = {.state = 0};
	int mode;
	mig(g);
	if (NVML(g->nvml, nvmlDeviceGetComputeMode, g->device, &mode) == NVML_OK && mode >= 0 && mode < 4)
		doctor_say(g->d, F_compute_mode,
				   mode == 2 ? DOCTOR_FAIL
				   : mode    ? DOCTOR_WARN
							 : DOCTOR_OK,
				   g->where, "%s", modes[mode]);
	if (NVML(g->nvml, nvmlDeviceGetGpuFabricInfo, g->device, &fabric) != NVML_OK)
		return;
	if (fabric.state == NVML_FABRIC_NOT_STARTED || fabric.state == NVML_FABRIC_IN_PROGRESS)
		doctor_say(g->d, F_fabric, DOCTOR_FAIL, g->where, "%s",
				   fabric.state == NVML_FABRIC_IN_PROGRESS ? "is still being set up" : "was never set up");
	else if (fabric.state == NVML_FABRIC_COMPLETED && fabric.status != NVML_OK)
		doctor_say(g->d, F_fabric, DOCTOR_FAIL, g->where, "was set up with error %d", fabric.status);
	else if (fabric.state == NVML_FABRIC_COMPLETED)
		doctor_say(g->d, F_fabric, DOCTOR_OK, g->where, "is set up");
}
