<?php
/**
 * Plugin Name:       Godwit
 * Description:       Web Push by your own Godwit server: the browser part on your pages, and a push when you publish.
 * Version:           1.0.0
 * Requires at least: 5.7
 * Requires PHP:      7.4
 * Author:            The Godwit maintainers
 * License:           GPL-2.0-or-later
 * License URI:       https://www.gnu.org/licenses/gpl-2.0.html
 * Text Domain:       godwit
 *
 * Copyright (C) 2026 The Godwit maintainers
 *
 * This program is free software; you can redistribute it and/or modify it under the terms of the GNU General Public
 * License as published by the Free Software Foundation; either version 2 of the License, or (at your option) any later
 * version. It is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied
 * warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the file LICENSE beside this one.
 *
 * @package Godwit
 */

defined( 'ABSPATH' ) || exit;

require_once __DIR__ . '/includes/settings.php';
require_once __DIR__ . '/includes/client.php';
require_once __DIR__ . '/includes/log.php';
require_once __DIR__ . '/includes/page.php';
require_once __DIR__ . '/includes/import.php';
require_once __DIR__ . '/includes/admin.php';
require_once __DIR__ . '/includes/text.php';
require_once __DIR__ . '/includes/publish.php';
require_once __DIR__ . '/includes/editor.php';

add_action( 'init', 'godwit_serve_worker', 1 );
add_action( 'init', 'godwit_register_meta' );
add_action( 'wp_enqueue_scripts', 'godwit_enqueue_script' );
add_filter( 'script_loader_tag', 'godwit_script_tag', 10, 2 );

add_action( 'admin_menu', 'godwit_admin_menu' );
add_action( 'admin_init', 'godwit_admin_init' );
add_action( 'admin_post_godwit_import', 'godwit_import_submitted' );
add_action( 'admin_notices', 'godwit_post_notice' );

add_action( 'add_meta_boxes', 'godwit_add_meta_box' );
add_action( 'save_post', 'godwit_save_meta_box' );
add_action( 'wp_after_insert_post', 'godwit_after_insert_post', 10, 4 );
add_action( 'godwit_retry', 'godwit_send_post' );

register_deactivation_hook( __FILE__, 'godwit_deactivated' );

/**
 * Nothing is sent any more once the plug-in is switched off.
 */
function godwit_deactivated() {
	wp_unschedule_hook( 'godwit_retry' );
}
