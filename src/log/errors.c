/* SPDX-License-Identifier: Apache-2.0 */
/* The error log: messages with a level, rate-limited by kind. */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "log/log.h"

#define KINDS    64 /* the last one is shared by kinds that have no entry of their own */
#define PER_S    10
#define SENTENCE 2048

typedef struct error_kind {
	const char *name;
	uint64_t refilled_ns;
	double tokens;
	uint64_t unsaid;
} error_kind;

struct weir_errors {
	weir_log *log;
	_Atomic weir_log_level least;
	unsigned per_s;
	/* under lock, which is held while a line is made and never while it is written */
	pthread_mutex_t lock;
	error_kind kinds[KINDS];
	weir_log_clock clock;
};

int weir_errors_new(weir_log *log, weir_log_level least, unsigned per_s, weir_errors **ret_errors)
{
	weir_errors *errors = weir_mem_zalloc(sizeof(*errors));
	if (errors == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	errors->log = log;
	atomic_init(&errors->least, least);
	errors->per_s = per_s != 0 ? per_s : PER_S;
	pthread_mutex_init(&errors->lock, NULL);
	*ret_errors = errors;
	return 0;
}

void weir_errors_free(weir_errors **errors)
{
	if (*errors == NULL)
		return;
	pthread_mutex_destroy(&(*errors)->lock);
	weir_mem_free(*errors);
	*errors = NULL;
}

void weir_errors_set_level(weir_errors *errors, weir_log_level least)
{
	if (errors != NULL)
		atomic_store_explicit(&errors->least, least, memory_order_relaxed);
}

bool weir_errors_hears(const weir_errors *errors, weir_log_level level)
{
	return errors != NULL && level >= atomic_load_explicit(&errors->least, memory_order_relaxed);
}

static error_kind *find_kind_locked(weir_errors *errors, const char *name, uint64_t now_ns)
{
	unsigned i = 0;
	while (i < KINDS - 1 && errors->kinds[i].name != NULL && strcmp(errors->kinds[i].name, name) != 0)
		i++;
	error_kind *k = &errors->kinds[i];
	if (k->name == NULL)
		*k = (error_kind){.name = i < KINDS - 1 ? name : "other",
				  .refilled_ns = now_ns,
				  .tokens = errors->per_s};
	return k;
}

/* A token bucket that holds the tokens of one second. */
static bool take_locked(const weir_errors *errors, error_kind *k, uint64_t now_ns)
{
	double more = (double)(now_ns - k->refilled_ns) * 1e-9 * errors->per_s;
	k->refilled_ns = now_ns;
	k->tokens = k->tokens + more < errors->per_s ? k->tokens + more : errors->per_s;
	if (k->tokens < 1) {
		k->unsaid++;
		return false;
	}
	k->tokens -= 1;
	return true;
}

/* Escapes control characters and non-ASCII bytes, so that nobody can forge a line or control a terminal. */
static size_t escape(char *to, size_t size, const char *text)
{
	static const char hex[] = "0123456789abcdef";
	size_t at = 0;
	for (; *text != '\0' && at + 4 < size; text++) {
		unsigned char c = (unsigned char)*text;
		if (c >= ' ' && c <= '~') {
			to[at++] = (char)c;
			continue;
		}
		memcpy(to + at, (char[]){'\\', 'x', hex[c >> 4], hex[c & 15]}, 4);
		at += 4;
	}
	to[at] = '\0';
	return at;
}

static void say_locked(weir_errors *errors, weir_log_level level, error_kind *k, const char *name,
		       const char *sentence)
{
	static const char *const levels[] = {"debug", "info", "warn", "error"};
	char line[WEIR_LOG_LINE_MAX / 2];
	int at = snprintf(line, sizeof(line), "%s.%03uZ %s %.32s: ", errors->clock.utc,
			  errors->clock.millisecond, levels[level], name);
	size_t length = (size_t)at + escape(line + at, sizeof(line) - (size_t)at - 64, sentence);
	if (k->unsaid > 0)
		length += (size_t)snprintf(line + length, 63, " (and %llu more of \"%.16s\")",
					   (unsigned long long)k->unsaid, k->name);
	k->unsaid = 0;
	line[length++] = '\n';
	weir_log_put(errors->log, line, length);
}

void weir_errors_say(weir_errors *errors, weir_log_level level, const char *name, const char *format, ...)
{
	char sentence[SENTENCE];
	va_list args;
	if (!weir_errors_hears(errors, level))
		return;
	uint64_t now_ns = weir_clock_ns();
	pthread_mutex_lock(&errors->lock);
	error_kind *k = find_kind_locked(errors, name, now_ns);
	/* Threads read the clock before they take the lock, so one may come with an older time. */
	if (now_ns < k->refilled_ns)
		now_ns = k->refilled_ns;
	if (take_locked(errors, k, now_ns)) {
		va_start(args, format);
		vsnprintf(sentence, sizeof(sentence), format, args);
		va_end(args);
		weir_log_clock_set(&errors->clock, now_ns);
		say_locked(errors, level, k, name, sentence);
	}
	pthread_mutex_unlock(&errors->lock);
}
