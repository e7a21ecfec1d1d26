<?php
/**
 * The box in the editor.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/**
 * Lets other programs say over WordPress' own API that a post is to be sent, if they may edit it.
 */
function godwit_register_meta() {
	$settings = godwit_settings();
	foreach ( $settings['post_types'] as $type ) {
		register_post_meta(
			$type,
			GODWIT_META_SEND,
			array(
				'type'          => 'boolean',
				'single'        => true,
				'show_in_rest'  => true,
				'auth_callback' => 'godwit_may_edit_meta',
			)
		);
	}
}

/**
 * Whether somebody may say that a post is to be sent.
 *
 * @param bool   $allowed What WordPress would say.
 * @param string $key     Name of the meta field.
 * @param int    $post_id The post.
 * @return bool
 */
function godwit_may_edit_meta( $allowed, $key, $post_id ) {
	return current_user_can( 'edit_post', $post_id ) && current_user_can( 'publish_posts' );
}

/**
 * Adds the box for the types that are chosen.
 *
 * @param string $type Type of the post.
 */
function godwit_add_meta_box( $type ) {
	$settings = godwit_settings();
	if ( in_array( $type, $settings['post_types'], true ) && current_user_can( 'publish_posts' ) ) {
		add_meta_box( 'godwit', __( 'Godwit', 'godwit' ), 'godwit_meta_box', $type, 'side' );
	}
}

/**
 * Draws the box.
 *
 * @param WP_Post $post The post.
 */
function godwit_meta_box( $post ) {
	$settings = godwit_settings();
	$copy     = godwit_is_copy( $post->ID );
	$stored   = $copy ? '' : get_post_meta( $post->ID, GODWIT_META_SEND, true );
	$error    = $copy ? '' : (string) get_post_meta( $post->ID, GODWIT_META_ERROR, true );
	if ( ! $copy && '' !== (string) get_post_meta( $post->ID, GODWIT_META_CAMPAIGN, true ) ) {
		echo '<p>' . esc_html__( 'Sent. It is not sent again.', 'godwit' ) . '</p>';
		return;
	}
	wp_nonce_field( 'godwit_send_' . $post->ID, 'godwit_nonce' );
	// Saving a post that was published before is no reason to send it.
	$on = '' === $stored ? $settings['send'] && 'publish' !== $post->post_status : (bool) $stored;
	printf( '<label><input type="checkbox" name="godwit_send" value="1"%1$s> %2$s</label>', checked( $on, true, false ), esc_html__( 'Send to subscribers when it is published', 'godwit' ) );
	if ( '' !== (string) $post->post_password ) {
		echo '<p>' . esc_html__( 'A post with a password is not sent.', 'godwit' ) . '</p>';
	}
	if ( '' !== $error ) {
		/* translators: %s: what went wrong */
		echo '<p>' . esc_html( sprintf( __( 'Not sent: %s', 'godwit' ), $error ) ) . '</p>';
	}
}

/**
 * Keeps what was ticked. It is sent once everything is stored: see godwit_after_insert_post.
 *
 * @param int $post_id The post.
 */
function godwit_save_meta_box( $post_id ) {
	if ( ! isset( $_POST['godwit_nonce'] ) || wp_is_post_revision( $post_id ) || wp_is_post_autosave( $post_id ) ) {
		return;
	}
	if ( ! wp_verify_nonce( sanitize_key( wp_unslash( $_POST['godwit_nonce'] ) ), 'godwit_send_' . $post_id ) || ! godwit_may_edit_meta( false, GODWIT_META_SEND, $post_id ) ) {
		return;
	}
	godwit_own_marks( $post_id );
	update_post_meta( $post_id, GODWIT_META_SEND, empty( $_POST['godwit_send'] ) ? '0' : '1' );
	godwit_no_more_tries( $post_id ); // they begin anew, if it is to be sent.
}

/**
 * Says that a post was not sent: on the page of the post, and for all of them on the dashboard and the lists of posts, since the
 * block editor shows no notices.
 */
function godwit_post_notice() {
	$screen = get_current_screen();
	if ( ! $screen ) {
		return;
	}
	if ( 'post' === $screen->base ) {
		$post = get_post();
		if ( $post && current_user_can( 'edit_post', $post->ID ) && ! godwit_is_copy( $post->ID ) ) {
			godwit_print_notice( (string) get_post_meta( $post->ID, GODWIT_META_ERROR, true ), '' );
		}
		return;
	}
	$list = get_option( GODWIT_UNSENT, array() );
	if ( ! in_array( $screen->base, array( 'dashboard', 'edit' ), true ) || ! is_array( $list ) ) {
		return;
	}
	foreach ( $list as $post_id => $why ) {
		$post = get_post( $post_id );
		if ( $post && 'publish' === $post->post_status && current_user_can( 'edit_post', $post_id ) ) {
			godwit_print_notice( (string) $why, godwit_plain( get_the_title( $post ) ) );
		}
	}
}

/**
 * Draws a notice.
 *
 * @param string $why   What went wrong; empty: nothing is drawn.
 * @param string $title Of the post; empty: the one that is looked at.
 */
function godwit_print_notice( $why, $title ) {
	if ( '' === $why ) {
		return;
	}
	/* translators: %s: what went wrong */
	$text = sprintf( __( 'Godwit has not sent this post: %s Save it to try again.', 'godwit' ), $why );
	if ( '' !== $title ) {
		/* translators: 1: title of the post, 2: what went wrong */
		$text = sprintf( __( 'Godwit has not sent "%1$s": %2$s Save it to try again.', 'godwit' ), $title, $why );
	}
	printf( '<div class="notice notice-error"><p>%s</p></div>', esc_html( $text ) );
}
