/* SPDX-License-Identifier: Apache-2.0 */
#include "laws/papers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

#define MUST(code) must_(code, __LINE__)

const char *const papers_type_names[PAPERS_TYPES] = {"login",  "list folders", "list msgs", "show msg",
						     "delete", "refile",       "search"};

/* AOC, section 4.1: from login, list folders, list messages, show, (delete, refile: back), search. */
static const double steps[PAPERS_TYPES][PAPERS_TYPES] = {
	[LOGIN] = {[FOLDERS] = 1},
	[FOLDERS] = {[LIST] = 1},
	[LIST] = {[LOGIN] = .27, [SHOW] = .68, [DELETE] = .02, [REFILE] = .02, [SEARCH] = .01},
	[SHOW] = {[LOGIN] = .03, [LIST] = .58, [DELETE] = .18, [REFILE] = .20, [SEARCH] = .01},
	[SEARCH] = {[LOGIN] = .27, [SHOW] = .68, [DELETE] = .02, [REFILE] = .02, [SEARCH] = .01},
};

/* Work at the database, in seconds of its processor; chosen so that 16 users see about what the paper's Figure 9 says. */
static const weir_dist work[PAPERS_TYPES] = {
	[LOGIN] = {.kind = WEIR_DIST_LOGNORMAL, .mean = .045, .sigma = .5},
	[FOLDERS] = {.kind = WEIR_DIST_LOGNORMAL, .mean = .100, .sigma = .5},
	[LIST] = {.kind = WEIR_DIST_LOGNORMAL, .mean = .080, .sigma = 1},
	[SHOW] = {.kind = WEIR_DIST_LOGNORMAL, .mean = .030, .sigma = .5},
	[DELETE] = {.kind = WEIR_DIST_LOGNORMAL, .mean = .045, .sigma = .5},
	[REFILE] = {.kind = WEIR_DIST_LOGNORMAL, .mean = .045, .sigma = .5},
	[SEARCH] = {.kind = WEIR_DIST_LOGNORMAL, .mean = .500, .sigma = .5},
};

static void must_(int code, int line)
{
	if (code == 0)
		return;
	fprintf(stderr, "papers.c:%d: %s\n", line, weir_error());
	exit(1);
}

static double now_s(const papers_service *service)
{
	return (double)(weir_world_now(service->world) - WEIR_NS_PER_S) / 1e9;
}

/* ---- laws ---- */

bool law_choose(law_choice *choice, const char *name, const char *settings)
{
	char text[256], *rest = text, *setting;
	choice->law = weir_law_find(name);
	if (choice->law == NULL)
		return false;
	BENCH_REQUIRE(choice->law->params_bytes <= sizeof(choice->params));
	BENCH_REQUIRE(strlen(settings) < sizeof(text));
	weir_law_defaults(choice->law, choice->params);
	snprintf(text, sizeof(text), "%s", settings);
	while ((setting = strsep(&rest, " ")) != NULL) {
		char *value = strchr(setting, '=');
		BENCH_REQUIRE(value != NULL);
		*value = '\0';
		MUST(weir_law_set(choice->law, choice->params, setting, value + 1));
	}
	MUST(weir_law_check(choice->law, choice->params));
	return true;
}

/* ---- answers ---- */

static void note(papers_service *service, const papers_user *user, bool rejected)
{
	if (service->log_count == service->log_room) {
		service->log_room = service->log_room == 0 ? 4096 : 2 * service->log_room;
		service->log = realloc(service->log, service->log_room * sizeof(service->log[0]));
		BENCH_REQUIRE(service->log != NULL);
	}
	uint64_t response_ns = weir_world_now(service->world) - user->asked_ns;
	service->log[service->log_count++] = (papers_answer){.at_s = now_s(service),
							     .response_s = (double)response_ns / 1e9,
							     .type = user->type,
							     .klass = user->klass,
							     .rejected = rejected};
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static bool chosen(const papers_answer *answer, double from_s, double to_s, int type, int klass)
{
	return answer->at_s >= from_s && answer->at_s < to_s && (type == ANY || answer->type == type) &&
	       (klass == ANY || answer->klass == klass);
}

verdicts log_judge(const papers_service *service, double from_s, double to_s, int type, int klass)
{
	verdicts v = {0};
	double *responses = malloc((service->log_count + 1) * sizeof(*responses));
	BENCH_REQUIRE(responses != NULL);
	for (size_t i = 0; i < service->log_count; i++) {
		const papers_answer *answer = &service->log[i];
		if (!chosen(answer, from_s, to_s, type, klass))
			continue;
		if (answer->rejected)
			v.rejected++;
		else
			responses[v.served++] = answer->response_s;
	}
	qsort(responses, v.served, sizeof(*responses), by_size);
	if (v.served > 0) {
		v.p50_s = responses[v.served / 2];
		v.p90_s = responses[v.served * 9 / 10];
		v.max_s = responses[v.served - 1];
	}
	if (v.served + v.rejected > 0)
		v.reject_share = (double)v.rejected / (double)(v.served + v.rejected);
	free(responses);
	return v;
}

double log_peak_s(const papers_service *service, double from_s, double to_s, int type)
{
	double peak_s = 0;
	for (double at_s = from_s; at_s < to_s; at_s += 5) {
		verdicts v = log_judge(service, at_s, at_s + 5, type, ANY);
		peak_s = v.served >= 5 && v.p90_s > peak_s ? v.p90_s : peak_s;
	}
	return peak_s;
}

/* ---- users ---- */

static void ask(papers_user *user);

static void ask_later(weir_timer *timer, void *arg)
{
	(void)timer;
	papers_user *user = arg;
	if (!user->leaving)
		ask(user);
}

static void after(papers_user *user, double seconds)
{
	weir_timer_init(&user->timer, ask_later, user);
	weir_sim_timer(user->service->world, &user->timer,
		       weir_world_now(user->service->world) + (uint64_t)(seconds * 1e9));
}

static uint8_t next_type(papers_user *user)
{
	if (user->type == DELETE || user->type == REFILE)
		return user->page;
	double draw = weir_random_unit(weir_sim_random(user->service->world));
	user->page = user->type;
	for (uint8_t to = 0; to < PAPERS_TYPES; to++) {
		draw -= steps[user->type][to];
		if (draw < 0)
			return to;
	}
	return LOGIN;
}

static void rejected(papers_user *user)
{
	note(user->service, user, true);
	user->type = LOGIN;
	after(user, user->service->options.again_s);
}

static void served(weir_backend_job *job, bool refused, void *arg)
{
	papers_user *user = arg;
	(void)job, (void)refused;
	weir_done(&user->event);
	if (user->service->front != NULL)
		weir_done(&user->pass);
	note(user->service, user, false);
	user->type = user->service->options.mail ? next_type(user) : LOGIN;
	after(user, user->service->options.think_s);
}

static void ask(papers_user *user)
{
	papers_service *service = user->service;
	user->asked_ns = weir_world_now(service->world);
	unsigned klass = service->options.one_class ? 0 : user->klass;
	weir_event_init(&user->event, klass);
	weir_event_init(&user->pass, klass);
	weir_verdict verdict = service->front != NULL ? weir_offer(service->front, &user->pass)
						      : weir_offer(service->stages[user->type], &user->event);
	if (verdict != WEIR_ADMITTED)
		rejected(user);
}

/* ---- stages ---- */

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	papers_service *service = arg;
	weir_random *random = weir_sim_random(service->world);
	for (size_t i = 0; i < count; i++) {
		papers_user *user = (struct papers_user *)events[i];
		double work_s = service->options.mail ? weir_dist_draw(&work[user->type], random)
						      : service->options.page_s *
								weir_stage_quality(stage, events[i]->klass);
		weir_hold(events[i]);
		weir_backend_submit(service->database, &user->job, work_s * 1e9, served, user);
	}
}

static void drop(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	papers_service *service = arg;
	papers_user *dropped = (struct papers_user *)event;
	(void)stage;
	if (why == WEIR_SHED_STOPPING)
		return;
	if (service->front != NULL)
		weir_fail(&dropped->pass);
	rejected(dropped);
}

static void pass_on(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	papers_service *service = arg;
	(void)stage;
	for (size_t i = 0; i < count; i++) {
		papers_user *user =
			(struct papers_user *)((char *)events[i] - offsetof(struct papers_user, pass));
		weir_hold(events[i]);
		if (weir_offer(service->stages[user->type], &user->event) == WEIR_ADMITTED)
			continue;
		weir_refused(events[i]);
		rejected(user);
	}
}

static void drop_pass(weir_stage *stage, weir_event *event, weir_verdict why, void *arg)
{
	(void)stage, (void)arg;
	if (why != WEIR_SHED_STOPPING)
		rejected((papers_user *)((char *)event - offsetof(papers_user, pass)));
}

static weir_domain *make_threads(papers_service *service, const char *name, uint32_t threads)
{
	weir_domain *domain;
	MUST(weir_domain_new(
		service->world,
		&(weir_domain_options){
			.name = name, .kind = WEIR_ELASTIC, .min_threads = threads, .max_threads = threads},
		&domain));
	return domain;
}

static void make_stage(papers_service *service, unsigned type, const char *name, uint32_t threads)
{
	const law_choice *law = service->options.front ? NULL : service->options.law;
	weir_domain *domain = service->pool != NULL ? service->pool : make_threads(service, name, threads);
	MUST(weir_stage_new(
		domain,
		&(weir_stage_options){.name = name,
				      .handle = handle,
				      .drop = drop,
				      .arg = service,
				      .capacity = 65536,
				      .order = service->options.by_class ? WEIR_BY_CLASS : WEIR_FIFO,
				      .admission = law != NULL ? law->law : NULL,
				      .admission_params = law != NULL ? law->params : NULL},
		&service->stages[type]));
}

static void make_front(papers_service *service)
{
	weir_domain *domain;
	const law_choice *law = service->options.law;
	MUST(weir_domain_new(service->world,
			     &(weir_domain_options){.name = "front", .kind = WEIR_REACTOR, .threads = 1},
			     &domain));
	MUST(weir_stage_new(domain,
			    &(weir_stage_options){.name = "front",
						  .handle = pass_on,
						  .drop = drop_pass,
						  .arg = service,
						  .capacity = 65536,
						  .admission = law->law,
						  .admission_params = law->params},
			    &service->front));
}

static void make_mail(papers_service *service)
{
	if (service->options.pool)
		service->pool = make_threads(service, "web", 2);
	for (unsigned type = 0; type < PAPERS_TYPES; type++)
		if (type != REFILE)
			make_stage(service, type, papers_type_names[type], 4);
	service->stages[REFILE] = service->stages[DELETE];
	if (service->options.front)
		make_front(service);
}

static void make_page(papers_service *service)
{
	make_stage(service, LOGIN, "page", 1);
	for (unsigned type = 1; type < PAPERS_TYPES; type++)
		service->stages[type] = service->stages[LOGIN];
}

/* ---- the whole ---- */

static void each_second(weir_timer *timer, void *arg)
{
	papers_service *service = arg;
	if (service->each_second != NULL)
		service->each_second(service, now_s(service), service->arg);
	weir_sim_timer(service->world, timer, weir_world_now(service->world) + WEIR_NS_PER_S);
}

void service_open(papers_service *service, const service_options *options, unsigned users)
{
	memset(service, 0, sizeof(*service));
	service->options = *options;
	MUST(weir_world_new(&(weir_world_options){.simulated = true, .seed = options->seed},
			    &service->world));
	MUST(weir_backend_new(service->world,
			      &(weir_backend_options){.discipline = WEIR_BACKEND_PS, .workers = 1},
			      &service->database));
	if (options->mail)
		make_mail(service);
	else
		make_page(service);
	service->users = calloc(users, sizeof(service->users[0]));
	BENCH_REQUIRE(service->users != NULL);
	service->user_count = users;
	MUST(weir_world_start(service->world));
	weir_timer_init(&service->second, each_second, service);
	weir_sim_timer(service->world, &service->second, weir_world_now(service->world) + WEIR_NS_PER_S);
}

void service_enter(papers_service *service, unsigned first, unsigned count, unsigned klass, double within_s)
{
	weir_random *random = weir_sim_random(service->world);
	for (unsigned i = first; i < first + count; i++) {
		papers_user *user = &service->users[i];
		user->service = service;
		user->klass = (uint8_t)klass;
		user->type = LOGIN;
		user->leaving = false;
		after(user, within_s * weir_random_unit(random));
	}
}

void service_leave(papers_service *service, unsigned first, unsigned count)
{
	for (unsigned i = first; i < first + count; i++)
		service->users[i].leaving = true;
}

void service_run(papers_service *service, double until_s)
{
	weir_sim_run(service->world, WEIR_NS_PER_S + (uint64_t)(until_s * 1e9));
}

void service_close(papers_service *service)
{
	service_leave(service, 0, service->user_count);
	weir_timer_stop(&service->second);
	weir_world_stop(service->world, 0, NULL);
	weir_backend_free(&service->database);
	weir_world_free(&service->world);
	free(service->users);
	free(service->log);
}
