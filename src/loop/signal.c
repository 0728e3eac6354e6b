/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as readiness of a signalfd, one descriptor per weir_signal. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>
#include <weir/loop.h>

#include "base/error.h"

/*
 * Handles one arrival per call: fn may stop the signal and free it, and further arrivals remain for the
 * next turn.
 */
static void signal_ready(weir_watch *watch, uint32_t ready, void *arg)
{
	weir_signal *signal = arg;
	struct signalfd_siginfo info;
	if (read(watch->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		signal->fn(signal, signal->signo, signal->arg);
}

int weir_signal_start(weir_loop *loop, weir_signal *signal, int signo, weir_signal_fn *fn, void *arg)
{
	sigset_t set;
	sigemptyset(&set);
	if (sigaddset(&set, signo) != 0)
		return weir_error_set(-EINVAL, "signal %d does not exist", signo);
	int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (fd < 0)
		return weir_error_set(-errno, "signal %d: signalfd: %s", signo, strerror(errno));
	*signal = (weir_signal){.signo = signo, .fn = fn, .arg = arg};
	int error = weir_watch_start(loop, &signal->watch, fd, WEIR_READABLE, signal_ready, signal);
	if (error != 0)
		close(fd);
	return error;
}

void weir_signal_stop(weir_loop *loop, weir_signal *signal)
{
	if (signal->watch.backend == NULL)
		return;
	weir_watch_stop(loop, &signal->watch);
	close(signal->watch.fd);
}

int weir_signal_block(int signo)
{
	sigset_t set;
	sigemptyset(&set);
	if (sigaddset(&set, signo) != 0)
		return weir_error_set(-EINVAL, "signal %d does not exist", signo);
	int error = pthread_sigmask(SIG_BLOCK, &set, NULL);
	return error == 0 ? 0 : weir_error_set(-error, "signal %d: %s", signo, strerror(error));
}
