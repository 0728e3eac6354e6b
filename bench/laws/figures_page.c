/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a single page: AOC's that can be degraded, SEDA's dynamic one behind a threshold; and what all figures share. */
#include "laws/figures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common.h"

void figure_choose(const figure_column *column, law_choice *ret_law)
{
	memset(ret_law, 0, sizeof(*ret_law));
	BENCH_REQUIRE(strcmp(column->law, "-") == 0 || law_choose(ret_law, column->law, column->settings));
}

size_t figure_present(const figure_column *columns, size_t count)
{
	while (count > 0 && strcmp(columns[count - 1].law, "-") != 0 &&
	       weir_law_find(columns[count - 1].law) == NULL)
		count--;
	return count;
}

void figure_head(const char *first, const figure_column *columns, size_t count, const char *paper)
{
	printf("| %s | %s |", first, paper);
	for (size_t i = 0; i < count; i++)
		printf(" %s |", columns[i].title);
	printf("\n|---|---|");
	for (size_t i = 0; i < count; i++)
		printf("---|");
	printf("\n");
}

void figure_settings(const figure_column *columns, size_t count)
{
	const char *comma = "\nSettings: ";
	for (size_t i = 0; i < count; i++) {
		if (strcmp(columns[i].law, "-") == 0)
			continue;
		printf("%s%s `%s %s`", comma, columns[i].title, columns[i].law, columns[i].settings);
		comma = "; ";
	}
	printf(".\n\n");
}

double figure_lowest(const double *values, int from, int to)
{
	double least = values[from];
	for (int i = from; i < to; i++)
		least = values[i] < least ? values[i] : least;
	return least;
}

/* ---- figures 12 and 13: degradation ---- */

typedef struct degradation {
	double quality[400];
	int refusing_s; /* seconds with admission control on */
	int end;
} degradation;

static void note_quality(papers_service *service, double at_s, void *arg)
{
	degradation *seen = arg;
	weir_report report = {0};
	int at = (int)(at_s + .5);
	if (at >= 400)
		return;
	seen->quality[at] = weir_stage_quality(service->stages[LOGIN], 0);
	seen->end = at;
	if (!weir_stage_report(service->stages[LOGIN], 0, &report))
		return;
	for (unsigned i = 0; i < report.count; i++)
		if (strcmp(report.value[i].name, "admission") == 0)
			seen->refusing_s += report.value[i].value != 0;
}

void figure_12(void)
{
	static const figure_column columns[] = {
		{.title = "none", .law = "-"},
		{.title = "quality", .law = "quality", .settings = "target=5s"},
		{.title = "quality, then admission", .law = "quality", .settings = "target=5s admission=on"},
		{.title = "adaptive", .law = "adaptive", .settings = "target=5s quality_min=1"},
	};
	printf("## AOC figures 12 and 13: a page that can be degraded, 1000 users from 50 to 200 s, target 5 "
	       "s\n\n");
	printf("A page takes 60 ms of one processor at full quality, and in proportion to its quality; a "
	       "user who is rejected asks again after 20 ms.\n\n");
	printf("| | p90, 50 to 100 s | p90, 100 to 200 s | rejected | lowest quality | quality at 300 s | "
	       "admission control on | answered, a second |\n");
	printf("|---|---|---|---|---|---|---|---|\n");
	printf("| paper, without | grows very large | | none | | | | |\n");
	printf("| paper, degradation (12) | | oscillates near the target | none | | | | |\n");
	printf("| paper, and admission (13) | | much nearer | 99 %% | | | | |\n");
	for (size_t i = 0; i < figure_present(columns, 4); i++) {
		papers_service service;
		law_choice law;
		degradation seen = {0};
		figure_choose(&columns[i], &law);
		service_open(&service,
			     &(service_options){
				     .page_s = .06, .think_s = .02, .again_s = .02, .seed = 1, .law = &law},
			     1001);
		service.each_second = note_quality;
		service.arg = &seen;
		service_enter(&service, 0, 1, 0, 1);
		service_run(&service, 50);
		service_enter(&service, 1, 1000, 0, 1);
		service_run(&service, 200);
		service_leave(&service, 1, 1000);
		service_run(&service, 300.5);
		verdicts late = log_judge(&service, 100, 200, ANY, ANY);
		printf("| %s | %.1f s | %.1f s | %.1f %% | %.2f | %.2f | %d s | %.0f |\n", columns[i].title,
		       log_judge(&service, 50, 100, ANY, ANY).p90_s, late.p90_s,
		       100 * log_judge(&service, 50, 200, ANY, ANY).reject_share,
		       figure_lowest(seen.quality, 50, 200), seen.quality[seen.end], seen.refusing_s,
		       (double)late.served / 100);
		service_close(&service);
	}
	figure_settings(columns, figure_present(columns, 4));
}

/* ---- SEDA's load shedding by threshold ---- */

void figure_seda(void)
{
	static const figure_column columns[] = {
		{.title = "none", .law = "-"},
		{.title = "threshold", .law = "threshold", .settings = "target=5s rise=35"},
		{.title = "aimd", .law = "aimd", .settings = "target=5s"},
		{.title = "adaptive", .law = "adaptive", .settings = "target=5s quality_min=1"},
	};
	printf("## SEDA, adaptive load shedding: 1024 clients, 40 ms of work a request, target 5 s\n\n");
	printf("One processor: 25 requests a second. A client that is rejected asks again after 0.7 s. 10 "
	       "minutes, of which the first 2 are not judged.\n\n");
	printf("| | p90 | largest | rejected | answered, a second |\n|---|---|---|---|---|\n");
	printf("| paper, threshold | 11.8 s | 22.1 s | 98 %% | |\n");
	for (size_t i = 0; i < figure_present(columns, 4); i++) {
		papers_service service;
		law_choice law;
		figure_choose(&columns[i], &law);
		service_open(&service,
			     &(service_options){
				     .page_s = .04, .think_s = .02, .again_s = .7, .seed = 1, .law = &law},
			     1024);
		service_enter(&service, 0, 1024, 0, 1);
		service_run(&service, 600);
		verdicts v = log_judge(&service, 120, 600, ANY, ANY);
		printf("| %s | %.1f s | %.1f s | %.1f %% | %.1f |\n", columns[i].title, v.p90_s, v.max_s,
		       100 * v.reject_share, (double)v.served / 480);
		service_close(&service);
	}
	figure_settings(columns, figure_present(columns, 4));
}
