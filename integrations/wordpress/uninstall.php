<?php
/**
 * Takes everything away that the plug-in has stored. The server keeps its subscribers.
 *
 * @package Godwit
 */

defined( 'WP_UNINSTALL_PLUGIN' ) || exit;

/**
 * Cleans the site that is looked at.
 */
function godwit_uninstall_site() {
	delete_option( 'godwit_settings' );
	delete_option( 'godwit_log' );
	delete_option( 'godwit_unsent' );
	foreach ( array( '_godwit_send', '_godwit_campaign', '_godwit_request', '_godwit_made', '_godwit_error', '_godwit_tries', '_godwit_post' ) as $key ) {
		delete_post_meta_by_key( $key );
	}
	wp_unschedule_hook( 'godwit_retry' );
}

if ( is_multisite() ) {
	foreach ( get_sites(
		array(
			'fields' => 'ids',
			'number' => 0,
		)
	) as $godwit_site ) {
		switch_to_blog( $godwit_site );
		godwit_uninstall_site();
		restore_current_blog();
	}
} else {
	godwit_uninstall_site();
}
