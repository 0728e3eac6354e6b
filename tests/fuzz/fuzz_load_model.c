/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a model. What is refused leaves a sentence of printable bytes that begins with file and line; of what is accepted users can ask, whatever they are answered, and every
 * request is one that can be sent: no line ends, no spaces, a class and a path that exist.
 */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "load/work.h"
#include "target.h"

static void check_line(weir_span text, char least)
{
	for (size_t i = 0; i < text.length; i++)
		CHECK(text.at[i] >= least && text.at[i] <= '~');
}

static void check_next(const load_work *work, const load_next *next)
{
	weir_span target = next->target.length > 0 ? next->target : next->form->target;
	CHECK(target.length > 0 && target.at[0] == '/');
	check_line(target, '!');
	check_line(next->form->method, '!');
	CHECK(next->form->method.length > 0);
	CHECK(next->form->klass < load_work_classes(work));
	CHECK(next->form->path < load_work_paths(work));
}

static void check_user(const load_work *work, uint64_t seed)
{
	static const unsigned statuses[] = {200, 503, 0, 404, 200, 429, 200, 500};
	load_user user;
	load_next next;
	load_user_start(work, &user, seed);
	load_user_next(work, &user, NULL, &next);
	CHECK(next.form != NULL && next.think_ns == 0);
	for (unsigned i = 0; i < 40 && next.form != NULL; i++) {
		check_next(work, &next);
		load_user_next(work, &user, &(load_seen){.status = statuses[i % 8]}, &next);
	}
	load_user_end(work, &user);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	load_habits habits = {.method = NULL};
	load_work *work = NULL;
	uint64_t live = weir_mem_live();
	if (load_work_model_text(&habits, "f", (const char *)data, size, &work) < 0) {
		check_sentence();
		CHECK(strncmp(weir_error(), "f:", 2) == 0 && work == NULL);
	} else {
		for (uint64_t seed = 0; seed < 4; seed++)
			check_user(work, seed);
		load_work_free(&work);
	}
	CHECK(weir_mem_live() == live);
	return 0;
}
