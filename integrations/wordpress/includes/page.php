<?php
/**
 * The service worker and the script element for visitors' browsers.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/** The worker's file at the root of the site. */
const GODWIT_WORKER_FILE = 'godwit-sw.js';

/** The folder that is its scope. No page lies there, so it takes over none, and another worker keeps its own scope. */
const GODWIT_SCOPE = 'godwit/';

/** The worker as a query, for sites whose web server answers for files itself. */
const GODWIT_WORKER_QUERY = 'godwit-worker';

/**
 * Where the worker is.
 *
 * @return string
 */
function godwit_worker_url() {
	$settings = godwit_settings();
	return 'query' === $settings['worker'] ? add_query_arg( GODWIT_WORKER_QUERY, '1', home_url( '/' ) ) : home_url( '/' . GODWIT_WORKER_FILE );
}

/**
 * The worker's text, or nothing where there is no server yet.
 *
 * @return string
 */
function godwit_worker_text() {
	$settings = godwit_settings();
	if ( '' === $settings['server'] ) {
		return '';
	}
	return 'importScripts(' . wp_json_encode( $settings['server'] . '/sdk/sw.js', JSON_UNESCAPED_SLASHES | JSON_HEX_TAG ) . ");\n";
}

/**
 * Answers requests for the worker. Nothing but its own address is looked at; no header widens its scope.
 */
function godwit_serve_worker() {
	$uri  = isset( $_SERVER['REQUEST_URI'] ) ? esc_url_raw( wp_unslash( $_SERVER['REQUEST_URI'] ) ) : '';
	$path = (string) wp_parse_url( $uri, PHP_URL_PATH );
	$root = (string) wp_parse_url( home_url( '/' ), PHP_URL_PATH );
	// phpcs:ignore WordPress.Security.NonceVerification.Recommended -- it is read by everybody and changes nothing.
	$asked = $root . GODWIT_WORKER_FILE === $path || ( $root === $path && isset( $_GET[ GODWIT_WORKER_QUERY ] ) );
	if ( ! $asked ) {
		return;
	}
	$text = godwit_worker_text();
	if ( '' === $text ) {
		status_header( 404 );
		exit;
	}
	status_header( 200 );
	nocache_headers();
	header( 'Content-Type: application/javascript; charset=utf-8' );
	header( 'X-Content-Type-Options: nosniff' );
	echo $text; // phpcs:ignore WordPress.Security.EscapeOutput.OutputNotEscaped -- JavaScript, made by wp_json_encode.
	exit;
}

/**
 * Brings the script to the pages.
 */
function godwit_enqueue_script() {
	$settings = godwit_settings();
	if ( '' === $settings['server'] || '' === $settings['app'] ) {
		return;
	}
	wp_enqueue_script( 'godwit', $settings['server'] . '/sdk/godwit.js', array(), null, true ); // phpcs:ignore WordPress.WP.EnqueuedResourceParameters.MissingVersion -- the server answers for its age.
}

/**
 * Writes the options into the script element.
 *
 * @param string $tag    The element.
 * @param string $handle Whose it is.
 * @return string
 */
function godwit_script_tag( $tag, $handle ) {
	if ( 'godwit' !== $handle ) {
		return $tag;
	}
	$written = '';
	foreach ( godwit_script_attributes() as $name => $value ) {
		$written .= sprintf( ' %s="%s"', $name, esc_attr( $value ) );
	}
	return str_replace( '<script ', '<script async' . $written . ' ', $tag );
}

/**
 * The options of the browser part, as attributes.
 *
 * @return array
 */
function godwit_script_attributes() {
	$settings = godwit_settings();
	$all      = array(
		'data-app'            => $settings['app'],
		'data-service-worker' => godwit_worker_url(),
		'data-scope'          => (string) wp_parse_url( home_url( '/' . GODWIT_SCOPE ), PHP_URL_PATH ),
		'data-ask'            => $settings['ask'],
		'data-visits'         => (string) $settings['visits'],
		'data-bell'           => $settings['bell'],
	);
	if ( $settings['hide_bell'] ) {
		$all['data-hide-bell'] = 'true';
	}
	foreach ( GODWIT_TEXTS as $name => $text ) {
		if ( '' !== $settings[ $name ] ) {
			$all[ $text[0] ] = $settings[ $name ];
		}
	}
	if ( '' !== $settings['settings'] ) {
		$all['data-text-bell'] = $settings['settings']; // the bell opens what the text is the title of.
	}
	if ( '' !== $settings['tags'] ) {
		$all['data-tags'] = $settings['tags'];
	}
	$icon = get_site_icon_url( 192 );
	if ( '' !== (string) $icon ) {
		$all['data-icon'] = $icon;
	}
	return $all;
}
