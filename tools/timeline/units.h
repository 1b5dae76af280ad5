/*
 * units.h - figures as people read them: three digits and a unit. Returned by value: `units_time(ns).s` lives to the
 * end of the full expression.
 */
#ifndef TURBO_UNITS_H
#define TURBO_UNITS_H

#include <stdint.h>

struct units_text {
	char s[32];
};

struct units_text units_time(double ns);       /* "1.23 ms" */
struct units_text units_bytes(double bytes);   /* "38.5 MB", powers of 1000 */
struct units_text units_rate(double gbps);     /* "189 GB/s" */
struct units_text units_gib(double bytes);     /* "60.4 GiB": device memory */
struct units_text units_count(uint64_t n);     /* "1,234,567" */
struct units_text units_short(double n);       /* "1.23 M" */
struct units_text units_share(double share);   /* 0.4321 is "43 %", 0.0123 "1.2 %" */
double units_ratio(double part, double whole); /* 0 where whole is 0 */

#endif
