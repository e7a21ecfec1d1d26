<?php
/**
 * The VAPID key that the site's subscribers belong to, brought along from another plug-in.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/**
 * Keys that plug-ins of this site have kept, by the name of each. Others add theirs by the filter.
 *
 * @return array Of arrays with "label", "public" and "private".
 */
function godwit_vapid_keys() {
	$keys     = array();
	$perfecty = get_option( 'perfecty_push', array() );
	if ( is_array( $perfecty ) && ! empty( $perfecty['vapid_private_key'] ) && is_string( $perfecty['vapid_private_key'] ) ) {
		$keys['perfecty'] = array(
			'label'   => 'Perfecty Push',
			'public'  => isset( $perfecty['vapid_public_key'] ) ? (string) $perfecty['vapid_public_key'] : '',
			'private' => $perfecty['vapid_private_key'],
		);
	}
	/**
	 * Filters the VAPID keys that can be brought along.
	 *
	 * @param array $keys Arrays with "label", "public" and "private", both base64url.
	 */
	return (array) apply_filters( 'godwit_vapid_keys', $keys );
}

/**
 * Gives the app of the Godwit server a VAPID key.
 *
 * @param array  $vapid Of godwit_vapid_keys.
 * @param string $key   API key of the role admin; empty: that of the settings.
 * @return true|WP_Error
 */
function godwit_import_vapid( $vapid, $key ) {
	$pair = array( 'privateKey' => (string) $vapid['private'] );
	if ( '' !== (string) $vapid['public'] ) {
		$pair['publicKey'] = (string) $vapid['public']; // the server compares them: a wrong key would cut off everybody.
	}
	$body = array( 'private_key' => (string) wp_json_encode( $pair ) );
	$mail = sanitize_email( (string) get_option( 'admin_email', '' ) );
	if ( '' !== $mail ) {
		$body['subject'] = 'mailto:' . $mail;
	}
	$answer = godwit_call( 'PUT', '/v1/channels/webpush', (string) wp_json_encode( $body ), array(), $key );
	return is_wp_error( $answer ) ? $answer : true;
}

/**
 * Takes the texts of Perfecty's prompt over where the site has none of its own yet.
 */
function godwit_import_texts() {
	$perfecty = get_option( 'perfecty_push', array() );
	$settings = get_option( GODWIT_OPTION, array() );
	$settings = is_array( $settings ) ? $settings : array();
	foreach ( GODWIT_TEXTS as $name => $text ) {
		if ( empty( $settings[ $name ] ) && is_array( $perfecty ) && isset( $perfecty[ $text[1] ] ) && is_string( $perfecty[ $text[1] ] ) ) {
			$settings[ $name ] = godwit_plain( $perfecty[ $text[1] ] );
		}
	}
	update_option( GODWIT_OPTION, $settings );
}

/**
 * Handles the form of the settings page. The key that it is done with is not kept.
 */
function godwit_import_submitted() {
	if ( ! current_user_can( 'manage_options' ) ) {
		wp_die( esc_html__( 'You may not do this.', 'godwit' ), '', array( 'response' => 403 ) );
	}
	check_admin_referer( 'godwit_import' );
	$source = isset( $_POST['source'] ) ? sanitize_key( wp_unslash( $_POST['source'] ) ) : '';
	$key    = isset( $_POST['admin_key'] ) ? sanitize_text_field( wp_unslash( $_POST['admin_key'] ) ) : '';
	$keys   = godwit_vapid_keys();
	$pasted = isset( $_POST['private'] ) ? sanitize_text_field( wp_unslash( $_POST['private'] ) ) : '';
	if ( '' !== $pasted ) {
		$keys[ $source ] = array(
			'public'  => '',
			'private' => $pasted,
		);
	}
	if ( empty( $_POST['sure'] ) ) {
		$done = new WP_Error( 'godwit_sure', __( 'Tick the box: another key cuts off those who have subscribed with the one before.', 'godwit' ) );
	} elseif ( ! isset( $keys[ $source ] ) ) {
		$done = new WP_Error( 'godwit_source', __( 'There is no key of that plug-in here. Paste the private key.', 'godwit' ) );
	} else {
		$done = godwit_import_vapid( $keys[ $source ], $key );
	}
	if ( true === $done && 'perfecty' === $source && '' === $pasted ) {
		godwit_import_texts();
	}
	$text = __( 'The VAPID key was brought along.', 'godwit' );
	if ( is_wp_error( $done ) ) {
		$text = $done->get_error_message();
		godwit_log( $text );
	}
	set_transient( 'godwit_import_' . get_current_user_id(), array( is_wp_error( $done ) ? 'error' : 'success', $text ), 60 );
	wp_safe_redirect( admin_url( 'options-general.php?page=godwit' ) );
	exit;
}
