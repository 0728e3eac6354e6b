/* SPDX-License-Identifier: Apache-2.0 */
#include "load/work.h"

#include <string.h>

#include "base/mem.h"
#include "load/work_priv.h"

#define STATE_DRAWS UINT32_MAX /* a user of a trace that was not started at a line */

/* ---- properties ---- */

unsigned load_work_classes(const load_work *work)
{
	return work->mix.count;
}

const char *load_work_class(const load_work *work, unsigned klass)
{
	return work->mix.class[klass].name;
}

unsigned load_work_paths(const load_work *work)
{
	return work->paths;
}

const char *load_work_path(const load_work *work, unsigned path)
{
	return work->path_name[path];
}

uint32_t load_work_wants_bodies(const load_work *work)
{
	return work->links > 0 ? LOAD_LINKS_BYTES : 0;
}

const load_form *load_work_only(const load_work *work)
{
	bool only = work->mix.count == 1 && work->items == 1 && !work->cookies && work->links == 0;
	return only ? work->form : NULL;
}

/* ---- users ---- */

void load_user_start(const load_work *work, load_user *user, uint64_t seed)
{
	*user = (load_user){.state = STATE_DRAWS};
	weir_random_init(&user->random, seed);
	if (work->class_draw.count > 0)
		user->klass = (uint16_t)load_draw_one(&work->class_draw, &user->random);
}

void load_user_start_at(const load_work *work, load_user *user, uint64_t seed, uint64_t number)
{
	load_user_start(work, user, seed);
	if (work->lines > 0)
		user->state = (uint32_t)(number % work->lines);
}

void load_user_end(const load_work *work, load_user *user)
{
	load_own *own = user->own;
	if (own != NULL)
		load_jar_fini(&own->jar);
	weir_mem_free(own);
	user->own = NULL;
}

/* NULL: no memory, and the user does without. */
static load_own *own_of(const load_work *work, load_user *user)
{
	if (user->own != NULL)
		return user->own;
	load_own *own = weir_mem_zalloc(sizeof *own);
	if (own != NULL && work->model != NULL)
		own->number = (uint32_t)weir_random_below(&user->random, work->model->users);
	user->own = own;
	return own;
}

static bool is_over(const load_work *work, load_user *user)
{
	if (user->made == 0 || (work->lines > 0 && user->state != STATE_DRAWS))
		return user->made > 0;
	if (work->requests == 0)
		return false;
	if (work->geometric)
		return weir_random_unit(&user->random) * work->requests < 1;
	return user->made >= work->requests;
}

static uint64_t think_of(const weir_dist *think, load_user *user)
{
	if (think->kind == WEIR_DIST_DETERMINISTIC || think->mean == 0)
		return (uint64_t)think->mean;
	double ns = weir_dist_draw(think, &user->random);
	return ns < 1e18 ? (uint64_t)ns : UINT64_C(1000000000000000000);
}

/* ---- items ---- */

static void ask_item(const load_work *work, load_user *user, load_next *ret)
{
	uint32_t at = 0;
	if (work->lines > 0 && user->state != STATE_DRAWS)
		at = work->line[user->state];
	else if (work->lines > 0)
		at = work->line[weir_random_below(&user->random, work->lines)];
	else if (work->items > 1)
		at = load_draw_one(&work->draw, &user->random);
	const load_item *item = &work->item[at];
	ret->form = &work->form[user->klass * work->rows + item->row];
	ret->target = item->target;
}

/* Follows a link of the last page, if that is due. */
static bool ask_link(const load_work *work, load_user *user, const load_seen *seen, load_next *ret)
{
	load_own *own = own_of(work, user);
	char target[LOAD_LINK_MAX + 1];
	if (own == NULL || seen == NULL || seen->status / 100 != 2 || own->followed >= work->links ||
	    !load_link_draw(seen->body, own->last, work->origin, &user->random, target))
		return false;
	own->followed++;
	memcpy(own->target, target, sizeof target);
	ret->form = &work->form[user->klass * work->rows + work->links_row];
	ret->target = (weir_span){own->target, strlen(own->target)};
	return true;
}

static void remember(const load_work *work, load_user *user, const load_next *ret, bool followed)
{
	load_own *own = own_of(work, user);
	if (own == NULL)
		return;
	own->last = ret->target.length > 0 ? ret->target : ret->form->target;
	if (!followed)
		own->followed = 0;
}

/* ---- pages of a model ---- */

static size_t put_number(char *to, uint32_t number)
{
	char digits[10];
	size_t count = 0;
	do {
		digits[count++] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	for (size_t i = 0; i < count; i++)
		to[i] = digits[count - 1 - i];
	return count;
}

/* Writes out a template; it fits, because the model was checked for that. */
static weir_span fill_in(const load_template *of, load_user *user, uint32_t number, char *to)
{
	size_t length = 0;
	for (unsigned i = 0; i < of->parts; i++) {
		const load_part *part = &of->part[i];
		memcpy(to + length, part->text, part->length);
		length += part->length;
		if (part->user)
			length += put_number(to + length, number);
		else if (part->high > 0)
			length += put_number(to + length,
					     part->low + (uint32_t)weir_random_below(&user->random,
										     (uint64_t)part->high -
											     part->low + 1));
	}
	return (weir_span){to, length};
}

/*
 * Generates target and body of this request. Without memory for them those of the form are used, which have
 * the lowest numbers. A form that is not the work's must not be kept as bytes (bytes.h), so it is given a
 * target in any case.
 */
static void make_own(const load_work *work, load_user *user, const load_page *page, load_next *ret)
{
	load_own *own = own_of(work, user);
	if (own == NULL)
		return;
	if (page->in_target.parts > 0)
		ret->target = fill_in(&page->in_target, user, own->number, own->target);
	if (page->in_body.parts == 0)
		return;
	own->form = *ret->form;
	own->form.body = fill_in(&page->in_body, user, own->number, own->body);
	ret->form = &own->form;
	if (ret->target.length == 0)
		ret->target = own->form.target;
}

/* The page after what the user saw; sets the wait. END: the session is over. */
static uint16_t next_page(const load_model *model, load_user *user, const load_seen *seen, load_next *ret)
{
	const load_page *page = &model->page[user->state];
	unsigned status = seen != NULL ? seen->status : 200;
	bool rejected = status == 503 || status == 429;
	const load_upset *upset = rejected ? &model->rejected : &model->failed;
	if (upset->is_set && (rejected || status == 0 || status >= 400)) {
		ret->think_ns = think_of(&upset->wait, user);
		return upset->to;
	}
	unsigned at = page->next.count > 1 ? load_draw_one(&page->draw, &user->random) : 0;
	uint16_t to = (uint16_t)page->next.at[at].index;
	return to == LOAD_PAGE_BACK ? user->before : to;
}

static void ask_page(const load_work *work, load_user *user, const load_seen *seen, load_next *ret)
{
	const load_model *model = work->model;
	uint16_t to = model->start, from = to;
	if (user->made > 0) {
		from = (uint16_t)user->state;
		const load_page *page = &model->page[from];
		ret->think_ns = think_of(page->has_think    ? &page->think
					 : model->has_think ? &model->think
							    : &work->think,
					 user);
		to = next_page(model, user, seen, ret);
	}
	if (to == LOAD_PAGE_END) {
		*ret = (load_next){.form = NULL};
		return;
	}
	user->before = from;
	user->state = to;
	ret->form = &work->form[user->klass * work->rows + to];
	if (model->page[to].in_target.parts > 0 || model->page[to].in_body.parts > 0)
		make_own(work, user, &model->page[to], ret);
}

/* ---- the next request ---- */

static void keep_cookies(const load_work *work, load_user *user, const load_seen *seen)
{
	load_own *own = seen->cookie_count > 0 ? own_of(work, user) : NULL;
	for (unsigned i = 0; own != NULL && i < seen->cookie_count; i++)
		load_jar_set(&own->jar, seen->cookies[i]);
}

void load_user_next(const load_work *work, load_user *user, const load_seen *seen, load_next *ret)
{
	*ret = (load_next){.form = NULL};
	if (work->cookies && seen != NULL)
		keep_cookies(work, user, seen);
	if (is_over(work, user))
		return;
	if (work->model != NULL) {
		ask_page(work, user, seen, ret);
	} else {
		ret->think_ns = user->made > 0 ? think_of(&work->think, user) : 0;
		bool followed = work->links > 0 && ask_link(work, user, seen, ret);
		if (!followed)
			ask_item(work, user, ret);
		if (work->links > 0)
			remember(work, user, ret, followed);
	}
	user->made += user->made < UINT32_MAX;
	const load_own *own = work->cookies ? user->own : NULL;
	if (own != NULL && ret->form != NULL)
		ret->cookies = (weir_span){own->jar.text, own->jar.length};
}
