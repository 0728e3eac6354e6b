/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grid that judges laws for a stage's own queue, every point a virtual world of its own.
 *
 *	grid_own [--law NAME] [--set NAME=VALUE]... [--part NAME] [--quick] [--jobs N] [--json] [--all]
 *	         [--service NS] [--workers N] [--dist NAME] [--target N] [--load X] [--seed N]
 *
 * --dry judges nothing but whether a dry run tells what enforcement would do, at the steady and calm points (dry.h).
 *
 * Prints a line for every point that falls short (--all: for every point), and a table: passed of how many, what no fixed limit could
 * do either, and the worst value, by criterion. The same seed gives the same numbers, whatever the number of jobs.
 */
#include "laws/trial.h"

#include "laws/dry.h"

#include <getopt.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define TRIALS_MAX 8192

typedef struct grid {
	const weir_admission_law *law;
	const char *only_part;
	double only_service, only_target, only_load;
	unsigned only_workers;
	const char *only_dist;
	bool quick, json, all, no_oracle, more_workers, dry;
	unsigned jobs;
	uint64_t seed;
	/* shared with the jobs */
	struct work {
		_Atomic unsigned next;
		unsigned count;
		trial trials[TRIALS_MAX];
	} * work;
} grid;

static const double services_ns[] = {20e3, 1e6, 10e6, 200e6};
static const double targets[] = {5, 10, 20, 50};
static const double loads[] = {1.4, 2, 5, 10, 50};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ---- the points ---- */

static bool wanted(const grid *g, const trial *t)
{
	if (g->dry && t->part != STEADY_PART && t->part != CALM_PART)
		return false;
	if (g->only_part != NULL && strcmp(g->only_part, part_name[t->part]) != 0)
		return false;
	if (g->only_dist != NULL && strncmp(g->only_dist, weir_dist_name(t->dist), strlen(g->only_dist)) != 0)
		return false;
	if (g->only_workers != 0 && g->only_workers != t->workers)
		return false;
	if (g->only_service != 0 && g->only_service != t->service_ns)
		return false;
	if (g->only_target != 0 && g->only_target != t->target_of_p90)
		return false;
	return g->only_load == 0 || g->only_load == t->load;
}

static void add(grid *g, const trial *point, part kind, double load)
{
	trial t = *point;
	t.part = kind;
	t.load = load;
	if (!wanted(g, &t) || g->work->count == TRIALS_MAX)
		return;
	t.seed = g->seed * 1000003 + g->work->count * 7 + 1;
	g->work->trials[g->work->count++] = t;
}

/* All that is run at one service time, number of workers, distribution and target. */
static void add_point(grid *g, const trial *point)
{
	double of = point->target_of_p90;
	bool middle = point->service_ns == 1e6 || point->service_ns == 200e6;
	for (size_t i = 0; i < COUNT(loads); i++) {
		add(g, point, STEADY_PART, loads[i]);
		add(g, point, STEP_PART, loads[i]);
	}
	add(g, point, CALM_PART, .7);
	add(g, point, CALM_PART, .8);
	add(g, point, COLD_PART, 10);
	if (of >= 10) /* halved, it is still five times the p90 */
		add(g, point, CHANGE_PART, 1.4);
	if (of == 5 || of == 20)
		add(g, point, CLASS_PART, 1.2);
	if (of == 20 && middle) {
		add(g, point, RARE_PART, 1.4);
		add(g, point, RARE_PART, 5);
	}
	if (of == 10 && middle)
		add(g, point, RETRY_PART, 5);
}

static void make_points(grid *g)
{
	static const uint32_t workers[] = {1, 4, 16, 64, 2, 8};
	size_t kinds = g->more_workers ? 6 : 4;
	for (size_t s = 0; s < COUNT(services_ns); s++)
		for (size_t w = 0; w < kinds; w++)
			for (unsigned d = 0; d < WEIR_DIST_KINDS; d++)
				for (size_t of = 0; of < COUNT(targets); of++) {
					if (g->quick && ((s + w + d + of) % 4 != 0 || w > 3))
						continue;
					add_point(g, &(trial){.service_ns = services_ns[s],
							      .workers = workers[w],
							      .dist = (weir_dist_kind)d,
							      .target_of_p90 = targets[of],
							      .quick = g->quick});
				}
}

/* ---- running them ---- */

static void work_through(grid *g)
{
	unsigned at;
	while ((at = atomic_fetch_add(&g->work->next, 1)) < g->work->count) {
		/* the largest are at the end: begin there */
		trial *t = &g->work->trials[g->work->count - 1 - at];
		if (g->dry) {
			trial_dry(t, g->law, &t->enforced, &t->would);
			continue;
		}
		t->reasons = &t->said;
		trial_run(t, g->law);
		t->reasons = NULL;
		if (!g->no_oracle)
			oracle_judge(t);
	}
}

static int run_all(grid *g)
{
	int status, failed = 0;
	for (unsigned i = 1; i < g->jobs; i++) {
		pid_t child = fork();
		if (child < 0)
			return -1;
		if (child == 0) {
			work_through(g);
			_exit(0);
		}
	}
	work_through(g);
	while (wait(&status) > 0)
		failed |= status;
	return failed;
}

/* ---- telling ---- */

static void print_point(const trial *t)
{
	printf("%-7s S=%gms c=%u %s T=%g load=%g:", part_name[t->part], t->service_ns / 1e6, t->workers,
	       weir_dist_name(t->dist), t->target_of_p90, t->load);
}

static void print_trial(const grid *g, const trial *t)
{
	bool any = false;
	for (unsigned c = 0; c < CRITERION_COUNT; c++) {
		if (t->judged[c] == NOT_JUDGED || (t->judged[c] == PASSED && !g->all))
			continue;
		if (!any)
			print_point(t);
		any = true;
		printf(" %s%s %.4g", t->judged[c] == PASSED ? "" : "!", criterion_text[c], t->value[c]);
		if (t->judged[c] == IMPOSSIBLE)
			printf(" (no fixed limit can: %.4g)", t->possible[c]);
		printf(";");
	}
	if (any)
		printf("\n");
}

typedef struct summary {
	unsigned passed, failed, impossible;
	double worst, worst_possible; /* of all; of those that are not impossible */
} summary;

static void sum_up(const grid *g, criterion c, summary *s)
{
	bool least = criterion_at_least(c);
	*s = (summary){.worst = least ? INFINITY : -INFINITY, .worst_possible = least ? INFINITY : -INFINITY};
	for (unsigned i = 0; i < g->work->count; i++) {
		const trial *t = &g->work->trials[i];
		if (t->judged[c] == NOT_JUDGED)
			continue;
		s->passed += t->judged[c] == PASSED;
		s->failed += t->judged[c] == FAILED;
		s->impossible += t->judged[c] == IMPOSSIBLE;
		s->worst = least ? fmin(s->worst, t->value[c]) : fmax(s->worst, t->value[c]);
		if (t->judged[c] != IMPOSSIBLE)
			s->worst_possible = least ? fmin(s->worst_possible, t->value[c])
						  : fmax(s->worst_possible, t->value[c]);
	}
}

static void print_table(const grid *g)
{
	printf("\nlaw %s, seed %llu, %u points\n", g->law != NULL ? g->law->name : "none",
	       (unsigned long long)g->seed, g->work->count);
	printf("%-62s %6s %6s %8s %6s %10s %10s\n", "criterion", "bound", "passed", "short", "cannot",
	       "worst", "w/o cannot");
	for (unsigned c = 0; c < CRITERION_COUNT; c++) {
		summary s;
		sum_up(g, c, &s);
		if (s.passed + s.failed + s.impossible == 0)
			continue;
		printf("%-62s %6g %6u %8u %6u %10.4g %10.4g\n", criterion_text[c], criterion_bound(c),
		       s.passed, s.failed, s.impossible, s.worst, s.worst_possible);
	}
}

static struct reasons reasons_of(const grid *g)
{
	struct reasons all = {0};
	for (unsigned i = 0; i < g->work->count; i++)
		reasons_merge(&all, &g->work->trials[i].said);
	return all;
}

static void print_json(const grid *g)
{
	struct reasons said = reasons_of(g);
	printf("{\"law\": \"%s\", \"seed\": %llu, \"points\": %u, \"explanations\": %llu, \"without_bound\": "
	       "%llu, \"contradictions\": %llu, \"criteria\": [",
	       g->law != NULL ? g->law->name : "none", (unsigned long long)g->seed, g->work->count,
	       (unsigned long long)said.asked, (unsigned long long)said.silent,
	       (unsigned long long)said.contradictions);
	const char *comma = "";
	for (unsigned c = 0; c < CRITERION_COUNT; c++) {
		summary s;
		sum_up(g, c, &s);
		if (s.passed + s.failed + s.impossible == 0)
			continue;
		printf("%s\n  {\"criterion\": \"%s\", \"bound\": %g, \"passed\": %u, \"short\": %u, "
		       "\"cannot\": %u, \"worst\": %.6g}",
		       comma, criterion_text[c], criterion_bound(c), s.passed, s.failed, s.impossible,
		       s.worst);
		comma = ",";
	}
	printf("]}\n");
}

static void tell_dry(const grid *g)
{
	unsigned met = 0;
	for (unsigned i = 0; i < g->work->count; i++) {
		const trial *t = &g->work->trials[i];
		bool tells = dry_tells(t->enforced, t->would);
		met += tells;
		if (tells && !g->all)
			continue;
		print_point(t);
		printf(" enforced %.4f would %.4f%s\n", t->enforced, t->would, tells ? "" : " MISSED");
	}
	printf("dry met %u of %u\n", met, g->work->count);
}

/* ---- options ---- */

static int usage(void)
{
	fprintf(stderr, "usage: grid_own [--law NAME] [--part NAME] [--quick] [--jobs N] [--json] [--all] "
			"[--seed N]\n"
			"                [--service NS] [--workers N] [--dist NAME] [--target N] [--load X]\n"
			"                [--no-oracle] [--more-workers] [--dry]\nparts:");
	for (unsigned i = 0; i < PART_COUNT; i++)
		fprintf(stderr, " %s", part_name[i]);
	fprintf(stderr, "\nlaws: none");
	const weir_admission_law *law;
	for (size_t i = 0; (law = weir_law_at(i)) != NULL; i++)
		fprintf(stderr, " %s", law->name);
	fprintf(stderr, "\n");
	return 2;
}

static bool read_options(grid *g, int argc, char **argv)
{
	static const struct option options[] = {{"law", 1, NULL, 'l'},       {"part", 1, NULL, 'p'},
						{"quick", 0, NULL, 'q'},     {"jobs", 1, NULL, 'j'},
						{"json", 0, NULL, 'J'},      {"all", 0, NULL, 'a'},
						{"seed", 1, NULL, 's'},      {"service", 1, NULL, 'S'},
						{"workers", 1, NULL, 'w'},   {"dist", 1, NULL, 'd'},
						{"target", 1, NULL, 't'},    {"load", 1, NULL, 'L'},
						{"no-oracle", 0, NULL, 'O'}, {"more-workers", 0, NULL, 'W'},
						{"dry", 0, NULL, 'D'},       {0}};
	int got;
	while ((got = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (got) {
		case 'l':
			g->law = weir_law_find(optarg);
			if (g->law == NULL && strcmp(optarg, "none") != 0)
				return false;
			break;
		case 'p':
			g->only_part = optarg;
			break;
		case 'q':
			g->quick = true;
			break;
		case 'j':
			g->jobs = (unsigned)atoi(optarg);
			break;
		case 'J':
			g->json = true;
			break;
		case 'a':
			g->all = true;
			break;
		case 's':
			g->seed = strtoull(optarg, NULL, 10);
			break;
		case 'S':
			g->only_service = atof(optarg);
			break;
		case 'w':
			g->only_workers = (unsigned)atoi(optarg);
			break;
		case 'd':
			g->only_dist = optarg;
			break;
		case 't':
			g->only_target = atof(optarg);
			break;
		case 'L':
			g->only_load = atof(optarg);
			break;
		case 'O':
			g->no_oracle = true;
			break;
		case 'W':
			g->more_workers = true;
			break;
		case 'D':
			g->dry = true;
			break;
		default:
			return false;
		}
	}
	return optind == argc;
}

int main(int argc, char **argv)
{
	grid g = {.law = weir_law_find("adaptive"), .jobs = 2, .seed = 1};
	if (!read_options(&g, argc, argv))
		return usage();
	g.work = mmap(NULL, sizeof(*g.work), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (g.work == MAP_FAILED)
		return 1;
	make_points(&g);
	if (run_all(&g) != 0) {
		fprintf(stderr, "grid_own: a job failed\n");
		return 1;
	}
	if (g.dry) {
		tell_dry(&g);
		return 0;
	}
	for (unsigned i = 0; i < g.work->count && !g.json; i++)
		print_trial(&g, &g.work->trials[i]);
	struct reasons said = reasons_of(&g);
	if (g.json) {
		print_json(&g);
	} else {
		print_table(&g);
		reasons_print(&said);
	}
	return 0;
}
