/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef struct rank_name {
	char name[STORE_NAME_MAX + 1];
	uint64_t paid_ns; /* uses are paid for up to here, RANKS_EVERY_NS each */
} rank_name;

/* Sorted by name. */
typedef struct rank_names {
	rank_name *at;
	unsigned count;
} rank_names;

struct ranks {
	pthread_mutex_t lock;
	rank_names names; /* under the lock */
};

ranks *ranks_new(void)
{
	ranks *r = calloc(1, sizeof(*r));
	if (r != NULL)
		pthread_mutex_init(&r->lock, NULL);
	return r;
}

void ranks_free(ranks *r)
{
	if (r == NULL)
		return;
	pthread_mutex_destroy(&r->lock);
	free(r->names.at);
	free(r);
}

static int by_name(const void *left, const void *right)
{
	return strcmp(((const rank_name *)left)->name, ((const rank_name *)right)->name);
}

static rank_name *find(const rank_names *names, const rank_name *wanted)
{
	return names->count > 0 ? bsearch(wanted, names->at, names->count, sizeof(*wanted), by_name) : NULL;
}

static int note(const store_user *user, void *arg)
{
	rank_names *names = arg;
	if (strcmp(user->class, "gold") == 0 && names->count < RANKS_MAX)
		memcpy(names->at[names->count++].name, user->name, sizeof(user->name));
	return 0;
}

/* What was used up stays so. */
int ranks_read(ranks *r, store *db)
{
	rank_names fresh = {calloc(RANKS_MAX, sizeof(rank_name)), 0};
	if (fresh.at == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int failed = store_users(db, note, &fresh);
	qsort(fresh.at, fresh.count, sizeof(rank_name), by_name);
	pthread_mutex_lock(&r->lock);
	for (unsigned i = 0; failed == 0 && i < fresh.count; i++) {
		const rank_name *before = find(&r->names, &fresh.at[i]);
		fresh.at[i].paid_ns = before != NULL ? before->paid_ns : 0;
	}
	rank_names old = failed == 0 ? r->names : fresh;
	if (failed == 0)
		r->names = fresh;
	pthread_mutex_unlock(&r->lock);
	free(old.at);
	return failed;
}

/* Uses that nobody made add up to a burst, no more. */
static bool use_locked(rank_name *name, uint64_t now_ns)
{
	uint64_t burst_ns = RANKS_BURST * RANKS_EVERY_NS;
	uint64_t oldest_ns = now_ns > burst_ns ? now_ns - burst_ns : 0;
	if (name->paid_ns < oldest_ns)
		name->paid_ns = oldest_ns;
	if (name->paid_ns + RANKS_EVERY_NS > now_ns)
		return false;
	name->paid_ns += RANKS_EVERY_NS;
	return true;
}

/* Upper and lower case are the same, as for the store. */
bool ranks_believe(ranks *r, weir_span name, uint64_t now_ns)
{
	rank_name wanted = {.paid_ns = 0};
	if (name.length == 0 || name.length > STORE_NAME_MAX)
		return false;
	for (size_t i = 0; i < name.length; i++)
		wanted.name[i] =
			(char)(name.at[i] >= 'A' && name.at[i] <= 'Z' ? name.at[i] + 32 : name.at[i]);
	pthread_mutex_lock(&r->lock);
	rank_name *found = find(&r->names, &wanted);
	bool believed = found != NULL && use_locked(found, now_ns);
	pthread_mutex_unlock(&r->lock);
	return believed;
}
