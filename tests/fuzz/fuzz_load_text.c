/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any text as what people write on the command line for a load: as a mix, a phase, a size distribution, a field, a method, a target. What is refused gets a sentence of printable bytes;
 * fields that are accepted are whole lines, and nothing in them begins another.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "load/arrive.h"
#include "load/work.h"
#include "target.h"

/* Lines, each with its CRLF and no other CR, LF or NUL, each with a colon. */
static void check_fields(weir_span fields)
{
	bool colon = false;
	for (size_t i = 0; i < fields.length; i++) {
		unsigned char c = (unsigned char)fields.at[i];
		colon = colon || c == ':';
		CHECK(c != '\n' && c != 0);
		if (c != '\r')
			continue;
		CHECK(colon && i + 1 < fields.length && fields.at[i + 1] == '\n');
		colon = false;
		i++;
	}
	CHECK(!colon && (fields.length == 0 || fields.at[fields.length - 1] == '\n'));
}

static void ask(load_work *work)
{
	for (uint64_t seed = 0; seed < 10; seed++) {
		load_user user;
		load_next next;
		load_user_start(work, &user, seed);
		load_user_next(work, &user, NULL, &next);
		CHECK(next.form->klass < load_work_classes(work) && next.form->path < load_work_paths(work));
		check_fields(next.form->fields);
		load_user_end(work, &user);
	}
	load_work_free(&work);
}

static void take(int failed, load_work *work)
{
	CHECK((failed == 0) == (work != NULL));
	if (work != NULL)
		ask(work);
	else
		check_sentence();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	const char *field = text;
	load_work *work = NULL;
	load_phase phase;
	uint64_t live = weir_mem_live();
	CHECK(text != NULL);
	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	int failed = load_work_url(&(load_habits){.mix = text}, "/", &work);
	take(failed, work);
	work = NULL;
	failed = load_work_url(&(load_habits){.fields = &field, .field_count = 1}, "/", &work);
	take(failed, work);
	work = NULL;
	failed = load_work_url(&(load_habits){.method = text, .origin = "http://h"}, text, &work);
	take(failed, work);
	work = NULL;
	failed = load_work_url(&(load_habits){.origin = "http://h"}, text, &work);
	take(failed, work);
	work = NULL;
	failed = load_work_sizes(&(load_habits){.method = NULL}, "/{size}", text, &work);
	take(failed, work);
	if (load_phase_parse(text, 10, &phase) < 0)
		check_sentence();
	else
		CHECK(phase.length_ns > 0 && phase.rate >= 0 && phase.rate <= LOAD_RATE_MAX);
	free(text);
	CHECK(weir_mem_live() == live);
	return 0;
}
