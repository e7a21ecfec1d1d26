<?php
// Drives the plug-in as WordPress does: reads steps as JSON, one a line, and prints the result of each, one a line.

ini_set( 'display_errors', 'stderr' );
ini_set( 'log_errors', '1' );
ini_set( 'error_log', '' );
set_error_handler( function ( $no, $text, $file, $line ) {
	if ( error_reporting() & $no ) { throw new ErrorException( $text, 0, $no, $file, $line ); }
	return false;
} );
require __DIR__ . '/stubs.php';
require $argv[1] . '/godwit.php';

/** Saves a post as the editor does: with what was posted beside it. */
function save_post( $step ) {
	$before   = $GLOBALS['wp']['posts'][ $step['id'] ] ?? null;
	$post     = $before ? clone $before : new WP_Post();
	$post->ID = $step['id'];
	foreach ( $step['post'] ?? array() as $name => $value ) { $post->$name = $value; }
	foreach ( $step['bytes'] ?? array() as $name => $value ) { $post->$name = base64_decode( $value ); }
	$GLOBALS['wp']['posts'][ $post->ID ] = $post;
	if ( isset( $step['ticked'] ) ) {
		$_POST = array( 'godwit_nonce' => $step['nonce'] ?? wp_nonce( 'godwit_send_' . $post->ID ) ) + ( $step['ticked'] ? array( 'godwit_send' => '1' ) : array() );
	}
	do_action( 'save_post', $post->ID );
	do_action( 'wp_after_insert_post', $post->ID, $post, null !== $before, $before );
}

/** Runs a step; what it draws is caught. */
function run_step( $step ) {
	$_POST = $step['form'] ?? array();
	$_GET  = $step['query'] ?? array();
	foreach ( $step['set'] ?? array() as $name => $value ) { $GLOBALS['wp'][ $name ] = $value; }
	switch ( $step['do'] ) {
		case 'save':
			return save_post( $step );
		case 'settings':
			$GLOBALS['wp']['options']['godwit_settings'] = godwit_sanitize_settings( $step['input'] );
			return;
		case 'option':
			$GLOBALS['wp']['options'][ $step['name'] ] = $step['value'];
			return;
		case 'page':
			list( $capability, $draw ) = $GLOBALS['wp']['pages']['godwit'];
			return current_user_can( $capability ) ? $draw() : wp_die( 'no' );
		case 'box':
			do_action( 'add_meta_boxes', 'post' );
			return isset( $GLOBALS['wp']['boxes']['post']['godwit'] ) ? $GLOBALS['wp']['boxes']['post']['godwit']( get_post( $step['id'] ) ) : null;
		case 'notice':
			$GLOBALS['wp']['screen'] = (object) array( 'base' => $step['screen'] ?? 'post' );
			$GLOBALS['wp']['post']   = $step['id'] ?? 0;
			return do_action( 'admin_notices' );
		case 'init':
			$_SERVER['REQUEST_URI'] = '/blog/a-page';
			return do_action( 'init' );
		case 'script':
			do_action( 'wp_enqueue_scripts' );
			foreach ( $GLOBALS['wp']['scripts'] as $handle => $src ) {
				echo apply_filters( 'script_loader_tag', '<script src="' . esc_url( $src ) . '"></script>', $handle );
			}
			return;
		case 'import':
			$_POST += array( '_wpnonce' => wp_nonce( 'godwit_import' ) );
			return do_action( 'admin_post_godwit_import' );
		case 'later':
			$due                       = $GLOBALS['wp']['scheduled'];
			$GLOBALS['wp']['scheduled'] = array();
			foreach ( $due as list( $hook, $args ) ) { do_action( $hook, ...$args ); }
			return;
		case 'uninstall':
			define( 'WP_UNINSTALL_PLUGIN', '1' );
			return require $GLOBALS['argv'][1] . '/uninstall.php';
	}
	throw new Exception( 'no such step: ' . $step['do'] );
}

/** Answers a step, also one that ends the process as a page's end does. */
function answer( $stopped ) {
	$drawn = ob_get_clean();
	$wp    = $GLOBALS['wp'];
	echo json_encode( array(
		'drawn' => $drawn, 'stopped' => $stopped, 'options' => (object) $wp['options'], 'meta' => (object) $wp['meta'], 'status' => $wp['status'],
		'scheduled' => count( $wp['scheduled'] ), 'requests' => $wp['requests'], 'redirect' => $wp['redirect'], 'transients' => (object) $wp['transients'],
	) ), "\n";
	$GLOBALS['answered'] = true;
}

do_action( 'admin_menu' );
$answered = true;
register_shutdown_function( function () {
	if ( ! $GLOBALS['answered'] ) { answer( 'exit' ); }
} );
while ( false !== ( $line = fgets( STDIN ) ) ) {
	$GLOBALS['wp']['status']   = 0;
	$GLOBALS['wp']['redirect'] = '';
	$GLOBALS['wp']['requests'] = array();
	$stopped                   = '';
	$answered                  = false;
	ob_start();
	try {
		run_step( json_decode( $line, true ) );
	} catch ( Stop $s ) {
		$stopped = $s->getMessage();
	}
	answer( $stopped );
}
