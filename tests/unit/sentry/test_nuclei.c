/* SPDX-License-Identifier: Apache-2.0 */
/* Nuclei that have names: they are resolved again, so that one that moves is found. */
#include "on_site.h"

#include <netdb.h>

/* ---- names, as the test wants them ---- */

static _Atomic uint32_t nucleus_at; /* the IPv4 address of nucleus.test */
static _Atomic unsigned asked;

int getaddrinfo(const char *restrict host, const char *restrict port, const struct addrinfo *restrict hints,
		struct addrinfo **restrict ret_list)
{
	struct in_addr address;
	bool named = strcmp(host, "nucleus.test") == 0;
	if (!named && inet_pton(AF_INET, host, &address) != 1)
		return EAI_NONAME;
	if (named && (hints->ai_flags & AI_NUMERICHOST) != 0)
		return EAI_NONAME;
	if (named) {
		atomic_fetch_add(&asked, 1);
		address.s_addr = htonl(atomic_load(&nucleus_at));
	}
	struct addrinfo *list = calloc(1, sizeof(*list) + sizeof(struct sockaddr_in));
	struct sockaddr_in *at = (void *)(list + 1);
	*at = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)), .sin_addr = address};
	list->ai_family = AF_INET;
	list->ai_socktype = SOCK_STREAM;
	list->ai_addr = (struct sockaddr *)at;
	list->ai_addrlen = sizeof(*at);
	*ret_list = list;
	return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
	free(list);
}

/* ---- a nucleus ---- */

static void answer_once(int listener)
{
	static const char body[] = "{\"version\": 1, \"queue_s\": 0.25}";
	char answer[256];
	int fd;
	AGAIN(fd, accept4(listener, NULL, NULL, SOCK_CLOEXEC));
	assert_true(fd >= 0);
	be_patient(fd);
	check_contains(hear_head(fd), "Host: nucleus.test:");
	snprintf(answer, sizeof(answer),
		 "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\nConnection: close\r\n\r\n%s", strlen(body), body);
	tell(fd, answer);
	must_end(fd);
	close(fd);
}

/* It is somewhere else at first, where nobody listens. */
static void one_that_moves_is_found(void **state)
{
	site s;
	uint16_t port = 0;
	char url[64];
	int listener = site_listen(&port);
	snprintf(url, sizeof(url), "http://nucleus.test:%u/nucleus", port);
	atomic_store(&nucleus_at, 0x7f000005);
	site_open(&s, ON(state),
		  (site_options){
			  .backend = {.nucleus = url},
			  .sentry = {.resolve_ns = WEIR_NS_PER_MS, .nucleus_every_ns = 20 * WEIR_NS_PER_MS}});
	CHECK_EVENTUALLY(site_backend(&s, 0).reports_missed > 0);
	assert_int_equal(site_backend(&s, 0).reports, 0);
	atomic_store(&nucleus_at, INADDR_LOOPBACK);
	answer_once(listener);
	CHECK_EVENTUALLY(site_backend(&s, 0).reports > 0);
	close(listener);
	site_close(&s);
}

/* While nothing leads to the sentry, nobody is asked for names. */
static void names_rest_with_their_sentry(void **state)
{
	site s;
	atomic_store(&nucleus_at, 0x7f000005);
	site_open(&s, ON(state),
		  (site_options){.backend = {.nucleus = "http://nucleus.test:9/nucleus"},
				 .sentry = {.resolve_ns = WEIR_NS_PER_MS}});
	unsigned before = atomic_load(&asked);
	CHECK_EVENTUALLY(atomic_load(&asked) > before + 2);
	weir_sentry_rest(s.sentry, true);
	/* One may be under way. */
	unsigned seen, still = 0;
	do {
		seen = atomic_load(&asked);
		check_breathe();
		still = atomic_load(&asked) == seen ? still + 1 : 0;
	} while (still < 100);
	weir_sentry_rest(s.sentry, false);
	CHECK_EVENTUALLY(atomic_load(&asked) > seen);
	site_close(&s);
}

/* No file, no sentry. */
static void a_token_must_be_there(void **state)
{
	weir_world *world = world_real();
	weir_domain *domain = domain_reactor(world, "reactor", 1);
	weir_origin_options backend = {.url = "http://127.0.0.1:9", .nucleus = "http://127.0.0.1:9/nucleus"};
	weir_sentry_options options = {
		.backends = &backend, .backend_count = 1, .nucleus_token = "/nowhere/token"};
	weir_sentry *sentry = NULL;
	assert_int_equal(weir_sentry_new(domain, &options, &sentry), -ENOENT);
	check_contains(weir_error(), "/nowhere/token");
	assert_null(sentry);
	weir_world_free(&world);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		ON_BOTH(one_that_moves_is_found),
		ON_BOTH(names_rest_with_their_sentry),
		cmocka_unit_test(a_token_must_be_there),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
