/* SPDX-License-Identifier: Apache-2.0 */
#include "load/each.h"

#include <string.h>

#include "base/mem.h"

#define ROWS_FIRST 4096

static const char *const end_names[LOAD_ENDS] = {"ok", "shed", "error", "timeout", "aborted"};

static bool grow(load_each *each)
{
	uint64_t room = each->room > 0 ? each->room * 2 : ROWS_FIRST;
	load_each_row *row = room <= LOAD_EACH_MOST ? weir_mem_array((size_t)room, sizeof *row) : NULL;
	if (row == NULL)
		return false;
	if (each->count > 0)
		memcpy(row, each->row, (size_t)each->count * sizeof *row);
	weir_mem_free(each->row);
	each->row = row;
	each->room = room;
	return true;
}

void load_each_add(load_each *each, const load_each_row *row)
{
	if (each->count == each->room && !grow(each))
		each->left_out++;
	else
		each->row[each->count++] = *row;
}

void load_each_fini(load_each *each)
{
	weir_mem_free(each->row);
	*each = (load_each){.row = NULL};
}

void load_each_write(FILE *out, const load_each *each, bool names)
{
	if (names)
		fputs("number,meant_s,first_byte_s,ended_s,bytes,attempts,end\n", out);
	for (uint64_t i = 0; i < each->count; i++) {
		const load_each_row *row = &each->row[i];
		fprintf(out, "%llu,%.6f,%.6f,%.6f,%llu,%u,%s\n", (unsigned long long)row->number,
			(double)row->meant_ns / 1e9, (double)row->first_byte_ns / 1e9,
			(double)row->ended_ns / 1e9, (unsigned long long)row->bytes, row->attempts,
			end_names[row->end]);
	}
}
