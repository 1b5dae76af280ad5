/* mounts.c - which file system a path is on. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "doctor.h"

static bool is_network(const char *type)
{
	static const char *const types[] = {"nfs",  "nfs4",     "cifs",   "smb3",      "lustre",
										"gpfs", "beegfs",   "ceph",   "glusterfs", "9p",
										"afs",  "virtiofs", "wekafs", "orangefs"};
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		if (!strcmp(type, types[i]))
			return true;
	return !strncmp(type, "fuse", 4); /* s3fs, gcsfuse, sshfs */
}

/* \040 and the like, as /proc/mounts writes blanks. */
static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] && s[3]) {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

bool doctor_mount_of(const struct doctor *d, const char *path, struct doctor_mount *m)
{
	char file[PATH_MAX], real[PATH_MAX], *line = NULL;
	size_t size = 0, best = 0;
	bool found = false;
	doctor_path(d, file, sizeof(file), "/proc/self/mounts");
	FILE *f = fopen(file, "re");
	if (!f)
		return false;
	if (!realpath(path, real))
		snprintf(real, sizeof(real), "%s", path);
	while (getline(&line, &size, f) > 0) {
		char at[512], type[64], options[512];
		if (sscanf(line, "%*s %511s %63s %511s", at, type, options) != 3)
			continue;
		unescape(at);
		size_t n = strcmp(at, "/") ? strlen(at) : 0;
		/* Of two at the same place the later one is on top. */
		if (n < best || strncmp(real, at, n) || (n && real[n] && real[n] != '/'))
			continue;
		best = n;
		found = true;
		snprintf(m->type, sizeof(m->type), "%s", type);
		snprintf(m->at, sizeof(m->at), "%s", at);
		snprintf(m->options, sizeof(m->options), "%s", options);
	}
	free(line);
	fclose(f);
	m->network = found && is_network(m->type);
	return found;
}

/* size=65536k of a tmpfs; 0: none. */
static double size_option(const char *options)
{
	const char *at = strstr(options, "size=");
	if (!at || (at != options && at[-1] != ','))
		return 0;
	char *end;
	double n = strtod(at + 5, &end);
	return *end == 'k' ? n * 1024 : *end == 'm' ? n * 1048576 : *end == 'g' ? n * 1073741824 : n;
}

bool doctor_space(const struct doctor *d, const char *path, double *size, double *available)
{
	struct doctor_mount m;
	struct statvfs st;
	char real[PATH_MAX];
	doctor_path(d, real, sizeof(real), "%s", path);
	if (statvfs(real, &st) != 0)
		return false;
	*size = (double)st.f_blocks * (double)st.f_frsize;
	*available = (double)st.f_bavail * (double)st.f_frsize;
	double said = doctor_mount_of(d, path, &m) ? size_option(m.options) : 0;
	if (said > 0 && said < *size) {
		*size = said;
		*available = *available < said ? *available : said;
	}
	return true;
}
