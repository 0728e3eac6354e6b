/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a service: made, started, changed, drained, freed. */
#include "service/service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "http/server.h"
#include "keys/address.h"
#include "net/transmit.h"
#include "rules/routes.h"
#include "service/service_inside.h"
#include "tls/tls.h"

/* Seconds after which half of what loops keep for later is freed. */
#define SLIM_LOOKS 30u
/* Longer than a log waits for a reader of the file that it leaves. */
#define TAKE_NS (5 * WEIR_NS_PER_S)

/* ---- logs ---- */

/* Both logs are there even if they are off, since a reload may turn them on. */

static weir_log_format access_format(const weir_config_log *log)
{
	return log->format == WEIR_CONFIG_JSON ? WEIR_LOG_JSON : WEIR_LOG_COMBINED;
}

static weir_log_level error_level(const weir_config_log *log)
{
	return log->error != NULL ? (weir_log_level)log->level : WEIR_LOG_SILENT;
}

static int make_logs(weir_service *service, unsigned threads)
{
	const weir_config_log *log = &service->config->log;
	weir_log_options error = {.path = log->error, .fd = 2, .format = WEIR_LOG_PLAIN},
			 access = {.path = log->access,
				   .fd = 1,
				   .format = access_format(log),
				   .rings = threads};
	int failed = weir_log_new(&error, &service->error_file);
	if (failed == 0)
		failed = weir_errors_new(service->error_file, error_level(log), 0, &service->errors);
	if (failed == 0)
		failed = weir_log_new(&access, &service->access_file);
	if (failed == 0)
		failed = weir_access_log_new(service->access_file, access.format, threads, &service->access);
	service->logs_access = log->access != NULL;
	return failed;
}

/* What the HTTP server has to tell of. */
static weir_http_logging logging(const weir_service *service, const weir_config_log *log)
{
	if (log->access != NULL)
		return WEIR_HTTP_LOG_ALL;
	return service->admin != NULL ? WEIR_HTTP_LOG_SHEDS : WEIR_HTTP_LOG_NOTHING;
}

/* Files that a change of the configuration brings, opened but not in use. NULL: that log stays as it is. */
typedef struct next_files {
	weir_log_file *access, *error;
} next_files;

static int open_next(const char *path, const char *old, int fd, weir_log_file **ret_file)
{
	if (path == old || (path != NULL && old != NULL && strcmp(path, old) == 0))
		return 0;
	return weir_service_explain_refusal(weir_log_file_open(path, fd, ret_file));
}

static int prepare_logs(const weir_service *service, const weir_config_log *log, next_files *ret_next)
{
	const weir_config_log *old = &service->config->log;
	int failed = open_next(log->access, old->access, 1, &ret_next->access);
	return failed != 0 ? failed : open_next(log->error, old->error, 2, &ret_next->error);
}

/* Waits until the file is in use, so that what follows is not in the old one. */
static void use_next(weir_log *log, weir_log_file **next)
{
	if (*next == NULL)
		return;
	weir_log_use(log, *next);
	*next = NULL;
	weir_log_flush(log, TAKE_NS);
}

static void change_logs(weir_service *service, const weir_config_log *log, next_files *next)
{
	use_next(service->error_file, &next->error);
	use_next(service->access_file, &next->access);
	weir_errors_set_level(service->errors, error_level(log));
	weir_access_log_set_format(service->access, access_format(log));
	__atomic_store_n(&service->logs_access, log->access != NULL, __ATOMIC_RELAXED);
	weir_http_set_logging(service->http, logging(service, log));
}

/* Called for every finished request, on its own thread. */
static void record(const weir_http_record *record, void *arg)
{
	weir_service *service = arg;
	if (__atomic_load_n(&service->logs_access, __ATOMIC_RELAXED))
		weir_access_log_record(record, service->access);
	if (record->shed != WEIR_ADMITTED && service->admin != NULL) {
		weir_why why;
		bool known = weir_why_shed(&why) && why.verdict == record->shed;
		weir_admin_note_shed(service->admin, record, known ? &why : NULL);
	}
}

static void notice(const char *text, void *arg)
{
	weir_service *service = arg;
	weir_errors_say(service->errors, WEIR_LOG_WARN, "notice", "%s", text);
}

/* ---- making ---- */

/* Pressure grows from `from` to `full`; even then a part is admitted (monitor.h). */
static weir_resource_bounds bounds_from(double from, double full)
{
	return (weir_resource_bounds){.from = from, .full = full, .off = from == 0};
}

static int watch_resources(weir_monitor *monitor, const weir_config_resources *resources)
{
	double memory = resources->memory, cpu = resources->cpu,
	       lag_s = (double)resources->loop_lag_ns / WEIR_NS_PER_S;
	weir_resource_bounds bounds[WEIR_RESOURCES] = {
		[WEIR_MEMORY] = bounds_from(memory, memory + .8 * (1 - memory)),
		[WEIR_CPU] = bounds_from(cpu, 1),
		[WEIR_LOOP_LAG] = bounds_from(lag_s, lag_s != 0 ? 10 * lag_s : 1)};
	return weir_monitor_set(monitor, bounds);
}

static int make_world(weir_service *service)
{
	const weir_config_process *process = &service->config->process;
	weir_world_options world = {.notice = notice, .notice_arg = service};
	weir_domain_options domain = {.name = "http", .kind = WEIR_REACTOR, .threads = process->threads};
	int failed = weir_world_new(&world, &service->world);
	if (failed == 0)
		failed = weir_domain_new(service->world, &domain, &service->domain);
	if (failed == 0)
		failed = weir_files_new(service->world, NULL, &service->files);
	if (failed == 0)
		failed = weir_monitor_new(service->world, NULL, &service->monitor);
	if (failed == 0)
		failed = watch_resources(service->monitor, &service->config->resources);
	service->things = (weir_things){.kinds = service->config->kinds,
					.world = service->world,
					.domain = service->domain,
					.files = service->files,
					.monitor = service->monitor};
	weir_things_init(&service->things);
	return failed;
}

/* One copy of each name, so that only new names cost memory. NULL: out of memory; the class stays unnamed. */
static const char *keep_name(weir_service *service, const char *text)
{
	for (const weir_class_name *at = service->names; at != NULL; at = at->next)
		if (strcmp(at->text, text) == 0)
			return at->text;
	size_t bytes = strlen(text) + 1;
	weir_class_name *name = weir_mem_zalloc(sizeof(*name) + bytes);
	if (name == NULL)
		return NULL;
	memcpy(name->text, text, bytes);
	name->next = service->names;
	service->names = name;
	return name->text;
}

/* Names are copied, as configurations and their texts are freed. A class that was removed has no name. */
static void name_classes(weir_service *service, const weir_config *config)
{
	const char *names[WEIR_CLASSES] = {NULL};
	for (unsigned i = config->classes; i > 0; i--)
		names[config->klass[i - 1].level] = keep_name(service, config->klass[i - 1].head.title);
	for (unsigned i = 0; i < WEIR_CLASSES; i++)
		__atomic_store_n(&service->class_names[i], names[i], __ATOMIC_RELEASE);
}

static void free_names(weir_service *service)
{
	for (weir_class_name *at = service->names, *next; at != NULL; at = next) {
		next = at->next;
		weir_mem_free(at);
	}
}

int weir_service_new(const weir_config *config, const weir_service_options *options,
		     weir_service **ret_service)
{
	weir_service *service = weir_mem_zalloc(sizeof(*service));
	if (service == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	service->config = config;
	name_classes(service, config);
	int failed = make_world(service);
	service->things.handover = options->handover;
	if (failed == 0)
		failed = make_logs(service, weir_domain_threads(service->domain));
	service->things.errors = service->errors;
	if (failed == 0)
		failed = weir_service_make_admin(service, options);
	/* Things that need threads of their own can only be made before the start. */
	for (unsigned i = 0; failed == 0 && i < config->routes; i++)
		if (weir_things_for(&service->things, config, &config->route[i]) == NULL)
			failed = -EINVAL;
	if (failed != 0)
		weir_service_free(&service, 0);
	else
		*ret_service = service;
	return failed;
}

/* ---- what a predecessor has learnt ---- */

/* What cannot be loaded is learnt again. */
static void load_costs(weir_service *service)
{
	uint64_t now_ns = weir_clock_ns();
	const char *line;
	for (size_t i = 0; (line = weir_handover_cost(service->things.handover, i)) != NULL; i++)
		weir_costs_load(weir_http_costs(service->http), line, now_ns);
}

static void save_costs(const weir_service *service, FILE *to)
{
	const weir_costs *costs = weir_http_costs(service->http);
	char line[WEIR_COSTS_LINE];
	uint64_t now_ns = weir_clock_ns();
	for (uint32_t at = 0; at < weir_costs_places(costs); at++)
		if (weir_costs_save(costs, at, now_ns, line))
			weir_handover_put_cost(to, line);
}

/* The same for sessions, of the first few kinds only, to bound the handover. */
#define SESSIONS_SAVED 8u

static void load_sessions(weir_service *service)
{
	char text[WEIR_SESSION_TEXT_MAX];
	uint64_t idle_ns;
	weir_sessions *sessions;
	for (uint32_t at = 0;
	     (sessions = weir_http_sessions(service->http, at, text, sizeof(text), &idle_ns)) != NULL; at++) {
		const char *line = weir_handover_session(service->things.handover, text);
		if (line != NULL)
			weir_sessions_load(sessions, line);
		weir_sessions_free(sessions);
	}
}

static void save_sessions(const weir_service *service, FILE *to)
{
	char text[WEIR_SESSION_TEXT_MAX];
	uint64_t idle_ns, now_ns = weir_clock_ns();
	weir_sessions *sessions;
	for (uint32_t at = 0;
	     at < SESSIONS_SAVED &&
	     (sessions = weir_http_sessions(service->http, at, text, sizeof(text), &idle_ns)) != NULL;
	     at++) {
		weir_handover_begin_session(to, text);
		weir_sessions_save(sessions, idle_ns, now_ns, to);
		fputc('\n', to);
		weir_sessions_free(sessions);
	}
}

/* Under a name that no stage can have: a predecessor or a successor that does not know it ignores it. */
#define HISTORY_NAME "(history)"

static void load_history(weir_service *service)
{
	const char *line = weir_handover_law(service->things.handover, HISTORY_NAME);
	if (line != NULL && service->admin != NULL)
		weir_admin_load_history(service->admin, line);
}

static void save_history(const weir_service *service, FILE *to)
{
	char *line = service->admin != NULL ? weir_admin_history(service->admin) : NULL;
	if (line != NULL)
		weir_handover_put_law(to, HISTORY_NAME, line);
	free(line);
}

/* ---- starting ---- */

static int make_http(weir_service *service, weir_routes *routes)
{
	weir_http_options options = {.domain = service->domain,
				     .routes = routes,
				     .limits = service->config->http.http,
				     .server = service->config->http.server_field ? NULL : "",
				     .no_shed_details = !service->config->http.shed_details,
				     .tell_timing = service->config->http.server_timing,
				     .tell_load = service->config->http.load_metrics,
				     .log = record,
				     .log_arg = service};
	int failed = weir_http_new(&options, &service->http);
	if (failed != 0)
		return failed;
	weir_http_set_errors(service->http, service->errors);
	weir_http_set_logging(service->http, logging(service, &service->config->log));
	failed = weir_service_make_transmit(service, service->config);
	if (failed != 0)
		return failed;
	load_costs(service);
	load_sessions(service);
	return 0;
}

int weir_service_start(weir_service *service, weir_inherited *inherited, size_t count)
{
	weir_routes *routes;
	int failed = weir_world_start(service->world);
	if (failed != 0)
		return failed;
	service->started = service->things.running = true;
	failed = weir_service_make_routes(service, service->config, &routes);
	if (failed != 0)
		return failed;
	service->routes = routes;
	failed = make_http(service, routes);
	if (failed == 0)
		failed = weir_things_settle(&service->things, service->config);
	if (failed == 0)
		failed = weir_things_start(&service->things);
	for (unsigned i = 0; failed == 0 && i < service->config->listens; i++)
		failed = weir_listeners_add(service, service->config, &service->config->listen[i], inherited,
					    count);
	load_history(service);
	/* Last, because its thread reads what the listeners made. */
	if (failed == 0)
		failed = weir_listeners_admin(service, inherited, count);
	service->things.handover = NULL;
	return failed;
}

/* ---- changing ---- */

/* All steps that may fail, in an order in which they can be undone. */
static int prepare(weir_service *service, const weir_config *config, weir_tls *ret_tls[WEIR_LISTENERS_MOST])
{
	weir_routes *routes;
	int failed = weir_service_make_routes(service, config, &routes);
	if (failed != 0)
		return failed;
	weir_listeners_keep(service, true); /* those from before */
	failed = weir_things_prepare(&service->things, config);
	if (failed == 0)
		failed = weir_listeners_prepare(service, config, ret_tls);
	if (failed == 0)
		failed = weir_things_start(&service->things);
	if (failed == 0)
		failed = weir_http_set_routes(service->http, routes);
	weir_listeners_keep(service, failed == 0);
	if (failed != 0) {
		weir_routes_unref(routes);
		return failed;
	}
	weir_things_replaced(&service->things, service->routes);
	service->routes = routes;
	return 0;
}

int weir_service_apply(weir_service *service, const weir_config *config)
{
	weir_tls *tls[WEIR_LISTENERS_MOST] = {NULL};
	next_files files = {.access = NULL};
	int failed = prepare_logs(service, &config->log, &files);
	if (failed == 0)
		failed = prepare(service, config, tls);
	if (failed == 0) {
		weir_listeners_change(service, config, tls);
		/* It is in force now; what failed is reported. */
		if (weir_things_settle(&service->things, config) != 0)
			weir_errors_say(service->errors, WEIR_LOG_ERROR, "reload", "%s", weir_error());
		if (weir_service_change_transmit(service, config) != 0)
			weir_errors_say(service->errors, WEIR_LOG_ERROR, "reload", "%s", weir_error());
		name_classes(service, config);
		weir_http_set_limits(service->http, &config->http.http);
		change_logs(service, &config->log, &files);
		watch_resources(service->monitor,
				&config->resources); /* the tables only let valid bounds through */
		if (service->admin != NULL)
			weir_admin_set_page(service->admin, config->admin.page);
		__atomic_store_n(&service->config, config, __ATOMIC_RELEASE);
	}
	/* By the configuration in force: after a failure this removes what was added. */
	weir_things_leave(&service->things, service->config);
	for (unsigned i = 0; i < WEIR_LISTENERS_MOST; i++)
		weir_tls_unref(tls[i]);
	weir_log_file_close(&files.access);
	weir_log_file_close(&files.error);
	return failed;
}

/* ---- other functions ---- */

void weir_service_save(const weir_service *service, FILE *to)
{
	weir_things_save(&service->things, service->config, to);
	save_costs(service, to);
	save_sessions(service, to);
	weir_service_save_transmit(service, to);
	save_history(service, to);
}

void weir_service_count_reload(weir_service *service, bool done)
{
	__atomic_add_fetch(done ? &service->reloads : &service->reloads_failed, 1, __ATOMIC_RELAXED);
}

bool weir_service_tidy(weir_service *service)
{
	return weir_things_tidy(&service->things);
}

bool weir_service_account(weir_service *service)
{
	return weir_things_account(&service->things, service->config);
}

/* Lines that were lost are in no log, so the other one tells of them. */
static void watch_logs(weir_service *service)
{
	weir_log_stats stats;
	weir_log_read_stats(service->access_file, &stats);
	uint64_t lost = stats.dropped - service->access_lost;
	if (lost == 0)
		return;
	service->access_lost = stats.dropped;
	weir_errors_say(service->errors, WEIR_LOG_ERROR, "log", "%llu lines of the access log were lost: %s",
			(unsigned long long)lost,
			stats.error != 0 ? strerrordesc_np(stats.error) : "it is slower than they come");
}

void weir_service_watch(weir_service *service)
{
	weir_http_stats stats;
	weir_things_watch(&service->things);
	watch_logs(service);
	if (++service->watches % SLIM_LOOKS == 0)
		weir_http_slim(service->http);
	weir_http_read_stats(service->http, &stats);
	weir_spare_look(&service->spare, stats.open + stats.busy);
}

void weir_service_ready(weir_service *service, bool ready)
{
	if (service->admin != NULL)
		weir_admin_set_ready(service->admin, ready);
}

void weir_service_reopen_logs(weir_service *service)
{
	weir_log_reopen(service->error_file);
	weir_log_reopen(service->access_file);
}

weir_errors *weir_service_errors(const weir_service *service)
{
	return service->errors;
}

/* A Unix socket has no URL. */
static void print_listening(const char *address, bool secure, FILE *file)
{
	if (weir_address_is_local(address))
		fprintf(file, "  listening on %s%s\n", address, secure ? ", tls" : "");
	else
		fprintf(file, "  listening on http%s://%s\n", secure ? "s" : "", address);
}

void weir_service_print(const weir_service *service, FILE *file)
{
	char address[128];
	for (unsigned i = 0; i < service->listens; i++)
		if (!service->listen[i].closed && weir_http_address(service->http, service->listen[i].number,
								    address, sizeof(address), NULL) == 0)
			print_listening(address, service->listen[i].tls != NULL, file);
	if (service->admin != NULL && weir_admin_address(service->admin, address, sizeof(address)) == 0)
		fprintf(file, "  %s    %s%s\n", service->config->admin.page ? "live page" : "admin    ",
			weir_address_is_local(address) ? "" : "http://", address);
	if (service->config->transmit.scheduling != 0)
		weir_service_print_transmit(service, file);
}

void weir_service_drain(weir_service *service)
{
	weir_http_drain(service->http);
}

uint32_t weir_service_open(const weir_service *service)
{
	return weir_http_open(service->http);
}

static void free_logs(weir_service *service)
{
	weir_access_log_free(&service->access);
	weir_errors_free(&service->errors);
	weir_log_free(&service->access_file);
	weir_log_free(&service->error_file);
}

int weir_service_free(weir_service **at, uint64_t timeout_ns)
{
	weir_service *service = *at;
	int failed = 0;
	if (service == NULL)
		return 0;
	*at = NULL;
	weir_admin_free(&service->admin);
	if (service->started)
		failed = weir_world_stop(service->world, timeout_ns, NULL);
	if (service->http != NULL)
		weir_http_free(&service->http);
	weir_routes_unref(service->routes);
	for (unsigned i = 0; i < service->listens; i++)
		weir_tls_unref(service->listen[i].tls);
	weir_things_free(&service->things);
	weir_monitor_free(&service->monitor);
	weir_files_free(&service->files);
	weir_world_free(&service->world);
	weir_service_keep_transmit(service);
	weir_transmit_unref(service->transmit);
	free_logs(service);
	free_names(service);
	weir_mem_free(service);
	return failed;
}
