// Package escalation tests escalations from outside: the real binary, real connections, a receiver of webhooks as the channel beyond
// live. What is asserted is order and number, never how long something took.
package escalation
