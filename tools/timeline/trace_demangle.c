/*
 * trace_demangle.c - C++ names as people write them, where there is a C++ library to ask.
 *
 * A name of a few hundred bytes can stand for one of gigabytes, and demanglers have had their faults, so a child
 * does it: one that takes too long or dies costs that name, which is then shown as it is. The child lives until
 * this process ends, or is asked for another after a failure.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/timeline/trace_impl.h"

#define MANGLED_MAX 16384 /* longer ones are shown as they are */
#define NAME_MAX_BYTES 65536
#define ANSWER_MS 3000
#define CHILD_BYTES (512ul << 20)
/* A sanitizer's own memory is far above any limit. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define LIMIT_MEMORY 0
#elif defined(__has_feature)
#define LIMIT_MEMORY !(__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define LIMIT_MEMORY 1
#endif
#define CHILDREN_MAX 8 /* a file whose names kill more is not worth the time */

typedef char *demangle_function(const char *mangled, char *buf, size_t *size, int *status);

static struct {
	demangle_function *function;
	bool asked; /* for the library */
	pid_t pid;  /* 0: no child */
	int socket;
	unsigned children; /* so far */
} demangler = {.socket = -1};

/* ---- the child ---- */

static void answer(int socket, const char *mangled)
{
	int status = -1;
	char *name = demangler.function(mangled, NULL, NULL, &status);
	size_t n = name && status == 0 ? strlen(name) : 0;
	if (n > NAME_MAX_BYTES)
		n = 0;
	if (send(socket, name, n, MSG_NOSIGNAL) < 0)
		_exit(1);
	free(name);
}

static void serve(int socket)
{
	static char mangled[MANGLED_MAX + 1];
	const struct rlimit memory = {CHILD_BYTES, CHILD_BYTES}, core = {0, 0};
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (LIMIT_MEMORY)
		setrlimit(RLIMIT_DATA, &memory);
	setrlimit(RLIMIT_CORE, &core);
	/* Faults here are nobody's business: no handler of the parent's, no report. */
	for (int sig = 1; sig < 32; sig++)
		signal(sig, SIG_DFL);
	for (;;) {
		ssize_t n = recv(socket, mangled, sizeof(mangled) - 1, 0);
		if (n <= 0)
			_exit(0);
		mangled[n] = '\0';
		answer(socket, mangled);
	}
}

/* ---- the parent ---- */

static void end_child(void)
{
	if (!demangler.pid)
		return;
	kill(demangler.pid, SIGKILL);
	close(demangler.socket);
	while (waitpid(demangler.pid, NULL, 0) < 0 && errno == EINTR)
		;
	demangler.pid = 0;
	demangler.socket = -1;
}

static bool have_library(void)
{
	if (!demangler.asked) {
		demangler.asked = true;
		void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
		if (library)
			demangler.function = (demangle_function *)dlsym(library, "__cxa_demangle");
	}
	return demangler.function != NULL;
}

static bool have_child(void)
{
	int pair[2];
	if (demangler.pid)
		return true;
	if (!have_library() || demangler.children == CHILDREN_MAX ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		close(pair[0]);
		serve(pair[1]);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return false;
	}
	if (!demangler.children++)
		atexit(end_child);
	demangler.pid = pid;
	demangler.socket = pair[0];
	return true;
}

/* In fresh memory; NULL: it stays as it is. */
static char *demangle(const char *mangled)
{
	static char buf[NAME_MAX_BYTES];
	size_t n = strlen(mangled);
	if (strncmp(mangled, "_Z", 2) || n > MANGLED_MAX || !have_child())
		return NULL;
	struct pollfd p = {.fd = demangler.socket, .events = POLLIN};
	ssize_t got = -1;
	if (send(demangler.socket, mangled, n, MSG_NOSIGNAL) == (ssize_t)n && poll(&p, 1, ANSWER_MS) == 1)
		got = recv(demangler.socket, buf, sizeof(buf), MSG_DONTWAIT);
	if (got < 0) {
		end_child();
		return NULL;
	}
	/* Empty: not a name. A child that died looks the same, and the next send finds it. */
	char *name = got ? strndup(buf, (size_t)got) : NULL;
	if (name)
		trace_printable(name, strlen(name));
	return name;
}

const char *trace_demangled(struct trace *t, uint32_t entry_index)
{
	if (entry_index == 0 || entry_index >= t->entries)
		return "unknown";
	const char *mangled = trace_name(t, t->entry[entry_index].name);
	if (!t->demangled)
		t->demangled = calloc(t->entries, sizeof(*t->demangled));
	if (!t->demangled)
		return mangled;
	char **slot = &t->demangled[entry_index];
	if (!*slot)
		*slot = demangle(mangled);
	if (!*slot)
		*slot = strdup(mangled); /* not asked again */
	return *slot ? *slot : mangled;
}
