// Package escalation tests escalations from outside: the real binary, real connections, a receiver of webhooks as the channel beyond
// live. The tests assert order and number, never durations.
package escalation
