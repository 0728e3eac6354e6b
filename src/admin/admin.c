/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/admin.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "admin/inside.h"
#include "base/error.h"
#include "base/mem.h"
#include "http/server.h"

#define BODY_BYTES 65536u
#define RESERVE    64u /* connections for those who have the token */
#define WAITING    256u

weir_view_context weir_admin_context(const weir_admin *admin)
{
	return (weir_view_context){.options = &admin->options,
				   .process = &admin->process,
				   .ready = atomic_load_explicit(&admin->ready, memory_order_relaxed),
				   .started_ns = admin->started_ns,
				   .now_ns = weir_world_now(admin->options.world)};
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		weir_admin_answer(arg, weir_request_of(events[i]));
}

/* ---- once a second ---- */

static void every_second(weir_timer *timer, void *arg)
{
	weir_admin *admin = arg;
	uint64_t now_ns = weir_world_now(admin->options.world);
	if (atomic_load_explicit(&admin->ending, memory_order_acquire))
		return;
	weir_snapshot_take(&admin->snapshot, now_ns);
	weir_history_take(&admin->history, &admin->snapshot);
	weir_admin_gauge_look(admin, now_ns);
	weir_stream_tick(admin);
	weir_timer_start(NULL, timer, now_ns + WEIR_NS_PER_S);
}

static void start_seconds(weir_post *post, void *arg)
{
	weir_admin *admin = arg;
	weir_timer_init(&admin->timer, every_second, admin);
	every_second(&admin->timer, admin);
}

/* ---- making ---- */

static char *copy_of(const char *text)
{
	size_t size = text != NULL ? strlen(text) + 1 : 1;
	char *copy = weir_mem_zalloc(size);
	if (copy != NULL && text != NULL)
		memcpy(copy, text, size);
	return copy;
}

/* Each with a space after it. */
static char *joined(const char *const *words)
{
	size_t size = 1;
	for (size_t i = 0; words != NULL && words[i] != NULL; i++)
		size += strlen(words[i]) + 1;
	char *all = weir_mem_zalloc(size), *to = all;
	for (size_t i = 0; all != NULL && words != NULL && words[i] != NULL; i++) {
		to = stpcpy(to, words[i]);
		*to++ = ' ';
	}
	return all;
}

static int make_stage(weir_admin *admin)
{
	weir_domain_options domain = {.name = "admin", .kind = WEIR_REACTOR, .threads = 1};
	weir_stage_options stage = {.name = "admin",
				    .handle = handle,
				    .drop = weir_request_drop,
				    .arg = admin,
				    .capacity = WAITING};
	int failed = weir_domain_new(admin->options.world, &domain, &admin->domain);
	return failed != 0 ? failed : weir_stage_new(admin->domain, &stage, &admin->stage);
}

static int make_routes(weir_admin *admin)
{
	static const char *const any[] = {NULL};
	weir_route_options all = {.name = "admin",
				  .rules = any,
				  .stage = admin->stage,
				  .arg = admin,
				  .klass = 0,
				  .exempt = true,
				  .collect_bytes = BODY_BYTES};
	int failed = weir_routes_new(&admin->routes);
	return failed != 0 ? failed : weir_routes_add(admin->routes, &all);
}

static int make_http(weir_admin *admin)
{
	weir_http_options http = {
		.domain = admin->domain,
		.routes = admin->routes,
		.limits = {.body_bytes = BODY_BYTES, .output_bytes = 4u << 20, .client_share = 1},
		.no_costs = true};
	return weir_http_new(&http, &admin->http);
}

int weir_admin_new(const weir_admin_options *options, weir_admin **ret_admin)
{
	weir_admin *admin = weir_mem_zalloc(sizeof(*admin));
	if (admin == NULL)
		return weir_error_set(-ENOMEM, "admin: out of memory");
	admin->options = *options;
	weir_process_open(&admin->process);
	weir_sheds_init(&admin->sheds);
	weir_admin_gauge_init(admin);
	int failed = -ENOMEM;
	admin->verb = copy_of(options->verb);
	admin->token = copy_of(options->token);
	admin->hosts = joined(options->hosts);
	if (admin->verb == NULL || admin->token == NULL || admin->hosts == NULL) {
		weir_error_set(failed, "admin: out of memory");
		goto out;
	}
	admin->options.verb = admin->verb;
	admin->options.hosts = NULL; /* the caller's */
	admin->started_ns = weir_world_now(options->world);
	if ((failed = weir_snapshot_init(&admin->snapshot, options->world)) != 0 ||
	    (failed = make_stage(admin)) != 0 || (failed = make_routes(admin)) != 0 ||
	    (failed = make_http(admin)) != 0)
		goto out;
	*ret_admin = admin;
	return 0;
out:
	weir_admin_free(&admin);
	return failed;
}

static bool is_loopback(const struct sockaddr *address)
{
	if (address->sa_family == AF_UNIX)
		return true;
	if (address->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
	return address->sa_family == AF_INET6 &&
	       IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static void keep_name(weir_admin *admin, const struct sockaddr *address)
{
	char text[INET6_ADDRSTRLEN] = "";
	if (address->sa_family == AF_INET)
		inet_ntop(AF_INET, &((const struct sockaddr_in *)address)->sin_addr, text, sizeof(text));
	else if (address->sa_family == AF_INET6)
		inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)address)->sin6_addr, text, sizeof(text));
	snprintf(admin->name, sizeof(admin->name), address->sa_family == AF_INET6 ? "[%s]" : "%s", text);
}

/* Requests may come as soon as there is a listener, so what they are judged by is set before. */
int weir_admin_listen(weir_admin *admin, const weir_http_listen *where)
{
	weir_http_listen listen = *where;
	unsigned number;
	listen.max_connections = WEIR_ADMIN_CONNECTIONS + WEIR_ADMIN_CLOSING + RESERVE;
	listen.crowded = WEIR_ADMIN_CONNECTIONS;
	admin->loopback = is_loopback(where->address);
	keep_name(admin, where->address);
	int failed = weir_http_add_listener(admin->http, &listen, &number);
	if (failed == 0)
		failed = weir_http_address(admin->http, number, admin->address, sizeof(admin->address), NULL);
	if (failed != 0)
		return failed;
	admin->start_post = (weir_post){.run = start_seconds, .arg = admin};
	weir_loop_post(weir_domain_loop(admin->domain, 0), &admin->start_post);
	return 0;
}

int weir_admin_address(const weir_admin *admin, char *ret_text, size_t size)
{
	size_t length = strlen(admin->address);
	if (length >= size)
		return weir_error_set(-ENOBUFS, "admin: %zu bytes do not hold its address", size);
	memcpy(ret_text, admin->address, length + 1);
	return 0;
}

size_t weir_admin_fds(weir_admin *admin, int *ret_fds, size_t most)
{
	return weir_http_fds(admin->http, 0, ret_fds, most);
}

void weir_admin_set_ready(weir_admin *admin, bool ready)
{
	atomic_store_explicit(&admin->ready, ready, memory_order_relaxed);
}

void weir_admin_set_page(weir_admin *admin, bool page)
{
	atomic_store_explicit(&admin->pageless, !page, memory_order_relaxed);
}

void weir_admin_note_shed(weir_admin *admin, const weir_http_record *record, const weir_why *why)
{
	weir_sheds_note(&admin->sheds, record, why);
}

/* ---- on its thread ---- */

typedef struct errand {
	weir_post post;
	weir_admin *admin;
	void (*run)(weir_admin *admin, void *arg);
	void *arg;
	pthread_mutex_t lock;
	pthread_cond_t done;
	bool is_done;
} errand;

static void do_errand(weir_post *post, void *arg)
{
	errand *it = arg;
	it->run(it->admin, it->arg);
	pthread_mutex_lock(&it->lock);
	it->is_done = true;
	pthread_cond_signal(&it->done);
	pthread_mutex_unlock(&it->lock);
}

/* Runs it on the admin's thread, if that is at work, and waits. */
static void ask_thread(weir_admin *admin, void (*run)(weir_admin *admin, void *arg), void *arg)
{
	errand it = {.admin = admin,
		     .run = run,
		     .arg = arg,
		     .lock = PTHREAD_MUTEX_INITIALIZER,
		     .done = PTHREAD_COND_INITIALIZER};
	if (admin->address[0] == '\0')
		return;
	it.post = (weir_post){.run = do_errand, .arg = &it};
	weir_loop_post(weir_domain_loop(admin->domain, 0), &it.post);
	pthread_mutex_lock(&it.lock);
	while (!it.is_done)
		pthread_cond_wait(&it.done, &it.lock);
	pthread_mutex_unlock(&it.lock);
	pthread_cond_destroy(&it.done);
	pthread_mutex_destroy(&it.lock);
}

static void save_history(weir_admin *admin, void *arg)
{
	weir_history_save(&admin->history, arg);
}

char *weir_admin_history(weir_admin *admin)
{
	char *text = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&text, &length);
	if (to == NULL)
		return NULL;
	ask_thread(admin, save_history, to);
	fclose(to);
	return text;
}

void weir_admin_load_history(weir_admin *admin, const char *text)
{
	weir_history_load(&admin->history, text, weir_world_now(admin->options.world));
}

/* ---- the end ---- */

/* Timer and streams belong to the admin's thread, so they are stopped there. */
static void stop_seconds(weir_admin *admin, void *arg)
{
	weir_timer_stop(&admin->timer);
	weir_stream_end_all(admin);
}

void weir_admin_free(weir_admin **at)
{
	weir_admin *admin = *at;
	if (admin == NULL)
		return;
	*at = NULL;
	atomic_store_explicit(&admin->ending, true, memory_order_release);
	ask_thread(admin, stop_seconds, NULL);
	weir_http_free(&admin->http);
	weir_routes_unref(admin->routes);
	weir_snapshot_fini(&admin->snapshot);
	weir_history_fini(&admin->history);
	weir_sheds_fini(&admin->sheds);
	weir_process_close(&admin->process);
	weir_mem_free(admin->verb);
	weir_mem_free(admin->token);
	weir_mem_free(admin->hosts);
	weir_mem_free(admin);
}
