<?php
// SPDX-License-Identifier: Apache-2.0
// Uses so many microseconds of processor time.
function used(): int
{
	$usage = getrusage();
	return 1000000 * ($usage['ru_utime.tv_sec'] + $usage['ru_stime.tv_sec']) + $usage['ru_utime.tv_usec'] + $usage['ru_stime.tv_usec'];
}

$before = used();
$number = 1;
while (used() - $before < (int)$_SERVER['COMPUTE_US']) {
	for ($turn = 0; $turn < 200; $turn++)
		$number = ($number * 48271) % 2147483647;
}
header('Content-Type: text/plain');
echo $number, "\n";
