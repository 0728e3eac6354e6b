/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIR_BASE_ASSERT_H
#define WEIR_BASE_ASSERT_H

/*
 * WEIR_ASSERT is for our own bugs only and stays on in every build. What a user or a peer can cause is an
 * error or a counted fault, never an assertion.
 */

_Noreturn void weir_assert_failed(const char *what, const char *file, int line);

#define WEIR_ASSERT(x) (__builtin_expect(!!(x), 1) ? (void)0 : weir_assert_failed(#x, __FILE__, __LINE__))

#endif
