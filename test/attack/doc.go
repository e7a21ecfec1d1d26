// Package attack proves that neither a stranger nor another app can starve anybody: the real server is attacked from one
// address while a client at another goes on. What is asserted is what is let in, served, refused and closed; how fast the
// client was served beside the attack is logged (go test -v).
package attack
