/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the queues, step by step. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "uplink/inside.h"

/* What the kernel's answer to a step means to its user. */
static int explain(int error, const char *what, const char *module)
{
	switch (-error) {
	case 0:
		return 0;
	case EPERM:
		return weir_error_set(
			error, "the kernel wants CAP_NET_ADMIN in this network namespace: run it as root");
	case ENOENT:
		return weir_error_set(error, "%s: this kernel does not have it; load the module %s", what,
				      module);
	case EEXIST:
		return weir_error_set(
			error, "%s: somebody else has installed something meanwhile; see 'tc qdisc show'",
			what);
	default:
		return weir_error_set(error, "%s: %s", what, strerror(-error));
	}
}

static int step(weir_kernel *kernel, weir_message *message, const char *what, const char *module)
{
	return explain(weir_kernel_send(kernel, message), what, module);
}

static int make_queues(weir_kernel *kernel, const weir_uplink_plan *plan)
{
	weir_message message;
	int error = 0;
	for (unsigned band = 0; band < plan->bands && error == 0; band++) {
		weir_uplink_build_queue(plan, band, &message);
		error = step(kernel, &message, "a band's queue (pfifo)", "sch_fifo");
	}
	return error;
}

/* Returns what the kernel says, without a message: there may be another way. */
static int make_filter(weir_kernel *kernel, const weir_uplink_plan *plan)
{
	weir_message message;
	int program = weir_kernel_load_program(plan);
	if (program < 0)
		return program;
	weir_uplink_build_filter(plan, program, &message);
	int error = weir_kernel_send(kernel, &message);
	close(program); /* the filter holds it */
	return error;
}

/* The bands as those of a `prio`, if the kernel has it and the filter that leads there. */
static int make_prio(weir_kernel *kernel, weir_uplink_plan *plan)
{
	weir_message message;
	plan->prio = true;
	weir_uplink_build_answers(plan, &message);
	int error = weir_kernel_send(kernel, &message);
	if (error != 0)
		return error;
	weir_uplink_build_prio(plan, &message);
	error = weir_kernel_send(kernel, &message);
	if (error == 0)
		error = make_filter(kernel, plan);
	if (error == 0)
		return make_queues(kernel, plan);
	weir_uplink_build_drop_class(plan->index, WEIR_UPLINK_CLASS_ANSWERS, &message);
	weir_kernel_send(kernel, &message);
	plan->prio = false;
	return error;
}

static int make_htb(weir_kernel *kernel, const weir_uplink_plan *plan)
{
	weir_message message;
	int error = 0;
	for (unsigned band = 0; band < plan->bands && error == 0; band++) {
		weir_uplink_build_band(plan, band, &message);
		error = step(kernel, &message, "a band (htb)", "sch_htb");
	}
	if (error == 0)
		error = make_queues(kernel, plan);
	/* Without it classes still choose a band; the view tells that plain priorities do not. */
	if (error == 0)
		make_filter(kernel, plan);
	return error;
}

static int make_bands(weir_kernel *kernel, weir_uplink_plan *plan, weir_uplink_form form)
{
	int error = form == WEIR_UPLINK_BY_HTB ? -ENOENT : make_prio(kernel, plan);
	if (error == 0)
		return 0;
	if (form == WEIR_UPLINK_BY_PRIO)
		return explain(error, "prio, with a filter of the kind bpf",
			       "sch_prio and cls_bpf, or use htb");
	return make_htb(kernel, plan);
}

int weir_uplink_make(weir_kernel *kernel, weir_uplink_plan *plan, weir_uplink_form form)
{
	weir_message message;
	weir_uplink_build_root(plan, &message);
	int error = step(kernel, &message, "the root (htb)", "sch_htb");
	if (error != 0)
		return error;
	weir_uplink_build_link(plan, &message);
	error = step(kernel, &message, "the class of the uplink", "sch_htb");
	if (error != 0)
		return error;
	weir_uplink_build_other(plan, &message);
	error = step(kernel, &message, "the class of other traffic", "sch_htb");
	if (error == 0)
		error = make_bands(kernel, plan, form);
	if (error != 0)
		return error;
	weir_uplink_build_queue(plan, WEIR_BANDS_MOST, &message);
	return step(kernel, &message, "the queue of other traffic (pfifo)", "sch_fifo");
}
