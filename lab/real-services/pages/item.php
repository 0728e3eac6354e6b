<?php
// SPDX-License-Identifier: Apache-2.0
// A cheap page: ten items by their number.
require 'shop.php';
$shop = shop();
for ($turn = 0; $turn < 10 * times(); $turn++) {
	$row = $shop->query('SELECT name, price FROM item WHERE id = ' . random_int(1, 20000))->fetch();
	echo htmlspecialchars($row['name']), ' ', $row['price'], "\n";
}
