/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns a server's record of a finished request into a line of the access log: on the request's own
 * thread, into that thread's ring.
 */
#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/error.h"
#include "base/mem.h"
#include "log/log.h"

typedef struct line_clock {
	_Alignas(64) weir_log_clock clock;
} line_clock;

struct weir_access_log {
	weir_log *log;
	bool own; /* the log goes with it */
	_Atomic weir_log_format format;
	unsigned threads;
	line_clock *clocks; /* one per thread, used by it alone */
};

int weir_access_log_new(weir_log *log, weir_log_format format, unsigned threads, weir_access_log **ret_access)
{
	weir_access_log *access = weir_mem_zalloc(sizeof(*access));
	line_clock *clocks = weir_mem_aligned(64, threads * sizeof(*clocks));
	if (access == NULL || clocks == NULL) {
		weir_mem_free(access);
		weir_mem_free(clocks);
		return weir_error_set(-ENOMEM, "out of memory");
	}
	*access = (weir_access_log){.log = log, .format = format, .threads = threads, .clocks = clocks};
	*ret_access = access;
	return 0;
}

void weir_access_log_set_format(weir_access_log *access, weir_log_format format)
{
	atomic_store_explicit(&access->format, format, memory_order_relaxed);
	weir_log_set_format(access->log, format);
}

static int check(const weir_access_log_options *options, const weir_domain *domain)
{
	if (options->path == NULL || options->path[0] == '\0')
		return weir_error_set(-EINVAL, "access log: a path is needed, or \"-\" for standard output");
	if (options->format != WEIR_LOG_COMBINED && options->format != WEIR_LOG_JSON)
		return weir_error_set(-EINVAL,
				      "access log: its format is WEIR_LOG_COMBINED or WEIR_LOG_JSON");
	if (!weir_domain_is_reactor(domain))
		return weir_error_set(-EINVAL,
				      "access log: domain '%s' has no loops: a reactor domain is needed",
				      weir_domain_name(domain));
	return 0;
}

int weir_access_log_open(const weir_access_log_options *options, const weir_domain *domain,
			 weir_access_log **ret_access)
{
	weir_log *log = NULL;
	int error = check(options, domain);
	if (error != 0)
		return error;
	unsigned threads = weir_domain_threads(domain);
	error = weir_log_new(&(weir_log_options){.path = options->path,
						 .fd = STDOUT_FILENO,
						 .format = options->format,
						 .rings = threads},
			     &log);
	if (error != 0)
		return error;
	error = weir_access_log_new(log, options->format, threads, ret_access);
	if (error != 0)
		weir_log_free(&log);
	else
		(*ret_access)->own = true;
	return error;
}

void weir_access_log_free(weir_access_log **access)
{
	if (*access == NULL)
		return;
	if ((*access)->own)
		weir_log_free(&(*access)->log);
	weir_mem_free((*access)->clocks);
	weir_mem_free(*access);
	*access = NULL;
}

void weir_access_log_reopen(weir_access_log *access)
{
	weir_log_reopen(access->log);
}

bool weir_access_log_flush(weir_access_log *access, uint64_t timeout_ns)
{
	return weir_log_flush(access->log, timeout_ns);
}

void weir_access_log_read_stats(const weir_access_log *access, weir_log_stats *ret_stats)
{
	weir_log_read_stats(access->log, ret_stats);
}

static void look_at_request(weir_log_entry *entry, const weir_http_record *record)
{
	const weir_request *request = record->request;
	entry->method = weir_request_method_text(request);
	entry->path = record->path;
	entry->query = weir_request_query(request);
	entry->host = weir_request_host(request);
	entry->referer = weir_request_header(request, WEIR_SPAN("referer"));
	entry->agent = weir_request_header(request, WEIR_SPAN("user-agent"));
	entry->version = weir_request_version(request);
	entry->secure = weir_request_secure(request);
	entry->route = weir_request_route_name(request);
	entry->class_name = weir_request_class_name(request);
	entry->session = weir_request_standing(request);
}

/* Empty spans count as missing. */
static weir_span some(weir_span span)
{
	return span.length > 0 ? span : (weir_span){0};
}

void weir_access_log_record(const weir_http_record *record, void *arg)
{
	weir_access_log *access = arg;
	unsigned thread = weir_thread_home();
	if (thread >= access->threads)
		return;
	char *line = weir_log_begin(access->log, thread);
	if (line == NULL)
		return;
	weir_log_entry entry = {
		.client = record->client,
		.status = record->status,
		.bytes = record->body_bytes,
		.duration_ns = record->ended_ns - record->began_ns,
		.first_byte_ns = record->first_byte_ns > record->began_ns
					 ? record->first_byte_ns - record->began_ns
					 : 0,
		.shed = record->shed != WEIR_ADMITTED ? weir_verdict_name(record->shed) : NULL,
		.error = record->error,
		.stage = some(record->stage),
		.note = some(record->note),
		.klass = record->klass,
		.gone = record->gone,
	};
	if (record->request != NULL)
		look_at_request(&entry, record);
	weir_log_clock *clock = &access->clocks[thread].clock;
	weir_log_clock_set(clock, record->ended_ns);
	weir_log_end(access->log, thread,
		     atomic_load_explicit(&access->format, memory_order_relaxed) == WEIR_LOG_JSON
			     ? weir_log_format_json(line, clock, &entry)
			     : weir_log_format_combined(line, clock, &entry));
}
