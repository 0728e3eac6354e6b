/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOG_H
#define WEIR_LOG_H

/*
 * An access log for a server: a line for every request that is over, in a file, without making a request
 * wait.
 *
 *	weir_access_log_open(&(weir_access_log_options){.path = "/var/log/site/access.log"}, domain, &access);
 *	weir_http_new(&(weir_http_options){..., .log = weir_access_log_record, .log_arg = access}, &http);
 *	...
 *	weir_http_free(&http);
 *	weir_access_log_free(&access);
 *
 * Lines wait in memory of bounded size, 256 KB for each thread of the domain, and a thread of the log's own
 * writes them five times a second. Where the disk is slower, or nobody reads a pipe, lines are dropped and
 * counted, and once there is room a line says how many. Nothing that a client sends can end a line or begin a
 * field: all is escaped, and cut at a bound. docs/logs.md has the formats.
 *
 * Rotation: rename the file, then weir_access_log_reopen. Lines go to the old file or the new one, and none
 * is lost.
 *
 * Lifetime: it outlives the server, and every world whose requests may still be told of.
 *
 * Threads: record: the reactor threads of the domain, by the server. reopen: any, and signal handlers. All
 * else: any thread but reactors; free last.
 */

#include <weir/http.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weir_access_log weir_access_log;

typedef enum weir_log_format {
	WEIR_LOG_COMBINED, /* that of Apache and nginx, with what only Weir knows behind it */
	WEIR_LOG_JSON,     /* an object a line */
	WEIR_LOG_PLAIN,    /* sentences: for error logs, not for access logs */
} weir_log_format;

typedef struct weir_access_log_options {
	const char *path; /* made with mode 0640, and appended to; "-": standard output; copied */
	weir_log_format format;
} weir_access_log_options;

typedef struct weir_log_stats {
	uint64_t lines;    /* written */
	uint64_t dropped;  /* for want of room, or because they could not be written */
	uint64_t bytes;    /* written */
	uint64_t failures; /* of writes and reopenings */
	uint64_t reopened;
	int error; /* errno of the last write that failed; 0: none has, since the file was opened */
} weir_log_stats;

/*
 * Opens the file and starts the writer, for the servers of one reactor domain; those of another have a log of
 * their own. -EINVAL, -ENOENT, -EACCES ... with weir_error.
 */
WEIR_API int weir_access_log_open(const weir_access_log_options *options, const weir_domain *domain,
				  weir_access_log **ret_access);
/* Writes what is there, for at most two seconds where nobody reads, and closes. Sets it to NULL. */
WEIR_API void weir_access_log_free(weir_access_log **access);
/* The log function of weir_http_options; log_arg is the log. */
WEIR_API void weir_access_log_record(const weir_http_record *record, void *access);
/*
 * Opens the path anew, soon; if that fails the old file stays, and the failure is counted. Nothing with "-".
 */
WEIR_API void weir_access_log_reopen(weir_access_log *access);
/* Waits until the lines so far are written. false: not within the time. */
WEIR_API bool weir_access_log_flush(weir_access_log *access, uint64_t timeout_ns);
/* What was written and what was lost, so far. Any thread. */
WEIR_API void weir_access_log_read_stats(const weir_access_log *access, weir_log_stats *ret_stats);

#ifdef __cplusplus
}
#endif
#endif
