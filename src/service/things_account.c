/* SPDX-License-Identifier: Apache-2.0 */
/* The accounts of things: what agreements, revenue and guarantees come to. */
#include <weir/inspect.h>

#include "service/config_inside.h"
#include "service/things.h"

static void account_for(weir_things *things, weir_thing *thing, const weir_account_terms *terms,
			uint64_t now_ns)
{
	weir_account *account = &thing->account;
	if (account->kept && account->last_ns == now_ns) /* another route leads to it, too */
		return;
	pthread_mutex_lock(&things->lock);
	bool over = weir_account_keep(account, thing->stage, terms, now_ns);
	pthread_mutex_unlock(&things->lock);
	if (over)
		weir_errors_say(things->errors, WEIR_LOG_WARN, "guarantee",
				"%s: classes are guaranteed %.3g requests a second, and it can serve %.3g",
				thing->name, account->shown.guaranteed_per_s, account->shown.capacity_per_s);
}

bool weir_things_account(weir_things *things, const weir_config *config)
{
	weir_account_terms terms = {.worth = weir_config_worth(config)};
	uint64_t now_ns = weir_world_now(things->world);
	if (!terms.worth.has_revenue && !terms.worth.has_guarantee && config->slas == 0)
		return false;
	for (unsigned i = 0; i < config->routes; i++) {
		const weir_config_route *route = &config->route[i];
		const weir_config_sla *sla = weir_config_sla_of(config, route);
		weir_thing *thing = weir_things_find(things, config, route);
		terms.agreement = sla != NULL ? &sla->agreement : NULL;
		if (thing != NULL && !route->exempt)
			account_for(things, thing, &terms, now_ns);
	}
	return true;
}
