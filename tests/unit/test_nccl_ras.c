/* test_nccl_ras.c - NCCL's RAS service asked: one that answers, one that lies, one that hangs, none. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>

#include "log_fixture.h"
#include "policy/nccl/ras.h"

#define LIMIT 300 /* ms, where it is not the promise itself that is tested */

static const char whole[] = "NCCL version 2.28.3 compiled with CUDA 12.9\n"
							"\n"
							"Communicators... (1.00s)\n"
							"Errors\n"
							"======\n"
							"INCOMPLETE\n"
							"  Missing communicator data from 2 job processes\n"
							"  Process 3487984 on node 172.16.64.213 managing GPU 5\n"
							"\n"
							"DEAD\n"
							"  1 job process is considered dead (unreachable via the RAS network)\n"
							"\n"
							"#0-0 (cf264af53edbe986) INCOMPLETE\n"
							"  Missing communicator data from 3 ranks\n";

/* ---- a service ---- */

struct service {
	int listener;
	pthread_t thread;
	_Atomic bool stop;
	unsigned silent;      /* connections that it takes and forgets first */
	const char *greeting; /* NULL: none */
	const char *ok;       /* to TIMEOUT */
	const char *answer;   /* over and over `times`, a byte every `drip` ms if that is not 0 */
	unsigned times, drip;
	bool hangs;         /* after the answer */
	char heard[3][128]; /* lines of the last one */
	unsigned lines, connections;
};

static bool hear(int fd, char line[128])
{
	unsigned n = 0;

	while (n < 127 && recv(fd, line + n, 1, 0) == 1)
		if (line[n++] == '\n')
			break;
	line[n] = '\0';
	return n && line[n - 1] == '\n';
}

static bool say(struct service *s, int fd, const char *text, unsigned drip)
{
	for (size_t left = strlen(text), n; left; left -= n, text += n) {
		n = drip ? 1 : left;
		if (s->stop || send(fd, text, n, MSG_NOSIGNAL) != (ssize_t)n)
			return false;
		usleep(drip * 1000);
	}
	return true;
}

static void serve_one(struct service *s, int fd)
{
	if (!hear(fd, s->heard[s->lines++]) || (s->greeting && !say(s, fd, s->greeting, 0)) || !s->answer)
		return;
	if (!hear(fd, s->heard[s->lines++]) || !say(s, fd, s->ok, 0) || !hear(fd, s->heard[s->lines++]))
		return;
	for (unsigned i = 0; i < s->times; i++)
		if (!say(s, fd, s->answer, s->drip))
			return;
}

static void *serve(void *arg)
{
	struct service *s = arg;
	int kept[16], n = 0, fd;

	while (n < 16 && (fd = accept(s->listener, NULL, NULL)) >= 0) {
		kept[n++] = fd;
		if (s->connections++ < s->silent)
			continue;
		s->lines = 0;
		serve_one(s, fd);
		if (!s->hangs)
			close(kept[--n]);
	}
	while (n)
		close(kept[--n]);
	return NULL;
}

static unsigned serve_at(struct service *s)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t bytes = sizeof(a);

	s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(s->listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(s->listener, 16), 0);
	assert_int_equal(getsockname(s->listener, (struct sockaddr *)&a, &bytes), 0);
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
	return ntohs(a.sin_port);
}

static void serve_end(struct service *s)
{
	s->stop = true;
	shutdown(s->listener, SHUT_RDWR);
	pthread_join(s->thread, NULL);
	close(s->listener);
}

/* ---- asking ---- */

static struct ras_answer a;
static double took;

static bool always(void *arg)
{
	(void)arg;
	return true;
}

static void set_up(const char *address, const char *enable)
{
	if (address)
		setenv("NCCL_RAS_ADDR", address, 1);
	else
		unsetenv("NCCL_RAS_ADDR");
	if (enable)
		setenv("NCCL_RAS_ENABLE", enable, 1);
	else
		unsetenv("NCCL_RAS_ENABLE");
	ras_start();
}

static unsigned descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void ask_for(unsigned limit)
{
	double from = seconds();

	memset(&a, 0x55, sizeof(a));
	ras_ask(&a, limit, always, NULL);
	took = seconds() - from;
	assert_true(took < limit / 1000.0 + 0.25);
	assert_int_equal(strlen(a.text), a.bytes);
}

/* The service is gone afterwards. */
static void ask(struct service *s, const char *host)
{
	char address[80];
	unsigned before = descriptors();

	snprintf(address, sizeof(address), "%s:%u", host, serve_at(s));
	set_up(address, NULL);
	ask_for(LIMIT);
	assert_string_equal(a.where, address);
	serve_end(s);
	assert_int_equal(descriptors(), before);
}

static struct service good(void)
{
	return (struct service){.greeting = "SERVER PROTOCOL 2\n", .ok = "OK\n", .answer = whole, .times = 1};
}

static void test_good(void **state)
{
	static const char *const host[] = {"localhost", "127.0.0.1", "[::ffff:127.0.0.1]"};
	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct service s = good();
		ask(&s, host[i]);
		assert_null(a.none);
		assert_null(a.cut);
		assert_string_equal(a.text, whole);
		assert_int_equal(a.silent, 2);
		assert_int_equal(a.dead, 1);
		assert_int_equal(s.lines, 3);
		assert_string_equal(s.heard[0], "CLIENT PROTOCOL 2\n");
		assert_string_equal(s.heard[1], "TIMEOUT 1\n");
		assert_string_equal(s.heard[2], "VERBOSE STATUS\n");
	}
}

/* One that knows no TIMEOUT, of a later protocol. */
static void test_other_protocol(void **state)
{
	struct service s = good();
	(void)state;
	s.greeting = "SERVER PROTOCOL 17\n";
	s.ok = "ERROR: Unknown command\n";
	ask(&s, "127.0.0.1");
	assert_string_equal(a.text, whole);
}

/* The first two connections came to processes that are stopped. */
static void test_another_process(void **state)
{
	struct service s = good();
	(void)state;
	s.silent = 2;
	ask(&s, "127.0.0.1");
	assert_string_equal(a.text, whole);
	assert_int_equal(s.connections, 3);
}

static void test_slow(void **state)
{
	struct service s = good();
	(void)state;
	s.drip = 20;
	ask(&s, "127.0.0.1");
	assert_null(a.none);
	assert_string_equal(a.cut, "it had not said more in time");
	assert_true(a.bytes > 0 && a.bytes < 40);
	assert_memory_equal(a.text, whole, a.bytes);
}

static void test_hangs(void **state)
{
	struct service never = {.hangs = true}, greets = good(), half = good();
	(void)state;
	ask(&never, "127.0.0.1");
	assert_string_equal(a.none, "it does not answer");
	assert_true(took > LIMIT / 1000.0 * 0.9);

	greets.hangs = true;
	greets.times = 0;
	ask(&greets, "127.0.0.1");
	assert_string_equal(a.none, "it greets, but does not answer in time");

	half.hangs = true;
	ask(&half, "127.0.0.1");
	assert_null(a.none);
	assert_non_null(a.cut);
	assert_string_equal(a.text, whole);
	assert_int_equal(a.dead, 1);
}

static void test_closes(void **state)
{
	struct service early = {0}, late = good();
	(void)state;
	ask(&early, "127.0.0.1");
	assert_string_equal(a.none, "it closed the connection");
	late.times = 0;
	ask(&late, "127.0.0.1");
	assert_string_equal(a.none, "it closed the connection without an answer");
}

static void test_garbage(void **state)
{
	char longer[600];
	struct service other = {.greeting = "HTTP/1.1 400 Bad Request\n", .hangs = true},
				   endless = {.greeting = longer, .hangs = true};
	(void)state;
	ask(&other, "127.0.0.1");
	assert_string_equal(a.none, "what listens there is no RAS service");
	assert_int_equal(other.connections, 1);
	memset(longer, 'x', sizeof(longer));
	longer[599] = '\0';
	ask(&endless, "127.0.0.1");
	assert_string_equal(a.none, "what listens there is no RAS service");
}

static void test_huge(void **state)
{
	struct service s = good();
	(void)state;
	s.times = 1000;
	ask(&s, "127.0.0.1");
	assert_null(a.none);
	assert_int_equal(a.bytes, RAS_BYTES);
	assert_string_equal(a.cut, "what it said further is left out");
}

static void test_figures(void **state)
{
	static const char odd[] = "  99999999999999999999 job processes are considered dead\n"
							  "  Missing communicator data from many job processes\n"
							  "  Missing communicator data from 3\n"
							  "  4 job processes\n considered dead\n"
							  "5 job processes are considered dead\n"
							  "  7 job processes are considered dead";
	struct service s = good(), none = good();
	(void)state;
	s.answer = odd;
	ask(&s, "127.0.0.1");
	assert_int_equal(a.silent, 0);
	assert_int_equal(a.dead, 7);
	none.answer = "No communicator data collected!\n";
	ask(&none, "127.0.0.1");
	assert_int_equal(a.silent + a.dead, 0);
}

static void test_refused(void **state)
{
	char address[64];
	struct service s = {0};
	(void)state;
	unsigned port = serve_at(&s);
	serve_end(&s);
	for (unsigned i = 0; i < 2; i++) {
		snprintf(address, sizeof(address), "%s:%u", i ? "localhost" : "127.0.0.1", port);
		set_up(address, NULL);
		ask_for(LIMIT);
		assert_string_equal(a.none, "nothing listens there");
		assert_true(took < 0.1);
	}
}

static bool twice(void *left)
{
	return *(unsigned *)left && (*(unsigned *)left)--;
}

static void test_ended(void **state)
{
	struct service s = {.hangs = true};
	unsigned left = 2;
	char address[64];
	(void)state;
	snprintf(address, sizeof(address), "127.0.0.1:%u", serve_at(&s));
	set_up(address, NULL);
	double from = seconds();
	ras_ask(&a, RAS_MS, twice, &left);
	assert_true(seconds() - from < 0.4);
	assert_non_null(a.none);
	serve_end(&s);
}

static void test_environment(void **state)
{
	static const char *const bad[] = {
		"node-7.example:28028", "28028",  "localhost", "localhost:", "127.0.0.1:0",
		"127.0.0.1:65536",      ":28028", "[::1:5",    "1.2.3.4:5x"};
	(void)state;
	_Static_assert(RAS_MS <= 2000, "a report is not held up for longer");
	set_up(NULL, NULL);
	assert_true(ras_wanted(22400, 1));
	assert_false(ras_wanted(22399, 1));
	assert_false(ras_wanted(0, 1));
	assert_false(ras_wanted(22807, 0));
	set_up(NULL, "0");
	assert_false(ras_wanted(22807, 1));
	set_up(NULL, "1");
	assert_true(ras_wanted(22807, 1));
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		set_up(bad[i], "");
		assert_true(ras_wanted(22807, 1));
		ask_for(LIMIT);
		assert_string_equal(a.where, bad[i]);
		assert_string_equal(a.none, "that is no address with a port, and names are not looked up");
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),    cmocka_unit_test(test_other_protocol),
		cmocka_unit_test(test_slow),    cmocka_unit_test(test_another_process),
		cmocka_unit_test(test_hangs),   cmocka_unit_test(test_closes),
		cmocka_unit_test(test_garbage), cmocka_unit_test(test_huge),
		cmocka_unit_test(test_figures), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_ended),   cmocka_unit_test(test_environment),
	};

	return cmocka_run_group_tests(tests, log_set_up, log_clean_up);
}
