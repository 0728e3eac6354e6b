/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_TESTS_ON_LOAD_H
#define WEIR_TESTS_ON_LOAD_H

/* A run of `weir load` made up by hand: a tally whose every field is written here, and the story around it. */

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/report.h"

typedef struct made_load {
	load_tally tally;
	load_story story;
} made_load;

static inline void made_load_init(made_load *made, unsigned classes, unsigned paths, unsigned seconds,
				  uint64_t target_ns)
{
	memset(made, 0, sizeof(*made));
	made->tally.target_ns = target_ns;
	made->tally.classes = classes;
	made->tally.paths = paths;
	made->tally.seconds = made->tally.seconds_max = seconds;
	made->tally.klass = weir_mem_array(classes, sizeof(load_group));
	made->tally.path = weir_mem_array(paths, sizeof(load_group));
	made->tally.second = weir_mem_array(seconds > 0 ? seconds : 1, sizeof(load_second));
	made->story = (load_story){.tally = &made->tally,
				   .url = "http://127.0.0.1:8080/",
				   .arrivals = "open, Poisson, 10/s",
				   .length_ns = seconds * UINT64_C(1000000000),
				   .planned_ns = seconds * UINT64_C(1000000000)};
}

static inline void made_load_fini(made_load *made)
{
	for (unsigned i = 0; i < made->tally.seconds_max; i++)
		weir_mem_free(made->tally.second[i].spread);
	weir_mem_free(made->tally.klass);
	weir_mem_free(made->tally.path);
	weir_mem_free(made->tally.second);
}

static inline void made_load_sent(made_load *made, unsigned klass, unsigned path, unsigned second,
				  uint64_t late_ns)
{
	load_group *groups[] = {&made->tally.all, &made->tally.klass[klass], &made->tally.path[path]};
	bool late = late_ns > 1000000;
	for (unsigned i = 0; i < 3; i++) {
		groups[i]->sent++;
		groups[i]->late += late;
	}
	made->tally.second[second].sent++;
	made->tally.second[second].late += late;
	weir_hist_add(&made->tally.send_error, late_ns);
	if (late_ns > made->tally.offered_late_ns_max)
		made->tally.offered_late_ns_max = late_ns;
}

static inline void made_load_spread(load_second *second, uint64_t ns)
{
	if (second->spread == NULL)
		second->spread = weir_mem_zalloc(sizeof(load_spread));
	load_spread_add(second->spread, ns);
	second->response_sum_ns += ns;
	if (ns > second->response_max_ns)
		second->response_max_ns = ns;
}

static inline void made_load_ended(made_load *made, unsigned klass, unsigned path, unsigned at, load_end end,
				   uint64_t ns, unsigned status)
{
	load_group *groups[] = {&made->tally.all, &made->tally.klass[klass], &made->tally.path[path]};
	load_second *second = &made->tally.second[at];
	bool good = end == LOAD_OK && ns <= made->tally.target_ns;
	for (unsigned i = 0; i < 3; i++) {
		load_group *group = groups[i];
		group->ended[end]++;
		group->good += good;
		if (end != LOAD_OK)
			continue;
		weir_hist_add(&group->response, ns);
		group->response_sum_ns += ns;
		group->response_max_ns = ns > group->response_max_ns ? ns : group->response_max_ns;
	}
	second->ended[end]++;
	second->good += good;
	if (end == LOAD_OK) {
		made_load_spread(second, ns);
		weir_hist_add(&made->tally.first_byte, ns);
	}
	if (end == LOAD_SHED)
		weir_hist_add(&made->tally.shed_response, ns);
	made->tally.status[status]++;
}

#endif
