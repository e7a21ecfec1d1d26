<?php
/**
 * The site owner's settings, and their checks.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/** Name of the option that holds all settings. */
const GODWIT_OPTION = 'godwit_settings';

/** The texts of the prompt by the names of their settings: the attribute of the script element, and the name that Perfecty Push has for it. */
const GODWIT_TEXTS = array(
	'title'    => array( 'data-title', 'dialog_title' ),
	'accept'   => array( 'data-text-accept', 'dialog_submit' ),
	'later'    => array( 'data-text-later', 'dialog_cancel' ),
	'settings' => array( 'data-text-settings', 'settings_title' ),
	'opt_in'   => array( 'data-text-opt-in', 'settings_opt_in' ),
	'failed'   => array( 'data-text-failed', 'settings_update_error' ),
);

/**
 * The settings as they are before anybody has set one.
 *
 * @return array
 */
function godwit_defaults() {
	return array(
		'server'     => '',
		'app'        => '',
		'key'        => '',
		'worker'     => 'file',
		'ask'        => 'dialog',
		'visits'     => 1,
		'bell'       => 'right',
		'hide_bell'  => false,
		'title'      => '',
		'accept'     => '',
		'later'      => '',
		'settings'   => '',
		'opt_in'     => '',
		'failed'     => '',
		'tags'       => '',
		'post_types' => array( 'post' ),
		'send'       => false,
		'audience'   => '',
	);
}

/**
 * All settings.
 *
 * @return array
 */
function godwit_settings() {
	$stored   = get_option( GODWIT_OPTION, array() );
	$settings = array_merge( godwit_defaults(), is_array( $stored ) ? $stored : array() );
	if ( defined( 'GODWIT_API_KEY' ) ) {
		$settings['key'] = (string) constant( 'GODWIT_API_KEY' );
	}
	return $settings;
}

/**
 * Makes what was posted safe to keep: what is none of the choices becomes the default.
 *
 * @param mixed $input What was posted.
 * @return array
 */
function godwit_sanitize_settings( $input ) {
	$input   = is_array( $input ) ? $input : array();
	$clean   = godwit_defaults();
	$stored  = get_option( GODWIT_OPTION, array() );
	$choices = array(
		'worker' => array( 'file', 'query' ),
		'ask'    => array( 'dialog', 'direct', 'none' ),
		'bell'   => array( 'right', 'left', 'none' ),
	);
	foreach ( $choices as $name => $allowed ) {
		if ( isset( $input[ $name ] ) && in_array( $input[ $name ], $allowed, true ) ) {
			$clean[ $name ] = $input[ $name ];
		}
	}
	foreach ( array_merge( array_keys( GODWIT_TEXTS ), array( 'tags', 'audience' ) ) as $name ) {
		if ( isset( $input[ $name ] ) && is_string( $input[ $name ] ) ) {
			$clean[ $name ] = sanitize_text_field( $input[ $name ] );
		}
	}
	if ( isset( $input['app'] ) && is_string( $input['app'] ) && preg_match( '/^[A-Za-z0-9._:@+-]{1,128}$/', trim( $input['app'] ) ) ) {
		$clean['app'] = trim( $input['app'] );
	}
	if ( isset( $input['server'] ) && is_string( $input['server'] ) ) {
		$clean['server'] = untrailingslashit( esc_url_raw( trim( $input['server'] ), array( 'https', 'http' ) ) );
	}
	$clean['visits']    = isset( $input['visits'] ) ? max( 0, min( 100, absint( $input['visits'] ) ) ) : 1;
	$clean['hide_bell'] = ! empty( $input['hide_bell'] );
	$clean['send']      = ! empty( $input['send'] );

	$types               = isset( $input['post_types'] ) && is_array( $input['post_types'] ) ? $input['post_types'] : array();
	$clean['post_types'] = array_values( array_intersect( godwit_post_types(), $types ) );

	// The key is never shown again: an empty field leaves it as it is.
	$clean['key'] = is_array( $stored ) && isset( $stored['key'] ) ? (string) $stored['key'] : '';
	if ( ! empty( $input['forget_key'] ) ) {
		$clean['key'] = '';
	} elseif ( isset( $input['key'] ) && is_string( $input['key'] ) && '' !== trim( $input['key'] ) ) {
		$clean['key'] = sanitize_text_field( $input['key'] );
	}
	return $clean;
}

/**
 * Types of posts that can be sent.
 *
 * @return string[]
 */
function godwit_post_types() {
	return array_values( array_diff( get_post_types( array( 'public' => true ) ), array( 'attachment' ) ) );
}

/**
 * Reads a list with commas.
 *
 * @param string $text The list.
 * @return string[]
 */
function godwit_words( $text ) {
	return array_values( array_filter( array_map( 'trim', explode( ',', (string) $text ) ), 'strlen' ) );
}
