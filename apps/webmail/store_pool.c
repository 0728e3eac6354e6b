/* SPDX-License-Identifier: Apache-2.0 */
#include "store_pool.h"

#include <stdlib.h>

typedef struct pool_thread {
	const char *url;
	store *db; /* NULL: not open */
} pool_thread;

static void *attach(void *arg)
{
	pool_thread *thread = calloc(1, sizeof(*thread));
	if (thread != NULL)
		thread->url = arg;
	return thread;
}

static void detach(void *arg, void *state)
{
	pool_thread *thread = state;
	if (thread != NULL)
		store_close(thread->db);
	free(thread);
}

store *store_of_thread(void)
{
	pool_thread *thread = weir_thread_state();
	if (thread == NULL)
		return NULL;
	if (thread->db == NULL && store_open(thread->url, &thread->db) != 0)
		thread->db = NULL;
	return thread->db;
}

int store_pool_new(weir_world *world, const char *name, uint32_t most, const char *url,
		   weir_domain **ret_pool)
{
	weir_domain_options options = {.name = name,
				       .kind = WEIR_ELASTIC,
				       .max_threads = most,
				       .thread_start = attach,
				       .thread_end = detach,
				       .thread_arg = (void *)url};
	return weir_domain_new(world, &options, ret_pool);
}
