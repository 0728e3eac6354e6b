/* SPDX-License-Identifier: Apache-2.0 */
/* The pages, and their parts other than stages: the process, backends, shed requests. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "top/screen.h"

#define BACKENDS_SHOWN 5u
#define STAGES_LEAST   4u
#define VERDICT_ROWS   4u
#define WIDE           100u /* columns from which on a row tells more */
#define PATH           25u  /* columns of a method and a path */
#define PATH_WIDE      20u

static char *print_uptime(char *text, size_t size, double seconds)
{
	if (!(seconds >= 0))
		snprintf(text, size, "-");
	else if (seconds < 100)
		snprintf(text, size, "%.0f s", seconds);
	else if (seconds < 5400)
		snprintf(text, size, "%.0f min", seconds / 60);
	else if (seconds < 172800)
		snprintf(text, size, "%.1f h", seconds / 3600);
	else
		snprintf(text, size, "%.1f days", seconds / 86400);
	return text;
}

/* ---- the process ---- */

static void draw_state(weir_screen *screen, const weir_top_model *model, const weir_top_view *view)
{
	bool ready = json_is_true(weir_top_at(model->snapshot, "stages.process.ready"));
	const char *text = !view->connected ? "no connection"
			   : model->paused  ? "paused"
			   : ready          ? "live"
					    : "draining";
	weir_tone tone = !view->connected          ? WEIR_TONE_BAD
			 : model->paused || !ready ? WEIR_TONE_SHED
						   : WEIR_TONE_GOOD;
	unsigned length = (unsigned)strlen(text);
	if (screen->columns > length + 1)
		weir_screen_put(screen, 0, screen->columns - length - 1, length, tone, text);
}

static void draw_resources(weir_screen *screen, unsigned row, const weir_top_model *model)
{
	static const struct {
		const char *name, *path, *level;
	} resources[] = {
		{"memory", "stages.resources.memory.value", "stages.resources.memory.level"},
		{"cpu", "stages.resources.cpu.value", "stages.resources.cpu.level"},
		{"loop lag", "stages.resources.loop-lag.value", "stages.resources.loop-lag.level"},
	};
	unsigned column = 1;
	char text[16];
	for (unsigned i = 0; i < 3; i++) {
		double value = weir_top_number(model->snapshot, resources[i].path);
		bool short_of_it = weir_top_number(model->snapshot, resources[i].level) > 0;
		if (!(value >= 0) || value > 1e6)
			continue;
		if (i == 2)
			weir_screen_time(text, sizeof(text), value * 1e9);
		else
			snprintf(text, sizeof(text), "%.0f %%", 100 * value);
		column =
			weir_screen_printf(screen, row, column, short_of_it ? WEIR_TONE_BAD : WEIR_TONE_QUIET,
					   "%s %s", resources[i].name, text) +
			3;
	}
}

/* What the server says about itself, on as many rows as it takes. */
static unsigned draw_verdict(weir_screen *screen, unsigned row, const weir_top_model *model)
{
	const char *state = weir_top_text(model->snapshot, "verdict.state");
	const char *text = weir_top_text(model->snapshot, "verdict.text");
	weir_tone tone = strcmp(state, "well") == 0      ? WEIR_TONE_GOOD
			 : strcmp(state, "dry-run") == 0 ? WEIR_TONE_SHED
							 : WEIR_TONE_BAD;
	return weir_screen_fold(screen, row, 1, VERDICT_ROWS, tone, text);
}

/* The order of sending, if there is one: at which rate, and what waits by size. Returns the row behind it. */
static unsigned draw_transmit(weir_screen *screen, unsigned row, const weir_top_model *model)
{
	static const struct {
		const char *name, *path;
	} sizes[] = {{"to 4 KB", "waiting_to_4kb"},
		     {"to 32 KB", "waiting_to_32kb"},
		     {"to 256 KB", "waiting_to_256kb"},
		     {"to 2 MB", "waiting_to_2mb"},
		     {"more", "waiting_above_2mb"}};
	const json_t *transmit = json_array_get(weir_top_at(model->snapshot, "transmit"), 0);
	double rate = weir_top_number(transmit, "rate_bytes_per_s"), link, waits;
	char text[16];
	if (*weir_top_text(transmit, "policy") == '\0')
		return row;
	unsigned column = weir_screen_printf(screen, row, 1, WEIR_TONE_PLAIN, "sending by %s",
					     weir_top_text(transmit, "policy"));
	link = weir_top_number(transmit, "uplink_bytes_per_s");
	if (rate > 0 && rate < 1e15 && link > 0 && link < 1e15)
		column = weir_screen_printf(screen, row, column, WEIR_TONE_PLAIN, ", %.4g of %.4g Mbit/s",
					    rate * 8e-6, link * 8e-6);
	if (*weir_top_text(transmit, "phase") != '\0')
		column = weir_screen_printf(screen, row, column, WEIR_TONE_QUIET, " (%s)",
					    weir_top_text(transmit, "phase"));
	waits = weir_top_number(transmit, "waiting");
	column = weir_screen_printf(screen, row, column, waits > 0 ? WEIR_TONE_PLAIN : WEIR_TONE_QUIET,
				    ", %s wait", weir_screen_count(text, sizeof(text), waits));
	for (unsigned i = 0; waits > 0 && i < sizeof(sizes) / sizeof(sizes[0]); i++)
		if (weir_top_number(transmit, sizes[i].path) > 0)
			column = weir_screen_printf(
				screen, row, column, WEIR_TONE_QUIET, ", %s %s",
				weir_screen_count(text, sizeof(text),
						  weir_top_number(transmit, sizes[i].path)),
				sizes[i].name);
	return row + 1;
}

static unsigned draw_process(weir_screen *screen, const weir_top_model *model, const weir_top_view *view)
{
	const json_t *process = weir_top_at(model->snapshot, "stages.process");
	char uptime[32], connections[16], busy[16];
	double pid = weir_top_number(process, "pid");
	unsigned column =
		weir_screen_printf(screen, 0, 1, WEIR_TONE_TITLE, "weir %s", weir_top_text(process, "verb"));
	if (process != NULL)
		weir_screen_printf(screen, 0, column + 2, WEIR_TONE_QUIET,
				   "%s, pid %.0f, up %s, %s connections, %s busy",
				   weir_top_text(process, "version"), pid > 0 && pid < 1e9 ? pid : 0,
				   print_uptime(uptime, sizeof(uptime), weir_top_number(process, "uptime_s")),
				   weir_screen_count(connections, sizeof(connections),
						     weir_top_number(process, "connections")),
				   weir_screen_count(busy, sizeof(busy), weir_top_number(process, "busy")));
	draw_state(screen, model, view);
	if (!view->connected)
		weir_screen_printf(screen, 1, 1, WEIR_TONE_BAD, "%s; trying again", view->problem);
	else
		draw_resources(screen, 1, model);
	return draw_verdict(screen, draw_transmit(screen, 2, model), model) + 1;
}

/* ---- backends ---- */

static void draw_backend(weir_screen *screen, unsigned row, const json_t *backend)
{
	const char *state = weir_top_text(backend, "state");
	bool up = strcmp(state, "up") == 0 || strcmp(state, "slow-start") == 0;
	char text[3][16], latency[16];
	static const char *const counts[] = {"in_flight", "requests", "failures"};
	for (unsigned i = 0; i < 3; i++)
		weir_screen_count(text[i], sizeof(text[i]), weir_top_number(backend, counts[i]));
	weir_screen_time(latency, sizeof(latency), weir_top_number(backend, "latency_ns"));
	weir_screen_put(screen, row, 1, 29, WEIR_TONE_PLAIN, weir_top_text(backend, "address"));
	weir_screen_put(screen, row, 31, 10, up ? WEIR_TONE_GOOD : WEIR_TONE_BAD, state);
	weir_screen_printf(screen, row, 42, WEIR_TONE_PLAIN, "%7s %8s %9s %8s", text[0], latency, text[1],
			   text[2]);
}

unsigned weir_top_draw_backends(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model)
{
	const json_t *backends = weir_top_at(model->snapshot, "backends");
	size_t count = json_array_size(backends);
	if (count == 0 || rows < 2)
		return row;
	weir_screen_put(screen, row++, 1, screen->columns, WEIR_TONE_QUIET,
			"backend                       state       inside  latency  requests failures");
	size_t shown = count < rows - 1 ? count : rows - 1;
	for (size_t i = 0; i < shown; i++)
		draw_backend(screen, row++, json_array_get(backends, i));
	if (shown < count)
		weir_screen_printf(screen, row++, 1, WEIR_TONE_QUIET, "and %zu more", count - shown);
	return row;
}

/* ---- shed requests ---- */

/* Only wide screens show what the law expected, and what it allows; paths are cut. */
static void draw_shed(weir_screen *screen, unsigned row, const json_t *shed)
{
	const char *when = weir_top_text(shed, "when"), *name = weir_top_text(shed, "class_name");
	bool wide = screen->columns >= WIDE;
	unsigned path = wide ? screen->columns - WIDE + PATH_WIDE : PATH;
	char text[512], estimate[WEIR_SCREEN_TIME], bound[WEIR_SCREEN_TIME], klass[16];
	weir_screen_count(klass, sizeof(klass), weir_top_number(shed, "class"));
	weir_screen_put(screen, row, 1, 12, WEIR_TONE_QUIET, strlen(when) > 11 ? when + 11 : when);
	weir_screen_put(screen, row, 14, 11, WEIR_TONE_PLAIN, weir_top_text(shed, "stage"));
	weir_screen_put(screen, row, 26, 9, WEIR_TONE_PLAIN, *name != '\0' ? name : klass);
	snprintf(text, sizeof(text), "%s %s", weir_top_text(shed, "method"), weir_top_text(shed, "path"));
	weir_screen_put(screen, row, 36, path, WEIR_TONE_PLAIN, text);
	weir_screen_put(screen, row, 37 + path, 16, WEIR_TONE_SHED, weir_top_text(shed, "reason"));
	if (!wide || !(weir_top_number(shed, "bound_ns") > 0))
		return;
	weir_screen_times(estimate, weir_top_number(shed, "estimate_ns"), bound,
			  weir_top_number(shed, "bound_ns"));
	weir_screen_printf(screen, row, 54 + path, WEIR_TONE_QUIET, "%s, allowed %s", estimate, bound);
}

/* How many a dry run, or a shed ceiling, has let in that would have been turned away. */
static double count_spared(const weir_top_model *model)
{
	const json_t *stages = weir_top_at(model->snapshot, "stages.stages");
	double spared = 0;
	const char *reason;
	json_t *count;
	for (size_t i = 0; i < json_array_size(stages); i++) {
		const json_t *by = weir_top_at(json_array_get(stages, i), "all.spared_by");
		json_object_foreach((json_t *)(uintptr_t)by, reason, count) spared +=
			json_number_value(count);
	}
	return spared;
}

static void draw_none(weir_screen *screen, unsigned row, const weir_top_model *model)
{
	char text[80] = "nothing was turned away", number[16];
	double spared = count_spared(model);
	if (spared > 0)
		snprintf(text, sizeof(text), "nothing was turned away; %s would have been",
			 weir_screen_count(number, sizeof(number), spared));
	weir_screen_put(screen, row, 1, screen->columns, WEIR_TONE_QUIET, text);
}

unsigned weir_top_draw_sheds(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			     size_t scroll)
{
	size_t count = json_array_size(model->sheds);
	double total = weir_top_number(model->snapshot, "sheds_total");
	char number[16];
	if (rows < 2)
		return row;
	if (count == 0) {
		draw_none(screen, row, model);
		return row + 1;
	}
	weir_screen_printf(screen, row++, 1, WEIR_TONE_QUIET, "turned away: %s in all, the newest first",
			   weir_screen_count(number, sizeof(number), total));
	for (size_t i = scroll; i < count && i - scroll + 1 < rows; i++)
		draw_shed(screen, row++, json_array_get(model->sheds, i));
	return row;
}

/* ---- expensive requests ---- */

static void draw_kind(weir_screen *screen, unsigned row, const json_t *kind)
{
	unsigned wide = screen->columns > 80 ? screen->columns - 80 : 0;
	char text[256], expected[16], p90[16], count[16], share[16];
	double part = weir_top_number(kind, "share"), sure = weir_top_number(kind, "confidence");
	weir_screen_time(expected, sizeof(expected), weir_top_number(kind, "expected_ns"));
	weir_screen_time(p90, sizeof(p90), weir_top_number(kind, "p90_ns"));
	weir_screen_count(count, sizeof(count), weir_top_number(kind, "count"));
	snprintf(share, sizeof(share), part >= 0 && part <= 1 ? "%.0f %%" : "-", 100 * part);
	snprintf(text, sizeof(text), "%s %s", weir_top_text(kind, "method"), weir_top_text(kind, "path"));
	weir_screen_put(screen, row, 1, 36 + wide, WEIR_TONE_PLAIN, text);
	weir_screen_printf(screen, row, 38 + wide, WEIR_TONE_PLAIN, "%6s %8s %8s %8s %5.0f %%", share,
			   expected, p90, count, sure >= 0 && sure <= 1 ? 100 * sure : 0.);
}

unsigned weir_top_draw_costs(weir_screen *screen, unsigned row, unsigned rows, const weir_top_model *model,
			     size_t scroll)
{
	const json_t *kinds = weir_top_at(model->snapshot, "costs.kinds");
	size_t count = json_array_size(kinds);
	unsigned wide = screen->columns > 80 ? screen->columns - 80 : 0;
	if (rows < 3)
		return row;
	if (count == 0) {
		weir_screen_put(screen, row, 1, screen->columns, WEIR_TONE_QUIET,
				"nothing is known yet of what requests cost");
		return row + 1;
	}
	weir_screen_put(screen, row++, 1, screen->columns, WEIR_TONE_QUIET,
			"what is expensive here: kinds of request, by the time they take in all");
	weir_screen_put(screen, row, 1, 36, WEIR_TONE_QUIET, "request");
	weir_screen_printf(screen, row++, 38 + wide, WEIR_TONE_QUIET, "%6s %8s %8s %8s %7s", "share", "takes",
			   "p90", "answers", "sure");
	for (size_t i = scroll; i < count && i - scroll + 2 < rows; i++)
		draw_kind(screen, row++, json_array_get(kinds, i));
	return row;
}

/* ---- pages ---- */

static void draw_overview(weir_screen *screen, unsigned row, unsigned end, const weir_top_model *model,
			  const weir_top_view *view)
{
	size_t backends = json_array_size(weir_top_at(model->snapshot, "backends"));
	unsigned below = 5 + (backends > 0 ? 3 : 0) + 3; /* the minimum for the other parts */
	unsigned room = end > row + below + STAGES_LEAST ? end - row - below : STAGES_LEAST;
	const json_t *chosen = weir_top_stage(model, view->chosen);
	row = weir_top_draw_stages(screen, row, room, model, view->chosen) + 1;
	if (chosen != NULL)
		row = weir_top_draw_law(screen, row, model, chosen) + 1;
	unsigned left = end > row ? end - row : 0, share = left > 8 ? BACKENDS_SHOWN : 2;
	unsigned after = weir_top_draw_backends(screen, row, left < share ? left : share, model);
	row = after > row ? after + 1 : row;
	weir_top_draw_sheds(screen, row, end > row ? end - row : 0, model, 0);
}

static void draw_help(weir_screen *screen, unsigned row)
{
	static const char *const lines[] = {
		"j k, arrows   choose a stage",
		"Enter         all about it: classes, counts, what its law is set to and says",
		"s             what was turned away, and why",
		"c             what is expensive here: kinds of request and what they take",
		"i             shows stages of the server itself, too; once more: folds them",
		"p             holds the picture; once more: goes on",
		"Esc, b        back",
		"q             ends it",
		"",
		"offered, let in, shed   requests a second, over the last second",
		"wait, inside, limit     in the queue, being worked on, as many as the law lets in",
		"p50, p90, p99           response times of the last ten seconds",
		"used                    how much of the target that is; | is the target",
	};
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		weir_screen_put(screen, row++, 1, screen->columns, WEIR_TONE_PLAIN, lines[i]);
}

void weir_top_draw(weir_screen *screen, const weir_top_model *model, const weir_top_view *view)
{
	for (size_t i = 0; i < (size_t)screen->rows * screen->columns; i++)
		screen->cells[i] = (weir_cell){.sign = ' '};
	unsigned row = draw_process(screen, model, view);
	unsigned end = view->keys ? screen->rows - 1 : screen->rows;
	const json_t *stage = weir_top_stage(model, view->chosen);
	if (view->page == WEIR_TOP_HELP)
		draw_help(screen, row);
	else if (view->page == WEIR_TOP_SHEDDING)
		weir_top_draw_sheds(screen, row, end > row ? end - row : 0, model, view->scroll);
	else if (view->page == WEIR_TOP_COSTS)
		weir_top_draw_costs(screen, row, end > row ? end - row : 0, model, view->scroll);
	else if (view->page == WEIR_TOP_STAGE && stage != NULL)
		weir_top_draw_stage(screen, row, model, stage);
	else if (model->snapshot != NULL)
		draw_overview(screen, row, end, model, view);
	for (unsigned i = 0; view->keys && i < screen->columns; i++)
		screen->cells[(size_t)end * screen->columns + i] = (weir_cell){.sign = ' '};
	if (view->keys)
		weir_screen_put(screen, end, 1, screen->columns, WEIR_TONE_QUIET,
				view->page == WEIR_TOP_OVERVIEW
					? "q quit   j k choose   Enter stage   s turned away   c costs   p "
					  "pause   ? help"
					: "q quit   Esc back   j k move   p pause   ? help");
}
