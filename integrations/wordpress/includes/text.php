<?php
/**
 * A post's words as a notification says them.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/** Characters of a title, and of a text. */
const GODWIT_MOST_TITLE = 200;
const GODWIT_MOST_TEXT  = 400;

/** Words of a text. */
const GODWIT_MOST_WORDS = 40;

/** Bytes of a title: 200 characters of most scripts. */
const GODWIT_MOST_TITLE_BYTES = 600;

/** Bytes of a campaign's name: a server of an earlier version counts bytes. */
const GODWIT_MOST_NAME_BYTES = 200;

/** Bytes of title, text and addresses together. A push message has 4,096 on every browser, and the server adds tokens. */
const GODWIT_MOST_MESSAGE_BYTES = 2400;

/**
 * Text without markup. Two braces in a row would begin a variable of the server's templates, so a space parts them.
 *
 * @param string $html The text as WordPress has it.
 * @return string
 */
function godwit_plain( $html ) {
	// Invalid UTF-8 would make the expressions below fail: a replacement character takes its place.
	$html = html_entity_decode( htmlspecialchars( (string) $html, ENT_QUOTES | ENT_SUBSTITUTE, 'UTF-8' ), ENT_QUOTES, 'UTF-8' );
	$text = html_entity_decode( wp_strip_all_tags( $html, true ), ENT_QUOTES | ENT_HTML5, 'UTF-8' );
	$text = preg_replace( '/\p{Cc}+/u', ' ', $text );
	return trim( preg_replace( '/\{(?=\{)/', '{ ', $text ) );
}

/** A character as a reader sees it: a flag, or a code point with its marks and with what is joined to it. PHP's \X takes emoji in a row for one. */
const GODWIT_CHARACTER = '/[\x{1F1E6}-\x{1F1FF}]{2}|.(?:\p{M}|[\x{200C}\x{1F3FB}-\x{1F3FF}\x{E0020}-\x{E007F}]|\x{200D}.?)*/us';

/**
 * The beginning of a text, which ends between two characters as a reader sees them: an emoji of several code points and a letter with
 * its marks stay whole, where they fit at all.
 *
 * @param string $text  Plain text.
 * @param int    $chars Code points that are kept, as the server counts them.
 * @param int    $bytes Bytes that are kept.
 * @return string
 */
function godwit_cut( $text, $chars, $bytes ) {
	if ( strlen( $text ) <= $bytes && godwit_length( $text ) <= $chars ) {
		return $text;
	}
	// One more than is kept: it tells whether the last character ends there.
	preg_match( '/^.{0,' . ( $chars + 1 ) . '}/us', $text, $found );
	foreach ( array( GODWIT_CHARACTER, '/./us' ) as $part ) {
		preg_match_all( $part, $found[0], $all );
		$kept = '';
		foreach ( $all[0] as $next ) {
			if ( strlen( $kept . $next ) > $bytes || godwit_length( $kept . $next ) > $chars ) {
				break;
			}
			$kept .= $next;
		}
		if ( '' !== $kept ) {
			break;
		}
	}
	return rtrim( $kept );
}

/**
 * Code points of a text.
 *
 * @param string $text Plain text.
 * @return int
 */
function godwit_length( $text ) {
	return (int) preg_match_all( '/./us', $text );
}

/**
 * An address as the server takes it. Themes and plug-ins hand addresses over with entities, as esc_url writes them for a page; braces would
 * begin a variable.
 *
 * @param mixed $url The address, or false.
 * @return string
 */
function godwit_address( $url ) {
	$url = is_string( $url ) ? html_entity_decode( trim( $url ), ENT_QUOTES | ENT_HTML401, 'UTF-8' ) : '';
	return str_replace( array( '{', '}', ' ' ), array( '%7B', '%7D', '%20' ), $url );
}

/**
 * The campaign of a post.
 *
 * @param int $post_id The post.
 * @return array
 */
function godwit_campaign_of( $post_id ) {
	$settings = godwit_settings();
	$post     = get_post( $post_id );
	$title    = godwit_plain( get_the_title( $post ) );
	$title    = godwit_cut( '' === $title ? godwit_plain( get_bloginfo( 'name' ) ) : $title, GODWIT_MOST_TITLE, GODWIT_MOST_TITLE_BYTES );
	$content  = array( 'title' => $title );
	$left     = GODWIT_MOST_MESSAGE_BYTES - strlen( $title );
	$urls     = array(
		'url'   => get_permalink( $post ),
		'icon'  => get_site_icon_url( 192 ),
		'image' => get_the_post_thumbnail_url( $post, 'large' ),
	);
	foreach ( $urls as $name => $value ) {
		$value = godwit_address( $value );
		$size  = strlen( $value ) * ( 'url' === $name ? 2 : 1 ); // a message says where it leads to twice.
		if ( '' !== $value && ( 'url' === $name || $size < $left / 2 ) ) {
			$content[ $name ] = $value;
			$left            -= $size;
		}
	}
	$text = has_excerpt( $post ) ? $post->post_excerpt : $post->post_content;
	$body = godwit_cut( godwit_plain( wp_trim_words( strip_shortcodes( $text ), GODWIT_MOST_WORDS ) ), GODWIT_MOST_TEXT, max( 0, $left ) );
	if ( '' !== $body ) {
		$content['body'] = $body;
	}
	$audience = array( 'channels' => array( 'webpush' ) );
	$tags     = godwit_words( $settings['audience'] );
	if ( array() !== $tags ) {
		$audience['tags_any'] = $tags;
	}
	return array(
		'name'     => godwit_cut( 'WordPress ' . $post_id . ': ' . $title, GODWIT_MOST_TITLE, GODWIT_MOST_NAME_BYTES ),
		'content'  => $content,
		'audience' => $audience,
	);
}
