/* SPDX-License-Identifier: Apache-2.0 */
#include "control/alpha.h"

#include <math.h>

#define COUNT_LEAST 3.
#define IO_LEAST_S  1e-5 /* root of the mean square of the I/O times, below which they are noise */

static bool is_time(double s)
{
	return s >= 0 && s < 1e6; /* neither holds for NaN */
}

void weir_alpha_add_fading(weir_alpha *alpha, double time_s, double cpu_s, double io_s, double memory)
{
	double rest_s = time_s - cpu_s, keep = 1 - 1 / memory;
	if (!is_time(time_s) || !is_time(cpu_s) || !is_time(io_s))
		return;
	alpha->count = keep * alpha->count + 1;
	alpha->io_io = keep * alpha->io_io + io_s * io_s;
	alpha->io_rest = keep * alpha->io_rest + io_s * rest_s;
	alpha->rest_rest = keep * alpha->rest_rest + rest_s * rest_s;
}

void weir_alpha_add(weir_alpha *alpha, double time_s, double cpu_s, double io_s)
{
	weir_alpha_add_fading(alpha, time_s, cpu_s, io_s, INFINITY);
}

bool weir_alpha_fit(const weir_alpha *alpha, double *ret_alpha, double *ret_error)
{
	if (alpha->count < COUNT_LEAST || alpha->io_io < alpha->count * IO_LEAST_S * IO_LEAST_S)
		return false;
	double fitted = alpha->io_rest / alpha->io_io;
	double squares = fmax(alpha->rest_rest - fitted * alpha->io_rest, 0);
	*ret_alpha = fmin(fmax(fitted, WEIR_ALPHA_LEAST), WEIR_ALPHA_MOST);
	*ret_error = sqrt(squares / (alpha->count - 1) / alpha->io_io);
	return true;
}
