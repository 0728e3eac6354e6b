/* SPDX-License-Identifier: Apache-2.0 */
/* What is on a device. */
#include <linux/pkt_sched.h>
#include <string.h>

#include "uplink/inside.h"

static void take_root(const weir_kernel_qdisc *qdisc, weir_uplink_view *view)
{
	memcpy(view->kind, qdisc->kind, sizeof(view->kind));
	/* The kernel's own defaults have no handle. */
	if (qdisc->handle == 0)
		view->owner = WEIR_UPLINK_DEFAULT;
	else if (qdisc->handle == WEIR_UPLINK_HANDLE && strcmp(qdisc->kind, "htb") == 0)
		view->owner = WEIR_UPLINK_OURS;
	else
		view->owner = WEIR_UPLINK_FOREIGN;
}

/* The queue of other traffic is made last: if it is there, everything is. */
void weir_uplink_sort(const weir_kernel_qdiscs *qdiscs, weir_uplink_view *view)
{
	uint32_t seen = 0;
	view->owner = WEIR_UPLINK_DEFAULT;
	for (unsigned i = 0; i < qdiscs->count && i < WEIR_KERNEL_QDISCS; i++) {
		const weir_kernel_qdisc *qdisc = &qdiscs->qdisc[i];
		uint32_t band = (qdisc->handle - WEIR_UPLINK_QUEUE) >> 16;
		if (qdisc->parent == TC_H_ROOT)
			take_root(qdisc, view);
		else if (qdisc->handle == WEIR_UPLINK_PRIO)
			view->prio = true;
		else if (qdisc->handle == WEIR_UPLINK_OTHER) {
			view->other = *qdisc;
			view->complete = true;
		} else if (qdisc->handle >= WEIR_UPLINK_QUEUE && band < WEIR_BANDS_MOST) {
			view->band[band] = *qdisc;
			seen |= 1u << band;
		}
	}
	while (view->bands < WEIR_BANDS_MOST && (seen >> view->bands & 1) != 0)
		view->bands++;
	view->complete &= view->owner == WEIR_UPLINK_OURS && view->bands > 0;
}

int weir_uplink_view_read(weir_kernel *kernel, const char *device, weir_uplink_view *ret_view)
{
	weir_kernel_qdiscs qdiscs = {.count = 0};
	weir_uplink_view view = {0};
	uint64_t bytes_per_s = 0;
	int error = weir_kernel_find_link(kernel, device, &view.link);
	if (error == 0)
		error = weir_kernel_find_qdiscs(kernel, view.link.index, &qdiscs);
	if (error == 0)
		weir_uplink_sort(&qdiscs, &view);
	if (error == 0 && view.owner == WEIR_UPLINK_OURS) {
		error = weir_kernel_find_rate(kernel, view.link.index, &bytes_per_s);
		view.shaped = bytes_per_s * 8;
	}
	if (error == 0 && view.owner == WEIR_UPLINK_OURS)
		error = weir_kernel_find_filter(kernel, view.link.index, &view.plain);
	if (error == 0)
		*ret_view = view;
	return error;
}

int weir_uplink_look(const char *device, weir_uplink_view *ret_view)
{
	weir_kernel kernel;
	int error = weir_kernel_open(&kernel);
	if (error != 0)
		return error;
	error = weir_uplink_view_read(&kernel, device, ret_view);
	weir_kernel_close(&kernel);
	return error;
}

/* A device that goes away meanwhile, or has another root by then, is passed over. */
static int look_at_all(weir_kernel *kernel, void (*fn)(const weir_uplink_view *view, void *arg), void *arg)
{
	weir_kernel_qdiscs roots = {.count = 0};
	int count = 0, error = weir_kernel_find_qdiscs(kernel, 0, &roots);
	for (unsigned i = 0; error == 0 && i < roots.count; i++) {
		char name[IF_NAMESIZE];
		weir_uplink_view view;
		if (if_indextoname((unsigned)roots.qdisc[i].index, name) == NULL ||
		    weir_uplink_view_read(kernel, name, &view) != 0 || view.owner != WEIR_UPLINK_OURS)
			continue;
		fn(&view, arg);
		count++;
	}
	return error != 0 ? error : count;
}

int weir_uplink_each(void (*fn)(const weir_uplink_view *view, void *arg), void *arg)
{
	weir_kernel kernel;
	int error = weir_kernel_open(&kernel);
	if (error != 0)
		return error;
	int count = look_at_all(&kernel, fn, arg);
	weir_kernel_close(&kernel);
	return count;
}
