/* SPDX-License-Identifier: Apache-2.0 */
#include "service/service.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>
#include <weir/monitor.h>

#include "base/error.h"
#include "base/mem.h"
#include "http/server.h"
#include "rules/routes.h"
#include "service/place.h"
#include "tls/tls.h"

#define LISTENERS_MOST WEIR_HTTP_LISTENERS_MAX

#define ADMIN_NAME "admin"

typedef struct listening {
	char title[128]; /* as configured, which is what a reload compares */
	unsigned nth;    /* with this title: those without a port may share one */
	char name[160];  /* title and number, for a successor */
	unsigned number; /* of the server's */
	weir_tls *tls;
	bool closed;
} listening;

/* A name that a class has or had: whoever still looks at it may, however many reloads later. */
typedef struct class_name {
	struct class_name *next;
	char text[];
} class_name;

struct weir_service {
	const weir_config *config;
	weir_world *world;
	weir_domain *domain;
	weir_files *files;
	weir_monitor *monitor;
	weir_places places;
	weir_http *http;
	weir_routes *routes; /* in force */
	weir_admin *admin;
	listening listen[LISTENERS_MOST];
	unsigned listens;
	const char *class_names[WEIR_CLASSES]; /* atomic, as the admin's thread looks at them; of `names` */
	class_name *names;
	weir_log *access_file, *error_file;
	weir_access_log *access;
	weir_errors *errors;
	bool started;
};

/* ---- logs ---- */

static int open_log(const char *path, int fd, weir_log_format format, unsigned rings, weir_log **ret_log)
{
	weir_log_options options = {.path = path, .fd = fd, .format = format, .rings = rings};
	return weir_log_new(&options, ret_log);
}

static int make_logs(weir_service *service, unsigned threads)
{
	const weir_config_log *log = &service->config->log;
	weir_log_format format = log->format == WEIR_CONFIG_JSON ? WEIR_LOG_JSON : WEIR_LOG_COMBINED;
	int failed =
		log->error != NULL ? open_log(log->error, 2, WEIR_LOG_PLAIN, 0, &service->error_file) : 0;
	if (failed == 0 && service->error_file != NULL)
		failed =
			weir_errors_new(service->error_file, (weir_log_level)log->level, 0, &service->errors);
	if (failed != 0 || log->access == NULL)
		return failed;
	failed = open_log(log->access, 1, format, threads, &service->access_file);
	return failed != 0 ? failed
			   : weir_access_log_new(service->access_file, format, threads, &service->access);
}

/* Every request that is over, on its own thread. */
static void record(const weir_http_record *record, void *arg)
{
	weir_service *service = arg;
	if (service->access != NULL)
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

/* ---- what the admin listener asks for ---- */

static void http_stats(weir_http_stats *ret_stats, void *arg)
{
	const weir_service *service = arg;
	weir_http_read_stats(service->http, ret_stats);
}

static weir_http *costs_of(void *arg)
{
	const weir_service *service = arg;
	return service->http;
}

static json_t *backend_json(const weir_place *place, uint32_t index, uint64_t now_ns)
{
	weir_sentry_backend_stats stats;
	weir_sentry_read_backend(place->sentry, index, now_ns, &stats);
	return json_pack("{s:s,s:s,s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:f}", "pool", place->name, "address",
			 stats.name, "state", weir_sentry_state_name(stats.state), "in_flight",
			 (json_int_t)stats.in_flight, "connections", (json_int_t)stats.open, "requests",
			 (json_int_t)stats.calls, "failures", (json_int_t)stats.failures, "ejections",
			 (json_int_t)stats.ejections, "latency_ns", (json_int_t)stats.latency_ns, "weight",
			 stats.weight);
}

/* Of a place that no route leads to any more, those that still have something to do. */
static bool is_shown(const weir_place *place, uint32_t index)
{
	weir_sentry_backend_stats stats;
	if (!__atomic_load_n(&place->resting, __ATOMIC_ACQUIRE))
		return true;
	weir_sentry_read_backend(place->sentry, index, 0, &stats);
	return stats.in_flight > 0;
}

/* The admin's thread: places are only ever added, at the front, by the main thread. */
static json_t *backends(void *arg)
{
	weir_service *service = arg;
	json_t *array = json_array();
	weir_place *first = __atomic_load_n(&service->places.first, __ATOMIC_ACQUIRE);
	for (const weir_place *place = first; place != NULL; place = place->next)
		for (uint32_t i = 0; place->sentry != NULL && i < weir_sentry_backends(place->sentry); i++)
			if (is_shown(place, i))
				json_array_append_new(array,
						      backend_json(place, i, weir_world_now(service->world)));
	return array;
}

static char *config_text(void *arg)
{
	const weir_service *service = arg;
	char *text = NULL;
	size_t length = 0;
	FILE *to = open_memstream(&text, &length);
	if (to == NULL)
		return NULL;
	weir_config_print(__atomic_load_n(&service->config, __ATOMIC_ACQUIRE), to);
	fclose(to);
	return text;
}

static int make_admin(weir_service *service, const weir_service_options *options)
{
	weir_admin_options admin = {.world = service->world,
				    .verb = options->verb,
				    .token = options->token,
				    .hosts = service->config->admin.hosts,
				    .class_names = service->class_names,
				    .http_stats = http_stats,
				    .http = costs_of,
				    .backends = backends,
				    .config = config_text,
				    .arg = service};
	if (service->config->admin.off)
		return 0;
	int failed = weir_admin_new(&admin, &service->admin);
	if (failed == 0)
		weir_admin_set_page(service->admin, service->config->admin.page);
	return failed;
}

/* ---- making ---- */

/* From there on, more and more; a part is let in even at the worst (monitor.h). */
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
	service->places = (weir_places){.world = service->world,
					.domain = service->domain,
					.files = service->files,
					.monitor = service->monitor};
	return failed;
}

/* One copy of each, so that it is only new names that cost anything. NULL: out of memory, and the class goes without. */
static const char *keep_name(weir_service *service, const char *text)
{
	for (const class_name *at = service->names; at != NULL; at = at->next)
		if (strcmp(at->text, text) == 0)
			return at->text;
	size_t bytes = strlen(text) + 1;
	class_name *name = weir_mem_zalloc(sizeof(*name) + bytes);
	if (name == NULL)
		return NULL;
	memcpy(name->text, text, bytes);
	name->next = service->names;
	service->names = name;
	return name->text;
}

/* Configurations go, and with them their texts, so these are copies; a class that is gone has no name any more. */
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
	for (class_name *at = service->names, *next; at != NULL; at = next) {
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
	service->places.handover = options->handover;
	if (failed == 0)
		failed = make_logs(service, weir_domain_threads(service->domain));
	service->places.errors = service->errors;
	if (failed == 0)
		failed = make_admin(service, options);
	/* Places that need more than the reactors' threads can only be made before the start. */
	for (unsigned i = 0; failed == 0 && i < config->routes; i++)
		if (weir_places_for(&service->places, config, &config->route[i]) == NULL)
			failed = -EINVAL;
	if (failed != 0)
		weir_service_free(&service, 0);
	else
		*ret_service = service;
	return failed;
}

/* ---- routes ---- */

static int read_page(const char *path, weir_buf **ret_page)
{
	FILE *file = fopen(path, "re");
	weir_buf *page = weir_buf_new(WEIR_CONFIG_PAGE_MAX);
	int failed = file == NULL ? -errno : page == NULL ? -ENOMEM : 0;
	if (failed == 0)
		page->length = (uint32_t)fread(page->data, 1, WEIR_CONFIG_PAGE_MAX, file);
	if (failed == 0 && fgetc(file) != EOF) /* it has grown since the check */
		failed = -EFBIG;
	if (file != NULL)
		fclose(file);
	if (failed != 0) {
		weir_buf_unref(page);
		return weir_error_set(failed, "%s: %s", path, strerror(-failed));
	}
	*ret_page = page;
	return 0;
}

/*
 * Who asks for what a backend's own health checks ask for checks its health as well, and must not be told that it is ill because it is busy. A route of its own before the
 * route.
 */
static int add_health_route(const weir_config *config, const weir_config_route *route,
			    const weir_route_options *like, weir_routes *routes)
{
	const char *rules[WEIR_RULES_MAX + 2];
	char rule[WEIR_CONFIG_RULE_BYTES];
	weir_route_options options = *like;
	size_t count = 0;
	if (route->exempt || route->backend_index < 0 ||
	    !weir_config_health_rule(&config->backend[route->backend_index], rule, sizeof(rule)))
		return 0;
	while (route->match != NULL && route->match[count] != NULL && count < WEIR_RULES_MAX) {
		rules[count] = route->match[count];
		count++;
	}
	if (count == WEIR_RULES_MAX) /* the check has warned */
		return 0;
	rules[count] = rule;
	rules[count + 1] = NULL;
	options.rules = rules;
	options.exempt = true;
	return weir_routes_add(routes, &options);
}

static int add_route(weir_service *service, const weir_config *config, const weir_config_route *route,
		     weir_routes *routes)
{
	weir_place *place = weir_places_for(&service->places, config, route);
	weir_buf *page = NULL;
	if (place == NULL)
		return -EINVAL;
	int failed = route->reject_page != NULL ? read_page(route->reject_page, &page) : 0;
	weir_route_options options = {.name = route->head.title,
				      .rules = route->match,
				      .stage = place->stage,
				      .klass = route->level != 0 ? route->level : WEIR_CLASS_HIGHEST,
				      .exempt = route->exempt,
				      .collect_bytes = route->collect_bytes,
				      .deadline_ns = route->deadline_ns,
				      .reject = route->reject_kind,
				      .reject_status = route->reject_status,
				      .location = route->reject_location,
				      .page = page,
				      .page_type = "text/html; charset=utf-8",
				      .session = route->session,
				      .session_idle_ns = route->session_idle_ns,
				      .session_keys = route->session_keys};
	if (failed == 0)
		failed = add_health_route(config, route, &options, routes);
	if (failed == 0)
		failed = weir_routes_add(routes, &options);
	weir_buf_unref(page);
	return failed;
}

static int add_class(const weir_config_class *klass, weir_routes *routes)
{
	weir_class_options options = {
		.name = klass->head.title, .klass = klass->level, .rules = klass->match};
	return weir_routes_add_class(routes, &options);
}

static int add_limit(const weir_config_limit *limit, weir_routes *routes)
{
	weir_limit_options options = {.name = limit->head.title,
				      .rules = limit->match,
				      .key = limit->key,
				      .rate_per_s = limit->rate_per_s,
				      .burst = limit->burst,
				      .keys = limit->keys};
	return weir_routes_add_limit(routes, &options);
}

static int make_routes(weir_service *service, const weir_config *config, weir_routes **ret_routes)
{
	weir_routes *routes;
	int failed = weir_routes_new(&routes);
	if (failed != 0)
		return failed;
	for (unsigned i = 0; failed == 0 && i < config->classes; i++)
		failed = add_class(&config->klass[i], routes);
	weir_routes_go_on(routes, service->routes);
	for (unsigned i = 0; failed == 0 && i < config->limits; i++)
		failed = add_limit(&config->limit[i], routes);
	for (unsigned i = 0; failed == 0 && i < config->routes; i++)
		failed = add_route(service, config, &config->route[i], routes);
	weir_routes_go_on(routes, NULL);
	if (failed != 0)
		weir_routes_unref(routes);
	else
		*ret_routes = routes;
	return failed;
}

/* ---- listening ---- */

static bool same_address(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return memcmp(a, b, offsetof(struct sockaddr_in, sin_zero)) == 0;
	if (a->sa_family == AF_INET6) {
		const struct sockaddr_in6 *x = (const struct sockaddr_in6 *)a,
					  *y = (const struct sockaddr_in6 *)b;
		return x->sin6_port == y->sin6_port &&
		       memcmp(&x->sin6_addr, &y->sin6_addr, sizeof(x->sin6_addr)) == 0;
	}
	return a->sa_family == AF_UNIX &&
	       strncmp(((const struct sockaddr_un *)a)->sun_path, ((const struct sockaddr_un *)b)->sun_path,
		       sizeof(((const struct sockaddr_un *)a)->sun_path)) == 0;
}

/* The same but for the port, where that is to be chosen. */
static bool same_host(const struct sockaddr *bound, const struct sockaddr *address)
{
	struct sockaddr_storage any = {0};
	if (address->sa_family == AF_INET && ((const struct sockaddr_in *)address)->sin_port == 0) {
		memcpy(&any, bound, sizeof(struct sockaddr_in));
		((struct sockaddr_in *)&any)->sin_port = 0;
	} else if (address->sa_family == AF_INET6 && ((const struct sockaddr_in6 *)address)->sin6_port == 0) {
		memcpy(&any, bound, sizeof(struct sockaddr_in6));
		((struct sockaddr_in6 *)&any)->sin6_port = 0;
	} else {
		return false;
	}
	return same_address((const struct sockaddr *)&any, address);
}

/* Whether a socket that listens at bound is the one that was configured as this: by its address, or by the name that a predecessor gave it. */
static bool is_wanted(const weir_inherited *socket, const struct sockaddr *bound,
		      const struct sockaddr *address, const char *name)
{
	return same_address(bound, address) ||
	       (socket->name != NULL && strcmp(socket->name, name) == 0 && same_host(bound, address));
}

/* Those of the inherited sockets that listen at this address. */
static size_t take_inherited(const struct sockaddr *address, const char *name, weir_inherited *inherited,
			     size_t count, int *ret_fds, size_t most)
{
	size_t found = 0;
	for (size_t i = 0; i < count && found < most; i++) {
		struct sockaddr_storage bound = {0};
		socklen_t length = sizeof(bound);
		if (inherited[i].used ||
		    getsockname(inherited[i].fd, (struct sockaddr *)&bound, &length) != 0 ||
		    !is_wanted(&inherited[i], (const struct sockaddr *)&bound, address, name))
			continue;
		inherited[i].used = true;
		ret_fds[found++] = inherited[i].fd;
	}
	return found;
}

static int add_listener(weir_service *service, const weir_config *config, const weir_config_listen *listen,
			weir_inherited *inherited, size_t count)
{
	int fds[WEIR_THREADS_MAX];
	listening *at = &service->listen[service->listens];
	if (service->listens == LISTENERS_MOST)
		return weir_error_set(-ENOSPC,
				      "there are more than %u listen blocks, those that were closed included",
				      LISTENERS_MOST);
	*at = (listening){.nth = weir_config_nth(config, listen)};
	snprintf(at->title, sizeof(at->title), "%s", listen->head.title);
	snprintf(at->name, sizeof(at->name), "listen %.127s %u", listen->head.title, at->nth);
	int failed = listen->tls ? weir_config_tls(listen, &at->tls) : 0;
	const struct sockaddr *address = (const struct sockaddr *)&listen->address;
	weir_http_listen options = {
		.address = address,
		.address_length = listen->address_length,
		.fds = fds,
		.fd_count = take_inherited(address, at->name, inherited, count, fds, WEIR_THREADS_MAX),
		.backlog = (int)listen->backlog,
		.max_connections = listen->max_connections,
		.tls = at->tls,
		.http2 = listen->http2,
		.proxy = listen->proxy};
	if (options.fd_count == 0)
		options.fds = NULL;
	if (failed == 0)
		failed = weir_http_add_listener(service->http, &options, &at->number);
	if (failed != 0) {
		weir_tls_unref(at->tls);
		return failed;
	}
	service->listens++;
	return 0;
}

/* Of a predecessor. What is not taken is learnt again. */
static void load_costs(weir_service *service)
{
	uint64_t now_ns = weir_clock_ns();
	const char *line;
	for (size_t i = 0; (line = weir_handover_cost(service->places.handover, i)) != NULL; i++)
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

/* The same of sessions, of the first few kinds: a bound on what is handed over. */
#define SESSIONS_SAVED 8u

static void load_sessions(weir_service *service)
{
	char text[WEIR_SESSION_TEXT_MAX];
	uint64_t idle_ns;
	weir_sessions *sessions;
	for (uint32_t at = 0;
	     (sessions = weir_http_sessions(service->http, at, text, sizeof(text), &idle_ns)) != NULL; at++) {
		const char *line = weir_handover_session(service->places.handover, text);
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

static int make_http(weir_service *service, weir_routes *routes)
{
	bool wanted = service->access != NULL || service->admin != NULL;
	weir_http_options options = {.domain = service->domain,
				     .routes = routes,
				     .limits = service->config->http.http,
				     .log = wanted ? record : NULL,
				     .log_arg = service,
				     .log_sheds_only = service->access == NULL};
	int failed = weir_http_new(&options, &service->http);
	if (failed != 0)
		return failed;
	weir_http_set_errors(service->http, service->errors);
	load_costs(service);
	load_sessions(service);
	return 0;
}

static int listen_admin(weir_service *service, weir_inherited *inherited, size_t count)
{
	int fds[WEIR_THREADS_MAX];
	const weir_config_admin *admin = &service->config->admin;
	const struct sockaddr *address = (const struct sockaddr *)&admin->address;
	if (service->admin == NULL)
		return 0;
	size_t found = take_inherited(address, ADMIN_NAME, inherited, count, fds, WEIR_THREADS_MAX);
	int failed = weir_admin_listen(service->admin, address, admin->address_length, found > 0 ? fds : NULL,
				       found);
	/* Whoever runs two has often not asked for this one. */
	if (failed == -EADDRINUSE)
		weir_error_set(failed,
			       "admin: %s is taken; choose another with --admin ADDR:PORT, or --admin off",
			       admin->head.title);
	return failed;
}

int weir_service_start(weir_service *service, weir_inherited *inherited, size_t count)
{
	weir_routes *routes;
	int failed = weir_world_start(service->world);
	if (failed != 0)
		return failed;
	service->started = service->places.running = true;
	failed = make_routes(service, service->config, &routes);
	if (failed != 0)
		return failed;
	service->routes = routes;
	failed = make_http(service, routes);
	if (failed == 0)
		failed = weir_places_settle(&service->places, service->config);
	if (failed == 0)
		failed = weir_places_start(&service->places);
	for (unsigned i = 0; failed == 0 && i < service->config->listens; i++)
		failed =
			add_listener(service, service->config, &service->config->listen[i], inherited, count);
	/* Last: its thread looks at what the listeners have made. */
	if (failed == 0)
		failed = listen_admin(service, inherited, count);
	service->places.handover = NULL;
	return failed;
}

/* ---- changing ---- */

static listening *listening_at(weir_service *service, const char *title, unsigned nth)
{
	for (unsigned i = 0; i < service->listens; i++)
		if (!service->listen[i].closed && service->listen[i].nth == nth &&
		    strcmp(service->listen[i].title, title) == 0)
			return &service->listen[i];
	return NULL;
}

static bool is_configured(const weir_config *config, const listening *at)
{
	return weir_config_listen_find(config, at->title, at->nth) != NULL;
}

/* Of a listen block that is there already. */
static listening *listening_of(weir_service *service, const weir_config *config, unsigned listen)
{
	return listening_at(service, config->listen[listen].head.title,
			    weir_config_nth(config, &config->listen[listen]));
}

static void close_from(weir_service *service, unsigned first)
{
	for (unsigned i = first; i < service->listens; i++) {
		weir_http_close_listener(service->http, service->listen[i].number);
		service->listen[i].closed = true;
	}
}

/* Listeners that are new, and the certificates of those that go on, which nobody uses yet: all that may fail. */
static int add_listeners(weir_service *service, const weir_config *config, weir_tls *ret_tls[LISTENERS_MOST])
{
	int failed = 0;
	for (unsigned i = 0; failed == 0 && i < config->listens; i++) {
		listening *at = listening_of(service, config, i);
		if (at == NULL)
			failed = add_listener(service, config, &config->listen[i], NULL, 0);
		else if (config->listen[i].tls)
			failed = weir_config_tls(&config->listen[i], &ret_tls[at - service->listen]);
	}
	return failed;
}

/* New certificates for those that go on, and no more accepting where there is no listen block any more. */
static void change_listeners(weir_service *service, const weir_config *config, weir_tls *tls[LISTENERS_MOST])
{
	for (unsigned i = 0; i < service->listens; i++) {
		listening *at = &service->listen[i];
		if (tls[i] != NULL && weir_http_set_tls(service->http, at->number, tls[i]) == 0) {
			weir_tls_unref(at->tls);
			at->tls = tls[i];
			tls[i] = NULL;
		}
		if (!at->closed && !is_configured(config, at)) {
			weir_http_close_listener(service->http, at->number);
			at->closed = true;
		}
	}
}

/* All that may fail, in an order in which it can be taken back. */
static int prepare(weir_service *service, const weir_config *config, weir_tls *ret_tls[LISTENERS_MOST])
{
	weir_routes *routes;
	unsigned before = service->listens;
	int failed = make_routes(service, config, &routes);
	if (failed != 0)
		return failed;
	failed = weir_places_add_servers(&service->places, config);
	if (failed == 0)
		failed = add_listeners(service, config, ret_tls);
	if (failed == 0)
		failed = weir_places_start(&service->places);
	if (failed == 0)
		failed = weir_http_set_routes(service->http, routes);
	if (failed != 0)
		close_from(service, before);
	weir_routes_unref(failed == 0 ? service->routes : routes);
	if (failed == 0)
		service->routes = routes;
	return failed;
}

int weir_service_apply(weir_service *service, const weir_config *config)
{
	weir_tls *tls[LISTENERS_MOST] = {NULL};
	int failed = prepare(service, config, tls);
	if (failed == 0) {
		change_listeners(service, config, tls);
		/* By now it is in force, and what could not be had is told. */
		if (weir_places_settle(&service->places, config) != 0)
			weir_errors_say(service->errors, WEIR_LOG_ERROR, "reload", "%s", weir_error());
		name_classes(service, config);
		watch_resources(service->monitor,
				&config->resources); /* what the tables let through is right */
		if (service->admin != NULL)
			weir_admin_set_page(service->admin, config->admin.page);
		__atomic_store_n(&service->config, config, __ATOMIC_RELEASE);
	}
	/* With what stays in force: takes back what was added for one that failed. */
	weir_places_leave(&service->places, service->config);
	for (unsigned i = 0; i < LISTENERS_MOST; i++)
		weir_tls_unref(tls[i]);
	return failed;
}

/* ---- the rest ---- */

static size_t name_sockets(weir_inherited *ret_sockets, const int *fds, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		ret_sockets[i] = (weir_inherited){.fd = fds[i], .name = name};
	return count;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

size_t weir_service_listeners(const weir_service *service, weir_inherited *ret_sockets, size_t most)
{
	int fds[WEIR_THREADS_MAX];
	size_t count = 0, got;
	for (unsigned i = 0; i < service->listens; i++) {
		const listening *at = &service->listen[i];
		if (at->closed)
			continue;
		got = weir_http_fds(service->http, at->number, fds, least(most - count, WEIR_THREADS_MAX));
		count += name_sockets(ret_sockets + count, fds, got, at->name);
	}
	if (service->admin != NULL) {
		got = weir_admin_fds(service->admin, fds, least(most - count, WEIR_THREADS_MAX));
		count += name_sockets(ret_sockets + count, fds, got, ADMIN_NAME);
	}
	return count;
}

void weir_service_save(const weir_service *service, FILE *to)
{
	weir_places_save(&service->places, service->config, to);
	save_costs(service, to);
	save_sessions(service, to);
}

void weir_service_ready(weir_service *service, bool ready)
{
	if (service->admin != NULL)
		weir_admin_set_ready(service->admin, ready);
}

void weir_service_reopen_logs(weir_service *service)
{
	if (service->error_file != NULL)
		weir_log_reopen(service->error_file);
	if (service->access_file != NULL)
		weir_log_reopen(service->access_file);
}

weir_errors *weir_service_errors(const weir_service *service)
{
	return service->errors;
}

void weir_service_print(const weir_service *service, FILE *file)
{
	char address[128];
	for (unsigned i = 0; i < service->listens; i++)
		if (!service->listen[i].closed && weir_http_address(service->http, service->listen[i].number,
								    address, sizeof(address), NULL) == 0)
			fprintf(file, "  listening on http%s://%s\n",
				service->listen[i].tls != NULL ? "s" : "", address);
	if (service->admin != NULL && weir_admin_address(service->admin, address, sizeof(address)) == 0)
		fprintf(file, "  %s    http://%s\n", service->config->admin.page ? "live page" : "admin    ",
			address);
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
	weir_places_free(&service->places);
	weir_monitor_free(&service->monitor);
	weir_files_free(&service->files);
	weir_world_free(&service->world);
	free_logs(service);
	free_names(service);
	weir_mem_free(service);
	return failed;
}
