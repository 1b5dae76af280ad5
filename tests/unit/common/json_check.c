/* json_check.c - see json_check.h. */
#include "json_check.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEPTH 32
#define KEYS 64

static const char *value(const char *s, int depth);

static const char *blank(const char *s)
{
	return s ? s + strspn(s, " \t\r\n") : NULL;
}

/* Behind a well-formed character of more than one byte; NULL: it is none. */
static const char *wide(const char *s)
{
	unsigned char c = (unsigned char)*s, d = (unsigned char)s[1];
	int more = c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 0;

	if (!more || (c == 0xe0 && d < 0xa0) || (c == 0xed && d >= 0xa0) || (c == 0xf0 && d < 0x90) ||
		(c == 0xf4 && d >= 0x90))
		return NULL;
	for (int i = 1; i <= more; i++)
		if (((unsigned char)s[i] & 0xc0) != 0x80)
			return NULL;
	return s + 1 + more;
}

static const char *string(const char *s)
{
	if (*s++ != '"')
		return NULL;
	while (s && *s != '"') {
		if ((unsigned char)*s < 0x20)
			return NULL;
		if (*s == '\\') {
			if (s[1] == 'u' && strspn(s + 2, "0123456789abcdefABCDEF") >= 4)
				s += 6;
			else
				s = s[1] && strchr("\"\\/bfnrt", s[1]) ? s + 2 : NULL;
		} else {
			s = (unsigned char)*s < 0x80 ? s + 1 : wide(s);
		}
	}
	return s ? s + 1 : NULL;
}

static const char *number(const char *s)
{
	char *end;
	size_t n = strspn(s, "-0123456789.eE+");

	if (n == 0 || (s[0] == '0' && n > 1 && s[1] != '.') || s[0] == '+')
		return NULL;
	strtod(s, &end);
	return end == s + n ? end : NULL;
}

static bool is_new(const char **key, size_t *bytes, unsigned n, const char *s, size_t length)
{
	for (unsigned i = 0; i < n && i < KEYS; i++)
		if (bytes[i] == length && !memcmp(key[i], s, length))
			return false;
	if (n < KEYS) {
		key[n] = s;
		bytes[n] = length;
	}
	return true;
}

/* An object or a list. */
static const char *many(const char *s, int depth, char close)
{
	const char *key[KEYS];
	size_t bytes[KEYS];

	s = blank(s + 1);
	if (*s == close)
		return s + 1;
	for (unsigned n = 0;; n++) {
		if (close == '}') {
			const char *from = s;
			s = string(s);
			if (!s || !is_new(key, bytes, n, from, (size_t)(s - from)))
				return NULL;
			s = blank(s);
			if (*s++ != ':')
				return NULL;
		}
		s = blank(value(blank(s), depth));
		if (!s || (*s != ',' && *s != close))
			return NULL;
		if (*s++ == close)
			return s;
		s = blank(s);
	}
}

/* Behind the value at `s`; NULL: there is none. */
static const char *value(const char *s, int depth)
{
	static const char *const word[] = {"true", "false", "null"};

	if (depth == DEPTH)
		return NULL;
	if (*s == '{' || *s == '[')
		return many(s, depth + 1, *s == '{' ? '}' : ']');
	if (*s == '"')
		return string(s);
	for (unsigned i = 0; i < 3; i++)
		if (!strncmp(s, word[i], strlen(word[i])))
			return s + strlen(word[i]);
	return number(s);
}

bool json_is_valid(const char *text)
{
	const char *end = blank(value(blank(text), 0));

	return end && !*end;
}

/* The member of the object or list at `s`, whose name or number is the first `n` bytes of `path`. */
static const char *step(const char *s, const char *path, size_t n)
{
	bool object = *s == '{';
	long left = strtol(path, NULL, 10);

	if (*s != '{' && *s != '[')
		return NULL;
	s = blank(s + 1);
	while (*s != '}' && *s != ']') {
		const char *key = s;
		if (object)
			s = blank(blank(string(s)) + 1);
		if (object ? !strncmp(key + 1, path, n) && key[1 + n] == '"' : left-- == 0)
			return s;
		s = blank(value(s, 0));
		if (*s == ',')
			s = blank(s + 1);
	}
	return NULL;
}

const char *json_at(const char *text, const char *path)
{
	static char found[4096];
	const char *s = blank(text);

	while (s && *path) {
		size_t n = strcspn(path, ".");
		s = step(s, path, n);
		path += n + (path[n] == '.');
	}
	if (!s)
		return NULL;
	snprintf(found, sizeof(found), "%.*s", (int)(value(s, 0) - s), s);
	return found;
}
