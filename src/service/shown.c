/* SPDX-License-Identifier: Apache-2.0 */
/* What the admin shows besides stages. Its thread calls all but weir_service_make_admin. */
#include <stdlib.h>

#include "net/transmit.h"
#include "service/service_inside.h"

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

/* ---- things ---- */

static void show_members(const weir_service *service, const weir_thing *thing, weir_show_fn *fn, void *arg)
{
	const weir_kind *kind = thing->kind;
	max_align_t values[WEIR_SHOWN_BYTES / sizeof(max_align_t)];
	uint64_t now_ns = weir_world_now(service->world);
	size_t count = kind->member_count != NULL ? kind->member_count(thing->self) : 0;
	for (size_t i = 0; i < count; i++)
		if (kind->read_member(thing->self, i, now_ns, values))
			fn(&(weir_shown){.list = kind->members,
					 .prefix = kind->prefix,
					 .owner = thing->name,
					 .metrics = kind->member_metrics,
					 .values = values},
			   arg);
}

static void show_account(const weir_service *service, const weir_thing *thing, weir_show_fn *fn, void *arg)
{
	if (!thing->account.kept)
		return;
	fn(&(weir_shown){.list = "accounts",
			 .prefix = "weir_account_",
			 .owner = thing->name,
			 .metrics = weir_account_metrics,
			 .values = &thing->account.shown},
	   arg);
	for (unsigned k = 0; k < WEIR_CLASSES; k++) {
		weir_account_class klass = thing->account.klass[k];
		klass.name = __atomic_load_n(&service->class_names[k], __ATOMIC_ACQUIRE);
		if (klass.name != NULL)
			fn(&(weir_shown){.list = "revenue",
					 .prefix = "weir_account_",
					 .owner = thing->name,
					 .metrics = weir_account_class_metrics,
					 .values = &klass},
			   arg);
	}
}

static void show_thing(const weir_service *service, const weir_thing *thing, weir_show_fn *fn, void *arg)
{
	const weir_kind *kind = thing->kind;
	max_align_t values[WEIR_SHOWN_BYTES / sizeof(max_align_t)];
	if (kind->metrics != NULL) {
		kind->read(thing->self, values);
		fn(&(weir_shown){.prefix = kind->prefix,
				 .owner = thing->name,
				 .metrics = kind->metrics,
				 .values = values},
		   arg);
	}
	if (thing->said.text != NULL)
		fn(&(weir_shown){.list = "overloads",
				 .prefix = "weir_overload_",
				 .owner = thing->name,
				 .metrics = weir_overload_metrics,
				 .values = &thing->said},
		   arg);
	show_members(service, thing, fn, arg);
	show_account(service, thing, fn, arg);
}

/* ---- the service itself ---- */

typedef struct own_counts {
	uint64_t reloads, failed_reloads;
} own_counts;

static const weir_metric own_metrics[] = {{"reloads", WEIR_METRIC_COUNTER, offsetof(own_counts, reloads),
					   "Configurations that were put in force by a reload."},
					  {"failed_reloads", WEIR_METRIC_COUNTER,
					   offsetof(own_counts, failed_reloads),
					   "Reloads that changed nothing, since something was wrong."},
					  {0}};

static void show_own(const weir_service *service, weir_show_fn *fn, void *arg)
{
	own_counts values = {.reloads = __atomic_load_n(&service->reloads, __ATOMIC_RELAXED),
			     .failed_reloads = __atomic_load_n(&service->reloads_failed, __ATOMIC_RELAXED)};
	fn(&(weir_shown){.prefix = "weir_config_", .metrics = own_metrics, .values = &values}, arg);
}

typedef struct log_counts {
	uint64_t lines, lost, failures;
	const char *log;
} log_counts;

static const weir_metric log_metrics[] = {
	{"log", WEIR_METRIC_TEXT, offsetof(log_counts, log), "access or error."},
	{"lines", WEIR_METRIC_COUNTER, offsetof(log_counts, lines), "Lines that were written."},
	{"lost", WEIR_METRIC_COUNTER, offsetof(log_counts, lost),
	 "Lines that were lost: the log was too slow, or could not be written."},
	{"failures", WEIR_METRIC_COUNTER, offsetof(log_counts, failures),
	 "Writes and reopenings that failed."},
	{0}};

static void show_log(const weir_log *log, const char *name, weir_show_fn *fn, void *arg)
{
	weir_log_stats stats;
	weir_log_read_stats(log, &stats);
	const log_counts values = {stats.lines, stats.dropped, stats.failures, name};
	fn(&(weir_shown){.prefix = "weir_log_", .metrics = log_metrics, .values = &values}, arg);
}

static void show_transmit(const weir_service *service, weir_show_fn *fn, void *arg)
{
	weir_transmit_stats values;
	weir_transmit *transmit = __atomic_load_n(&service->transmit, __ATOMIC_ACQUIRE);
	if (transmit == NULL || __atomic_load_n(&service->config, __ATOMIC_ACQUIRE)->transmit.scheduling == 0)
		return;
	weir_transmit_read(transmit, &values);
	fn(&(weir_shown){.list = "transmit",
			 .prefix = "weir_transmit_",
			 .metrics = weir_transmit_metrics,
			 .values = &values},
	   arg);
}

static void show(weir_show_fn *fn, void *fn_arg, void *arg)
{
	weir_service *service = arg;
	show_own(service, fn, fn_arg);
	show_log(service->access_file, "access", fn, fn_arg);
	show_log(service->error_file, "error", fn, fn_arg);
	show_transmit(service, fn, fn_arg);
	max_align_t values[WEIR_SHOWN_BYTES / sizeof(max_align_t)];
	for (unsigned i = 0; service->things.kinds[i] != NULL; i++) {
		const weir_kind *kind = service->things.kinds[i];
		const void *shared = __atomic_load_n(&service->things.shared[i], __ATOMIC_ACQUIRE);
		if (kind->shared_metrics == NULL || shared == NULL)
			continue;
		kind->read_shared(shared, values);
		fn(&(weir_shown){.prefix = kind->shared_prefix,
				 .metrics = kind->shared_metrics,
				 .values = values},
		   fn_arg);
	}
	pthread_mutex_lock(&service->things.lock);
	if (service->things.said.text != NULL)
		fn(&(weir_shown){.list = "verdict",
				 .prefix = "weir_verdict_",
				 .metrics = weir_verdict_metrics,
				 .values = &service->things.said},
		   fn_arg);
	for (const weir_thing *thing = service->things.first; thing != NULL; thing = thing->next)
		show_thing(service, thing, fn, fn_arg);
	pthread_mutex_unlock(&service->things.lock);
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

int weir_service_make_admin(weir_service *service, const weir_service_options *options)
{
	weir_admin_options admin = {.world = service->world,
				    .verb = options->verb,
				    .token = options->token,
				    .hosts = service->config->admin.hosts,
				    .class_names = service->class_names,
				    .http_stats = http_stats,
				    .http = costs_of,
				    .show = show,
				    .config = config_text,
				    .arg = service};
	if (service->config->admin.off)
		return 0;
	int failed = weir_admin_new(&admin, &service->admin);
	if (failed == 0)
		weir_admin_set_page(service->admin, service->config->admin.page);
	return failed;
}
