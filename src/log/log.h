/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_LOG_LOG_H
#define WEIR_LOG_LOG_H

/*
 * Logs that never make a reactor wait.
 *
 * weir_log is a file and one thread that writes to it. Lines come through rings of bounded size: one for
 * each thread that has its own (a reactor's: no lock, no system call, the line is formatted in place),
 * and one with a lock that all others share. The writer collects the lines a few times a second, or as
 * soon as a ring is half full, and writes them at once. A disk that is too slow, or a pipe that nobody
 * reads, fills the rings. Then lines are dropped and counted, and once there is room a line says how
 * many. Rotation: rename the file and call weir_log_reopen; each line goes to the old file or the new
 * one, and none is lost.
 *
 *  owner of ring i:  weir_log_begin ─▶ format ─▶ weir_log_end
 *  any thread:       weir_log_put
 *
 * weir_log_format_* make lines of the access log from a plain struct. Nothing that a client sends can end
 * a line, begin a field or leave the log's encoding: everything is escaped, and cut at a bound.
 * docs/logs.md describes the formats.
 *
 * weir_errors is the error log: messages with a level, and a limited number per second of each kind, so
 * that an attack does not fill a disk.
 *
 * Threads: a ring belongs to one thread at a time. Everything else may be called by any thread, except
 * free, which is last.
 */

#include <weir/log.h>

typedef struct weir_log weir_log;

/* Where lines go. Its log's writer has it, or whoever is about to give it to one. */
typedef struct weir_log_file {
	char *path;   /* NULL: a descriptor of the process, which stays open; or none */
	int fd;       /* -1: lines go nowhere */
	bool regular; /* writes do not wait for a reader */
} weir_log_file;

enum {
	WEIR_LOG_LINE_MAX = 8192, /* of one line, including its newline */
	WEIR_LOG_RINGS_MAX = 1024,
};

typedef struct weir_log_options {
	const char *path;       /* "-": the descriptor below; NULL: lines go nowhere; copied */
	int fd;                 /* for "-": 1 or 2, which stays open */
	weir_log_format format; /* of the line that says how many were dropped */
	unsigned rings;         /* in addition to the shared one */
	size_t ring_bytes;      /* 0: 256 KB; at least 4 lines */
	uint64_t period_ns;     /* how long a line waits at most while the disk is fast; 0: 200 ms */
} weir_log_options;

/* Opens the file (appending, created with mode 0640) and starts the writer. -errno with weir_error. */
int weir_log_new(const weir_log_options *options, weir_log **ret_log);
/* Writes what is in the rings, for at most two seconds if nobody reads, and closes. Sets *log to NULL. */
void weir_log_free(weir_log **log);

/*
 * Room for WEIR_LOG_LINE_MAX bytes; NULL: there is none, and the line is counted as dropped. Only for the
 * ring's owner.
 */
char *weir_log_begin(weir_log *log, unsigned ring);
/* Commits the line that was made there: its bytes, including the newline; 0: none after all. */
void weir_log_end(weir_log *log, unsigned ring, size_t length);
/* Puts a line through the shared ring. false: dropped. Takes a lock, for as long as the copy takes. */
bool weir_log_put(weir_log *log, const char *line, size_t length);

/* Another format for the line that says how many were dropped. */
void weir_log_set_format(weir_log *log, weir_log_format format);
/*
 * Reopens the path, soon, on the writer's thread; if that fails the old file stays. Safe in a signal
 * handler.
 */
void weir_log_reopen(weir_log *log);

/* Opens a file as weir_log_new does, for weir_log_use. -errno with weir_error. */
int weir_log_file_open(const char *path, int fd, weir_log_file **ret_file);
/* The same path once more. -ENOENT: it has none; on failure it stays as it was. */
int weir_log_file_reopen(weir_log_file *file);
/* May be NULL. Sets it to NULL. */
void weir_log_file_close(weir_log_file **file);
/*
 * The log has the file from now on. Lines from before go to the one that it had, unless nobody reads that for two
 * seconds; each line goes to one of them. Any thread.
 */
void weir_log_use(weir_log *log, weir_log_file *file);

/* Waits until what was in the rings is written (false: not within the time). Not on a reactor thread. */
bool weir_log_flush(weir_log *log, uint64_t timeout_ns);
void weir_log_read_stats(const weir_log *log, weir_log_stats *ret_stats);

/* ---- lines of the access log ---- */

/*
 * The time of a line, whose text is made once a second. One per ring, for the thread that makes its
 * lines. All zero at the beginning.
 */
typedef struct weir_log_clock {
	int64_t wall_less_monotonic_ns;
	int64_t checked_s, second;
	char local[40]; /* "10/Oct/2000:13:55:36 -0700" */
	char utc[32];   /* "2000-10-10T20:55:36" */
	unsigned millisecond;
} weir_log_clock;

/* Sets it to a time of the monotonic clock. */
void weir_log_clock_set(weir_log_clock *clock, uint64_t monotonic_ns);
/* Sets it to a wall-clock time; for tests. */
void weir_log_clock_at(weir_log_clock *clock, int64_t wall_ns);

/* A finished request, with any bytes. at is NULL: missing. */
typedef struct weir_log_entry {
	const struct sockaddr *client; /* NULL: unknown */
	weir_span method, path, query, host, referer, agent;
	unsigned version; /* 10, 11, 20; 0: the input was not a valid request */
	unsigned status;  /* 0: none was sent */
	uint64_t bytes;
	uint64_t duration_ns, first_byte_ns; /* since the first byte of the request */
	const char *route, *shed, *error;    /* NULL: none */
	const char *class_name, *session;    /* NULL: none; session: "member", "newcomer" */
	weir_span stage, note;
	unsigned klass;
	bool secure, gone;
} weir_log_entry;

/* Writes a line with its newline into WEIR_LOG_LINE_MAX bytes; returns its length. */
size_t weir_log_format_combined(char *line, const weir_log_clock *clock, const weir_log_entry *entry);
size_t weir_log_format_json(char *line, const weir_log_clock *clock, const weir_log_entry *entry);
/* "127.0.0.1", "2001:db8::1", "unix", "-"; text has room for 64 bytes. Returns its length. */
size_t weir_log_print_address(char *text, const struct sockaddr *address);

/*
 * An access log (weir/log.h) on an existing log, which the caller still owns. The log has a ring for each
 * thread of the server's domain. -ENOMEM.
 */
int weir_access_log_new(weir_log *log, weir_log_format format, unsigned threads,
			weir_access_log **ret_access);
/* Another format for the lines from now on. */
void weir_access_log_set_format(weir_access_log *access, weir_log_format format);

/* ---- the error log ---- */

/* WEIR_LOG_SILENT: the least level of a log that has no messages at all. */
typedef enum weir_log_level {
	WEIR_LOG_DEBUG,
	WEIR_LOG_INFO,
	WEIR_LOG_WARN,
	WEIR_LOG_ERROR,
	WEIR_LOG_SILENT
} weir_log_level;

typedef struct weir_errors weir_errors;

/* The caller still owns the log. per_s: messages of a kind per second, and at once; 0: 10. */
int weir_errors_new(weir_log *log, weir_log_level least, unsigned per_s, weir_errors **ret_errors);
void weir_errors_free(weir_errors **errors);
/* Another least level from now on. May be NULL. */
void weir_errors_set_level(weir_errors *errors, weir_log_level least);
/*
 * Whether messages of this level are logged at all, for callers that would first have to make the text.
 * NULL errors: no.
 */
bool weir_errors_hears(const weir_errors *errors, weir_log_level level);
/*
 * Logs a message, without a newline. kind: a literal that all similar messages share ("tls", "backend"),
 * and that is rate-limited; beyond the limit they are counted, and the next one of the kind says how
 * many. Control characters are escaped. Any thread, but not in a signal handler. NULL errors: does
 * nothing.
 */
void weir_errors_say(weir_errors *errors, weir_log_level level, const char *kind, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

#endif
