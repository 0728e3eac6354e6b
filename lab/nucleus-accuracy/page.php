<?php
// SPDX-License-Identifier: Apache-2.0
// Waits, computes, and answers with what it saw of itself: when it began and ended, and its processor time, in ns.
function used(): int
{
	$usage = getrusage();
	return 1000 * (1000000 * ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec']);
}

$begin = hrtime(true);
$before = used();
usleep((int)$_SERVER['WAIT_US']);
$number = 1;
while (used() - $before < 1000 * (int)$_SERVER['COMPUTE_US']) {
	for ($turn = 0; $turn < 1000; $turn++)
		$number = ($number * 48271) % 2147483647;
}
header('Content-Type: text/plain');
$text = $begin . ' ' . hrtime(true) . ' ' . (used() - $before) . "\n";
header('Content-Length: ' . strlen($text));
echo $text;
