/*
 * program.c - CMD of `turbo run`: where it is, whether libturbo can be loaded
 * into it, and which sanitizer runtimes must stand before libturbo.
 *
 * gcc's sanitizer runtimes refuse to start unless they are the first object
 * after the program, so plain LD_PRELOAD of anything else breaks such programs.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "turbo.h"

extern char **environ;

#define SCRIPT_DEPTH 4 /* as the kernel: an interpreter may itself be a script */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* 0 when `path` is a file that we may execute, else an errno. */
static int executable(const char *path)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return errno;
	if (!S_ISREG(st.st_mode))
		return S_ISDIR(st.st_mode) ? EISDIR : EACCES;
	return access(path, X_OK) == 0 ? 0 : errno;
}

/* As a shell: a name without a slash is looked up in PATH. A file that may not be executed is
 * remembered while a later folder may still have it; a folder that may not be searched is not. */
static int find_in_path(const char *cmd, char *buf, size_t size)
{
	if (strchr(cmd, '/')) {
		if (strlen(cmd) >= size)
			return ENAMETOOLONG;
		strcpy(buf, cmd);
		return executable(cmd);
	}
	const char *path = getenv("PATH");
	int err = ENOENT;
	if (!path)
		path = "/bin:/usr/bin";
	for (const char *p = path;; p++) {
		size_t n = strcspn(p, ":");
		int len = snprintf(buf, size, "%.*s%s%s", (int)n, p, n ? "/" : "", cmd);
		if (*cmd && len > 0 && (size_t)len < size) {
			int e = executable(buf);
			if (e == 0)
				return 0;
			if (e == EACCES && access(buf, F_OK) == 0)
				err = EACCES;
		}
		p += n;
		if (!*p)
			return err;
	}
}

/* `#!/usr/bin/env [-S] [A=B]… NAME`: NAME is the program in the end. */
static bool env_target(char *args, char *image, size_t size)
{
	char *save = NULL;
	for (char *word = strtok_r(args, " \t", &save); word; word = strtok_r(NULL, " \t", &save)) {
		if (word[0] == '-' || strchr(word, '='))
			continue;
		return find_in_path(word, image, size) == 0;
	}
	return false;
}

/* When `image` is a script, replaces it by its interpreter: 1 done, 0 not a script, or -errno. */
static int follow_script(char *image, size_t size)
{
	char line[PATH_MAX + 256];
	int fd = open(image, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return 0; /* executable but not readable: the kernel will judge */
	ssize_t n = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (n < 2 || line[0] != '#' || line[1] != '!')
		return 0;
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	char *interp = line + 2 + strspn(line + 2, " \t");
	char *args = interp + strcspn(interp, " \t");
	if (*args)
		*args++ = '\0';
	if (!*interp || strlen(interp) >= size)
		return -ENOEXEC;
	strcpy(image, interp);
	int err = executable(image);
	if (err)
		return -err;
	char target[PATH_MAX];
	if (!strcmp(base_of(image), "env") && env_target(args, target, sizeof(target)) && strlen(target) < size)
		strcpy(image, target);
	return 1;
}

/* Will the kernel start it in secure mode? nosuid mounts are not looked at. */
static bool gains_privilege(const char *path)
{
	struct stat st;
	char caps[64];
	if (stat(path, &st) != 0)
		return false;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return true;
	if ((st.st_mode & (S_ISGID | S_IXGRP)) == (S_ISGID | S_IXGRP) && st.st_gid != getgid())
		return true;
	return getuid() != 0 && getxattr(path, "security.capability", caps, sizeof(caps)) > 0;
}

static bool is_runtime(const char *soname)
{
	static const char *const prefix[] = {"libasan.so", "libtsan.so",   "libubsan.so",
										 "liblsan.so", "libhwasan.so", "libclang_rt."};
	for (size_t i = 0; i < sizeof(prefix) / sizeof(prefix[0]); i++)
		if (!strncmp(soname, prefix[i], strlen(prefix[i])))
			return true;
	return false;
}

/* Runs `interp --list image`, which maps the libraries and runs none of their code; the
 * output goes to buf. Only the loader itself knows RUNPATH, its cache and LD_LIBRARY_PATH. */
static bool loader_list(const char *interp, const char *image, char *buf, size_t size)
{
	int fd[2], status;
	pid_t pid;
	size_t have = 0;
	posix_spawn_file_actions_t fa;
	char *argv[] = {(char *)interp, (char *)"--list", (char *)image, NULL};
	if (pipe2(fd, O_CLOEXEC) != 0)
		return false;
	posix_spawn_file_actions_init(&fa);
	posix_spawn_file_actions_adddup2(&fa, fd[1], 1);
	posix_spawn_file_actions_addopen(&fa, 2, "/dev/null", O_WRONLY, 0);
	int err = posix_spawn(&pid, interp, &fa, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&fa);
	close(fd[1]);
	while (!err && have < size - 1) {
		ssize_t n = read(fd[0], buf + have, size - 1 - have);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		have += (size_t)n;
	}
	buf[have] = '\0';
	close(fd[0]);
	if (err)
		return false;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return false;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Finds "NAME => PATH (" in a listing. */
static bool listed_path(const char *listing, const char *name, char *buf, size_t size)
{
	char key[160];
	snprintf(key, sizeof(key), "\t%s => ", name);
	const char *at = strstr(listing, key);
	if (!at)
		return false;
	at += strlen(key);
	size_t n = strcspn(at, " \n");
	if (n == 0 || n >= size || *at != '/')
		return false;
	memcpy(buf, at, n);
	buf[n] = '\0';
	return true;
}

/* A runtime that the loader cannot find is left out: then CMD fails as it would bare. */
static void find_runtimes(const struct elf_facts *elf, struct program *p)
{
	static char listing[1 << 16];
	bool have_listing = false;
	for (size_t i = 0; i < elf->needed_count; i++) {
		char path[PATH_MAX];
		if (!is_runtime(elf->needed[i]))
			continue;
		if (!have_listing && !loader_list(elf->interp, p->image, listing, sizeof(listing)))
			return;
		have_listing = true;
		size_t used = strlen(p->runtimes);
		if (listed_path(listing, elf->needed[i], path, sizeof(path)) &&
			used + strlen(path) + 2 < sizeof(p->runtimes))
			stpcpy(stpcpy(p->runtimes + used, used ? ":" : ""), path);
	}
}

static void judge(struct program *p)
{
	static struct elf_facts elf;
	p->fit = PROGRAM_FITS;
	if (gains_privilege(p->image)) {
		p->fit = PROGRAM_SETUID;
		return;
	}
	if (elf_read(p->image, &elf) <= 0)
		return;
	if (!elf.native)
		p->fit = PROGRAM_FOREIGN;
	else if (!elf.interp[0])
		p->fit = elf.loader_itself ? PROGRAM_FITS : PROGRAM_STATIC;
	else if (!strncmp(base_of(elf.interp), "ld-musl", 7))
		p->fit = PROGRAM_OTHER_LIBC;
	else
		find_runtimes(&elf, p);
}

int program_inspect(const char *cmd, struct program *p)
{
	memset(p, 0, sizeof(*p));
	int err = find_in_path(cmd, p->path, sizeof(p->path));
	if (err)
		return err;
	strcpy(p->image, p->path);
	for (int depth = 0; depth < SCRIPT_DEPTH; depth++) {
		int followed = follow_script(p->image, sizeof(p->image));
		if (followed < 0)
			return -followed;
		if (followed == 0)
			break;
	}
	judge(p);
	return 0;
}
