/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* ---- a link ---- */

int wan_link_init(wan_link *link, double bits_per_s, uint32_t limit)
{
	*link = (wan_link){.limit = limit};
	if (!(bits_per_s >= 0 && isfinite(bits_per_s)) || limit == 0 || limit > WAN_QUEUE_MAX)
		return -EINVAL;
	if (bits_per_s == 0)
		return 0;
	link->ns_per_byte = 8e9 / bits_per_s;
	link->start_ns = calloc(limit, sizeof *link->start_ns);
	return link->start_ns != NULL ? 0 : -ENOMEM;
}

void wan_link_fini(wan_link *link)
{
	free(link->start_ns);
	*link = (wan_link){.limit = 0};
}

/* Those that are being sent, or were, are not in the queue any more. */
static void forget_begun(wan_link *link, uint64_t now_ns)
{
	while (link->count > 0 && link->start_ns[link->first] <= now_ns) {
		link->first = (link->first + 1) % link->limit;
		link->count--;
	}
}

bool wan_link_offer(wan_link *link, uint64_t now_ns, uint32_t bytes, uint64_t *ret_left_ns)
{
	if (link->ns_per_byte == 0) {
		*ret_left_ns = now_ns;
		return true;
	}
	forget_begun(link, now_ns);
	double start_ns = fmax(link->free_ns, (double)now_ns);
	if (start_ns > (double)now_ns) {
		if (link->count == link->limit)
			return false;
		link->start_ns[(link->first + link->count++) % link->limit] = (uint64_t)ceil(start_ns);
	}
	link->free_ns = start_ns + bytes * link->ns_per_byte;
	*ret_left_ns = (uint64_t)llround(link->free_ns);
	return true;
}

bool wan_path_loses(const wan_path *path, weir_random *random)
{
	return path->loss > 0 && weir_random_unit(random) < path->loss;
}

/* ---- packets on their way ---- */

int wan_line_init(wan_line *line, uint32_t room)
{
	*line = (wan_line){.room = room};
	if (room == 0)
		return -EINVAL;
	line->due = calloc(room, sizeof *line->due);
	return line->due != NULL ? 0 : -ENOMEM;
}

void wan_line_fini(wan_line *line)
{
	free(line->due);
	*line = (wan_line){.room = 0};
}

static bool goes_first(const wan_due *a, const wan_due *b)
{
	return a->at_ns < b->at_ns || (a->at_ns == b->at_ns && a->number < b->number);
}

bool wan_line_add(wan_line *line, uint64_t at_ns, uint32_t slot, uint32_t way)
{
	const wan_due new = {at_ns, line->added, slot, way};
	if (line->count == line->room)
		return false;
	line->added++;
	uint32_t at = line->count++;
	while (at > 0 && goes_first(&new, &line->due[(at - 1) / 2])) {
		line->due[at] = line->due[(at - 1) / 2];
		at = (at - 1) / 2;
	}
	line->due[at] = new;
	return true;
}

uint64_t wan_line_next(const wan_line *line)
{
	return line->count > 0 ? line->due[0].at_ns : UINT64_MAX;
}

bool wan_line_take(wan_line *line, uint64_t now_ns, wan_due *ret)
{
	if (wan_line_next(line) > now_ns || line->count == 0)
		return false;
	*ret = line->due[0];
	const wan_due last = line->due[--line->count];
	uint32_t at = 0;
	for (uint32_t child = 1; child < line->count; child = 2 * at + 1) {
		if (child + 1 < line->count && goes_first(&line->due[child + 1], &line->due[child]))
			child++;
		if (!goes_first(&line->due[child], &last))
			break;
		line->due[at] = line->due[child];
		at = child;
	}
	line->due[at] = last;
	return true;
}
