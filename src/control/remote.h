/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_CONTROL_REMOTE_H
#define WEIR_CONTROL_REMOTE_H

/*
 * The state of `adaptive-remote`, for its parts: parameters and the law itself (adaptive_remote.c), who is
 * admitted (remote_admit.c), requests in the backend (remote_serve.c), the evidence (remote_evidence.c,
 * remote_cope.c, remote_probe.c, remote_told.c), the tick (remote_tick.c), reports and the warm start (remote_report.c). `value` embeds it and shares all but
 * the decision. docs/laws/adaptive-remote.md explains the law; this is its vocabulary.
 *
 *  inside     requests that were admitted and have not ended: those waiting here and those in the backend
 *  level      a range of the number of requests that a request meets in the backend when it starts; half
 *             an octave each
 *  base       the time of requests on an unloaded backend: the middle of the times at the lowest levels
 *  slowdown   the current time of requests, over the base
 *  slow       a request that took `slow` times the base, or more
 *  congested  most requests are slow, by more than chance (remote_evidence.c)
 *  strain     where the share of slow requests is between that without load (0) and that which counts
 *             as congestion (1)
 *  calm       a level at which requests are not slow; as many as the highest calm level are always
 *             admitted
 *  limited    the limit is in force
 *  rate       requests per second that the backend completes when it is fully loaded
 *  kind       requests of about the same expected cost (event.cost), within a factor of 4; 0: of unknown
 *             cost
 *  aside      requests whose times say nothing about load: those that are expected to take several times
 *             the base, such as long polls and reports, and those of a kind that is not known yet
 *             (WEIR_EVENT_GUESSED). They are set aside while the others are many enough to tell
 *  gamma      the tail: completions during a request's stay over the number it met, at a high quantile; of all
 *             requests, and of each kind
 *  beta       the factor on the limit that keeps few enough requests late
 *  own        the time of requests of a kind on an unloaded backend, at the target's percentile
 *  scarce     so many of the last requests were refused that this is no queue of chance
 *  drained    no more inside than the highest calm level
 *  spell      the time since the backend was last drained
 *  draining   limited, congested and most answers are late, those admitted before the limit included: what came in before
 *             the overload was seen is being worked off, and whoever comes in above the limit would be late, too
 *  lenient    no more come than the backend is known to cope with (remote_cope.c): requests may come in above the limit
 *
 * Times are compared as logarithms of nanoseconds, because ratios matter.
 *
 * Threads: as in law.h. Counters only grow. Estimates that several threads write (gamma, beta) are
 * written without synchronisation: a lost step is one sample less.
 */

#include <stdatomic.h>
#include <weir/law.h>

#include "control/degrade.h"
#include "control/guarantee.h"
#include "control/refusal.h"
#include "control/times.h"

#define WEIR_REMOTE_TARGET_MIN_NS WEIR_NS_PER_US
#define WEIR_REMOTE_TARGET_MAX_NS (3600 * WEIR_NS_PER_S)
#define WEIR_REMOTE_TICK_NS       (10 * WEIR_NS_PER_MS)
#define WEIR_REMOTE_PROVED_NS     (600 * WEIR_NS_PER_S)
#define WEIR_REMOTE_LEVELS        40
#define WEIR_REMOTE_KINDS         16
#define WEIR_REMOTE_MARKS         3
#define WEIR_REMOTE_AGES          64
#define WEIR_REMOTE_OPEN          UINT32_MAX
#define WEIR_REMOTE_FEW           2 /* requests that do not saturate any backend */
#define WEIR_REMOTE_OWN_MIN       1
#define WEIR_REMOTE_OWN_MAX       100
#define WEIR_REMOTE_BETA_LEAST    (-1.) /* ln */
#define WEIR_REMOTE_BETA_MOST     .35

/* The law's constants. `./dev bench laws` scales each of them to show its effect. */
typedef struct weir_remote_tuning {
	double first;    /* requests that an unknown backend gets at once */
	double slow;     /* factor on the base from which a request is slow */
	double sure;     /* standard deviations by which a slowdown must exceed chance */
	double base;     /* requests from which the base is computed */
	double margin;   /* part of the share that may be late to aim at */
	double credit;   /* requests that may be admitted above the limit before anything is shed */
	double headroom; /* part of the limit that a class leaves to the classes above it */
	double own;      /* a request that takes longer alone may take this many times the excess more */
	double grow;     /* growth per response time of a limit that binds without congestion */
	double window;   /* window of the rate: in targets, ... */
	double enough;   /* ... and at least this many requests */
	double lift_s;   /* the limit is lifted after this many seconds, ... */
	double lift;     /* ... and this many targets, without congestion */
	double step;     /* step of the quantile estimates */
} weir_remote_tuning;

typedef struct weir_remote_level {
	weir_times times;
	_Atomic uint32_t started, ended; /* requests that met this level */
	/* the tick */
	uint32_t looked; /* part of `ended` already processed */
	double seen, middle, spread, missing;
	uint64_t last_ns;
} weir_remote_level;

typedef enum weir_remote_phase {
	WEIR_REMOTE_UNPROBED,
	WEIR_REMOTE_COUNTS,
	WEIR_REMOTE_DRAINS,
	WEIR_REMOTE_COMPARES
} weir_remote_phase;

typedef struct weir_remote_kind {
	weir_times own; /* times on an unloaded backend */
	_Atomic uint32_t answers;
	_Atomic uint32_t judged, late; /* of those that the limit could have kept in time */
	_Atomic uint64_t own_ns;       /* 0: unknown */
	_Atomic float cost_ns;         /* expected, on average; 0: unknown */
	_Atomic float gamma;           /* ln */
	_Atomic uint32_t gamma_seen;   /* answers that it was learnt from */
	/* the tick */
	uint32_t looked, seen_answers, seen_judged, seen_late;
	uint64_t last_ns; /* an answer */
	double present;   /* among the most recent answers */
	double late_share, late_seen;
} weir_remote_kind;

typedef struct weir_remote {
	/* const after init */
	double quantile;
	double aimed; /* the quantile to aim at: a little higher */
	double minimum[WEIR_CLASSES];
	double quality_least;
	weir_remote_tuning tuning;
	unsigned age_shift; /* a slot of the ring of ages is 2^shift ns */
	/*
	 * The mix of requests depends on the law's decisions, so that times alone say nothing (`value`). Then
	 * times are compared per expected cost, and what was admitted before the limit, or is of a kind that is
	 * not admitted any more, does not count as late.
	 */
	bool mix_changes;

	/* any thread reads; retarget writes */
	_Atomic uint64_t target_ns[WEIR_CLASSES];
	_Atomic uint64_t least_target_ns;

	/* any thread reads; the tick writes */
	_Alignas(64) _Atomic uint32_t limit[WEIR_CLASSES]; /* requests inside; WEIR_REMOTE_OPEN: unlimited */
	_Atomic uint64_t due_every_ns[WEIR_CLASSES]; /* between two starts of a class's minimum; 0: none */
	_Atomic uint32_t floor;                      /* this many inside are not slowed down */
	_Atomic uint32_t cap;                        /* requests that the backend gets at once */
	/* ln ns: the base's quartiles times the factor that is slow; 0: unknown. */
	_Atomic float slow_from[WEIR_REMOTE_MARKS];
	_Atomic int32_t own_top;  /* up to this level times are the requests' own; -1: unknown */
	_Atomic uint32_t binding; /* the kind that determines the limit */
	_Atomic double told_gamma, told_rate, told_slowdown, told_base_ns;
	_Atomic uint32_t top_class; /* the highest class present */
	_Atomic bool congested, limited, dry_run, lenient;
	_Atomic uint32_t asked_most; /* while lenient: no more than these, until the next tick */
	_Atomic uint32_t spenders;   /* classes below this one may spend credit */
	_Atomic bool strict;         /* hopeless requests are dropped */
	_Atomic uint64_t limited_ns; /* since when the limit is in force */
	_Atomic uint64_t oldest;     /* slot in the ring of ages */
	_Atomic bool deep;           /* answers take so long that requests that left the ring will end, too */
	_Atomic bool sets_aside;     /* there are enough others */
	/* Requests in the backend that have left the ring: they may never end. Then, those set aside. */
	_Atomic int32_t overdue[2];

	/* any thread writes */
	_Alignas(64) _Atomic int32_t waiting[WEIR_CLASSES];
	_Atomic int32_t serving; /* in the backend, including overdue ones */
	_Atomic int32_t serving_of[WEIR_CLASSES];
	_Atomic int64_t credit; /* in thousandths of a request */
	_Atomic uint32_t shed[WEIR_CLASSES];
	_Atomic uint32_t asked; /* about whom the law was asked */
	_Atomic uint32_t above; /* let in above the limit, because it is lenient */
	weir_refusal refused[WEIR_CLASSES], dropped[WEIR_CLASSES]; /* at the offer; after waiting */
	/* In a dry run: when the backend would have completed everything that would have been admitted. */
	_Atomic uint64_t shadow_ns;
	_Atomic uint64_t due_next_ns[WEIR_CLASSES];
	weir_guarantee guaranteed[WEIR_CLASSES];
	_Alignas(64) _Atomic uint64_t done;
	_Atomic uint32_t silent, aside;         /* of these: whose times say nothing; that were set aside */
	_Atomic uint32_t ended_late;            /* of the answers, whenever they were admitted */
	_Atomic uint32_t telling, telling_late; /* of the others: judged; later than the target */
	_Atomic uint32_t rated, slowed[WEIR_REMOTE_MARKS], plainly_late;
	_Atomic uint64_t backend_us; /* sum of the times in the backend */
	/* Sum of the logarithms of the rates that slow requests saw, in thousandths. */
	_Atomic int64_t rates_ln;
	_Atomic float gamma, beta, measured; /* ln */
	/* Requests in the backend, by the time of their start. Then, those set aside. */
	_Alignas(64) _Atomic int32_t age[2][WEIR_REMOTE_AGES];
	weir_times recent;
	weir_remote_kind kind[WEIR_REMOTE_KINDS];
	weir_remote_level level[WEIR_REMOTE_LEVELS];

	/* the tick */
	_Alignas(64) uint32_t seen_slowed[WEIR_REMOTE_MARKS];
	uint32_t seen_rated, seen_plainly, seen_silent, seen_aside, seen_shed[WEIR_CLASSES];
	uint32_t seen_telling, seen_telling_late, seen_ended_late, seen_above, seen_asked;
	uint64_t seen_done, seen_backend_us;
	int64_t seen_rates_ln;
	double base, spread; /* ln; INFINITY: unknown */
	double base_seen;    /* answers from which it was computed */
	/* The share of slow requests without any load, and if all took so much longer that it counts. */
	double nature, threshold;
	double slow_share, judged_seen, slow_seen, old_seen[WEIR_REMOTE_MARKS];
	double strain; /* 0: as slow as without load; 1: slow enough to count */
	float judged_by;
	uint64_t shared_ns;
	double slowdown;                 /* ln; 0 if unknown */
	bool steady, ever_steady;        /* the backend keeps up, or once did */
	uint64_t window_ns;              /* since when this has been observed, ... */
	double window_inside;            /* ... and how many were inside then */
	double worst;                    /* largest late share of any kind that is present */
	double late_own, late_base;      /* share of own times, and of the base, above the target */
	double late_share;               /* late by the requests' effective targets */
	double plain_share;              /* late by the plain target */
	double ended_late_share;         /* of all answers: late by their effective targets */
	double telling_share;            /* the same, of those whose times say something */
	double backend_s, backend_seen;  /* mean time in the backend, without those set aside */
	double silent_share;             /* of the answers, those whose times say nothing */
	double rate, rate_ln, rate_seen; /* requests per second; the sum from which it is computed */
	double refused_share;            /* of those about whom the law was asked */
	bool scarce;
	uint64_t present_ns[WEIR_CLASSES], busy_ns, grown_ns;
	bool pressed; /* since the last tick some did not fit: refused, or above the limit */
	/* what the backend copes with (remote_cope.c) */
	struct {
		double came, s;            /* of this stretch: requests, seconds */
		bool pressed;              /* some did not fit in it */
		double rate;               /* per second; 0: unknown */
		double excess;             /* requests beyond that */
		double spell_s, spell_bad; /* late or refused in this spell */
	} cope;
	/* how many requests the backend gets */
	double cap_now, cap_answers;
	uint64_t cap_ns, answered_ns, timely_ns;
	uint64_t given_ns, hurried_ns; /* when the backend was last given more, and all that waited */
	uint64_t queued_ns;            /* since when some wait */
	/* trials with less: does the backend complete as much with fewer? */
	bool trial;
	double trial_done, trial_s, trial_rate, trial_cap;
	uint64_t trial_from_ns;
	/* is a backend that was always slow saturated? (remote_probe.c) */
	struct {
		weir_remote_phase phase;
		uint64_t since_ns, next_ns, pause_ns;
		double answers, rate;
		uint32_t inside, cap; /* cap: in its place; 0: none */
		uint64_t proved_ns;   /* when so many inside turned out not to saturate it; 0: never */
	} probe;
	bool costs_wrong; /* what requests cost was learnt under load */
	/* set by a law that embeds this */
	bool held;        /* more is offered than can be done: the limit stays in force */
	double late_most; /* the share of late answers that beta aims at; init: 1 - aimed */
	bool costs_known; /* ages say nothing */
	/* what servers told (remote_told.c) */
	struct {
		uint64_t at_ns; /* 0: nothing */
		double queue_s, busy;
	} heard;
	/* what the tick reports to others */
	_Atomic uint32_t shedding; /* one bit per class */
	_Atomic bool unreachable;
	weir_degrade degrade[WEIR_CLASSES];
} weir_remote;

extern const weir_remote_tuning weir_remote_usual;

/* ---- hooks, as in law.h ---- */

int weir_remote_init(void *state, const void *params, const char **ret_wrong);
void weir_remote_retarget(void *state, const uint64_t target_ns[WEIR_CLASSES]);
weir_verdict weir_remote_admit(void *state, const weir_ask *ask);
void weir_remote_refund(void *state, const weir_ask *ask);
void weir_remote_gone(void *state, const weir_event *event, uint64_t now_ns);
uint32_t weir_remote_limit(const void *state);
weir_verdict weir_remote_start(void *state, const weir_event *event, const weir_turn *turn);
void weir_remote_settle(void *state, const weir_event *event, weir_outcome outcome, uint64_t now_ns);
uint64_t weir_remote_patience(const void *state, unsigned klass);
double weir_remote_quality(const void *state, unsigned klass);
bool weir_remote_calm(const void *state);
void weir_remote_explain(const void *state, const weir_ask *ask, weir_why *ret_why);
void weir_remote_report(const void *state, unsigned klass, weir_report *ret_report);
int weir_remote_save(const void *state, char *text, size_t size);
int weir_remote_load(void *state, const char *text);
void weir_remote_tick(void *state, const weir_sample *sample);

/* ---- parts of the hooks ---- */

/*
 * Learns base, slowdown, calm levels and own times from the answers. Returns whether the backend is
 * congested.
 */
bool weir_remote_evidence(weir_remote *r, uint64_t now_ns, bool open, uint32_t answers,
			  const uint32_t slowed[WEIR_REMOTE_MARKS]);

/*
 * Whether requests that met half of this level, or fewer, took as long as requests do now: at least so many of one level.
 */
bool weir_remote_seen_with_fewer(const weir_remote *r, unsigned at, double least);

/* Returns whether a backend that seemed to keep up turned out to be saturated. answers: since the last tick. */
bool weir_remote_probe(weir_remote *r, const weir_sample *sample, uint32_t answers);

/*
 * Within s seconds the law was asked about `came` requests, and `bad` were late or refused. Learns what the backend
 * copes with, and whether the law is lenient from now on.
 */
void weir_remote_learn_cope(weir_remote *r, double came, double bad, double s);

/* Counts requests that are admitted. */
void weir_remote_enter_queue(weir_remote *r, unsigned klass, uint32_t count);
/* Counts requests that are refused because they do not fit. */
void weir_remote_refused(weir_remote *r, unsigned klass, uint32_t count);
/*
 * Keeps for explain that so many would have been inside, or so much work, where there was room for less. By Little's law the time that
 * requests take grows in proportion.
 */
void weir_remote_note(weir_remote *r, unsigned klass, double wanted, double room);
/* An admitted request that waited here has gone, or starts. */
void weir_remote_leave_queue(weir_remote *r, unsigned klass, uint32_t count);
/* The limit for a request that has spent some of its target before it came here. */
double weir_remote_room(const weir_remote *r, const weir_ask *ask, unsigned klass, double limit);
/* Requests that fit earn the share that may be late. */
void weir_remote_earn(weir_remote *r, uint32_t count);
/*
 * One may come in above the limit for each that was earned. Half is reserved for the highest class present, and all
 * while a backlog drains. If that is the only class, nobody may then.
 */
bool weir_remote_spend(weir_remote *r, unsigned klass, uint32_t count);
/*
 * In a dry run everybody is inside, including those who would have been refused. So the requests that
 * would have been admitted queue in a model of the backend, which serves them one after the other at the
 * measured rate. Whether this one is in time there.
 */
bool weir_remote_fits_shadow(weir_remote *r, const weir_ask *ask, unsigned klass, double limit);
/* Requests that were admitted and have not ended, without those that may never end. */
int64_t weir_remote_inside(const weir_remote *r);
/* Whether this many more inside would slow nobody down. */
bool weir_remote_is_calm(const weir_remote *r, uint32_t more);

/* The clocks of two threads may differ a little, so a turn may come with a time from before the offer. */
static inline uint64_t weir_remote_span(uint64_t from_ns, uint64_t to_ns)
{
	return to_ns > from_ns ? to_ns - from_ns : 0;
}

/* The hook of the law. */
void weir_remote_told(void *state, const weir_told *told);
/* Whether servers tell that they are idle. */
bool weir_remote_is_idle(const weir_remote *r, uint64_t now_ns);

/* The level of this many requests: twice the binary logarithm. */
static inline unsigned weir_remote_level_of(uint64_t met)
{
	union {
		double number;
		uint64_t bits;
	} as = {(double)met * (double)met};
	int at = met > 1 ? (int)(as.bits >> 52) - 1023 : 0;
	return at < WEIR_REMOTE_LEVELS ? (unsigned)at : WEIR_REMOTE_LEVELS - 1;
}

static inline unsigned weir_remote_kind_of(uint64_t cost_us)
{
	unsigned kind = cost_us == 0 ? 0 : 1 + (63 - (unsigned)__builtin_clzll(cost_us)) / 2;
	return kind < WEIR_REMOTE_KINDS ? kind : WEIR_REMOTE_KINDS - 1;
}

/*
 * Requests in the backend, without those that may never end, and without those set aside that have been
 * there for so long that they hardly work.
 */
static inline int32_t weir_remote_serving(const weir_remote *r)
{
	int32_t count = atomic_load_explicit(&r->serving, memory_order_relaxed) -
			atomic_load_explicit(&r->overdue[1], memory_order_relaxed);
	if (!atomic_load_explicit(&r->deep, memory_order_relaxed))
		count -= atomic_load_explicit(&r->overdue[0], memory_order_relaxed);
	return count > 0 ? count : 0;
}

/* Whether it was tried out that about so many inside do not saturate the backend. */
static inline bool weir_remote_is_proved(const weir_remote *r, uint64_t now_ns)
{
	return r->probe.proved_ns != 0 && now_ns - r->probe.proved_ns < WEIR_REMOTE_PROVED_NS &&
	       weir_remote_serving(r) <= 2 * (int32_t)r->probe.inside;
}

/*
 * The work before a new request of this class. Requests of lower classes in the backend count too,
 * because they cannot be taken back. But they always leave a class room for at least two requests: more
 * important requests do not suffer for what was admitted before they came.
 */
static inline double weir_remote_ahead(const weir_remote *r, unsigned klass, double limit)
{
	double gamma = atomic_load_explicit(&r->told_gamma, memory_order_relaxed);
	int32_t waiting = 0, own = 0, all = weir_remote_serving(r);
	for (unsigned k = 0; k <= klass; k++) {
		waiting += atomic_load_explicit(&r->waiting[k], memory_order_relaxed);
		own += atomic_load_explicit(&r->serving_of[k], memory_order_relaxed);
	}
	double others = all > own ? gamma * (all - own) : 0,
	       most = limit - 2 < .8 * limit ? limit - 2 : .8 * limit;
	if (others > most)
		others = most > 0 ? most : 0;
	return (waiting > 0 ? waiting : 0) + gamma * (own < all ? own : all) + others;
}

/* The target of a class as it was given. */
static inline uint64_t weir_remote_plain_target_ns(const weir_remote *r, unsigned klass)
{
	return atomic_load_explicit(&r->target_ns[klass], memory_order_relaxed);
}

static inline uint64_t weir_remote_least_target_ns(const weir_remote *r)
{
	return atomic_load_explicit(&r->least_target_ns, memory_order_relaxed);
}

/*
 * The effective target for requests of a class and a kind: the target, or a multiple of their own time
 * where that alone is longer. It rises without a step: an own time that was measured as a little longer than the target
 * would otherwise admit several times as many.
 */
static inline double weir_remote_target_ns(const weir_remote *r, unsigned klass, unsigned kind)
{
	double target_ns = (double)weir_remote_plain_target_ns(r, klass);
	double own_ns = (double)atomic_load_explicit(&r->kind[kind].own_ns, memory_order_relaxed);
	return own_ns > target_ns ? target_ns + r->tuning.own * (own_ns - target_ns) : target_ns;
}

/* The same for the kind that determines the limit. */
static inline double weir_remote_bound_ns(const weir_remote *r, unsigned klass)
{
	return weir_remote_target_ns(r, klass, atomic_load_explicit(&r->binding, memory_order_relaxed));
}

#endif
