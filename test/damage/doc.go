// Package damage proves that nothing stored is lost in silence or altered when a disk or a hand damages the server's files:
// each file is flipped, cut off, zeroed or removed, beside a server that runs and under one that does not.
package damage
