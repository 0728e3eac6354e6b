<?php
// SPDX-License-Identifier: Apache-2.0
// An expensive page: a sum over all items.
require 'shop.php';
$shop = shop();
for ($turn = 0; $turn < times(); $turn++) {
	foreach ($shop->query('SELECT kind, COUNT(*) AS many, SUM(price * CRC32(name) % 97) AS total FROM item GROUP BY kind ORDER BY total DESC') as $row)
		echo $row['kind'], ' ', $row['many'], ' ', $row['total'], "\n";
}
