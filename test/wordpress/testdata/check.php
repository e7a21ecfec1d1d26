<?php
// Looks through the plug-in's files, token by token, for the mistakes that WordPress' own rules refuse first: output that is not escaped,
// requests that are not cleaned, files that can be opened by themselves, names that others may have, functions newer than PHP 7.4. Prints one
// line for each.

const SAFE     = array( 'esc_html', 'esc_attr', 'esc_url', 'esc_html__', 'esc_attr__', 'checked', 'selected', 'disabled', 'wp_kses_post', 'absint' );
const REQUESTS = array( '$_GET', '$_POST', '$_REQUEST', '$_COOKIE', '$_SERVER' );
const CLEANERS = array( 'isset', 'empty', 'sanitize_key', 'sanitize_text_field', 'sanitize_email', 'esc_url_raw', 'absint' );
const NEWER    = array( 'str_contains', 'str_starts_with', 'str_ends_with', 'get_debug_type', 'array_is_list', 'fdiv' );

/** The tokens of a file without blanks and comments; comments that allow something are kept by their line. */
function tokens( $file, &$allowed ) {
	$all     = array();
	$allowed = array();
	foreach ( PhpToken::tokenize( file_get_contents( $file ) ) as $t ) {
		if ( T_COMMENT === $t->id && strpos( $t->text, 'phpcs:ignore' ) ) {
			$allowed[ $t->line ] = $allowed[ $t->line + 1 ] = true;
		}
		if ( ! $t->isIgnorable() ) { $all[] = $t; }
	}
	return $all;
}

/** The functions around a place, the innermost first. */
function around( $tokens, $i ) {
	$names = array();
	for ( $depth = 0, $i--; $i >= 0 && ! in_array( $tokens[ $i ]->text, array( ';', '{', '}' ), true ); $i-- ) {
		if ( ')' === $tokens[ $i ]->text ) { $depth++; }
		if ( '(' === $tokens[ $i ]->text && --$depth < 0 ) {
			$depth   = 0;
			$names[] = $tokens[ $i - 1 ]->text;
		}
	}
	return $names;
}

/** Whether what is printed from a place on, up to an end, is made of texts and of what is escaped. */
function escaped( $tokens, $i ) {
	for ( $depth = 0; ; $i++ ) {
		$t = $tokens[ $i ];
		if ( 0 === $depth && in_array( $t->text, array( ';', ')', ',' ), true ) ) { return true; }
		if ( '(' === $t->text ) { $depth++; }
		if ( ')' === $t->text ) { $depth--; }
		if ( 0 === $depth && ( T_VARIABLE === $t->id || T_STRING === $t->id && ! in_array( $t->text, SAFE, true ) ) ) { return false; }
	}
}

/** Where the arguments of a call begin. */
function arguments( $tokens, $i ) {
	$starts = array( $i + 2 );
	for ( $depth = 0, $i += 2; $depth >= 0; $i++ ) {
		if ( in_array( $tokens[ $i ]->text, array( '(', '[' ), true ) ) { $depth++; }
		if ( in_array( $tokens[ $i ]->text, array( ')', ']' ), true ) ) { $depth--; }
		if ( 0 === $depth && ',' === $tokens[ $i ]->text ) { $starts[] = $i + 1; }
	}
	return $starts;
}

function look( $file ) {
	$tokens = tokens( $file, $allowed );
	$found  = array();
	$say    = function ( $t, $what ) use ( &$found, $allowed ) {
		if ( empty( $allowed[ $t->line ] ) ) { $found[] = array( $t->line, $what ); }
	};
	if ( ! preg_match( '/^defined\( \'(ABSPATH|WP_UNINSTALL_PLUGIN)\' \) \|\| exit;$/m', file_get_contents( $file ) ) ) {
		$found[] = array( 1, 'can be opened by itself' );
	}
	foreach ( $tokens as $i => $t ) {
		$call = T_STRING === $t->id && isset( $tokens[ $i + 1 ] ) && '(' === $tokens[ $i + 1 ]->text;
		if ( T_ECHO === $t->id && ! escaped( $tokens, $i + 1 ) ) { $say( $t, 'prints what is not escaped' ); }
		if ( $call && 'printf' === $t->text ) {
			foreach ( array_slice( arguments( $tokens, $i ), 1 ) as $at ) {
				if ( ! escaped( $tokens, $at ) ) { $say( $tokens[ $at ], 'prints what is not escaped' ); }
			}
		}
		if ( T_VARIABLE === $t->id && in_array( $t->text, REQUESTS, true ) && ! array_intersect( around( $tokens, $i ), CLEANERS ) ) { $say( $t, 'takes ' . $t->text . ' as it came' ); }
		if ( T_VARIABLE === $t->id && in_array( $t->text, REQUESTS, true ) && ! array_intersect( around( $tokens, $i ), array( 'isset', 'empty', 'wp_unslash' ) ) ) { $say( $t, 'leaves slashes in ' . $t->text ); }
		if ( T_FUNCTION === $t->id && T_STRING === $tokens[ $i + 1 ]->id && 0 !== strpos( $tokens[ $i + 1 ]->text, 'godwit_' ) ) { $say( $t, 'has a function that is not called godwit_…' ); }
		if ( T_CONST === $t->id && 0 !== strpos( $tokens[ $i + 1 ]->text, 'GODWIT_' ) ) { $say( $t, 'has a constant that is not called GODWIT_…' ); }
		if ( in_array( $t->id, array( T_MATCH, T_ENUM, T_NULLSAFE_OBJECT_OPERATOR, T_ATTRIBUTE, T_READONLY ), true ) || $call && in_array( $t->text, NEWER, true ) ) { $say( $t, $t->text . ' needs a newer PHP than 7.4' ); }
		if ( $call && in_array( $t->text, array( 'eval', 'extract', 'unserialize', 'create_function', 'var_dump', 'print_r', 'curl_init', 'file_get_contents' ), true ) ) { $say( $t, 'calls ' . $t->text ); }
		if ( in_array( $t->id, array( T_EVAL, T_GOTO, T_OPEN_TAG_WITH_ECHO ), true ) ) { $say( $t, 'has ' . $t->text ); }
	}
	foreach ( file( $file ) as $n => $line ) {
		if ( preg_match( '/[ \t]+$/', rtrim( $line, "\n" ) ) || preg_match( '/^ +[^ *]/', $line ) ) { $found[] = array( $n + 1, 'is not set in with tabs, or ends with blanks' ); }
	}
	return $found;
}

foreach ( array_slice( $argv, 1 ) as $file ) {
	foreach ( look( $file ) as list( $line, $what ) ) { echo "$file:$line $what\n"; }
}
