/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEBMAIL_STORE_POOL_H
#define WEBMAIL_STORE_POOL_H

/*
 * Pools whose threads have a connection to the database each.
 *
 * Threads: store_pool_new: the main thread; store_of_thread: those of such a pool.
 */

#include <weir/stage.h>

#include "store.h"

/* Makes a pool of at most so many threads in a world. The URL must live as long as the pool. */
int store_pool_new(weir_world *world, const char *name, uint32_t most, const char *url,
		   weir_domain **ret_pool);
/* The connection of this thread. One that could not be opened is tried again. NULL: there is none now. */
store *store_of_thread(void);

#endif
