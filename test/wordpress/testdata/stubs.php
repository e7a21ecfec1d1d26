<?php
// The parts of WordPress that the plug-in uses, in memory, as little as it needs: options, posts, hooks, forms. Calls are
// written down in $GLOBALS['wp']. Requests to the server are real.

define( 'ABSPATH', '/' );
$GLOBALS['wp'] = array(
	'options' => array( 'admin_email' => 'owner@example.org' ), 'meta' => array(), 'posts' => array(), 'hooks' => array(), 'scripts' => array(), 'transients' => array(),
	'can' => array(), 'user' => 1, 'scheduled' => array(), 'boxes' => array(), 'registered' => array(), 'status' => 0, 'redirect' => '', 'screen' => null, 'post' => 0, 'requests' => array(),
);

class Stop extends Exception {}
class WP_Post {
	public $ID, $post_type = 'post', $post_status = 'draft', $post_title = '', $post_content = '', $post_excerpt = '', $post_password = '', $thumbnail = '', $link = '';
}
class WP_Error {
	private $code, $message, $data;
	public function __construct( $code, $message, $data = '' ) { $this->code = $code; $this->message = $message; $this->data = $data; }
	public function get_error_message() { return $this->message; }
	public function get_error_data() { return $this->data; }
}
function is_wp_error( $x ) { return $x instanceof WP_Error; }

// Hooks.
function add_action( $name, $do, $priority = 10, $args = 1 ) { $GLOBALS['wp']['hooks'][ $name ][ $priority ][] = array( $do, $args ); }
function add_filter( $name, $do, $priority = 10, $args = 1 ) { add_action( $name, $do, $priority, $args ); }
function apply_filters( $name, $value, ...$more ) {
	$by = $GLOBALS['wp']['hooks'][ $name ] ?? array();
	ksort( $by );
	foreach ( $by as $list ) {
		foreach ( $list as list( $do, $n ) ) { $value = $do( ...array_slice( array( $value, ...$more ), 0, $n ) ); }
	}
	return $value;
}
function do_action( $name, ...$args ) { apply_filters( $name, ...( $args ? $args : array( null ) ) ); }
function register_deactivation_hook( $file, $do ) { add_action( 'deactivate', $do, 10, 0 ); }

// Options, transients, meta.
function get_option( $name, $default = false ) { return $GLOBALS['wp']['options'][ $name ] ?? $default; }
function update_option( $name, $value, $autoload = null ) { $GLOBALS['wp']['options'][ $name ] = $value; }
function delete_option( $name ) { unset( $GLOBALS['wp']['options'][ $name ] ); }
function get_transient( $name ) { return $GLOBALS['wp']['transients'][ $name ] ?? false; }
function set_transient( $name, $value, $seconds ) { $GLOBALS['wp']['transients'][ $name ] = $value; }
function delete_transient( $name ) { unset( $GLOBALS['wp']['transients'][ $name ] ); }
function get_post_meta( $id, $key, $single ) { return $GLOBALS['wp']['meta'][ $id ][ $key ] ?? ''; }
function update_post_meta( $id, $key, $value ) { $GLOBALS['wp']['meta'][ $id ][ $key ] = stripslashes( (string) $value ); }
function add_post_meta( $id, $key, $value, $unique ) {
	if ( isset( $GLOBALS['wp']['meta'][ $id ][ $key ] ) ) { return false; }
	update_post_meta( $id, $key, $value );
	return true;
}
function delete_post_meta( $id, $key ) { unset( $GLOBALS['wp']['meta'][ $id ][ $key ] ); }
function delete_post_meta_by_key( $key ) {
	foreach ( array_keys( $GLOBALS['wp']['meta'] ) as $id ) { unset( $GLOBALS['wp']['meta'][ $id ][ $key ] ); }
	$GLOBALS['wp']['meta'] = array_filter( $GLOBALS['wp']['meta'] );
}
function register_post_meta( $type, $key, $args ) { $GLOBALS['wp']['registered'][ $type ][ $key ] = $args; }
function register_setting( $group, $name, $args ) { $GLOBALS['wp']['settings'][ $group ][ $name ] = $args; }

// Posts.
function get_post( $id = null ) {
	if ( $id instanceof WP_Post ) { return $id; }
	return $GLOBALS['wp']['posts'][ $id ?? $GLOBALS['wp']['post'] ] ?? null;
}
function get_post_types( $args ) { return array( 'post' => 'post', 'page' => 'page', 'attachment' => 'attachment' ); }
function wp_is_post_revision( $id ) { return false; }
function wp_is_post_autosave( $id ) { return false; }
function get_the_title( $post ) { return str_replace( "'", '&#8217;', $post->post_title ); } // as WordPress sets apostrophes
function has_excerpt( $post ) { return '' !== $post->post_excerpt; }
function get_permalink( $post ) { return '' === $post->link ? home_url( '/?p=' . $post->ID ) : $post->link; }
function get_the_post_thumbnail_url( $post, $size ) { return '' === $post->thumbnail ? false : $post->thumbnail; }
function strip_shortcodes( $text ) { return preg_replace( '/\[[^\]]*\]/', '', $text ); }
function wp_trim_words( $text, $n ) {
	$words = preg_split( '/\s+/', wp_strip_all_tags( $text ), -1, PREG_SPLIT_NO_EMPTY );
	return count( $words ) > $n ? implode( ' ', array_slice( $words, 0, $n ) ) . '&hellip;' : implode( ' ', $words );
}
function wp_strip_all_tags( $text, $breaks = false ) {
	$text = strip_tags( preg_replace( '@<(script|style)[^>]*?>.*?</\\1>@si', '', $text ) );
	return trim( $breaks ? preg_replace( '/[\r\n\t ]+/', ' ', $text ) : $text );
}
function get_bloginfo( $what ) { return 'The Daily Tide'; }
function get_site_icon_url( $size ) { return 'https://site.example/icon.png'; }

// Addresses.
function home_url( $path = '' ) { return 'https://site.example/blog' . $path; }
function admin_url( $path = '' ) { return home_url( '/wp-admin/' . $path ); }
function add_query_arg( $name, $value, $url ) { return $url . '?' . $name . '=' . $value; }
function untrailingslashit( $s ) { return rtrim( $s, '/' ); }
function wp_parse_url( $url, $part ) { return parse_url( $url, $part ); }

// Escaping and cleaning.
function esc_html( $s ) { return htmlspecialchars( (string) $s, ENT_QUOTES ); }
function esc_attr( $s ) { return htmlspecialchars( (string) $s, ENT_QUOTES ); }
function esc_url( $s ) { return htmlspecialchars( esc_url_raw( $s ), ENT_QUOTES ); }
function esc_url_raw( $s, $protocols = null ) {
	$s = preg_replace( '/[^a-z0-9\-~+_.?#=!&;,\/:%@$|*\'()\[\]\x80-\xff]/i', '', (string) $s );
	return preg_match( '/^([a-z]+):/i', $s, $m ) && ! in_array( strtolower( $m[1] ), $protocols ?? array( 'http', 'https' ), true ) ? '' : $s;
}
function sanitize_text_field( $s ) { return trim( preg_replace( '/[\r\n\t ]+/', ' ', strip_tags( (string) $s ) ) ); }
function sanitize_key( $s ) { return preg_replace( '/[^a-z0-9_\-]/', '', strtolower( (string) $s ) ); }
function sanitize_email( $s ) { return filter_var( $s, FILTER_VALIDATE_EMAIL ) ? $s : ''; }
function absint( $n ) { return abs( (int) $n ); }
function wp_unslash( $s ) { return is_string( $s ) ? stripslashes( $s ) : $s; }
function wp_slash( $s ) { return addslashes( $s ); }
function wp_json_encode( $x, $flags = 0 ) { return json_encode( $x, $flags ); }
function __( $s, $domain ) { return $s; }
function esc_html__( $s, $domain ) { return esc_html( $s ); }
function wp_date( $format, $at ) { return gmdate( $format, $at ); }

// Pages and forms.
function checked( $a, $b, $echo ) { return $a === $b ? ' checked' : ''; }
function selected( $a, $b, $echo ) { return $a === $b ? ' selected' : ''; }
function disabled( $a, $b, $echo ) { return $a === $b ? ' disabled' : ''; }
function current_user_can( $what, $id = 0 ) { return in_array( $what, $GLOBALS['wp']['can'], true ); }
function get_current_user_id() { return $GLOBALS['wp']['user']; }
function get_current_screen() { return $GLOBALS['wp']['screen']; }
function wp_nonce( $action ) { return substr( md5( 'secret' . $action . get_current_user_id() ), 0, 10 ); }
function wp_nonce_field( $action, $name = '_wpnonce' ) { echo '<input type="hidden" name="' . $name . '" value="' . wp_nonce( $action ) . '">'; }
function wp_verify_nonce( $nonce, $action ) { return wp_nonce( $action ) === $nonce; }
function check_admin_referer( $action ) { if ( ! wp_verify_nonce( $_POST['_wpnonce'] ?? '', $action ) ) { wp_die( 'nonce' ); } }
function settings_fields( $group ) { wp_nonce_field( $group . '-options' ); }
function submit_button( $text = 'Save', $kind = 'primary' ) { echo '<button>' . esc_html( $text ) . '</button>'; }
function add_options_page( $title, $menu, $capability, $slug, $do ) { $GLOBALS['wp']['pages'][ $slug ] = array( $capability, $do ); }
function add_meta_box( $id, $title, $do, $type, $where ) { $GLOBALS['wp']['boxes'][ $type ][ $id ] = $do; }
function wp_enqueue_script( $handle, $src, $deps, $version, $footer ) { $GLOBALS['wp']['scripts'][ $handle ] = $src; }
function wp_die( $text, $title = '', $args = array() ) { $GLOBALS['wp']['status'] = $args['response'] ?? 403; throw new Stop( $text ); }
function wp_safe_redirect( $to ) { $GLOBALS['wp']['redirect'] = $to; throw new Stop( 'redirect' ); }
function status_header( $status ) { http_response_code( $status ); $GLOBALS['wp']['status'] = $status; }
function nocache_headers() { header( 'Cache-Control: no-cache, must-revalidate, max-age=0' ); }

// Later.
function wp_next_scheduled( $hook, $args ) { return in_array( array( $hook, $args ), $GLOBALS['wp']['scheduled'], true ); }
function wp_schedule_single_event( $at, $hook, $args ) { $GLOBALS['wp']['scheduled'][] = array( $hook, $args ); }
function wp_unschedule_hook( $hook ) { $GLOBALS['wp']['scheduled'] = array_values( array_filter( $GLOBALS['wp']['scheduled'], fn( $e ) => $e[0] !== $hook ) ); }
function wp_clear_scheduled_hook( $hook, $args ) { $GLOBALS['wp']['scheduled'] = array_values( array_filter( $GLOBALS['wp']['scheduled'], fn( $e ) => array( $hook, $args ) !== $e ) ); }
function is_multisite() { return false; }

// Requests.
function wp_remote_request( $url, $args ) {
	$GLOBALS['wp']['requests'][] = $args['method'] . ' ' . parse_url( $url, PHP_URL_PATH );
	$headers = '';
	foreach ( $args['headers'] as $name => $value ) { $headers .= "$name: $value\r\n"; }
	$context = stream_context_create( array( 'http' => array(
		'method' => $args['method'], 'header' => $headers, 'content' => $args['body'] ?? '', 'timeout' => 60, 'ignore_errors' => true, 'follow_location' => 0,
	) ) );
	$body = @file_get_contents( $url, false, $context );
	if ( false === $body ) { return new WP_Error( 'http', 'connection refused' ); }
	return array( 'status' => (int) explode( ' ', $http_response_header[0] )[1], 'body' => $body );
}
function wp_remote_retrieve_response_code( $answer ) { return $answer['status']; }
function wp_remote_retrieve_body( $answer ) { return $answer['body']; }
