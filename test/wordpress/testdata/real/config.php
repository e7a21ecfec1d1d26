<?php
// The settings of a WordPress for one test: its folder of contents is the test's own, and only this machine is asked for anything.

define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', '' );
define( 'DB_PASSWORD', '' );
define( 'DB_HOST', '' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
define( 'DB_DIR', __DIR__ );
define( 'DB_FILE', 'site.sqlite' );
define( 'WP_CONTENT_DIR', __DIR__ . '/content' );
define( 'WP_HOME', getenv( 'GODWIT_WORDPRESS_URL' ) );
define( 'WP_SITEURL', WP_HOME );
define( 'DISABLE_WP_CRON', true );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );
define( 'WP_DEBUG', true );
define( 'WP_DEBUG_DISPLAY', false );
define( 'WP_DEBUG_LOG', __DIR__ . '/php.log' );
$table_prefix = 'wp_';
if ( ! defined( 'ABSPATH' ) ) {
	define( 'ABSPATH', getenv( 'GODWIT_WORDPRESS' ) . '/' );
}
require_once ABSPATH . 'wp-settings.php';
