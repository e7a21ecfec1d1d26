// Package attack proves that neither a stranger nor another app can starve anybody: the real server is attacked from one
// address while clients at others go on. Asserted is what is let in, served, refused and closed. How much longer others wait
// is measured too, but only when it is asked for with -ratio, as `make attack` does: no other test depends on how fast the
// machine is.
//
// It also proves what sessions cost: an idle one at most a kilobyte, one that never reads at most its byte cap.
package attack
