<?php
// A site for PHP's own web server: the plug-in looks at every request, and the rest is a page.

require __DIR__ . '/stubs.php';
$GLOBALS['wp']['options']['godwit_settings'] = json_decode( getenv( 'GODWIT_SETTINGS' ), true );
require getenv( 'GODWIT_PLUGIN' ) . '/godwit.php';
do_action( 'init' );
echo 'a page';
