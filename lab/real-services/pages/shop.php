<?php
// SPDX-License-Identifier: Apache-2.0
// What the pages share: the database, and how often a page asks it: twice while the file $SLOWED is there.
function shop(): PDO
{
	return new PDO('mysql:unix_socket=' . $_SERVER['SHOP_SOCKET'] . ';dbname=shop', $_SERVER['SHOP_USER'], '', [PDO::ATTR_PERSISTENT => true]);
}

function times(): int
{
	clearstatcache();
	return file_exists($_SERVER['SLOWED']) ? 2 : 1;
}
