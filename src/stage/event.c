/* SPDX-License-Identifier: Apache-2.0 */
#include "stage/runtime.h"

void weir_event_init(weir_event *event, unsigned klass)
{
	*event = (weir_event){0};
	weir_event_make(event, klass);
}

void weir_event_cancel(weir_event *event)
{
	__atomic_store_n(&event->cancelled, 1, __ATOMIC_RELAXED);
}

bool weir_event_cancelled(const weir_event *event)
{
	return weir_event_is_cancelled(event);
}

const char *weir_verdict_name(weir_verdict verdict)
{
	static const char *const names[] = {
#define WEIR_X(name, text) text,
		WEIR_VERDICTS(WEIR_X)
#undef WEIR_X
	};
	return (unsigned)verdict < WEIR_VERDICT_COUNT ? names[verdict] : "unknown";
}

const char *weir_fault_text(weir_fault fault)
{
	static const char *const texts[] = {
#define WEIR_X(name, text) text,
		WEIR_FAULTS(WEIR_X)
#undef WEIR_X
	};
	return (unsigned)fault < WEIR_FAULT_COUNT ? texts[fault] : "unknown";
}
