/* SPDX-License-Identifier: Apache-2.0 */
#include "mailbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_DEPTH_MAX 16u

/* ---- files ---- */

/* The letters behind ":2," in a name of a Maildir. */
static unsigned maildir_flags(const char *path)
{
	const char *info = strstr(path, ":2,");
	unsigned flags = 0;
	for (const char *at = info != NULL ? info + 3 : ""; *at != '\0'; at++)
		flags |= *at == 'S'   ? MAIL_SEEN
			 : *at == 'R' ? MAIL_ANSWERED
			 : *at == 'F' ? MAIL_FLAGGED
			 : *at == 'P' ? MAIL_FORWARDED
				      : 0u;
	return flags;
}

static int read_file(const mailbox_reader *reader, const char *path)
{
	struct stat status;
	char start[5] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), error = 0;
	if (fd < 0 || fstat(fd, &status) != 0) {
		reader->wrong(reader->arg, path, strerror(errno));
	} else if (pread(fd, start, sizeof(start), 0) == (ssize_t)sizeof(start) &&
		   memcmp(start, "From ", sizeof(start)) == 0) {
		error = mbox_read(reader, fd, path);
	} else if (status.st_size > 0) {
		mail_source source = mail_from_fd(fd, (uint64_t)status.st_size);
		error = reader->each(reader->arg, path, &source, maildir_flags(path));
	}
	if (fd >= 0)
		close(fd);
	return error;
}

/* ---- folders ---- */

static int read_any(const mailbox_reader *reader, const char *path, unsigned depth);

/* In a Maildir, mail is in `cur` and `new`; `tmp` has what is not complete. Index files begin with a dot. */
static bool is_skipped(const char *name, bool maildir)
{
	if (maildir)
		return strcmp(name, "cur") != 0 && strcmp(name, "new") != 0;
	return name[0] == '.';
}

static bool has_folder(const char *path, const char *name)
{
	char below[4096];
	struct stat status;
	snprintf(below, sizeof(below), "%s/%s", path, name);
	return stat(below, &status) == 0 && S_ISDIR(status.st_mode);
}

static int read_folder(const mailbox_reader *reader, const char *path, unsigned depth)
{
	struct dirent **names;
	bool maildir = has_folder(path, "cur") && has_folder(path, "new");
	int count = scandir(path, &names, NULL, alphasort), error = 0;
	if (count < 0) {
		reader->wrong(reader->arg, path, strerror(errno));
		return 0;
	}
	for (int at = 0; at < count; at++) {
		char below[4096];
		int length = snprintf(below, sizeof(below), "%s/%s", path, names[at]->d_name);
		if (error == 0 && !is_skipped(names[at]->d_name, maildir) && length < (int)sizeof(below))
			error = read_any(reader, below, depth + 1);
		free(names[at]);
	}
	free(names);
	return error;
}

/* Links are followed only where they are named by the user, so that folders cannot lead in circles. */
static int read_any(const mailbox_reader *reader, const char *path, unsigned depth)
{
	struct stat status;
	if ((depth == 0 ? stat(path, &status) : lstat(path, &status)) != 0)
		reader->wrong(reader->arg, path, strerror(errno));
	else if (S_ISDIR(status.st_mode) && depth < FOLDER_DEPTH_MAX)
		return read_folder(reader, path, depth);
	else if (S_ISREG(status.st_mode))
		return read_file(reader, path);
	else if (!S_ISLNK(status.st_mode))
		reader->wrong(reader->arg, path, "this is neither a file nor a folder that can be read");
	return 0;
}

int mailbox_read(const mailbox_reader *reader, const char *path)
{
	return read_any(reader, path, 0);
}
