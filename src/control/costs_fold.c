/* SPDX-License-Identifier: Apache-2.0 */
/* Prefixes: they stand in for kinds that are not known, and fold segments when there are many. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "control/costs_priv.h"

/*
 * How many of 128 bits are set by the number of segments that makes a prefix fold, allowing for
 * collisions.
 */
#define CHILD_BITS 29
/*
 * To keep its name, a segment's cost must differ from that of the others by this much: as a logarithm (a
 * factor of 1.5), and in standard errors.
 */
#define KEEP_LOG    .4
#define KEEP_ERRORS 3.
#define SIBLINGS    256u

static bool is_last(const weir_cost_key *key, unsigned at)
{
	return at + 1u >= key->segments;
}

static bool is_star(const weir_cost_key *key, unsigned at)
{
	unsigned from = key->start[at];
	unsigned to = is_last(key, at) ? key->length : key->start[at + 1] - 1u;
	return to - from == 1 && key->text[from] == '*';
}

static weir_cost_mark *look_for(const weir_costs *costs, const weir_cost_key *key)
{
	return weir_costs_look(costs, weir_costs_hash(costs, key));
}

/* Whether the path up to and including this segment is known by its name. */
static bool has_name(const weir_costs *costs, const weir_cost_key *key, unsigned at)
{
	weir_cost_key longer;
	if (is_last(key, at))
		return look_for(costs, key) != NULL;
	weir_cost_key_prefix(key, at + 1, &longer);
	return look_for(costs, &longer) != NULL;
}

weir_cost_mark *weir_costs_walk(const weir_costs *costs, weir_cost_key *key)
{
	weir_cost_mark *above = NULL;
	for (unsigned at = 0; at < key->segments; at++) {
		weir_cost_key prefix;
		weir_cost_key_prefix(key, at, &prefix);
		weir_cost_mark *mark = look_for(costs, &prefix);
		if (mark == NULL)
			break;
		above = mark;
		if (WEIR_COSTS_GET(weir_costs_record(costs, mark)->folds) && !is_star(key, at) &&
		    !has_name(costs, key, at))
			weir_cost_key_star(key, at);
	}
	return above;
}

/* ---- many children ---- */

/*
 * Whether the key is below the prefix, by a name. direct: it is the child itself, or the prefix that ends
 * in the child.
 */
static bool is_below(const weir_cost_key *prefix, const weir_cost_key *key, bool *ret_direct)
{
	unsigned at = prefix->segments;
	if (key->sort == WEIR_COSTS_ROUTE || key->route != prefix->route || key->method != prefix->method ||
	    key->length <= prefix->length || memcmp(key->text, prefix->text, prefix->length) != 0 ||
	    at >= key->segments)
		return false;
	weir_cost_key child = *key;
	if (key->sort == WEIR_COSTS_PREFIX) /* its text ends with a slash */
		child.length--;
	*ret_direct = at + 1u == key->segments;
	return !is_star(&child, at);
}

static float expected(const weir_costs *costs, const weir_cost_mark *mark)
{
	const weir_cost_record *record = weir_costs_record(costs, mark);
	bool trusted = WEIR_COSTS_GET(record->samples) >= WEIR_COSTS_TRUSTED;
	return trusted ? WEIR_COSTS_GET(record->base_ns) + WEIR_COSTS_GET(record->extra_ns) : 0;
}

static int compare(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;
	return (x > y) - (x < y);
}

/*
 * "*" will stand for newcomers, so names are compared with these: the children that have not filled a
 * window of answers. A client with many paths can make a prefix fold, but kinds that are well known by
 * then keep their names, unless they cost the same as the newcomers.
 */
typedef struct sweep {
	weir_costs *costs;
	const weir_cost_key *prefix;
	float usual_ns; /* the median of the newcomers; 0: unknown */
	float times[SIBLINGS];
	unsigned count;
} sweep;

/* Its cost is known, and differs. */
static bool stands_out(const sweep *s, const weir_cost_mark *mark)
{
	const weir_cost_record *record = weir_costs_record(s->costs, mark);
	double mean = expected(s->costs, mark), samples = WEIR_COSTS_GET(record->samples);
	if (mean <= 0 || s->usual_ns <= 0)
		return mean > 0;
	double differs = fabs(log(mean / s->usual_ns));
	double error = WEIR_COSTS_GET(record->deviation_ns) / mean / sqrt(samples);
	return differs > KEEP_LOG && differs > KEEP_ERRORS * error;
}

static void note_time(sweep *s, weir_cost_mark *mark, const weir_cost_key *key, bool direct)
{
	const weir_cost_record *record = weir_costs_record(s->costs, mark);
	uint32_t samples = WEIR_COSTS_GET(record->samples);
	if (direct && samples > 0 && samples < WEIR_COSTS_WINDOW && s->count < SIBLINGS)
		s->times[s->count++] = WEIR_COSTS_GET(record->base_ns);
}

/* A prefix keeps its name if a well-known kind below it stands out. */
static void spare_above(sweep *s, weir_cost_mark *mark, const weir_cost_key *key, bool direct)
{
	const weir_cost_record *record = weir_costs_record(s->costs, mark);
	weir_cost_key child;
	if (direct || key->sort != WEIR_COSTS_KIND || WEIR_COSTS_GET(record->samples) < WEIR_COSTS_WINDOW ||
	    !stands_out(s, mark))
		return;
	weir_cost_key_prefix(key, s->prefix->segments + 1u, &child);
	weir_cost_mark *above = look_for(s->costs, &child);
	if (above != NULL)
		WEIR_COSTS_SET(weir_costs_record(s->costs, above)->spared, true);
}

static void drop_usual(sweep *s, weir_cost_mark *mark, const weir_cost_key *key, bool direct)
{
	weir_cost_record *record = weir_costs_record(s->costs, mark);
	if (direct && !WEIR_COSTS_GET(record->spared) && !stands_out(s, mark))
		weir_costs_drop(s->costs, mark);
	WEIR_COSTS_SET(record->spared, false);
}

/* Kinds further below are dropped with the prefix that led to them. */
static void drop_orphan(sweep *s, weir_cost_mark *mark, const weir_cost_key *key, bool direct)
{
	weir_cost_key child;
	if (direct)
		return;
	weir_cost_key_prefix(key, s->prefix->segments + 1u, &child);
	if (look_for(s->costs, &child) == NULL)
		weir_costs_drop(s->costs, mark);
}

static void for_all_below(sweep *s,
			  void (*fn)(sweep *s, weir_cost_mark *mark, const weir_cost_key *key, bool direct))
{
	for (uint32_t i = 0; i < s->costs->places; i++) {
		weir_cost_mark *mark = &s->costs->marks[i];
		weir_cost_key key;
		bool direct;
		if (weir_costs_read_key(s->costs, mark, &key) && is_below(s->prefix, &key, &direct))
			fn(s, mark, &key, direct);
	}
}

/* Scans the whole table, but happens only once per prefix. */
static void fold_children(weir_costs *costs, const weir_cost_key *prefix)
{
	sweep s = {.costs = costs, .prefix = prefix};
	for_all_below(&s, note_time);
	qsort(s.times, s.count, sizeof(s.times[0]), compare);
	s.usual_ns = s.count > 0 ? s.times[s.count / 2] : 0;
	for_all_below(&s, spare_above);
	for_all_below(&s, drop_usual);
	for_all_below(&s, drop_orphan);
}

/* ---- the first good answer ---- */

static unsigned bits(const weir_cost_record *record)
{
	return (unsigned)__builtin_popcountll(WEIR_COSTS_GET(record->children[0])) +
	       (unsigned)__builtin_popcountll(WEIR_COSTS_GET(record->children[1]));
}

/* Records the segment behind the prefix; true: there are now too many, and were not before. */
static bool count_child(weir_costs *costs, weir_cost_record *record, const weir_cost_key *key, unsigned at)
{
	unsigned from = key->start[at], to = is_last(key, at) ? key->length : key->start[at + 1] - 1u;
	uint64_t hash = weir_siphash(&costs->key, key->text + from, to - from);
	_Atomic uint64_t *word = &record->children[hash >> 6 & 1];
	if (WEIR_COSTS_GET(record->folds) || is_star(key, at))
		return false;
	WEIR_COSTS_SET(*word, WEIR_COSTS_GET(*word) | UINT64_C(1) << (hash & 63));
	if (bits(record) < CHILD_BITS)
		return false;
	WEIR_COSTS_SET(record->folds, true);
	return true;
}

static weir_cost_mark *prefix_mark(weir_costs *costs, const weir_cost_key *prefix, uint32_t uses,
				   const weir_cost_mark *above)
{
	uint64_t hash = weir_costs_hash(costs, prefix);
	weir_cost_mark *mark = weir_costs_look(costs, hash);
	if (mark == NULL)
		mark = weir_costs_take(costs, prefix, hash, uses);
	if (mark == NULL)
		return NULL;
	weir_cost_record *record = weir_costs_record(costs, mark);
	WEIR_COSTS_SET(record->proven, true);
	if (above != NULL)
		WEIR_COSTS_SET(record->parent, weir_costs_pack(weir_costs_kind(costs, above)));
	return mark;
}

static void prove(weir_costs *costs, weir_cost_mark *mark)
{
	weir_cost_key key, prefix, fold;
	weir_cost_record *record = weir_costs_record(costs, mark);
	bool folds = false;
	if (!weir_costs_read_key(costs, mark, &key) || key.sort != WEIR_COSTS_KIND)
		return;
	/* Its prefix deserves a place as much as the kind itself. */
	uint32_t uses = WEIR_COSTS_GET(record->uses);
	const weir_cost_mark *above = weir_costs_route(costs, key.route, uses);
	for (unsigned at = 0; at < key.segments; at++) {
		weir_cost_key_prefix(&key, at, &prefix);
		weir_cost_mark *its = prefix_mark(costs, &prefix, uses, above);
		if (its == NULL || its == mark)
			break;
		above = its;
		if (!folds && count_child(costs, weir_costs_record(costs, its), &key, at)) {
			folds = true;
			fold = prefix;
		}
	}
	/* Its prefix may have taken the kind's own place. */
	if (!weir_costs_read_key(costs, mark, &prefix) || prefix.sort != WEIR_COSTS_KIND)
		return;
	WEIR_COSTS_SET(record->proven, true);
	if (above != NULL)
		WEIR_COSTS_SET(record->parent, weir_costs_pack(weir_costs_kind(costs, above)));
	if (folds)
		fold_children(costs, &fold);
}

void weir_costs_prove(weir_costs *costs, weir_cost_mark *mark)
{
	if (!weir_costs_enter(costs))
		return;
	prove(costs, mark);
	weir_costs_leave(costs);
}
