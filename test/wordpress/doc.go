// Package wordpress runs the plug-in for WordPress under PHP, with the functions of WordPress that it uses in memory, against a real
// server and a push service.
package wordpress
