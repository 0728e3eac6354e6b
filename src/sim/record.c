/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/record.h"

#include <errno.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"

#define RATIO_UNIT 10000
#define LATE_BY    1.1

/* ---- initialisation ---- */

static int allocate(weir_record *record)
{
	const weir_record_options *o = &record->options;
	unsigned rows = o->classes + 1;
	record->klass = weir_mem_array(o->classes, sizeof *record->klass);
	record->type = weir_mem_array(o->types, sizeof *record->type);
	record->window = weir_mem_array((size_t)record->windows * rows, sizeof *record->window);
	record->slot = weir_mem_array(record->slots, sizeof *record->slot);
	record->phase = weir_mem_array(WEIR_RECORD_PHASES, sizeof *record->phase);
	record->place = weir_mem_array(o->places, sizeof *record->place);
	record->phase_work = weir_mem_array((size_t)WEIR_RECORD_PHASES * 2 * o->places, sizeof(double));
	record->trace = weir_mem_array(o->traces + 1, sizeof *record->trace);
	record->recent = weir_mem_array(rows, sizeof *record->recent);
	record->recent_ratio = weir_mem_array(rows, sizeof *record->recent_ratio);
	record->revenue = weir_mem_array(o->types, sizeof *record->revenue);
	if (!record->klass || !record->type || !record->window || !record->slot || !record->phase ||
	    !record->place || !record->phase_work || !record->trace || !record->recent ||
	    !record->recent_ratio || !record->revenue)
		return -ENOMEM;
	if (o->revenue != NULL)
		memcpy(record->revenue, o->revenue, o->types * sizeof *record->revenue);
	for (unsigned i = 0; i < o->traces; i++) {
		record->trace[i].value = weir_mem_array(record->windows, sizeof *record->trace[i].value);
		if (record->trace[i].value == NULL)
			return -ENOMEM;
	}
	return 0;
}

static unsigned pieces(uint64_t whole, uint64_t piece)
{
	return (unsigned)((whole + piece - 1) / piece);
}

/* Phases may be inserted as long as none has begun: their numbers are assigned in order. */
static void place_work(weir_record *record)
{
	for (unsigned i = 0; i < record->phases; i++) {
		record->phase[i].completed_ns = record->phase_work + (size_t)2 * i * record->options.places;
		record->phase[i].capacity_ns = record->phase[i].completed_ns + record->options.places;
	}
}

int weir_record_new(const weir_record_options *options, weir_record **ret_record)
{
	weir_record *record = weir_mem_zalloc(sizeof *record);
	if (record == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	record->options = *options;
	record->slot_ns = options->window_ns / WEIR_RECORD_SLOTS;
	record->windows = pieces(options->duration_ns, options->window_ns);
	record->slots = pieces(options->duration_ns, record->slot_ns) + 1;
	if (allocate(record) < 0) {
		weir_record_free(&record);
		return weir_error_set(-ENOMEM, "out of memory: %llu windows and what belongs to them",
				      (unsigned long long)(options->duration_ns / options->window_ns));
	}
	record->phase[0].to_ns = options->duration_ns;
	record->phases = 1;
	place_work(record);
	*ret_record = record;
	return 0;
}

void weir_record_free(weir_record **ref)
{
	weir_record *record = *ref;
	if (record == NULL)
		return;
	for (unsigned i = 0; record->trace != NULL && i < record->options.traces; i++)
		weir_mem_free(record->trace[i].value);
	weir_mem_free(record->klass);
	weir_mem_free(record->type);
	weir_mem_free(record->window);
	weir_mem_free(record->slot);
	weir_mem_free(record->block);
	weir_mem_free(record->phase);
	weir_mem_free(record->place);
	weir_mem_free(record->phase_work);
	weir_mem_free(record->revenue);
	weir_mem_free(record->trace);
	weir_mem_free(record->recent);
	weir_mem_free(record->recent_ratio);
	weir_mem_free(record);
	*ref = NULL;
}

void weir_record_phase(weir_record *record, uint64_t at_ns)
{
	unsigned i = 0;
	if (at_ns >= record->options.duration_ns || record->phases == WEIR_RECORD_PHASES)
		return;
	while (i < record->phases && record->phase[i].from_ns < at_ns)
		i++;
	if (i < record->phases && record->phase[i].from_ns == at_ns)
		return;
	memmove(&record->phase[i + 1], &record->phase[i], (record->phases - i) * sizeof *record->phase);
	record->phases++;
	memset(&record->phase[i], 0, sizeof *record->phase);
	record->phase[i].from_ns = at_ns;
	record->phase[i - 1].to_ns = at_ns;
	record->phase[i].to_ns =
		i + 1 < record->phases ? record->phase[i + 1].from_ns : record->options.duration_ns;
	place_work(record);
}

/* ---- mapping from time ---- */

static bool measured(const weir_record *record, uint64_t now_ns)
{
	return now_ns >= record->options.warmup_ns;
}

static weir_sim_phase *phase_at(weir_record *record, uint64_t now_ns)
{
	while (record->phase_now + 1 < record->phases && now_ns >= record->phase[record->phase_now].to_ns)
		record->phase[++record->phase_now].inside = record->inside;
	return &record->phase[record->phase_now];
}

/* Anything after the end of the last slot belongs to the last slot. */
static weir_slot *slot_at(weir_record *record, uint64_t now_ns)
{
	uint64_t at = now_ns / record->slot_ns;
	return &record->slot[at < record->slots ? at : record->slots - 1];
}

static weir_sim_window *row(weir_record *record, unsigned column)
{
	unsigned window = record->window_now < record->windows ? record->window_now : record->windows - 1;
	return &record->window[(size_t)window * (record->options.classes + 1) + column];
}

/* ---- blocks ---- */

static void grow_blocks(weir_record *record)
{
	unsigned room = record->block_room == 0 ? 4096 : 2 * record->block_room;
	weir_sim_block *more = weir_mem_array(room, sizeof *more);
	if (more == NULL)
		return; /* the measure of oscillation ends here */
	if (record->block != NULL)
		memcpy(more, record->block, record->blocks * sizeof *more);
	weir_mem_free(record->block);
	record->block = more;
	record->block_room = room;
}

static void end_block(weir_record *record, uint64_t now_ns)
{
	if (record->blocks == record->block_room)
		grow_blocks(record);
	if (record->blocks < record->block_room)
		record->block[record->blocks++] =
			(weir_sim_block){.end_ns = now_ns, .turned_away = record->block_turned_away};
	record->block_offered = record->block_turned_away = 0;
}

/* ---- what happens to an attempt ---- */

#define COUNT(member)                             \
	do {                                      \
		row(record, 0)->member++;         \
		row(record, 1 + klass)->member++; \
	} while (0)
#define TOTAL(member)                                  \
	do {                                           \
		if (measured(record, now_ns)) {        \
			record->klass[klass].member++; \
			record->type[type].member++;   \
		}                                      \
	} while (0)

void weir_record_offered(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type)
{
	/* A block ends with the outcome of its last offer, hence before the next one. */
	if (record->block_offered == WEIR_RECORD_BLOCK)
		end_block(record, now_ns);
	record->block_offered++;
	if (!measured(record, now_ns))
		record->inside_at_start++; /* until it ends */
	phase_at(record, now_ns)->offered++;
	record->inside++;
	slot_at(record, now_ns)->offered++;
	COUNT(offered);
	TOTAL(offered);
}

static void left(weir_record *record, uint64_t now_ns)
{
	record->inside--;
	if (!measured(record, now_ns))
		record->inside_at_start--;
}

static void turned_away(weir_record *record, uint64_t now_ns)
{
	left(record, now_ns);
	phase_at(record, now_ns)->turned_away++;
	slot_at(record, now_ns)->turned_away++;
	record->block_turned_away++;
}

/* What the request would have earned, for nobody who answers it now. */
static void lose(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type)
{
	if (!measured(record, now_ns))
		return;
	record->klass[klass].turned_away += record->revenue[type];
	record->type[type].turned_away += record->revenue[type];
}

void weir_record_shed(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type)
{
	turned_away(record, now_ns);
	COUNT(shed);
	TOTAL(shed);
	lose(record, now_ns, klass, type);
}

void weir_record_dropped(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type)
{
	turned_away(record, now_ns);
	COUNT(dropped);
	TOTAL(dropped);
	lose(record, now_ns, klass, type);
}

void weir_record_given_up(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type)
{
	left(record, now_ns);
	TOTAL(given_up);
}

/* Updates a tally: the counts and the distribution. */
static void tally_response(weir_totals *tally, uint64_t response_ns, bool good, bool useful, bool offered,
			   double revenue)
{
	*(good ? &tally->earned : &tally->late) += revenue;
	tally->completed++;
	tally->good += good;
	tally->useful += useful;
	tally->useful_of_offered += useful && offered;
	tally->sum_ns += (double)response_ns;
	weir_hist_add(&tally->response, response_ns);
}

static void window_response(weir_record *record, unsigned column, uint64_t response_ns, uint64_t ratio,
			    bool useful)
{
	weir_sim_window *window = row(record, column);
	window->completed++;
	window->useful += useful;
	weir_hist_add(&record->recent[column], response_ns);
	weir_hist_add(&record->recent_ratio[column], ratio);
}

bool weir_record_completed(weir_record *record, uint64_t now_ns, unsigned klass, unsigned type,
			   uint64_t response_ns, uint64_t target_ns)
{
	double times = target_ns != 0 ? (double)response_ns / (double)target_ns : 0;
	bool good = times <= 1, useful = times <= 2;
	uint64_t ratio = (uint64_t)(times * RATIO_UNIT);
	left(record, now_ns);
	weir_sim_phase *phase = phase_at(record, now_ns);
	phase->completed++;
	phase->good += good;
	phase->useful += useful;
	weir_hist_add(&phase->ratio, ratio);
	weir_hist_add(&phase->response, response_ns);
	weir_slot *slot = slot_at(record, now_ns);
	slot->completed++;
	slot->late += times > LATE_BY;
	window_response(record, 0, response_ns, ratio, useful);
	window_response(record, 1 + klass, response_ns, ratio, useful);
	bool offered = now_ns >= response_ns && measured(record, now_ns - response_ns);
	if (offered)
		weir_hist_add(&record->ratio_of_offered, ratio);
	if (measured(record, now_ns)) {
		tally_response(&record->klass[klass], response_ns, good, useful, offered,
			       record->revenue[type]);
		tally_response(&record->type[type], response_ns, good, useful, offered,
			       record->revenue[type]);
	}
	return useful;
}

void weir_record_work(weir_record *record, uint64_t now_ns, unsigned place, double work_ns, weir_use use)
{
	if (use != WEIR_USED_FOR_NOTHING)
		phase_at(record, now_ns)->completed_ns[place] += work_ns;
	if (measured(record, now_ns))
		record->place[place].used_ns[use] += work_ns;
}

/* The overlap of two periods, in ns. */
static double common(uint64_t from, uint64_t to, uint64_t other_from, uint64_t other_to)
{
	from = from > other_from ? from : other_from;
	to = to < other_to ? to : other_to;
	return to > from ? (double)(to - from) : 0;
}

void weir_record_workers(weir_record *record, uint64_t now_ns, unsigned at, double workers)
{
	weir_place *place = &record->place[at];
	for (unsigned i = 0; i < record->phases; i++) {
		weir_sim_phase *phase = &record->phase[i];
		phase->capacity_ns[at] +=
			place->workers * common(place->since_ns, now_ns, phase->from_ns, phase->to_ns);
	}
	place->capacity_ns +=
		place->workers * common(place->since_ns, now_ns, record->options.warmup_ns, UINT64_MAX);
	place->since_ns = now_ns;
	place->workers = workers;
}

/* ---- over time ---- */

static float ms(uint64_t ns)
{
	return (float)((double)ns / 1e6);
}

static void close_row(weir_record *record, unsigned column)
{
	weir_sim_window *window = row(record, column);
	weir_hist *recent = &record->recent[column], *ratio = &record->recent_ratio[column];
	if (window->completed == 0)
		return;
	window->p50_ms = ms(weir_hist_quantile(recent, 0.5));
	window->p90_ms = ms(weir_hist_quantile(recent, 0.9));
	window->p99_ms = ms(weir_hist_quantile(recent, 0.99));
	window->ratio = (float)((double)weir_hist_quantile(ratio, record->options.quantile) / RATIO_UNIT);
	weir_hist_clear(recent);
	weir_hist_clear(ratio);
}

void weir_record_window(weir_record *record, uint64_t now_ns)
{
	if (record->window_now >= record->windows)
		return;
	phase_at(record, now_ns);
	for (unsigned column = 0; column <= record->options.classes; column++)
		close_row(record, column);
	record->window_now++;
}

static void trace_value(weir_record *record, weir_law_trace *trace, unsigned which, const char *name,
			double value)
{
	trace->value[record->window_now][which] = (float)value;
	if (value != 0 || trace->name[which] != NULL || which >= WEIR_TRACE_OWN)
		trace->name[which] = name;
}

void weir_record_trace(weir_record *record, unsigned at, const weir_report *report)
{
	weir_law_trace *trace = &record->trace[at];
	if (record->window_now >= record->windows)
		return;
	trace->unreachable |= report->unreachable;
	trace_value(record, trace, WEIR_TRACE_MEASURED, "measured", (double)report->measured_ns / 1e6);
	trace_value(record, trace, WEIR_TRACE_RATE, "rate", report->rate_per_s);
	trace_value(record, trace, WEIR_TRACE_LIMIT, "limit",
		    report->limit == UINT32_MAX ? 0 : report->limit);
	trace_value(record, trace, WEIR_TRACE_QUALITY, "quality", report->quality);
	for (unsigned i = 0; i < report->count && i < WEIR_REPORT_VALUES; i++)
		trace_value(record, trace, WEIR_TRACE_OWN + i, report->value[i].name, report->value[i].value);
}

/* ---- reading ---- */

const weir_sim_window *weir_record_at(const weir_record *record, unsigned window, unsigned klass)
{
	unsigned column = klass == WEIR_CLASSES ? 0 : 1 + klass;
	return &record->window[(size_t)window * (record->options.classes + 1) + column];
}

void weir_record_total(const weir_record *record, weir_totals *ret_total)
{
	memset(ret_total, 0, sizeof *ret_total);
	for (unsigned i = 0; i < record->options.classes; i++) {
		const weir_totals *tally = &record->klass[i];
		ret_total->offered += tally->offered;
		ret_total->shed += tally->shed;
		ret_total->spared += tally->spared;
		ret_total->dropped += tally->dropped;
		ret_total->given_up += tally->given_up;
		ret_total->completed += tally->completed;
		ret_total->good += tally->good;
		ret_total->useful += tally->useful;
		ret_total->useful_of_offered += tally->useful_of_offered;
		ret_total->sum_ns += tally->sum_ns;
		ret_total->earned += tally->earned;
		ret_total->late += tally->late;
		ret_total->turned_away += tally->turned_away;
		weir_hist_merge(&ret_total->response, &tally->response);
	}
}
