<?php
// Answers as a site's web server does: files and folders of WordPress by themselves, and everything else by its index.php.

$path = rtrim( $_SERVER['DOCUMENT_ROOT'] . parse_url( $_SERVER['REQUEST_URI'], PHP_URL_PATH ), '/' );
if ( is_file( $path ) || is_file( $path . '/index.php' ) ) {
	return false;
}
require $_SERVER['DOCUMENT_ROOT'] . '/index.php';
