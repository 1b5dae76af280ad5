/*
 * report_json.h - what the two files of the JSON output share.
 */
#ifndef TURBO_REPORT_JSON_H
#define TURBO_REPORT_JSON_H

#include "json.h"
#include "report.h"

extern const char *const report_category_name[REPORT_CATEGORIES];

static inline double json_share(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

static inline void json_put_null(struct json *j, const char *key)
{
	json_key(j, key);
	json_null(j);
}

/* report_json.c */
/* A kernel's name in a column of JSON_LABEL: what tells it apart remains. */
#define JSON_LABEL 72
void json_put_label(struct json *j, const char *key, const char *short_name);
void json_put_time(struct json *j, const struct report_time *t);
/* report_json_gpu.c */
void json_put_gpu(struct json *j, const struct report_gpu *g);

#endif
