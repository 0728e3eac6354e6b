/* SPDX-License-Identifier: Apache-2.0 */
#include "sentry/nuclei.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weir/stage.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/text.h"
#include "keys/token.h"
#include "loop/loop.h"
#include "sentry/resolve.h"

#define TIMEOUT_LEAST_NS (100 * WEIR_NS_PER_MS)
#define PATH_MOST        512
#define ADDRESS_MOST     300
#define HEAD_EXTRA       (1024 + WEIR_TOKEN_BYTES)

typedef enum mood { MOOD_NEW, MOOD_WELL, MOOD_WRONG, MOOD_SILENT } mood;

/* One nucleus. */
typedef struct ask {
	weir_call call; /* first */
	weir_nuclei *nuclei;
	/* Set before the server, which the loop looks at first; NULL: free. */
	weir_origin *nucleus;
	_Atomic(weir_origin *) server;
	char path[PATH_MOST];
	weir_timer timer;
	mood mood;
	bool busy;
	uint32_t length;
	char body[WEIR_NUCLEUS_BYTES];
} ask;

struct weir_nuclei {
	weir_nuclei_options options;
	weir_fleet fleet;
	/* the thread that adds */
	weir_resolver *resolver; /* NULL: nothing to resolve */
	char *token_file;        /* NULL: none */
	/* under lock */
	pthread_mutex_t lock;
	char token[WEIR_TOKEN_BYTES];
	/* the loop */
	weir_upstream *upstream; /* NULL: not running */
	weir_stage *stage;
	weir_timer timer;
	weir_ending ending;
	bool told; /* the law has heard of something fresh */
	_Atomic(ask *) asks[WEIR_FLEET_MOST];
};

/* ---- what a nucleus is like ---- */

static void change_mood(ask *a, mood now, const char *why)
{
	static const char *const names[] = {"", "is used again", "is not used", "is not used"};
	mood before = a->mood;
	a->mood = now;
	if (before == now || (before == MOOD_NEW && now == MOOD_WELL))
		return;
	weir_errors_say(a->nuclei->options.errors, now == MOOD_WELL ? WEIR_LOG_INFO : WEIR_LOG_WARN,
			"nucleus", "what the nucleus %s%s tells about backend %s %s%s%s", a->nucleus->at.name,
			a->path, a->server->at.name, names[now], *why != '\0' ? ": " : "", why);
}

static void over(ask *a)
{
	weir_timer_stop(&a->timer);
	a->busy = false;
}

static void refuse(ask *a, const char *why)
{
	over(a);
	atomic_fetch_add_explicit(&a->server->shared.reports_refused, 1, memory_order_relaxed);
	change_mood(a, MOOD_WRONG, why);
}

/* Not answered: it is silent once nothing that it told before is believed any more. */
static void miss(ask *a, const char *why)
{
	over(a);
	if (a->nuclei->stage == NULL)
		return; /* because it was stopped */
	atomic_fetch_add_explicit(&a->server->shared.reports_missed, 1, memory_order_relaxed);
	if (!weir_told_fresh(a->server, weir_loop_time(weir_upstream_loop(a->nuclei->upstream))))
		change_mood(a, MOOD_SILENT, why);
}

static void believe(ask *a)
{
	weir_nucleus_report report;
	if (weir_nucleus_report_read(a->body, a->length, &report) != 0) {
		refuse(a, weir_error());
		return;
	}
	over(a);
	weir_told_nucleus(a->server, &report, a->nuclei->options.every_ns,
			  weir_loop_time(weir_upstream_loop(a->nuclei->upstream)));
	change_mood(a, MOOD_WELL, "");
}

/* ---- a call ---- */

static ask *of_call(weir_call *call)
{
	return (ask *)(void *)call; /* its first member */
}

static void ask_interim(weir_call *call, const weir_call_answer *answer)
{
}

static void ask_head(weir_call *call, const weir_call_answer *answer)
{
	ask *a = of_call(call);
	char why[96];
	bool denied = answer->head->status == 401 || answer->head->status == 403;
	if (answer->head->status == 200)
		return;
	snprintf(why, sizeof(why), "it answers with status %u%s", answer->head->status,
		 !denied                         ? ""
		 : a->nuclei->token_file != NULL ? ", so it does not accept the token of nucleus-token-file"
						 : ", so it wants a token: nucleus-token-file");
	weir_call_abort(call);
	refuse(a, why);
}

static void ask_data(weir_call *call, weir_buf *buf, size_t offset, size_t length)
{
	ask *a = of_call(call);
	if (length > sizeof(a->body) - a->length) {
		weir_call_abort(call);
		refuse(a, "its answer is too long");
		return;
	}
	memcpy(a->body + a->length, buf->data + offset, length);
	a->length += (uint32_t)length;
}

static void ask_end(weir_call *call, const weir_call_answer *trailers)
{
	believe(of_call(call));
}

static void ask_failed(weir_call *call, const weir_call_failure *failure)
{
	miss(of_call(call), failure->text);
}

static const weir_call_ops ask_ops = {
	.interim = ask_interim, .head = ask_head, .data = ask_data, .end = ask_end, .failed = ask_failed};

static void ask_is_late(weir_timer *timer, void *arg)
{
	ask *a = arg;
	weir_call_abort(&a->call);
	miss(a, "it does not answer in time");
}

static weir_buf *make_head(const ask *a)
{
	weir_nuclei *nuclei = a->nuclei;
	weir_buf *buf = weir_upstream_buf(nuclei->upstream, strlen(a->path) + HEAD_EXTRA);
	if (buf == NULL)
		return NULL;
	pthread_mutex_lock(&nuclei->lock);
	const char *token = nuclei->token;
	buf->length = (uint32_t)snprintf((char *)buf->data, buf->capacity,
					 "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: weir-sentry\r\n"
					 "Accept: application/json\r\n%s%s%s\r\n",
					 a->path, a->nucleus->at.name,
					 *token != '\0' ? "Authorization: Bearer " : "", token,
					 *token != '\0' ? "\r\n" : "");
	pthread_mutex_unlock(&nuclei->lock);
	return buf;
}

static void begin(ask *a)
{
	weir_nuclei *nuclei = a->nuclei;
	weir_loop *loop = weir_upstream_loop(nuclei->upstream);
	uint64_t every_ns = nuclei->options.every_ns;
	weir_call_request request = {.method = WEIR_METHOD_GET, .head = make_head(a)};
	if (request.head == NULL || !weir_origin_take(a->nucleus)) {
		weir_buf_unref(request.head);
		return;
	}
	a->length = 0;
	int error = weir_call_start(nuclei->upstream, &a->call, &ask_ops, a->nucleus, &request);
	weir_buf_unref(request.head);
	/* No descriptor or no memory: our fault, not the nucleus'. */
	if (error != 0)
		return;
	a->busy = true;
	weir_timer_start(loop, &a->timer,
			 weir_loop_time(loop) + (every_ns > TIMEOUT_LEAST_NS ? every_ns : TIMEOUT_LEAST_NS));
}

/* ---- all of them ---- */

static void tell_law(weir_nuclei *nuclei, uint64_t now_ns)
{
	weir_told told;
	weir_told_sum(nuclei->options.servers, now_ns, &told);
	/* Once more when the last report is stale: the law must not go by it for ever. */
	if (told.reports != 0 || nuclei->told)
		weir_stage_tell(nuclei->stage, &told);
	nuclei->told = told.reports != 0;
}

static void next_round(weir_timer *timer, void *arg)
{
	weir_nuclei *nuclei = arg;
	weir_loop *loop = weir_upstream_loop(nuclei->upstream);
	const weir_fleet *servers = nuclei->options.servers;
	tell_law(nuclei, weir_loop_time(loop));
	for (uint32_t i = 0; i < WEIR_FLEET_MOST && !atomic_load(&servers->resting); i++) {
		ask *a = atomic_load(&nuclei->asks[i]);
		if (a == NULL)
			break; /* they are filled from the first on, and stay */
		const weir_origin *server = atomic_load(&a->server);
		if (server != NULL && !a->busy && !atomic_load(&server->shared.retired))
			begin(a);
	}
	weir_timer_start(loop, timer, weir_loop_time(loop) + nuclei->options.every_ns);
}

/* Connections end with the loop; timers must be removed from it. */
static void loop_ends(weir_ending *ending)
{
	weir_nuclei_stop((weir_nuclei *)(void *)((char *)ending - offsetof(weir_nuclei, ending)));
}

static int copy_token(weir_nuclei *nuclei)
{
	if (nuclei->options.token_file == NULL)
		return 0;
	nuclei->token_file = weir_mem_strdup(nuclei->options.token_file);
	if (nuclei->token_file == NULL)
		return weir_error_set(-ENOMEM, "nucleus: out of memory");
	return weir_token_read(nuclei->token_file, nuclei->token);
}

int weir_nuclei_new(const weir_nuclei_options *options, weir_nuclei **ret_nuclei)
{
	weir_nuclei *nuclei = weir_mem_zalloc(sizeof(*nuclei));
	if (nuclei == NULL)
		return weir_error_set(-ENOMEM, "nucleus: out of memory");
	nuclei->options = *options;
	if (nuclei->options.every_ns == 0)
		nuclei->options.every_ns = WEIR_NUCLEI_EVERY_NS;
	weir_timer_init(&nuclei->timer, next_round, nuclei);
	nuclei->ending.run = loop_ends;
	int error = weir_fleet_init(&nuclei->fleet);
	if (error != 0) {
		weir_mem_free(nuclei);
		return weir_error_set(error, "nucleus: no lock");
	}
	pthread_mutex_init(&nuclei->lock, NULL);
	error = copy_token(nuclei);
	if (error == 0)
		*ret_nuclei = nuclei;
	else
		weir_nuclei_free(nuclei);
	return error;
}

void weir_nuclei_renew_token(weir_nuclei *nuclei)
{
	char token[WEIR_TOKEN_BYTES];
	if (nuclei->token_file == NULL)
		return;
	if (weir_token_read(nuclei->token_file, token) != 0) {
		weir_errors_say(nuclei->options.errors, WEIR_LOG_WARN, "nucleus",
				"%s; the token from before is used", weir_error());
		return;
	}
	pthread_mutex_lock(&nuclei->lock);
	memcpy(nuclei->token, token, sizeof(token));
	pthread_mutex_unlock(&nuclei->lock);
}

int weir_nuclei_resolve(weir_nuclei *nuclei)
{
	int error = 0;
	pthread_mutex_lock(&nuclei->fleet.lock);
	if (nuclei->resolver == NULL)
		error = weir_resolver_new_locked(&nuclei->fleet, nuclei->options.resolve_ns, NULL, NULL,
						 &nuclei->resolver);
	pthread_mutex_unlock(&nuclei->fleet.lock);
	return error;
}

void weir_nuclei_rest(weir_nuclei *nuclei, bool resting)
{
	atomic_store(&nuclei->fleet.resting, resting);
}

void weir_nuclei_forget(weir_nuclei *nuclei, const weir_origin *server)
{
	for (uint32_t i = 0; i < WEIR_FLEET_MOST; i++) {
		ask *a = atomic_load(&nuclei->asks[i]);
		if (a == NULL || atomic_load(&a->server) != server)
			continue;
		weir_call_abort(&a->call);
		over(a);
		a->mood = MOOD_NEW;
		atomic_store(&a->server, NULL);
	}
}

/* Several servers may have one nucleus; that of one that left may be named again. */
static weir_origin *find_nucleus(const weir_nuclei *nuclei, const char *name)
{
	for (uint32_t i = 0; i < weir_fleet_count(&nuclei->fleet); i++) {
		weir_origin *nucleus = weir_fleet_at(&nuclei->fleet, i);
		if (strcmp(nucleus->at.name, name) == 0)
			return nucleus;
	}
	return NULL;
}

static int add_origin(weir_nuclei *nuclei, const char *address, weir_origin **ret_nucleus)
{
	weir_origin_options options = {.url = address, .host = WEIR_HOST_BACKEND};
	weir_origin *made;
	int error = weir_origin_new(&options, &made);
	if (error != 0)
		return error;
	weir_origin *same = find_nucleus(nuclei, made->at.name);
	if (same == NULL)
		error = weir_fleet_add(&nuclei->fleet, made);
	if (same != NULL || error != 0)
		weir_origin_free(made);
	if (error == 0)
		*ret_nucleus = same != NULL ? same : made;
	return error;
}

/* One that is free, or one more; NULL: out of memory. They stay until all are freed. */
static ask *free_ask(weir_nuclei *nuclei)
{
	uint32_t i = 0;
	ask *a = NULL;
	while (i < WEIR_FLEET_MOST && (a = atomic_load(&nuclei->asks[i])) != NULL &&
	       atomic_load(&a->server) != NULL)
		i++;
	if (i == WEIR_FLEET_MOST || a != NULL)
		return i == WEIR_FLEET_MOST ? NULL : a;
	a = weir_mem_zalloc(sizeof(*a));
	if (a == NULL)
		return NULL;
	a->nuclei = nuclei;
	weir_timer_init(&a->timer, ask_is_late, a);
	atomic_store(&nuclei->asks[i], a);
	return a;
}

int weir_nuclei_add(weir_nuclei *nuclei, const char *url, weir_origin *server)
{
	char address[ADDRESS_MOST], path[PATH_MOST];
	weir_origin *nucleus;
	int error = weir_nuclei_split(url, address, sizeof(address), path, sizeof(path));
	if (error == 0)
		error = add_origin(nuclei, address, &nucleus);
	if (error != 0)
		return error;
	ask *a = free_ask(nuclei);
	if (a == NULL)
		return weir_error_set(-ENOMEM, "nucleus: out of memory");
	memcpy(a->path, path, sizeof(path));
	a->nucleus = nucleus;
	atomic_store(&a->server, server);
	return 0;
}

int weir_nuclei_start(weir_nuclei *nuclei, weir_loop *loop, weir_stage *stage)
{
	weir_upstream_limits limits = {.idle = 1, .idle_ns = 4 * nuclei->options.every_ns};
	int error = weir_upstream_new(loop, &nuclei->fleet, &limits, (uintptr_t)nuclei, &nuclei->upstream);
	if (error != 0)
		return error;
	nuclei->stage = stage;
	weir_loop_add_ending(loop, &nuclei->ending);
	next_round(&nuclei->timer, nuclei);
	return 0;
}

bool weir_nuclei_stop(weir_nuclei *nuclei)
{
	if (nuclei->upstream == NULL)
		return true;
	if (nuclei->stage != NULL) {
		nuclei->stage = NULL;
		weir_loop_remove_ending(&nuclei->ending);
		weir_timer_stop(&nuclei->timer);
		for (uint32_t i = 0; i < WEIR_FLEET_MOST; i++) {
			ask *a = atomic_load(&nuclei->asks[i]);
			if (a == NULL)
				continue;
			weir_call_abort(&a->call);
			over(a);
		}
	}
	return weir_upstream_let_go(nuclei->upstream);
}

void weir_nuclei_free(weir_nuclei *nuclei)
{
	if (nuclei == NULL)
		return;
	weir_resolver_free(nuclei->resolver);
	weir_upstream_free(nuclei->upstream);
	for (uint32_t i = 0; i < WEIR_FLEET_MOST; i++)
		weir_mem_free(atomic_load(&nuclei->asks[i]));
	weir_fleet_fini(&nuclei->fleet);
	pthread_mutex_destroy(&nuclei->lock);
	explicit_bzero(nuclei->token, sizeof(nuclei->token));
	weir_mem_free(nuclei->token_file);
	weir_mem_free(nuclei);
}
