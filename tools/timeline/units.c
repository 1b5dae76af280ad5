/*
 * units.c - figures as people read them.
 */
#include "units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static struct units_text scaled(double v, double base, const char *const *unit)
{
	struct units_text t;
	/* 999.6 would be printed as 1000. */
	for (; v >= base - 0.5 && unit[1]; unit++)
		v /= base;
	snprintf(t.s, sizeof(t.s), "%.*f%s", **unit == '\0' || v >= 99.95 ? 0 : v < 9.995 ? 2 : 1, v, *unit);
	return t;
}

struct units_text units_time(double ns)
{
	static const char *const unit[] = {" ns", " us", " ms", " s", NULL};
	struct units_text t = scaled(ns, 1000, unit);
	if (ns < 999.5)
		snprintf(t.s, sizeof(t.s), "%.0f ns", ns);
	else if (ns >= 1e12)
		snprintf(t.s, sizeof(t.s), "%.0f s", ns / 1e9);
	return t;
}

struct units_text units_bytes(double bytes)
{
	static const char *const unit[] = {" B", " kB", " MB", " GB", " TB", " PB", NULL};
	struct units_text t = scaled(bytes, 1000, unit);
	if (bytes < 999.5)
		snprintf(t.s, sizeof(t.s), "%.0f B", bytes);
	return t;
}

struct units_text units_rate(double gbps)
{
	struct units_text t = units_bytes(gbps * 1e9);
	strcat(t.s, "/s");
	return t;
}

struct units_text units_gib(double bytes)
{
	struct units_text t;
	double gib = bytes / (1 << 30);
	snprintf(t.s, sizeof(t.s), "%.*f GiB", gib < 9.995 ? 2 : gib < 99.95 ? 1 : 0, gib);
	return t;
}

struct units_text units_count(uint64_t n)
{
	struct units_text t;
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%" PRIu64, n), out = 0;
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			t.s[out++] = ',';
		t.s[out++] = digits[i];
	}
	t.s[out] = '\0';
	return t;
}

struct units_text units_short(double n)
{
	static const char *const unit[] = {"", " k", " M", " G", " T", NULL};
	return scaled(n, 1000, unit);
}

struct units_text units_share(double share)
{
	struct units_text t;
	double percent = share * 100;
	snprintf(t.s, sizeof(t.s), "%.*f %%", percent < 9.95 && percent > 0 ? 1 : 0, percent);
	return t;
}

double units_ratio(double part, double whole)
{
	return whole > 0 ? part / whole : 0;
}
