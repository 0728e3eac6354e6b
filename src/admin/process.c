/* SPDX-License-Identifier: Apache-2.0 */
#include "admin/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "admin/view.h"

void weir_process_open(weir_process *process)
{
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	*process = (weir_process){.statm = open("/proc/self/statm", O_RDONLY | O_CLOEXEC),
				  .fds = opendir("/proc/self/fd"),
				  .started_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9};
}

void weir_process_close(weir_process *process)
{
	if (process->statm >= 0)
		close(process->statm);
	if (process->fds != NULL)
		closedir(process->fds);
	*process = (weir_process){.statm = -1};
}

static void print(FILE *to, const char *name, const char *unit, const char *help, double value)
{
	weir_view_family(to, name, "gauge", unit, help);
	fprintf(to, "%s %.15g\n", name, value);
}

static void print_memory(FILE *to, int statm)
{
	char text[128] = "";
	unsigned long pages, resident;
	double page = (double)sysconf(_SC_PAGESIZE);
	if (statm < 0 || pread(statm, text, sizeof(text) - 1, 0) <= 0 ||
	    sscanf(text, "%lu %lu", &pages, &resident) != 2)
		return;
	print(to, "process_virtual_memory_bytes", "bytes", "Address space in use.", (double)pages * page);
	print(to, "process_resident_memory_bytes", "bytes", "Memory in use.", (double)resident * page);
}

/* Less the one that counts them. */
static void print_descriptors(FILE *to, DIR *fds)
{
	struct rlimit limit;
	unsigned count = 0;
	if (fds == NULL || getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	rewinddir(fds);
	for (const struct dirent *one; (one = readdir(fds)) != NULL;)
		count += one->d_name[0] != '.';
	print(to, "process_open_fds", NULL, "Open descriptors.", count > 0 ? count - 1 : 0);
	print(to, "process_max_fds", NULL, "How many may be open.", (double)limit.rlim_cur);
}

void weir_process_print(FILE *to, const weir_process *process)
{
	struct rusage usage;
	if (process == NULL)
		return;
	getrusage(RUSAGE_SELF, &usage);
	weir_view_family(to, "process_cpu_seconds", "counter", "seconds", "Processor time used.");
	fprintf(to, "process_cpu_seconds_total %.6f\n",
		(double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
	print(to, "process_start_time_seconds", "seconds", "When it was started, in seconds since 1970.",
	      process->started_s);
	print_memory(to, process->statm);
	print_descriptors(to, process->fds);
}
