<?php
// SPDX-License-Identifier: Apache-2.0
// Computes for as many rounds as asked for: about a microsecond each.
$rounds = min(100000, max(1, (int)($_GET['rounds'] ?? 1000)));
$sum = 0;
for ($at = 0; $at < $rounds; $at++)
	$sum = ($sum * 31 + crc32((string)$at)) & 0xffffffff;
echo $sum, "\n";
