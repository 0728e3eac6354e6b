/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The grid that judges laws before an unknown backend: grid_proxy [--law NAME] [--part NAME] [--match TEXT] [--quick] [--all] [--jobs N]
 * [--seed N] [--oracle] [--json]. A line for each failing cell (--all: for each), then a summary by part. Processes share the cells; each cell is seeded by its
 * place in the list and --seed (1), so the numbers do not depend on how they are shared.
 */
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "common.h"
#include "peers.h"
#include "proxy_cell.h"

#define CELLS_MAX  2000
#define PARTS_MAX  16
#define QUICK_EACH 7

/* ---- the laws, with the parameters that each is told ---- */

static uint64_t target_ns(const struct proxy_cell *cell)
{
	return (uint64_t)(cell->target_s * 1e9);
}

static void fill_nothing(void *params, const struct proxy_cell *cell)
{
}

static void fill_bucket(void *params, const struct proxy_cell *cell)
{
	((weir_bucket_params *)params)->rate_per_s = cell->capacity_per_s;
}

static void fill_maxconn(void *params, const struct proxy_cell *cell)
{
	*(weir_maxconn_params *)params =
		(weir_maxconn_params){.maxconn = 100, .queue_ns = target_ns(cell) / 2};
}

/* Whatever has a parameter named target is told it. */
static void fill_target(const char *name, void *params, const struct proxy_cell *cell)
{
	char text[40];
	snprintf(text, sizeof(text), "%lluns", (unsigned long long)target_ns(cell));
	if (weir_law_set(weir_law_find(name), params, "target", text) != 0) {
		fprintf(stderr, "%s\n", weir_error());
		exit(1);
	}
}

#define FILL_TARGET(function, name)                                       \
	static void function(void *params, const struct proxy_cell *cell) \
	{                                                                 \
		fill_target(name, params, cell);                          \
	}
FILL_TARGET(fill_adaptive_remote, "adaptive-remote")
FILL_TARGET(fill_aimd, "aimd")
FILL_TARGET(fill_codel, "codel")
FILL_TARGET(fill_gradient, "gradient")

static const struct entry {
	const char *name;
	const weir_admission_law *law; /* NULL: by name */
	proxy_params *fill;
	uint32_t
		concurrency; /* of the stage, as a sane guess, where the law works on a queue and sets no limit itself */
} entries[] = {
	{"adaptive-remote", NULL, fill_adaptive_remote, 0},
	{"old", &weir_law_old_remote, fill_adaptive_remote, 0}, /* the default of version 0.1 */
	{"envoy", &weir_law_envoy, fill_nothing, 0},
	{"maxconn", &weir_law_maxconn, fill_maxconn, 0},
	{"rate", &weir_law_bucket, fill_bucket, 0}, /* told the true capacity */
	{"aimd", NULL, fill_aimd, 0},
	{"codel", NULL, fill_codel, 100},
	{"gradient", NULL, fill_gradient, 0},
	{"none", NULL, fill_nothing, 0},
};

/* ---- running ---- */

struct outcome {
	struct proxy_result result;
	double cpu_s;
	bool passed, impossible, ran;
	char failed[40];
};

struct shared {
	_Atomic size_t next;
	struct outcome outcome[CELLS_MAX];
};

struct options {
	const char *law, *part, *match;
	bool quick, all, json, oracle;
	unsigned jobs;
	uint64_t seed;
};

static struct proxy_cell cells[CELLS_MAX];
static size_t cell_count;

static bool chosen(const struct options *options, size_t at)
{
	if (options->part != NULL && strcmp(options->part, cells[at].part) != 0)
		return false;
	if (options->match != NULL && strstr(cells[at].name, options->match) == NULL)
		return false;
	return !options->quick || at % QUICK_EACH == 0;
}

static void run_cells(const struct options *options, const struct entry *entry, struct shared *shared)
{
	const weir_admission_law *law = entry->law != NULL ? entry->law : weir_law_find(entry->name);
	size_t at;
	while ((at = atomic_fetch_add(&shared->next, 1)) < cell_count) {
		struct outcome *outcome = &shared->outcome[at];
		if (!chosen(options, at))
			continue;
		cells[at].concurrency = entry->concurrency;
		uint64_t from = bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
		proxy_cell_run(&cells[at], law, entry->fill, &outcome->result);
		outcome->cpu_s = (double)(bench_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - from) / 1e9;
		outcome->passed = proxy_cell_passed(&cells[at], &outcome->result, outcome->failed,
						    sizeof(outcome->failed));
		outcome->impossible = !outcome->passed && options->oracle && !proxy_cell_possible(&cells[at]);
		outcome->ran = true;
	}
}

static void run_all(const struct options *options, const struct entry *entry, struct shared *shared)
{
	for (unsigned i = 0; i < options->jobs; i++) {
		pid_t pid = fork();
		BENCH_REQUIRE(pid >= 0);
		if (pid == 0) {
			run_cells(options, entry, shared);
			_exit(0);
		}
	}
	int status;
	while (wait(&status) > 0)
		BENCH_REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- telling ---- */

static void print_cell(const struct options *options, size_t at, const struct outcome *o)
{
	const struct proxy_result *r = &o->result;
	if (options->json)
		printf("{\"cell\":\"%s\",\"law\":\"%s\",\"passed\":%s,\"cannot\":%s,\"failed\":\"%s\","
		       "\"work\":%.4f,"
		       "\"timely\":%.4f,"
		       "\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"shed\":%.4f,\"dropped\":%.4f,\"top\":%.4f,"
		       "\"limit\":%.0f,\"completed\":%llu}\n",
		       cells[at].name, options->law, o->passed ? "true" : "false",
		       o->impossible ? "true" : "false", o->failed, r->work, r->timely, r->p50, r->p90,
		       r->p99, r->shed, r->dropped, r->top, r->limit, (unsigned long long)r->completed);
	else if (options->all || !o->passed)
		printf("%-52s %-14s%s work %.3f timely %.3f p50 %.2f p90 %.2f p99 %.2f shed %.4f dropped "
		       "%.4f "
		       "top %.3f "
		       "limit %.0f n %llu cpu %.2f\n",
		       cells[at].name, o->passed ? "passed" : o->failed, o->impossible ? " (cannot)" : "",
		       r->work, r->timely, r->p50, r->p90, r->p99, r->shed, r->dropped, r->top, r->limit,
		       (unsigned long long)r->completed, o->cpu_s);
}

static void print_part(const char *part, const struct shared *shared)
{
	static const char *const bounds[] = {"work", "p90", "dropped", "shed", "top"};
	unsigned ran = 0, passed = 0, impossible = 0, failing[5] = {0};
	double cpu_s = 0;
	for (size_t at = 0; at < cell_count; at++) {
		const struct outcome *o = &shared->outcome[at];
		if (!o->ran || (part != NULL && strcmp(part, cells[at].part) != 0))
			continue;
		ran++;
		passed += o->passed;
		impossible += o->impossible;
		cpu_s += o->cpu_s;
		for (int i = 0; i < 5; i++)
			failing[i] += strstr(o->failed, bounds[i]) != NULL;
	}
	if (ran == 0)
		return;
	printf("%-10s %4u of %4u", part != NULL ? part : "all", passed, ran);
	if (impossible != 0)
		printf(", %u cannot", impossible);
	printf("   failing");
	for (int i = 0; i < 5; i++)
		printf(" %s %u", bounds[i], failing[i]);
	printf("   cpu %.1f s\n", cpu_s);
}

static void print_summary(const struct options *options, const struct shared *shared)
{
	const char *last = "";
	printf("%s\n", options->law);
	for (size_t at = 0; at < cell_count; at++) {
		if (strcmp(cells[at].part, last) == 0)
			continue;
		last = cells[at].part;
		print_part(last, shared);
	}
	print_part(NULL, shared);
}

/* ---- options ---- */

static void usage(void)
{
	fprintf(stderr, "usage: grid_proxy [--law NAME] [--part NAME] [--match TEXT] [--quick] [--all] "
			"[--jobs N] [--seed N] [--oracle] [--json]\nlaws:");
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		fprintf(stderr, " %s", entries[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

static const struct entry *find_entry(const char *name)
{
	for (size_t i = 0; i < sizeof(entries) / sizeof(entries[0]); i++)
		if (strcmp(entries[i].name, name) == 0)
			return &entries[i];
	usage();
	return NULL;
}

static void parse(int argc, char **argv, struct options *o)
{
	for (int i = 1; i < argc; i++) {
		const char *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (argv[i] == NULL)
			usage();
		else if (strcmp(argv[i], "--quick") == 0)
			o->quick = true;
		else if (strcmp(argv[i], "--all") == 0)
			o->all = true;
		else if (strcmp(argv[i], "--oracle") == 0)
			o->oracle = true;
		else if (strcmp(argv[i], "--json") == 0)
			o->json = true;
		else if (value == NULL)
			usage();
		else if (strcmp(argv[i], "--law") == 0)
			o->law = argv[++i];
		else if (strcmp(argv[i], "--part") == 0)
			o->part = argv[++i];
		else if (strcmp(argv[i], "--match") == 0)
			o->match = argv[++i];
		else if (strcmp(argv[i], "--seed") == 0)
			o->seed = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--jobs") == 0)
			o->jobs = (unsigned)atoi(argv[++i]);
		else
			usage();
	}
}

int main(int argc, char **argv)
{
	struct options options = {.law = "adaptive-remote", .jobs = 2, .seed = 1};
	parse(argc, argv, &options);
	const struct entry *entry = find_entry(options.law);
	struct shared *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	BENCH_REQUIRE(shared != MAP_FAILED);
	cell_count = proxy_cells(cells, CELLS_MAX, options.seed);
	run_all(&options, entry, shared);
	for (size_t at = 0; at < cell_count; at++)
		if (shared->outcome[at].ran)
			print_cell(&options, at, &shared->outcome[at]);
	if (!options.json)
		print_summary(&options, shared);
	return 0;
}
