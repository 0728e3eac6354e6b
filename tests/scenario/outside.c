/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kind from outside, on installed headers only: `route "a" { echo = TEXT }` answers with its text. It has a key that a
 * reload changes in place, one that makes a new thing, a block that it refers to, a flag, a check, and metrics.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <weir/service.h>

typedef struct echo_keys {
	const char *text, *voice;
	uint32_t times;
} echo_keys;

typedef struct voice_keys {
	weir_block_head head;
	bool loud;
} voice_keys;

static const weir_key route_rows[] = {
	WEIR_KEY("echo", TEXT, echo_keys, text, NULL, "what is answered"),
	WEIR_KEY("times", COUNT, echo_keys, times, "1", "how often", .min = 1, .max = 9,
		 .flags = WEIR_KEY_LIVE),
	WEIR_KEY("voice", TEXT, echo_keys, voice, NULL, "the voice block that says it", .block = "voice"),
	{0},
};
static const weir_key voice_rows[] = {
	WEIR_KEY("loud", SWITCH, voice_keys, loud, "off", "with an exclamation mark"),
	{0},
};
/* What is said where there is no route: --say TEXT. */
typedef struct house_keys {
	weir_block_head head;
	const char *say;
} house_keys;

static const weir_key house_rows[] = {
	WEIR_KEY("say", TEXT, house_keys, say, NULL,
		 "what all requests are answered with, if there is no route"),
	{0},
};
static const weir_kind_setting settings[] = {
	{"--say", "TEXT", "house", "say", "what all requests are answered with"},
	{0},
};
static const weir_block blocks[] = {
	{"house", NULL, "All echoes.", house_rows, sizeof(house_keys), .single = true, .live = true},
	{"voice", "name", "How an echo sounds.", voice_rows, sizeof(voice_keys), .single = false,
	 .live = true},
	{0},
};

typedef struct echo {
	char text[64];
	bool loud;
	uint32_t times;    /* atomic */
	uint64_t answered; /* atomic */
} echo;

static uint64_t living; /* things that were made and not freed; the main thread's */

static void handle(weir_stage *stage, weir_event **events, size_t count, void *arg)
{
	echo *e = arg;
	for (size_t i = 0; i < count; i++) {
		char answer[9 * 64 + 2] = "";
		size_t at = 0;
		uint32_t times = __atomic_load_n(&e->times, __ATOMIC_RELAXED);
		for (uint32_t j = 0; j < times; j++)
			at += (size_t)snprintf(answer + at, sizeof(answer) - at, "%s%s", e->text,
					       e->loud ? "!" : "");
		__atomic_add_fetch(&e->answered, 1, __ATOMIC_RELAXED);
		weir_request_reply_text(weir_request_of(events[i]), 200, (weir_span){answer, at});
	}
}

static void complete(weir_config *config)
{
	const house_keys *house = weir_config_find(config, "house", NULL);
	if (house->say == NULL || weir_config_at(config, "route", 0) != NULL)
		return;
	weir_block_head *route = weir_config_add(config, "route", "said");
	if (route != NULL)
		weir_config_set(config, route, "echo", house->say);
}

static void check_route(weir_config *config, const weir_route_view *route)
{
	const echo_keys *values = route->values;
	if (strlen(values->text) >= sizeof(((echo *)NULL)->text))
		weir_config_wrong(config, route->head, "echo", "echo: at most 63 bytes");
	if (weir_config_given(route->head, "times") && values->times == 1)
		weir_config_warn(config, route->head, "times", "times: 1 is the default");
}

/* All things on one pool, which the first one makes. */
static int make_shared(const weir_making *making, echo *e, weir_stage **ret_stage)
{
	weir_domain *domain = *making->shared;
	int failed = domain == NULL ? weir_domain_new(making->world,
						      &(weir_domain_options){.name = "echoes",
									     .kind = WEIR_ELASTIC,
									     .max_threads = 2},
						      &domain)
				    : 0;
	*making->shared = domain;
	return failed != 0 ? failed : weir_making_stage_in(making, domain, handle, e, ret_stage);
}

static int make(const weir_making *making, void **ret_thing, weir_stage **ret_stage)
{
	static const weir_domain_options pool = {.max_threads = 2};
	const echo_keys *values = making->route.values;
	const voice_keys *voice =
		values->voice != NULL ? weir_config_find(making->config, "voice", values->voice) : NULL;
	echo *e = calloc(1, sizeof(*e));
	if (e == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	snprintf(e->text, sizeof(e->text), "%s", values->text);
	e->times = values->times;
	e->loud = voice != NULL && voice->loud;
	bool pooled = getenv("ECHO_POOL") != NULL && values->times % 2 == 0;
	int failed = getenv("ECHO_SHARED") != NULL
			     ? make_shared(making, e, ret_stage)
			     : weir_making_stage(making, pooled ? &pool : NULL, handle, e, ret_stage);
	if (failed != 0) {
		free(e);
		return failed;
	}
	living++;
	*ret_thing = e;
	return 0;
}

static void apply(void *thing, const weir_config *config, const weir_route_view *route)
{
	const echo_keys *values = route->values;
	__atomic_store_n(&((echo *)thing)->times, values->times, __ATOMIC_RELAXED);
}

static void free_echo(void *thing)
{
	living--;
	free(thing);
}

typedef struct counts {
	uint64_t answered;
} counts;

static void read_counts(const void *thing, void *ret_values)
{
	((counts *)ret_values)->answered =
		__atomic_load_n(&((const echo *)thing)->answered, __ATOMIC_RELAXED);
}

static const weir_metric metrics[] = {
	{"answered", WEIR_METRIC_COUNTER, offsetof(counts, answered), "Echoes that were heard."},
	{0},
};

static void apply_flag(weir_config *config, const char *const *values, unsigned count)
{
	weir_block_head *route = weir_config_add(config, "route", "echo");
	for (unsigned i = 0; route != NULL && i < count; i++)
		weir_config_set(config, route, "echo", values[i]);
}

static const weir_kind_flag flag = {
	.name = "--echo", .value = "TEXT", .help = "an echo for all requests", .apply = apply_flag};

static const weir_kind kind = {
	.name = "echo",
	.keys = route_rows,
	.bytes = sizeof(echo_keys),
	.blocks = blocks,
	.flag = &flag,
	.settings = settings,
	.complete = complete,
	.check_route = check_route,
	.make = make,
	.apply = apply,
	.free = free_echo,
	.prefix = "echo_",
	.metrics = metrics,
	.metrics_bytes = sizeof(counts),
	.read = read_counts,
};

int main(int argc, char **argv)
{
	static const weir_kind *const kinds[] = {&kind, &weir_kind_backend, &weir_kind_root, NULL};
	static const weir_program program = {
		.name = "outside", .summary = "Answers with a text.", .kinds = kinds};
	int status = weir_service_main(&program, argc, argv);
	if (living != 0)
		fprintf(stderr, "outside: %llu things were not freed\n", (unsigned long long)living);
	return living != 0 ? 1 : status;
}
