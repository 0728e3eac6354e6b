/* SPDX-License-Identifier: Apache-2.0 */
#include "nucleus/nucleus.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weir/http.h>
#include <weir/stage.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "keys/address.h"
#include "keys/options.h"

#define STOP_NS    (2 * WEIR_NS_PER_S)
#define SELF_MOST  .01 /* of a processor */
#define SLOWEST_NS WEIR_NS_PER_S
#define ONCE_NS    WEIR_NS_PER_S

typedef struct nucleus {
	const weir_nucleus_options *options;
	weir_watch *watch;
	/* the answers */
	weir_world *world;
	weir_routes *routes;
	weir_http *http;
	pthread_mutex_t lock;
	weir_gauge gauge; /* under lock */
} nucleus;

/* ---- answers ---- */

static void reply_json(weir_request *request, const weir_nucleus_report *report)
{
	json_t *json = weir_nucleus_report_json(report);
	char *text = json != NULL ? json_dumps(json, JSON_REAL_PRECISION(9)) : NULL;
	const weir_field plain[] = {{WEIR_SPAN("Content-Type"), WEIR_SPAN("application/json")},
				    {WEIR_SPAN("Cache-Control"), WEIR_SPAN("no-store")}};
	weir_reply reply = {.status = text != NULL ? 200 : 500,
			    .fields = plain,
			    .field_count = 2,
			    .bytes = text,
			    .length = text != NULL ? strlen(text) : 0};
	weir_request_reply(request, &reply);
	free(text);
	json_decref(json);
}

static void reply_orca(weir_request *request, const weir_nucleus_report *report)
{
	char text[WEIR_LOAD_REPORT_TEXT];
	weir_load_report orca;
	weir_nucleus_report_orca(report, &orca);
	size_t length = weir_load_report_print_orca(&orca, text);
	weir_request_reply_text(request, 200, (weir_span){text, length});
}

static bool has_path(const weir_request *request, weir_span path)
{
	weir_span own = weir_request_path(request);
	return own.length == path.length && memcmp(own.at, path.at, own.length) == 0;
}

static void answer(nucleus *n, weir_request *request)
{
	weir_nucleus_report report;
	pthread_mutex_lock(&n->lock);
	weir_gauge_report(&n->gauge, weir_clock_ns(), &report);
	pthread_mutex_unlock(&n->lock);
	if (weir_request_method(request) != WEIR_METHOD_GET &&
	    weir_request_method(request) != WEIR_METHOD_HEAD)
		weir_request_reply_not_allowed(request, "GET, HEAD");
	else if (has_path(request, WEIR_SPAN("/nucleus")) || has_path(request, WEIR_SPAN("/")))
		reply_json(request, &report);
	else if (has_path(request, WEIR_SPAN("/orca")))
		reply_orca(request, &report);
	else
		weir_request_reply_text(request, 404, WEIR_SPAN("there are /nucleus and /orca\n"));
}

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	for (size_t i = 0; i < count; i++)
		answer(arg, weir_request_of(events[i]));
}

static int listen_at(nucleus *n, weir_domain *domain)
{
	weir_http_options server = {.domain = domain, .routes = n->routes};
	weir_http_listen at = {.address = (const struct sockaddr *)&n->options->listen,
			       .address_length = n->options->listen_length};
	int error = weir_http_new(&server, &n->http);
	return error != 0 ? error : weir_http_add_listener(n->http, &at, NULL);
}

static int start_answers(nucleus *n)
{
	weir_domain *domain = NULL;
	weir_stage *stage = NULL;
	weir_domain_options reactor = {.name = "nucleus", .kind = WEIR_REACTOR, .threads = 1};
	weir_stage_options reports = {
		.name = "reports", .handle = handle, .drop = weir_request_drop, .arg = n, .capacity = 256};
	int error = weir_world_new(NULL, &n->world);
	if (error == 0)
		error = weir_domain_new(n->world, &reactor, &domain);
	if (error == 0)
		error = weir_stage_new(domain, &reports, &stage);
	if (error == 0)
		error = weir_world_start(n->world);
	if (error == 0)
		error = weir_routes_new(&n->routes);
	if (error == 0)
		error = weir_routes_add(n->routes, &(weir_route_options){.name = "all", .stage = stage});
	return error != 0 ? error : listen_at(n, domain);
}

static void stop_answers(nucleus *n)
{
	if (n->http != NULL)
		weir_http_drain_wait(n->http, STOP_NS);
	if (n->world != NULL)
		weir_world_stop(n->world, STOP_NS, NULL);
	weir_http_free(&n->http);
	if (n->routes != NULL)
		weir_routes_unref(n->routes);
	weir_world_free(&n->world);
}

/* ---- looking ---- */

static double look(nucleus *n, uint64_t now_ns)
{
	weir_gauge_sample sample;
	weir_nucleus_report report;
	weir_watch_look(n->watch, now_ns, &sample);
	pthread_mutex_lock(&n->lock);
	weir_gauge_add(&n->gauge, &sample);
	weir_gauge_report(&n->gauge, now_ns, &report);
	pthread_mutex_unlock(&n->lock);
	return report.self_cpu;
}

/* Twice as long if it takes too much, less again if it takes little. */
static uint64_t next_every(const nucleus *n, uint64_t every_ns, double self_cpu)
{
	uint64_t least_ns = n->options->every_ns, most_ns = least_ns > SLOWEST_NS ? least_ns : SLOWEST_NS;
	if (self_cpu > SELF_MOST)
		every_ns *= 2;
	else if (self_cpu < SELF_MOST / 4)
		every_ns /= 2;
	return every_ns < least_ns ? least_ns : every_ns > most_ns ? most_ns : every_ns;
}

/* Waits until then; true: a signal ends it. */
static bool wait_until(const sigset_t *ends, uint64_t then_ns)
{
	for (;;) {
		uint64_t now_ns = weir_clock_ns(), left_ns = then_ns > now_ns ? then_ns - now_ns : 0;
		struct timespec left = {.tv_sec = (time_t)(left_ns / WEIR_NS_PER_S),
					.tv_nsec = (long)(left_ns % WEIR_NS_PER_S)};
		if (sigtimedwait(ends, NULL, &left) >= 0)
			return true;
		if (errno != EINTR)
			return false;
	}
}

static void look_on(nucleus *n, const sigset_t *ends, uint64_t until_ns)
{
	uint64_t every_ns = n->options->every_ns, judged_ns = 0, now_ns;
	while ((now_ns = weir_clock_ns()) < until_ns) {
		double self_cpu = look(n, now_ns);
		/* What changed must show in the mean before it is judged again. */
		if (now_ns - judged_ns >= 2 * WEIR_NS_PER_S) {
			every_ns = next_every(n, every_ns, self_cpu);
			judged_ns = now_ns;
		}
		if (wait_until(ends, now_ns + every_ns))
			return;
	}
}

/* ---- both ways to run ---- */

static void print_report(nucleus *n)
{
	weir_nucleus_report report;
	weir_gauge_report(&n->gauge, weir_clock_ns(), &report);
	json_t *json = weir_nucleus_report_json(&report);
	if (json != NULL)
		json_dumpf(json, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
	putchar('\n');
	json_decref(json);
}

static int serve(nucleus *n, const sigset_t *ends)
{
	char address[64], text[256];
	int error = start_answers(n);
	if (error == 0)
		error = weir_http_address(n->http, 0, address, sizeof(address), NULL);
	if (error == 0) {
		look(n, weir_clock_ns());
		weir_watch_explain(n->watch, text, sizeof(text));
		printf("weir nucleus: %s\nweir nucleus: reports at http://%s/nucleus\n", text, address);
		fflush(stdout);
		look_on(n, ends, UINT64_MAX);
	} else {
		fprintf(stderr, "weir nucleus: %s\n", weir_error());
	}
	stop_answers(n);
	return error == 0 ? WEIR_EXIT_OK : WEIR_EXIT_FAILED;
}

int weir_nucleus_run(const weir_nucleus_options *options)
{
	nucleus n = {.options = options, .lock = PTHREAD_MUTEX_INITIALIZER};
	sigset_t ends;
	int status = WEIR_EXIT_OK;
	/* Threads inherit what is blocked, so that only the wait below gets it. */
	sigemptyset(&ends);
	sigaddset(&ends, SIGINT);
	sigaddset(&ends, SIGTERM);
	sigprocmask(SIG_BLOCK, &ends, NULL);
	weir_gauge_init(&n.gauge, (double)options->every_ns / 1e9, options->alpha);
	if (weir_watch_new(&options->watch, &n.watch) != 0) {
		fprintf(stderr, "weir nucleus: %s\n", weir_error());
		return WEIR_EXIT_FAILED;
	}
	if (options->once) {
		look_on(&n, &ends, weir_clock_ns() + ONCE_NS);
		print_report(&n);
	} else {
		status = serve(&n, &ends);
	}
	weir_watch_free(n.watch);
	return status;
}

/* ---- places ---- */

static int read_local(const char *path, weir_diag_place *ret_place)
{
	size_t length = strlen(path);
	if (length == 0 || length >= sizeof(ret_place->path) || (path[0] != '/' && path[0] != '@'))
		return weir_error_set(-EINVAL, "'unix:%.60s': write unix:/PATH or unix:@NAME", path);
	*ret_place = (weir_diag_place){.local = true};
	memcpy(ret_place->path, path, length + 1);
	return 0;
}

int weir_nucleus_read_place(const char *text, weir_diag_place *ret_place)
{
	struct sockaddr_storage address;
	socklen_t length;
	uint32_t port;
	if (strncmp(text, "unix:", 5) == 0)
		return read_local(text + 5, ret_place);
	if (strspn(text, "0123456789") == strlen(text) && weir_text_count(text, &port) == 0 && port > 0 &&
	    port < 65536) {
		*ret_place = (weir_diag_place){.port = (uint16_t)port, .any = true};
		return 0;
	}
	int error = weir_address_read(text, &address, &length);
	if (error != 0)
		return error;
	weir_diag_place place = {0};
	if (address.ss_family == AF_INET) {
		const struct sockaddr_in *in = (const void *)&address;
		place.port = ntohs(in->sin_port);
		place.any = in->sin_addr.s_addr == INADDR_ANY;
		place.address.s6_addr[10] = place.address.s6_addr[11] = 0xff;
		memcpy(&place.address.s6_addr[12], &in->sin_addr, 4);
	} else {
		const struct sockaddr_in6 *in = (const void *)&address;
		place.port = ntohs(in->sin6_port);
		place.any = IN6_IS_ADDR_UNSPECIFIED(&in->sin6_addr);
		place.address = in->sin6_addr;
	}
	if (place.port == 0)
		return weir_error_set(-EINVAL, "'%.60s': a port is needed", text);
	*ret_place = place;
	return 0;
}
