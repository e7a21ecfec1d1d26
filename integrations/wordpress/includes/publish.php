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

/** The post that these marks were made for. Plug-ins that copy posts copy its marks too. */
const GODWIT_META_POST = '_godwit_post';

/** All marks of what became of a post. */
const GODWIT_MARKS = array( GODWIT_META_CAMPAIGN, GODWIT_META_REQUEST, GODWIT_META_MADE, GODWIT_META_ERROR, GODWIT_META_TRIES );

/** Times that it is tried by itself, within some eight hours; saving the post tries again at once. */
const GODWIT_MOST_TRIES = 9;

/** Name of the option that lists the posts that were not sent. */
const GODWIT_UNSENT = 'godwit_unsent';

/** Posts in that list: a notice shows no more. */
const GODWIT_MOST_UNSENT = 20;

/**
 * Runs after a post and all that belongs to it was stored, also when the time of a scheduled one has come.
 *
 * @param int          $post_id The post.
 * @param WP_Post      $post    The same.
 * @param bool         $update  Whether it was there before.
 * @param WP_Post|null $before  As it was before.
 */
function godwit_after_insert_post( $post_id, $post, $update = false, $before = null ) {
	if ( wp_is_post_revision( $post_id ) || wp_is_post_autosave( $post_id ) || 'publish' !== $post->post_status ) {
		return;
	}
	// A copy that was published already, by an import for example, is sent only if an editor asks for it.
	if ( $before && 'publish' === $before->post_status && godwit_is_copy( $post_id ) ) {
		return;
	}
	godwit_send_post( $post_id );
}

/**
 * Whether the marks of a post are those of the post that it was copied from.
 *
 * @param int $post_id The post.
 * @return bool
 */
function godwit_is_copy( $post_id ) {
	$of = (string) get_post_meta( $post_id, GODWIT_META_POST, true );
	if ( '' !== $of ) {
		return (string) $post_id !== $of;
	}
	// Earlier versions did not say whose the marks are. The campaign's name does.
	$id = (string) get_post_meta( $post_id, GODWIT_META_CAMPAIGN, true );
	if ( '' === $id ) {
		$id = (string) get_post_meta( $post_id, GODWIT_META_MADE, true );
	}
	if ( '' === $id ) {
		return false;
	}
	$campaign = godwit_call( 'GET', '/v1/campaigns/' . rawurlencode( $id ) );
	if ( is_wp_error( $campaign ) ) {
		return false; // without an answer nothing may be sent twice.
	}
	$of = isset( $campaign['name'] ) && preg_match( '/^WordPress (\d+):/', (string) $campaign['name'], $found ) ? $found[1] : (string) $post_id;
	update_post_meta( $post_id, GODWIT_META_POST, $of );
	return (string) $post_id !== $of;
}

/**
 * Makes a post's marks its own: those of the post that it was copied from are taken off.
 *
 * @param int $post_id The post.
 */
function godwit_own_marks( $post_id ) {
	if ( godwit_is_copy( $post_id ) ) {
		foreach ( GODWIT_MARKS as $key ) {
			delete_post_meta( $post_id, $key );
		}
	}
	update_post_meta( $post_id, GODWIT_META_POST, (string) $post_id );
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
		if ( ! in_array( $post->post_type, $settings['post_types'], true ) || ! get_post_meta( $post_id, GODWIT_META_SEND, true ) ) {
			return;
		}
		godwit_own_marks( $post_id );
		if ( '' !== (string) get_post_meta( $post_id, GODWIT_META_CAMPAIGN, true ) ) {
			return;
		}
		godwit_try_later( $post_id ); // also where PHP is ended before the server has answered.
		$campaign = godwit_start_campaign( $post_id );
		if ( is_wp_error( $campaign ) ) {
			godwit_not_sent( $post_id, $campaign );
			return;
		}
		update_post_meta( $post_id, GODWIT_META_CAMPAIGN, $campaign );
		delete_post_meta( $post_id, GODWIT_META_MADE );
		delete_post_meta( $post_id, GODWIT_META_REQUEST );
		godwit_no_more_tries( $post_id );
	} catch ( Throwable $e ) {
		godwit_not_sent( $post_id, new WP_Error( 'godwit_failed', $e->getMessage() ) );
	}
}

/**
 * Ends the tries of a post that was sent, or is not to be sent any more.
 *
 * @param int $post_id The post.
 */
function godwit_no_more_tries( $post_id ) {
	delete_post_meta( $post_id, GODWIT_META_ERROR );
	delete_post_meta( $post_id, GODWIT_META_TRIES );
	wp_clear_scheduled_hook( 'godwit_retry', array( $post_id ) );
	godwit_note_unsent( $post_id, '' );
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
		// WordPress removes one layer of slashes as it stores a value.
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
 * Notes that a post was not sent; it is tried again later.
 *
 * @param int      $post_id The post.
 * @param WP_Error $error   What went wrong.
 */
function godwit_not_sent( $post_id, $error ) {
	$why  = $error->get_error_message();
	$data = $error->get_error_data();
	// What the server will not take is made anew, for the editor may have changed the post.
	if ( is_array( $data ) && isset( $data['status'] ) && in_array( $data['status'], array( 400, 413 ), true ) ) {
		delete_post_meta( $post_id, GODWIT_META_REQUEST );
	}
	update_post_meta( $post_id, GODWIT_META_ERROR, wp_slash( sanitize_text_field( $why ) ) );
	godwit_note_unsent( $post_id, $why );
	/* translators: 1: number of the post, 2: what went wrong */
	godwit_log( sprintf( __( 'post %1$d was not sent: %2$s', 'godwit' ), $post_id, $why ) );
}

/**
 * Sees to it that a post is tried again: after two minutes, four, eight and so on.
 *
 * @param int $post_id The post.
 */
function godwit_try_later( $post_id ) {
	if ( wp_next_scheduled( 'godwit_retry', array( $post_id ) ) ) {
		return;
	}
	$tries = (int) get_post_meta( $post_id, GODWIT_META_TRIES, true ) + 1;
	update_post_meta( $post_id, GODWIT_META_TRIES, $tries );
	if ( $tries < GODWIT_MOST_TRIES ) {
		wp_schedule_single_event( time() + 60 * ( 1 << $tries ), 'godwit_retry', array( $post_id ) );
	}
}

/**
 * Keeps the list of the posts that were not sent, which editors are shown.
 *
 * @param int    $post_id The post.
 * @param string $why     What went wrong; empty: the post leaves the list.
 */
function godwit_note_unsent( $post_id, $why ) {
	$before = get_option( GODWIT_UNSENT, array() );
	$list   = is_array( $before ) ? $before : array();
	unset( $list[ $post_id ] );
	if ( '' !== $why ) {
		$list[ $post_id ] = sanitize_text_field( $why );
	}
	if ( $list !== $before ) {
		update_option( GODWIT_UNSENT, array_slice( $list, -GODWIT_MOST_UNSENT, null, true ), false );
	}
}
