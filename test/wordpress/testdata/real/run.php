<?php
// Does in a WordPress what no page does: run.php install, run.php set OPTION JSON, run.php get OPTION, run.php uninstall PLUGIN.

function wp_new_blog_notification() {} // which would send mail

if ( 'install' === $argv[1] ) {
	define( 'WP_INSTALLING', true );
}
$_SERVER['HTTP_HOST'] = parse_url( getenv( 'GODWIT_WORDPRESS_URL' ), PHP_URL_HOST );
require getenv( 'GODWIT_WORDPRESS' ) . '/wp-load.php';
require ABSPATH . 'wp-admin/includes/plugin.php';
require ABSPATH . 'wp-admin/includes/upgrade.php';
switch ( $argv[1] ) {
	case 'install':
		wp_install( 'The Daily Tide', 'editor', 'editor@example.org', true, '', 'the-editors-password' );
		update_option( 'template', 'theme' );
		update_option( 'stylesheet', 'theme' );
		break;
	case 'set':
		update_option( $argv[2], json_decode( $argv[3], true ) );
		break;
	case 'get':
		echo json_encode( get_option( $argv[2] ) );
		break;
	case 'uninstall':
		deactivate_plugins( $argv[2] );
		uninstall_plugin( $argv[2] );
}
