<?php
/**
 * A push when a post is published: once a post, whatever happens to it later.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/** Whether a post is to be sent. */
const GODWIT_META_SEND = '_godwit_send';

/** The campaign that was started for a post; where it is, nothing is sent any more. */
const GODWIT_META_CAMPAIGN = '_godwit_campaign';

/** The campaign as it was first asked for, so that trying again asks for the same one. */
const GODWIT_META_REQUEST = '_godwit_request';

/** The campaign that was made for a post and may not have been started. */
const GODWIT_META_MADE = '_godwit_made';

/** Why a post was not sent so far. */
const GODWIT_META_ERROR = '_godwit_error';

/** How often it was tried. */
const GODWIT_META_TRIES = '_godwit_tries';

/** Times that it is tried by itself; saving the post tries again at once. */
const GODWIT_MOST_TRIES = 5;

/** Characters of a message. */
const GODWIT_MOST_TITLE = 200;
const GODWIT_MOST_WORDS = 40;

/**
 * Runs after a post and all that belongs to it was stored, also when the time of a scheduled one has come.
 *
 * @param int     $post_id The post.
 * @param WP_Post $post    The same.
 */
function godwit_after_insert_post( $post_id, $post ) {
	if ( wp_is_post_revision( $post_id ) || wp_is_post_autosave( $post_id ) || 'publish' !== $post->post_status ) {
		return;
	}
	godwit_send_post( $post_id );
}

/**
 * Sends a post if it is to be sent and was not. Nothing that goes wrong here keeps it from being published.
 *
 * @param int $post_id The post.
 */
function godwit_send_post( $post_id ) {
	try {
		$post = get_post( $post_id );
		if ( ! $post || 'publish' !== $post->post_status || '' !== (string) $post->post_password ) {
			return;
		}
		$settings = godwit_settings();
		$wanted   = in_array( $post->post_type, $settings['post_types'], true ) && get_post_meta( $post_id, GODWIT_META_SEND, true );
		if ( ! $wanted || '' !== (string) get_post_meta( $post_id, GODWIT_META_CAMPAIGN, true ) ) {
			return;
		}
		$campaign = godwit_start_campaign( $post_id );
		if ( is_wp_error( $campaign ) ) {
			godwit_not_sent( $post_id, $campaign->get_error_message() );
			return;
		}
		update_post_meta( $post_id, GODWIT_META_CAMPAIGN, $campaign );
		delete_post_meta( $post_id, GODWIT_META_MADE );
		delete_post_meta( $post_id, GODWIT_META_ERROR );
		delete_post_meta( $post_id, GODWIT_META_REQUEST );
		delete_post_meta( $post_id, GODWIT_META_TRIES );
	} catch ( Throwable $e ) {
		godwit_not_sent( $post_id, $e->getMessage() );
	}
}

/**
 * Makes the post's campaign and starts it. The name it is asked for by is derived from the post, so that two saves at once, and tries
 * whose answer was lost, come to the same campaign.
 *
 * @param int $post_id The post.
 * @return string|WP_Error Its id.
 */
function godwit_start_campaign( $post_id ) {
	$id = (string) get_post_meta( $post_id, GODWIT_META_MADE, true );
	if ( '' === $id ) {
		$id = godwit_make_campaign( $post_id );
		if ( is_wp_error( $id ) ) {
			return $id;
		}
		update_post_meta( $post_id, GODWIT_META_MADE, $id );
	}
	if ( godwit_has_begun( $id ) ) {
		return $id; // by a try whose answer was lost.
	}
	$started = godwit_call( 'POST', '/v1/campaigns/' . $id . '/start', '{}' );
	$data    = is_wp_error( $started ) ? $started->get_error_data() : array();
	if ( is_wp_error( $started ) && ! ( is_array( $data ) && isset( $data['status'] ) && 409 === $data['status'] && godwit_has_begun( $id ) ) ) {
		return $started;
	}
	return $id;
}

/**
 * Makes the post's campaign, which is a draft.
 *
 * @param int $post_id The post.
 * @return string|WP_Error Its id.
 */
function godwit_make_campaign( $post_id ) {
	$request = (string) get_post_meta( $post_id, GODWIT_META_REQUEST, true );
	if ( '' === $request ) {
		$request = (string) wp_json_encode( godwit_campaign_of( $post_id ) );
		// What is stored loses one layer of slashes.
		add_post_meta( $post_id, GODWIT_META_REQUEST, wp_slash( $request ), true );
	}
	$name = 'wordpress-' . substr( hash( 'sha256', home_url( '/' ) ), 0, 16 ) . '-' . $post_id;
	$made = godwit_call( 'POST', '/v1/campaigns', $request, array( 'Idempotency-Key' => $name ) );
	if ( is_wp_error( $made ) ) {
		return $made;
	}
	$id = isset( $made['id'] ) ? (string) $made['id'] : '';
	if ( ! preg_match( '/^[0-9A-Za-z]{1,64}$/', $id ) ) {
		return new WP_Error( 'godwit_answer', __( 'The server answered without the campaign\'s id. Is the address that of a Godwit server?', 'godwit' ) );
	}
	return $id;
}

/**
 * Whether a campaign has been started, by somebody else at the same time.
 *
 * @param string $id The campaign.
 * @return bool
 */
function godwit_has_begun( $id ) {
	$campaign = godwit_call( 'GET', '/v1/campaigns/' . $id );
	return is_array( $campaign ) && isset( $campaign['state'] ) && 'draft' !== $campaign['state'];
}

/**
 * What is sent of a post.
 *
 * @param int $post_id The post.
 * @return array
 */
function godwit_campaign_of( $post_id ) {
	$settings = godwit_settings();
	$post     = get_post( $post_id );
	$content  = array( 'title' => godwit_plain( get_the_title( $post ), GODWIT_MOST_TITLE ) );
	$text     = has_excerpt( $post ) ? $post->post_excerpt : strip_shortcodes( $post->post_content );
	$body     = godwit_plain( wp_trim_words( $text, GODWIT_MOST_WORDS ), 2 * GODWIT_MOST_TITLE );
	$fields   = array(
		'body'  => $body,
		'url'   => get_permalink( $post ),
		'icon'  => get_site_icon_url( 192 ),
		'image' => get_the_post_thumbnail_url( $post, 'large' ),
	);
	foreach ( $fields as $name => $value ) {
		if ( is_string( $value ) && '' !== $value ) {
			$content[ $name ] = $value;
		}
	}
	if ( '' === $content['title'] ) {
		$content['title'] = godwit_plain( get_bloginfo( 'name' ), GODWIT_MOST_TITLE );
	}
	$audience = array( 'channels' => array( 'webpush' ) );
	$tags     = godwit_words( $settings['audience'] );
	if ( array() !== $tags ) {
		$audience['tags_any'] = $tags;
	}
	return array(
		'name'     => 'WordPress ' . $post_id . ': ' . $content['title'],
		'content'  => $content,
		'audience' => $audience,
	);
}

/**
 * Text without markup. Two braces would be a place for an attribute of the subscriber: they are set apart.
 *
 * @param string $html The text as WordPress has it.
 * @param int    $most Characters that are kept.
 * @return string
 */
function godwit_plain( $html, $most ) {
	$text = html_entity_decode( wp_strip_all_tags( (string) $html, true ), ENT_QUOTES | ENT_HTML5, 'UTF-8' );
	$text = trim( str_replace( '{{', '{ {', $text ) );
	return preg_match( '/^.{0,' . (int) $most . '}/us', $text, $found ) ? $found[0] : '';
}

/**
 * Notes that a post was not sent, and tries again later.
 *
 * @param int    $post_id The post.
 * @param string $why     What went wrong.
 */
function godwit_not_sent( $post_id, $why ) {
	$tries = (int) get_post_meta( $post_id, GODWIT_META_TRIES, true ) + 1;
	update_post_meta( $post_id, GODWIT_META_TRIES, $tries );
	update_post_meta( $post_id, GODWIT_META_ERROR, sanitize_text_field( $why ) );
	/* translators: 1: number of the post, 2: what went wrong */
	godwit_log( sprintf( __( 'post %1$d was not sent: %2$s', 'godwit' ), $post_id, $why ) );
	if ( $tries < GODWIT_MOST_TRIES && ! wp_next_scheduled( 'godwit_retry', array( $post_id ) ) ) {
		wp_schedule_single_event( time() + 60 * ( 1 << $tries ), 'godwit_retry', array( $post_id ) );
	}
}
