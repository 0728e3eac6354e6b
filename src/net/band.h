/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_NET_BAND_H
#define WEIR_NET_BAND_H

/*
 * What a socket tells the kernel to be sent in a band of `weir uplink`: the value of SO_PRIORITY. Band 0 is
 * sent first. What has no such priority is other traffic, which has a share of its own.
 *
 * There are two values for a band. The class is exact for all bands and needs CAP_NET_ADMIN. The plain value
 * is 6 for band 0 down to 1 for band 5 and for all after it; everybody may set it. Both are kept apart from
 * what other programs use: larger plain values are more urgent, as elsewhere.
 *
 *	unsigned band = weir_cutoffs_band(cutoffs, left);
 *	int priority = weir_band_class(band);
 *	if (setsockopt(fd, SOL_SOCKET, SO_PRIORITY, &priority, sizeof(priority)) != 0 && errno == EPERM)
 *		... the same with weir_band_plain(band), from now on
 *
 * Where no uplink is installed, neither value has an effect, except that pfifo_fast and prio at their
 * defaults send plain values 6 and 4 earlier and 1 to 3 later.
 *
 * Threads: any; no state.
 */

#include <stdint.h>

enum {
	WEIR_BANDS_MOST = 8,
	WEIR_BAND_MAJOR = 0x5752,  /* the handle 5752: marks a queueing discipline as ours */
	WEIR_BAND_MINOR = 0x10,    /* classes of bands are 5752:11 to 5752:16, 5752:18 and 5752:19 */
	WEIR_BAND_PLAIN_MOST = 6,  /* larger ones need CAP_NET_ADMIN */
	WEIR_BAND_PLAIN_LEAST = 1, /* 0 is what sockets have that nobody told */
};

/*
 * The four lowest bits of a band's class, which a `prio` looks at: the plain value, and for bands 6 and 7,
 * which have none of their own, 8 and 9.
 */
static inline unsigned weir_band_nibble(unsigned band)
{
	return band < WEIR_BAND_PLAIN_MOST ? WEIR_BAND_PLAIN_MOST - band : band + 2;
}

/* SO_PRIORITY for a band below WEIR_BANDS_MOST, with CAP_NET_ADMIN. */
static inline int weir_band_class(unsigned band)
{
	return (int)((uint32_t)WEIR_BAND_MAJOR << 16 | (WEIR_BAND_MINOR + weir_band_nibble(band)));
}

/* SO_PRIORITY for a band, without any privilege. */
static inline int weir_band_plain(unsigned band)
{
	return band < WEIR_BAND_PLAIN_MOST ? (int)(WEIR_BAND_PLAIN_MOST - band) : WEIR_BAND_PLAIN_LEAST;
}

#endif
