/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_H
#define WEIR_BASE_H

/*
 * Declarations that every other public header needs: visibility, versions, errors, units of time.
 *
 * Errors. A function that can fail returns 0 or a negative errno value. Its outputs are named ret_x and
 * are untouched on failure. After a failure, weir_error() holds one sentence for people about the last
 * failure on this thread: which object, what was wrong, what would be accepted.
 *
 * Time is nanoseconds in a uint64_t: CLOCK_MONOTONIC in the real world, the simulated clock in a virtual
 * one. Wherever a time is optional, 0 means "none".
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_API __attribute__((visibility("default")))

#define WEIR_VERSION_MAJOR 0
#define WEIR_VERSION_MINOR 1
#define WEIR_VERSION_PATCH 0

#define WEIR_NS_PER_US UINT64_C(1000)
#define WEIR_NS_PER_MS UINT64_C(1000000)
#define WEIR_NS_PER_S  UINT64_C(1000000000)

typedef struct weir_world weir_world;
typedef struct weir_domain weir_domain;
typedef struct weir_stage weir_stage;
typedef struct weir_event weir_event;
typedef struct weir_loop weir_loop;

/* The version of the library at run time, such as "0.1.0". The macros give the version compiled against. */
WEIR_API const char *weir_version(void);

/* Why the last call on this thread failed; "" if none has failed. Valid until the next failure. */
WEIR_API const char *weir_error(void);
/*
 * Stores a sentence for weir_error() on this thread and returns code, so that a caller can write `return
 * weir_error_set(-EINVAL, ...)`.
 */
WEIR_API int weir_error_set(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
