/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_UPLINK_STATE_H
#define WEIR_UPLINK_STATE_H

/*
 * What `weir uplink install` keeps in a file, so that `remove` can restore the link: a few lines of text. The
 * file is written before anything is changed, and removed after all is restored.
 *
 * It is named for the network namespace and the number of the device, in a folder that is gone after a
 * reboot, as the settings are. The folder and the file must belong to root or to the user who asks, and
 * nobody else may be able to write to them; a symbolic link is not followed. What is not exactly as this
 * module writes it is refused.
 *
 * Threads: any; calls block.
 */

#include "uplink/plan.h"

#include <net/if.h>

#define WEIR_UPLINK_STATE_FOLDER "/run/weir"
enum { WEIR_UPLINK_STATE_BYTES = 512 };

typedef struct weir_uplink_state {
	char device[IF_NAMESIZE];
	int index;
	uint64_t rate; /* bits per second */
	unsigned bands;
	weir_uplink_gso gso; /* as it was before */
} weir_uplink_state;

/* Prints it; returns the length. 512 bytes always suffice. */
size_t weir_uplink_state_print(const weir_uplink_state *state, char *ret_text, size_t size);
/* Reads what was printed, `size` bytes. -EINVAL with weir_error, which names the line. */
int weir_uplink_state_read(const char *text, size_t size, weir_uplink_state *ret_state);

/*
 * Makes the folder, and holds it against others who install or remove. Returns a descriptor, which the caller
 * closes, or a negative errno with weir_error: -EBUSY if somebody else has it.
 */
int weir_uplink_state_lock(const char *folder);
/*
 * Reads the file of a device. -ENOENT without a message: there is none; else a negative errno with
 * weir_error.
 */
int weir_uplink_state_load(const char *folder, int index, weir_uplink_state *ret_state);
/* Writes it as a whole, so that no reader sees a part. A negative errno with weir_error. */
int weir_uplink_state_save(const char *folder, const weir_uplink_state *state);
/* Removes it; it is no error if there is none. */
int weir_uplink_state_drop(const char *folder, int index);

#endif
