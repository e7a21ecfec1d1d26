<?php
/**
 * The settings page.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

/**
 * Puts the page into the menu.
 */
function godwit_admin_menu() {
	add_options_page( __( 'Godwit', 'godwit' ), __( 'Godwit', 'godwit' ), 'manage_options', 'godwit', 'godwit_settings_page' );
}

/**
 * Tells WordPress of the settings, which checks the nonce and the capability when they are saved.
 */
function godwit_admin_init() {
	register_setting(
		'godwit',
		GODWIT_OPTION,
		array(
			'type'              => 'array',
			'sanitize_callback' => 'godwit_sanitize_settings',
			'default'           => godwit_defaults(),
			'show_in_rest'      => false,
		)
	);
}

/**
 * Draws the page.
 */
function godwit_settings_page() {
	if ( ! current_user_can( 'manage_options' ) ) {
		return;
	}
	$settings = godwit_settings();
	echo '<div class="wrap"><h1>' . esc_html__( 'Godwit', 'godwit' ) . '</h1>';
	godwit_import_notice();
	echo '<form method="post" action="' . esc_url( admin_url( 'options.php' ) ) . '">';
	settings_fields( 'godwit' );
	echo '<h2>' . esc_html__( 'Server', 'godwit' ) . '</h2><table class="form-table" role="presentation">';
	godwit_text_row( 'server', __( 'Address', 'godwit' ), $settings['server'], 'https://push.example.org' );
	godwit_text_row( 'app', __( 'App', 'godwit' ), $settings['app'], 'news' );
	godwit_key_row( $settings['key'] );
	echo '</table><h2>' . esc_html__( 'On your pages', 'godwit' ) . '</h2><table class="form-table" role="presentation">';
	godwit_choice_row(
		'ask',
		__( 'Ask by', 'godwit' ),
		$settings['ask'],
		array(
			'dialog' => __( 'a dialog, then the browser', 'godwit' ),
			'direct' => __( 'the browser at once', 'godwit' ),
			'none'   => __( 'the bell alone', 'godwit' ),
		)
	);
	godwit_text_row( 'visits', __( 'First on visit', 'godwit' ), (string) $settings['visits'], '1', 'number' );
	foreach ( godwit_text_labels() as $name => $label ) {
		godwit_text_row( $name, $label, $settings[ $name ], __( 'in the language of the page', 'godwit' ) );
	}
	godwit_choice_row(
		'bell',
		__( 'Bell', 'godwit' ),
		$settings['bell'],
		array(
			'right' => __( 'right', 'godwit' ),
			'left'  => __( 'left', 'godwit' ),
			'none'  => __( 'none', 'godwit' ),
		)
	);
	godwit_tick_row( 'hide_bell', __( 'Hide the bell from subscribers', 'godwit' ), $settings['hide_bell'] );
	godwit_text_row( 'tags', __( 'Tags of who subscribes', 'godwit' ), $settings['tags'], 'news, sport' );
	godwit_choice_row(
		'worker',
		__( 'Service worker', 'godwit' ),
		$settings['worker'],
		array(
			'file'  => home_url( '/' . GODWIT_WORKER_FILE ),
			'query' => add_query_arg( GODWIT_WORKER_QUERY, '1', home_url( '/' ) ),
		)
	);
	echo '</table><h2>' . esc_html__( 'When you publish', 'godwit' ) . '</h2><table class="form-table" role="presentation">';
	foreach ( godwit_post_types() as $type ) {
		/* translators: %s: type of a post */
		godwit_tick_row( 'post_types][', sprintf( __( 'Offer to send: %s', 'godwit' ), $type ), in_array( $type, $settings['post_types'], true ), $type );
	}
	godwit_tick_row( 'send', __( 'Ticked in the editor from the start', 'godwit' ), $settings['send'] );
	godwit_text_row( 'audience', __( 'Only to subscribers with any of these tags', 'godwit' ), $settings['audience'], __( 'everybody', 'godwit' ) );
	echo '</table>';
	submit_button();
	echo '</form>';
	godwit_import_form();
	godwit_log_table();
	echo '</div>';
}

/**
 * The labels of the texts of the prompt.
 *
 * @return array
 */
function godwit_text_labels() {
	return array(
		'title'    => __( 'Question', 'godwit' ),
		'accept'   => __( 'Button that agrees', 'godwit' ),
		'later'    => __( 'Button that declines', 'godwit' ),
		'settings' => __( 'Title of the preferences', 'godwit' ),
		'opt_in'   => __( 'Box that subscribes', 'godwit' ),
		'failed'   => __( 'When a change fails', 'godwit' ),
	);
}

/**
 * Draws a field with a text.
 *
 * @param string $name        Of the setting.
 * @param string $label       Beside it.
 * @param string $value       What stands there.
 * @param string $placeholder What is shown while nothing does.
 * @param string $type        Of the input.
 */
function godwit_text_row( $name, $label, $value, $placeholder, $type = 'text' ) {
	printf(
		'<tr><th scope="row"><label for="godwit-%1$s">%2$s</label></th><td><input class="regular-text" id="godwit-%1$s" name="%3$s[%1$s]" type="%4$s" value="%5$s" placeholder="%6$s"></td></tr>',
		esc_attr( $name ),
		esc_html( $label ),
		esc_attr( GODWIT_OPTION ),
		esc_attr( $type ),
		esc_attr( $value ),
		esc_attr( $placeholder )
	);
}

/**
 * Draws the field of the key, which never holds it.
 *
 * @param string $key The key that is set.
 */
function godwit_key_row( $key ) {
	$fixed = defined( 'GODWIT_API_KEY' );
	$says  = '' === $key ? __( 'none yet: godwit key create --role publish', 'godwit' ) : __( 'set; leave empty to keep it', 'godwit' );
	if ( $fixed ) {
		$says = __( 'set in wp-config.php', 'godwit' );
	}
	printf(
		'<tr><th scope="row"><label for="godwit-key">%1$s</label></th><td><input class="regular-text" id="godwit-key" name="%2$s[key]" type="password" value="" autocomplete="off" placeholder="%3$s"%4$s> <label><input type="checkbox" name="%2$s[forget_key]" value="1"%4$s> %5$s</label></td></tr>',
		esc_html__( 'API key, role publish', 'godwit' ),
		esc_attr( GODWIT_OPTION ),
		esc_attr( $says ),
		disabled( $fixed, true, false ),
		esc_html__( 'forget it', 'godwit' )
	);
}

/**
 * Draws a field with choices.
 *
 * @param string $name    Of the setting.
 * @param string $label   Beside it.
 * @param string $value   What is chosen.
 * @param array  $choices Their words by their values.
 */
function godwit_choice_row( $name, $label, $value, $choices ) {
	printf( '<tr><th scope="row"><label for="godwit-%1$s">%2$s</label></th><td><select id="godwit-%1$s" name="%3$s[%1$s]">', esc_attr( $name ), esc_html( $label ), esc_attr( GODWIT_OPTION ) );
	foreach ( $choices as $choice => $text ) {
		printf( '<option value="%1$s"%2$s>%3$s</option>', esc_attr( $choice ), selected( $value, $choice, false ), esc_html( $text ) );
	}
	echo '</select></td></tr>';
}

/**
 * Draws a box to tick.
 *
 * @param string $name  Of the setting.
 * @param string $label Beside it.
 * @param bool   $on    Whether it is ticked.
 * @param string $value What is posted if it is.
 */
function godwit_tick_row( $name, $label, $on, $value = '1' ) {
	printf( '<tr><td colspan="2"><label><input type="checkbox" name="%1$s[%2$s]" value="%3$s"%4$s> %5$s</label></td></tr>', esc_attr( GODWIT_OPTION ), esc_attr( $name ), esc_attr( $value ), checked( $on, true, false ), esc_html( $label ) );
}

/**
 * Draws the form that brings a VAPID key along.
 */
function godwit_import_form() {
	echo '<h2>' . esc_html__( 'Subscribers of another plug-in', 'godwit' ) . '</h2><p>' . esc_html__( 'Browsers have subscribed with a VAPID key. The server sends to them when it has the same one; it then takes the place of the app\'s. With the key of Perfecty Push come its texts, where the fields above are empty. Its table is imported with: godwit import perfecty', 'godwit' ) . '</p>';
	echo '<form method="post" action="' . esc_url( admin_url( 'admin-post.php' ) ) . '"><input type="hidden" name="action" value="godwit_import">';
	wp_nonce_field( 'godwit_import' );
	echo '<p><label>' . esc_html__( 'Key of', 'godwit' ) . ' <select name="source">';
	foreach ( godwit_vapid_keys() as $source => $vapid ) {
		printf( '<option value="%1$s">%2$s</option>', esc_attr( $source ), esc_html( $vapid['label'] ) );
	}
	echo '<option value="pasted">' . esc_html__( 'another: pasted here', 'godwit' ) . '</option></select></label> ';
	echo '<label>' . esc_html__( 'Private key', 'godwit' ) . ' <input name="private" type="password" autocomplete="off"></label> ';
	echo '<label>' . esc_html__( 'API key, role admin (not kept)', 'godwit' ) . ' <input name="admin_key" type="password" autocomplete="off"></label></p>';
	echo '<p><label><input type="checkbox" name="sure" value="1"> ' . esc_html__( 'I know that this cuts off who has subscribed with the key before', 'godwit' ) . '</label></p>';
	submit_button( __( 'Bring it along', 'godwit' ), 'secondary' );
	echo '</form>';
}

/**
 * Says what became of bringing a key along.
 */
function godwit_import_notice() {
	$name   = 'godwit_import_' . get_current_user_id();
	$notice = get_transient( $name );
	if ( is_array( $notice ) ) {
		delete_transient( $name );
		printf( '<div class="notice notice-%1$s"><p>%2$s</p></div>', esc_attr( $notice[0] ), esc_html( $notice[1] ) );
	}
}

/**
 * Draws what went wrong last.
 */
function godwit_log_table() {
	$log = get_option( GODWIT_LOG, array() );
	if ( ! is_array( $log ) || array() === $log ) {
		return;
	}
	echo '<h2>' . esc_html__( 'What went wrong', 'godwit' ) . '</h2><table class="widefat"><tbody>';
	foreach ( $log as $entry ) {
		printf( '<tr><td>%1$s</td><td>%2$s</td></tr>', esc_html( wp_date( 'Y-m-d H:i:s', (int) $entry['at'] ) ), esc_html( $entry['text'] ) );
	}
	echo '</tbody></table>';
}
