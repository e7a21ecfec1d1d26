<?php
/**
 * Calls of Godwit's HTTP API.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/** Seconds that a call may take: somebody waits for the page behind it. */
const GODWIT_TIMEOUT = 5;

/**
 * Calls the API and returns the decoded answer, or an error that says what was done, what the server said and what to do.
 * The key is in no error.
 *
 * @param string $method  GET, POST or PUT.
 * @param string $path    Path below the server's address.
 * @param string $body    JSON; empty: none.
 * @param array  $headers Further headers.
 * @param string $key     API key; empty: that of the settings.
 * @return array|WP_Error
 */
function godwit_call( $method, $path, $body = '', $headers = array(), $key = '' ) {
	$settings = godwit_settings();
	$key      = '' === $key ? $settings['key'] : $key;
	if ( '' === $settings['server'] || '' === $key ) {
		return new WP_Error( 'godwit_setup', __( 'Godwit is not set up: give the server and an API key under Settings, Godwit.', 'godwit' ) );
	}
	$args = array(
		'method'      => $method,
		'timeout'     => GODWIT_TIMEOUT,
		'redirection' => 0,
		'headers'     => array_merge(
			$headers,
			array(
				'Authorization' => 'Bearer ' . $key,
				'Content-Type'  => 'application/json',
			)
		),
	);
	if ( '' !== $body ) {
		$args['body'] = $body;
	}
	$answer = wp_remote_request( $settings['server'] . $path, $args );
	if ( is_wp_error( $answer ) ) {
		/* translators: 1: address of the server, 2: what went wrong */
		return new WP_Error( 'godwit_server', sprintf( __( '%1$s does not answer (%2$s). Is it up, and may this site reach it?', 'godwit' ), $settings['server'], $answer->get_error_message() ) );
	}
	$status  = (int) wp_remote_retrieve_response_code( $answer );
	$decoded = json_decode( (string) wp_remote_retrieve_body( $answer ), true );
	$decoded = is_array( $decoded ) ? $decoded : array();
	if ( $status >= 200 && $status < 300 ) {
		return $decoded;
	}
	$detail = isset( $decoded['detail'] ) && is_string( $decoded['detail'] ) ? $decoded['detail'] : '';
	if ( 401 === $status ) {
		$detail = __( 'the API key is not known. Make one with: godwit key create --role publish', 'godwit' );
	}
	/* translators: 1: HTTP method and path, 2: status, 3: what the server said */
	return new WP_Error( 'godwit_refused', sprintf( __( '%1$s was answered with %2$d: %3$s', 'godwit' ), $method . ' ' . $path, $status, $detail ), array( 'status' => $status ) );
}
