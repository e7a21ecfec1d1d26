// Package faults proves what the server promises when its surroundings fail: a full disk, a second server on its
// data, a stop in the middle of work, strangers at the door.
package faults
