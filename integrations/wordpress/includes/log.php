<?php
/**
 * Errors, kept where the site's owner finds them.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/** Name of the option with the last entries. */
const GODWIT_LOG = 'godwit_log';

/** Entries that are kept. */
const GODWIT_LOG_ENTRIES = 50;

/**
 * Writes a line to PHP's log and to the list on the settings page.
 *
 * @param string $text What happened.
 */
function godwit_log( $text ) {
	$text = sanitize_text_field( $text );
	error_log( 'Godwit: ' . $text ); // phpcs:ignore WordPress.PHP.DevelopmentFunctions.error_log_error_log -- the operator reads it there.
	$log = get_option( GODWIT_LOG, array() );
	$log = is_array( $log ) ? $log : array();
	array_unshift(
		$log,
		array(
			'at'   => time(),
			'text' => $text,
		)
	);
	update_option( GODWIT_LOG, array_slice( $log, 0, GODWIT_LOG_ENTRIES ), false );
}
