/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, closing and tidying a store. */
#include "store_priv.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>

int store_open(const char *url, store **ret_store)
{
	store *s = calloc(1, sizeof(*s));
	if (s == NULL)
		return weir_error_set(-ENOMEM, "out of memory");
	int failed = sodium_init() < 0 ? weir_error_set(-EIO, "libsodium: no random numbers") : 0;
	if (failed == 0)
		failed = db_open(url, STORE_BUSY_MS, &s->d);
	if (failed == 0)
		failed = schema_migrate(s->d);
	if (failed != 0) {
		store_close(s);
		return failed;
	}
	*ret_store = s;
	return 0;
}

void store_close(store *s)
{
	if (s == NULL)
		return;
	db_close(s->d);
	free(s->chunk);
	free(s);
}

/* User by user, so that others may write in between. */
int store_tidy(store *s, int64_t now_s)
{
	int changed = db_change(s->d, "DELETE FROM sessions WHERE expires_s <= ?", DB_ARGS(DB_INT(now_s)));
	int64_t user = 0;
	while (changed >= 0 && db_number(s->d, &user, "SELECT id FROM users WHERE id > ? ORDER BY id LIMIT 1",
					 DB_ARGS(DB_INT(user))) == 0)
		changed = db_change(s->d,
				    "DELETE FROM deliveries WHERE user = ? AND created_s < ? AND NOT EXISTS"
				    " (SELECT 1 FROM messages m WHERE m.id = deliveries.message)",
				    DB_ARGS(DB_INT(user), DB_INT(now_s - STORE_DELIVERY_DAYS * 86400)));
	return changed < 0 ? changed : 0;
}
