/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_ON_BOTH_H
#define TESTS_ON_BOTH_H

/* Two entries of a table of tests: one for each back end of the loop. The initial state is the back end's name. */
#define ON_BOTH_LOOPS(test, setup, teardown)                                          \
	{#test " on epoll", test, setup, teardown, (void *)(uintptr_t) "epoll"},      \
	{                                                                             \
#test " on uring", test, setup, teardown, (void *)(uintptr_t) "uring" \
	}

#endif
