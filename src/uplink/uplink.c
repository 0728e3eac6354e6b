/* SPDX-License-Identifier: Apache-2.0 */
#include "uplink/uplink.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "uplink/inside.h"

/* What devices have by default, if nothing tells what this one had. */
#define GSO_SIZE_USUAL  65536u
#define GSO_COUNT_USUAL 65535u
#define MTU_MOST        65536u

/* ---- who may, and what is there ---- */

static int may_change(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = {{0}};
	if (syscall(SYS_capget, &head, data) != 0 || (data[0].effective >> CAP_NET_ADMIN & 1) != 0)
		return 0; /* the kernel decides */
	return weir_error_set(-EPERM, "changing an uplink needs CAP_NET_ADMIN: run it as root");
}

static int check_view(const weir_uplink_options *options, const weir_uplink_view *view)
{
	const char *name = view->link.name;
	if (view->link.loopback && !options->loopback)
		return weir_error_set(
			-EINVAL,
			"%s is a loopback device and no uplink; --force installs it there all the same",
			name);
	if (view->owner == WEIR_UPLINK_FOREIGN)
		return weir_error_set(
			-EEXIST,
			"%s is shaped by somebody else (its root is '%s'); if nobody needs that, remove it "
			"first: tc qdisc del dev %s root",
			name, view->kind, name);
	if (view->link.mtu == 0 || view->link.mtu > MTU_MOST)
		return weir_error_set(-EINVAL, "%s has an MTU of %u; set one of 68 to %u", name,
				      view->link.mtu, MTU_MOST);
	return 0;
}

/* ---- limits of segments ---- */

/* The limits that an install sets: those of the plan, where they are lower. */
static weir_uplink_gso limited(const weir_uplink_plan *plan, const weir_uplink_gso *former)
{
	if (former->size == 0 || plan->gso_size >= former->size)
		return (weir_uplink_gso){0};
	return (weir_uplink_gso){.size = plan->gso_size,
				 .count = plan->gso_count < former->count ? plan->gso_count : former->count};
}

static weir_uplink_gso usual(const weir_kernel_link *link)
{
	weir_uplink_gso gso = {.size = GSO_SIZE_USUAL, .count = GSO_COUNT_USUAL};
	if (link->tso_size > 0 && link->tso_size < gso.size)
		gso.size = link->tso_size;
	if (link->tso_count > 0 && link->tso_count < gso.count)
		gso.count = link->tso_count;
	return gso;
}

static int set_gso(weir_kernel *kernel, int index, const weir_uplink_gso *gso)
{
	weir_message message;
	if (gso->size == 0)
		return 0;
	weir_uplink_build_gso(index, gso, &message);
	return weir_kernel_send(kernel, &message);
}

/* Whether the link has the limits that an install with this state sets. */
static bool is_limited(const weir_uplink_state *state, const weir_kernel_link *link)
{
	weir_uplink_plan plan;
	weir_uplink_plan_init(&plan, state->index, state->bands, state->rate, link->mtu);
	weir_uplink_gso gso = limited(&plan, &state->gso);
	return gso.size != 0 && gso.size == link->gso.size && gso.count == link->gso.count;
}

/*
 * The limits from before the first install: those of the state, if there is one and the link still has what
 * was set then; otherwise those of now, unless our queues are there, whose limits they would be.
 */
static int former_gso(const char *folder, const weir_uplink_view *view, weir_uplink_gso *ret_gso,
		      bool *ret_guessed)
{
	weir_uplink_state state;
	int error = weir_uplink_state_load(folder, view->link.index, &state);
	*ret_guessed = false;
	if (error == 0 && (view->owner == WEIR_UPLINK_OURS || is_limited(&state, &view->link)))
		*ret_gso = state.gso;
	else if (error != 0 && view->owner == WEIR_UPLINK_OURS) {
		*ret_guessed = true;
		*ret_gso = usual(&view->link);
	} else
		*ret_gso = view->link.gso;
	return error == -ENOENT ? 0 : error;
}

/* ---- installing ---- */

static int drop(weir_kernel *kernel, int index)
{
	weir_message message;
	weir_uplink_build_drop(index, &message);
	return weir_kernel_send(kernel, &message);
}

static bool is_same(const weir_uplink_options *options, const weir_uplink_plan *plan,
		    const weir_uplink_view *view, const weir_uplink_gso *former)
{
	weir_uplink_gso gso = limited(plan, former);
	bool form = options->form == WEIR_UPLINK_AUTO || view->prio == (options->form == WEIR_UPLINK_BY_PRIO);
	return view->complete && form && view->bands == plan->bands && view->shaped == plan->shaped * 8 &&
	       (gso.size == 0 || (gso.size == view->link.gso.size && gso.count == view->link.gso.count));
}

/* Puts the queues back that were there before a change failed. */
static int make_again(weir_kernel *kernel, const weir_uplink_options *options, const weir_uplink_view *view,
		      weir_uplink_state state)
{
	weir_uplink_plan plan;
	state.rate = view->shaped / 98 * 100;
	state.bands = view->bands;
	weir_uplink_plan_init(&plan, state.index, state.bands, state.rate, view->link.mtu);
	set_gso(kernel, state.index, &view->link.gso);
	int error = weir_uplink_make(kernel, &plan, view->prio ? WEIR_UPLINK_BY_PRIO : WEIR_UPLINK_BY_HTB);
	return error != 0 ? error : weir_uplink_state_save(options->folder, &state);
}

/* After a failure the link is as it was before, or as near to it as the kernel lets it be. */
static void undo(weir_kernel *kernel, const weir_uplink_options *options, const weir_uplink_view *view,
		 const weir_uplink_state *state)
{
	drop(kernel, state->index);
	if (view->complete) {
		if (make_again(kernel, options, view, *state) == 0)
			return;
		drop(kernel, state->index);
	}
	if (set_gso(kernel, state->index, &state->gso) == 0)
		weir_uplink_state_drop(options->folder, state->index);
}

static int change(weir_kernel *kernel, const weir_uplink_options *options, weir_uplink_plan *plan,
		  const weir_uplink_view *view, const weir_uplink_gso *former, weir_uplink_done *done)
{
	weir_uplink_state state = {
		.index = view->link.index, .rate = options->rate, .bands = options->bands, .gso = *former};
	weir_uplink_gso gso = limited(plan, former);
	char reason[256];
	memcpy(state.device, view->link.name, sizeof(state.device));
	int error = weir_uplink_state_save(options->folder, &state);
	if (error != 0)
		return error;
	if (gso.size == 0)
		gso = *former; /* an earlier install may have limited more */
	done->gso_failed = set_gso(kernel, state.index, &gso) != 0;
	if (view->owner == WEIR_UPLINK_OURS)
		drop(kernel, state.index);
	error = weir_uplink_make(kernel, plan, options->form);
	if (error == 0)
		return 0;
	snprintf(reason, sizeof(reason), "%s", weir_error());
	undo(kernel, options, view, &state);
	return weir_error_set(error, "%s", reason);
}

static int install_locked(weir_kernel *kernel, const weir_uplink_options *options, weir_uplink_done *done)
{
	weir_uplink_view view;
	weir_uplink_plan plan;
	weir_uplink_gso former;
	int error = weir_uplink_view_read(kernel, options->device, &view);
	if (error == 0)
		error = check_view(options, &view);
	if (error == 0)
		error = former_gso(options->folder, &view, &former, &done->guessed);
	if (error != 0)
		return error;
	weir_uplink_plan_init(&plan, view.link.index, options->bands, options->rate, view.link.mtu);
	done->already = is_same(options, &plan, &view, &former);
	return done->already ? 0 : change(kernel, options, &plan, &view, &former, done);
}

int weir_uplink_install(const weir_uplink_options *options, weir_uplink_done *ret_done)
{
	weir_kernel kernel;
	weir_uplink_view view;
	*ret_done = (weir_uplink_done){0};
	int error = weir_kernel_open(&kernel);
	if (error != 0)
		return error;
	/* Once before the lock: what is wrong with the device is said to those without privilege, too. */
	error = weir_uplink_view_read(&kernel, options->device, &view);
	if (error == 0)
		error = check_view(options, &view);
	if (error == 0)
		error = may_change();
	int lock = error == 0 ? weir_uplink_state_lock(options->folder) : error;
	if (lock >= 0) {
		error = install_locked(&kernel, options, ret_done);
		close(lock);
	} else
		error = lock;
	weir_kernel_close(&kernel);
	return error;
}

/* ---- removing ---- */

/*
 * A state that cannot be read must not keep the queues there: then the limits become what devices usually
 * have. Somebody else's root is left alone; limits that are no longer those of our install, as well.
 */
static int remove_locked(weir_kernel *kernel, const char *device, const char *folder, weir_uplink_done *done)
{
	weir_uplink_view view;
	weir_uplink_state state;
	int error = weir_uplink_view_read(kernel, device, &view);
	if (error != 0)
		return error;
	int index = view.link.index, loaded = weir_uplink_state_load(folder, index, &state);
	bool ours = view.owner == WEIR_UPLINK_OURS;
	done->foreign = view.owner == WEIR_UPLINK_FOREIGN;
	done->already = !ours && loaded == -ENOENT;
	if (done->already)
		return 0;
	if (ours && (error = drop(kernel, index)) != 0)
		return weir_error_set(error, "removing the queues of %s: %s", device, strerror(-error));
	done->guessed = ours && loaded != 0;
	weir_uplink_gso gso = done->guessed ? usual(&view.link)
			      : loaded == 0 ? state.gso
					    : (weir_uplink_gso){0};
	if (loaded == 0 && !ours && !is_limited(&state, &view.link))
		gso = (weir_uplink_gso){0};
	error = set_gso(kernel, index, &gso);
	if (error != 0)
		return weir_error_set(error, "restoring the limit of segments of %s: %s", device,
				      strerror(-error));
	return weir_uplink_state_drop(folder, index);
}

int weir_uplink_remove(const char *device, const char *folder, weir_uplink_done *ret_done)
{
	weir_kernel kernel;
	weir_kernel_link link = {0};
	*ret_done = (weir_uplink_done){0};
	int error = weir_kernel_open(&kernel);
	if (error != 0)
		return error;
	error = weir_kernel_find_link(&kernel, device, &link);
	if (error == 0)
		error = may_change();
	int lock = error == 0 ? weir_uplink_state_lock(folder) : error;
	if (lock >= 0 ||
	    (error == 0 && lock != -EBUSY)) { /* a folder that is unusable must not keep them there */
		error = remove_locked(&kernel, device, folder, ret_done);
		if (lock >= 0)
			close(lock);
	} else
		error = lock;
	weir_kernel_close(&kernel);
	return error;
}
